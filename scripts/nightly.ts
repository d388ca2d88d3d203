// The schedules are the tests' own, so they live with them
import "../packages/core/test/nightly.js"
