#!/usr/bin/env node
// Exists before the first build, so that installing the workspace can link it
await import("../dist/serve/main.js")
