// Loaded by the stub of a delivered module in a context of jest: lets the tests of a file use the submission, which runs
// in another sandbox. All of it is loaded in that context, so that the values are of its classes.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const { report } = require("./report.cjs");

const KEY = Symbol.for("guild.split");
const MOCKS = /\bjest\s*\.\s*(?:mock|doMock|setMock|unstable_mockModule|requireActual|createMockFromModule)\s*\(\s*["'`]([^"'`]+)/g;

function begin() {
  const dir = process.env.GUILD_SPLIT;
  const { modules } = JSON.parse(fs.readFileSync(path.join(dir, "order.json"), "utf8"));
  const blank = process.env.GUILD_BLANK, marks = process.env.GUILD_MARKS === "1", again = "GUILD_AGAIN" in process.env;
  const root = process.cwd();
  const handlers = globalThis[Symbol.for("EVENT_HANDLERS")];
  if (blank) {
    const link = new (require("./blank.cjs").Blank)(root, report, blank === "nothing");
    handlers?.push(({ name, test }) => {
      if (name === "test_start") link.begin();
      else if (name === "test_done") link.end(id(test));
    });
    return link;
  }
  const { Link } = require("./examiner.cjs");
  const { Direct } = require("./channel.cjs");
  const link = new Link({ root, report, marks, connect: again ? (handlers) => new Direct(4, handlers) : undefined });
  // jest runs a test once more that has failed, at once. So it runs each as often as the judge wants.
  if (again) Object.assign(globalThis, { [Symbol.for("RETRY_TIMES")]: 1e6, [Symbol.for("RETRY_IMMEDIATELY")]: true });
  const mocked = mocks(root, new Set(modules.map((name) => path.join(root, name))));
  // Without the events of jest's runner, what the delivery decides cannot be counted.
  if (!Array.isArray(handlers)) link.ran("this version of jest does not say which test runs, and what the delivery decides");
  else handlers.push(({ name, test }) => {
    if (name === "test_start") {
      link.begin(id(test));
      if (mocked) link.unsupported("jest mocks the delivered module " + mocked);
    } else if (name === "test_done") {
      const more = link.end(id(test), test.errors.length === 0);
      if (again) test.errors = more ? [["once more", undefined]] : [];
    }
  });
  globalThis.expect = watched(globalThis.expect, link);
  require("./running.cjs").watchTexts(link);
  return link;
}

// id returns the names of a test and of the suites around it.
function id(test) {
  const names = [];
  for (; test?.parent; test = test.parent) names.unshift(test.name);
  return names.join(" > ");
}

// mocks returns the delivered module that the tests' file mocks, or "".
function mocks(root, delivered) {
  const file = expect.getState().testPath;
  for (const [, name] of fs.readFileSync(file, "utf8").matchAll(MOCKS)) {
    if (!name.startsWith(".")) continue;
    const at = path.resolve(path.dirname(file), name);
    for (const end of ["", ".js", ".cjs", ".json", ".ts", ".jsx", ".tsx", "/index.js", "/index.ts"]) {
      if (delivered.has(at + end)) return path.relative(root, at + end);
    }
  }
  return "";
}

// watched returns expect, which counts what matchers leave to objects of the submission.
function watched(original, link) {
  const TRUTH = new Set(["toBeTruthy", "toBeDefined"]);
  const matchers = (found, actual) => new Proxy(found, {
    get(target, key) {
      const v = target[key];
      if (key === "not" || key === "resolves" || key === "rejects") return matchers(v, key === "not" ? actual : undefined);
      if (typeof v !== "function") return v;
      return (...args) => {
        if (TRUTH.has(key) ? link.isRemote(actual) : link.holds(actual) && args.some((a) => link.holds(a))) link.decided++;
        return v.apply(target, args);
      };
    },
  });
  return new Proxy(original, { apply: (target, self, args) => matchers(Reflect.apply(target, self, args), args[0]) });
}

if (!globalThis[KEY]) {
  const link = begin();
  const loaded = new Set();
  // A stub that runs again does so because jest has reset its modules.
  globalThis[KEY] = (file) => {
    const again = loaded.has(file);
    loaded.add(file);
    return link.require(file, again);
  };
}

module.exports = globalThis[KEY];
