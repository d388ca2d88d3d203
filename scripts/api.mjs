// The public API as text, one file for each package, so that a change of it is seen in review:
//
//     npm run api          writes api/*.api.md
//     npm run api:check    says what differs, and fails
//
// Made from the built declarations (`npm run build`), without their comments. A type that the compiler writes out at length,
// such as a schema's, is shown as it stands in the source.
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs"
import { join, posix } from "node:path"
import { fileURLToPath } from "node:url"
import ts from "typescript"

const root = fileURLToPath(new URL("..", import.meta.url))
const check = process.argv.includes("--check")
const longest = 900

const printer = ts.createPrinter({ removeComments: true, newLine: ts.NewLineKind.LineFeed })
const parse = (path) => ts.createSourceFile(path, readFileSync(path, "utf8"), ts.ScriptTarget.Latest, true)

/** The constants of a module by name, with their initializers. */
const constants = (file) => {
  const found = new Map()
  for (const statement of file.statements) {
    if (!ts.isVariableStatement(statement)) continue
    const exported = isExported(statement)
    for (const { initializer, name } of statement.declarationList.declarations) {
      if (initializer !== undefined && ts.isIdentifier(name)) found.set(name.text, { exported, initializer })
    }
  }
  return found
}

/** What a piece of source uses that is the module's own and has no line of its own in the report. */
const hiddenParts = (node, known, found = new Map()) => {
  const visit = (child) => {
    if (ts.isIdentifier(child)) {
      const part = known.get(child.text)
      if (part !== undefined && !part.exported && !found.has(child.text)) {
        found.set(child.text, part.initializer)
        hiddenParts(part.initializer, known, found)
      }
    }
    ts.forEachChild(child, visit)
  }
  visit(node)
  return found
}

/** The base of a class in the source, where the declarations have a constant for it. */
const heritage = (file, name) => {
  for (const statement of file.statements) {
    if (ts.isClassDeclaration(statement) && statement.name?.text === name) {
      return statement.heritageClauses?.[0]?.types[0]
    }
  }
  return undefined
}

const isExported = (statement) => statement.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) ?? false

/** The compiler writes the members of a union in an order that depends on what it has seen before. */
const inOrder = (statement, file) => {
  const print = (node) => printer.printNode(ts.EmitHint.Unspecified, node, file)
  const { transformed } = ts.transform(statement, [
    (context) => {
      const visit = (node) => {
        const next = ts.visitEachChild(node, visit, context)
        return ts.isUnionTypeNode(next)
          ? ts.factory.createUnionTypeNode(next.types.toSorted((a, b) => (print(a) < print(b) ? -1 : 1)))
          : next
      }
      return visit
    }
  ])
  return transformed[0]
}

const shown = (statement, declarations, source, known, told) => {
  const text = printer.printNode(ts.EmitHint.Unspecified, inOrder(statement, declarations), declarations)
  if (!ts.isVariableStatement(statement)) return text
  const [declaration] = statement.declarationList.declarations
  const name = declaration.name.getText(declarations)
  const base = name.endsWith("_base") ? heritage(source, name.slice(0, -"_base".length)) : undefined
  if (text.length <= longest) return text
  const initializer = base ?? known.get(name)?.initializer
  if (initializer === undefined) return text
  const print = (node) => printer.printNode(ts.EmitHint.Unspecified, node, source)
  const parts = [...hiddenParts(initializer, known)].filter(([part]) => !told.has(part))
  for (const [part] of parts) told.add(part)
  return [
    ...parts.map(([part, value]) => `const ${part} = ${print(value)}`),
    `${isExported(statement) ? "export " : ""}const ${name} = ${print(initializer)}`
  ].join("\n")
}

const isNothing = (statement) =>
  ts.isImportDeclaration(statement) ||
  (ts.isExportDeclaration(statement) &&
    statement.moduleSpecifier === undefined &&
    statement.exportClause?.elements?.length === 0)

/** Which modules a package's exports let through: those of the wildcard that no other entry takes away. */
const isPublic = (exports) => {
  const closed = Object.entries(exports)
    .filter(([name, target]) => name.endsWith("/*") && name !== "./*" && target?.default === undefined)
    .map(([name]) => name.slice(2, -1))
  return (module) => !closed.some((folder) => module.startsWith(folder))
}

const report = (folder) => {
  const { exports, name } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"))
  const dist = join(folder, "dist")
  const open = isPublic(exports)
  // dist may hold what a source file that is gone has left
  const all = readdirSync(dist, { recursive: true, encoding: "utf8" })
    .map((file) => file.replaceAll("\\", "/"))
    .filter((file) => file.endsWith(".d.ts"))
    .map((file) => file.slice(0, -".d.ts".length))
    .filter((module) => existsSync(join(folder, "src", `${module}.ts`)))
  const known = new Set(all.filter(open))
  // What the types of a public module come from is public, too, though nobody can import it by its name
  for (const module of known) {
    for (const statement of parse(join(dist, `${module}.d.ts`)).statements) {
      const from = statement.moduleSpecifier?.text
      if (from?.startsWith(".")) known.add(posix.join(posix.dirname(module), from).replace(/\.js$/, ""))
    }
  }
  const modules = [...known].toSorted()
  const sections = modules.map((module) => {
    const declarations = parse(join(dist, `${module}.d.ts`))
    const source = parse(join(folder, "src", `${module}.ts`))
    const known = constants(source)
    const told = new Set()
    const texts = declarations.statements
      .filter((statement) => !isNothing(statement))
      .map((statement) => shown(statement, declarations, source, known, told))
    return texts.length === 0
      ? undefined
      : `## ${name}${module === "index" ? "" : `/${module}`}${open(module) ? "" : " (not to be imported)"}\n\n\`\`\`ts\n${texts.join("\n")}\n\`\`\`\n`
  })
  return `# API of ${name}\n\nGenerated by \`npm run api\`; a difference here is a change of the public API.\n\n${sections
    .filter((it) => it !== undefined)
    .join("\n")}`
}

const differences = (before, after) => {
  const old = new Set(before.split("\n"))
  const now = new Set(after.split("\n"))
  return [
    ...before
      .split("\n")
      .filter((line) => !now.has(line))
      .map((line) => `- ${line}`),
    ...after
      .split("\n")
      .filter((line) => !old.has(line))
      .map((line) => `+ ${line}`)
  ]
}

mkdirSync(join(root, "api"), { recursive: true })
let changed = 0
for (const name of readdirSync(join(root, "packages"))) {
  const folder = join(root, "packages", name)
  if (!existsSync(join(folder, "dist"))) {
    console.error(`packages/${name} is not built: npm run build`)
    process.exit(2)
  }
  const path = join(root, "api", `${name}.api.md`)
  const text = report(folder)
  const before = existsSync(path) ? readFileSync(path, "utf8") : ""
  if (before === text) continue
  changed += 1
  if (check) console.error(`api/${name}.api.md differs:\n${differences(before, text).slice(0, 60).join("\n")}\n`)
  else writeFileSync(path, text)
}
if (check && changed > 0) {
  console.error(
    "The public API has changed. If that is meant: npm run api, and a changeset that says how far the version moves."
  )
  process.exitCode = 1
} else if (!check) console.log(`${changed} of the reports changed`)
