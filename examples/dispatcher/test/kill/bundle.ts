/** The example as one file: a process that is killed and started again hundreds of times should start quickly. */
import { spawnSync } from "node:child_process"
import { copyFileSync } from "node:fs"
import { createRequire } from "node:module"
import { fileURLToPath } from "node:url"

const here = createRequire(import.meta.url)
// The test runner's own bundler
const esbuild = createRequire(here.resolve("vite/package.json")).resolve("esbuild/bin/esbuild")

const own = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url))

/** Writes the file into a folder; its path. */
export const bundle = (folder: string): string => {
  const file = `${folder}/bin/dispatcher.mjs`
  // A program says its version to the server, from its package
  copyFileSync(own("package.json"), `${folder}/package.json`)
  const ran = spawnSync(
    esbuild,
    [
      own("src/main.ts"),
      "--bundle",
      "--platform=node",
      "--format=esm",
      "--conditions=@dispatch-kubeflow/source",
      `--outfile=${file}`,
      "--log-level=error",
      '--banner:js=import{createRequire as bundled}from"node:module";const require=bundled(import.meta.url);'
    ],
    { encoding: "utf8" }
  )
  if (ran.status !== 0) throw new Error(`the example cannot be bundled: ${ran.stderr}`)
  return file
}
