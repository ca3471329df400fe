// What stands for the submission while the tests run without it: objects that answer everything with themselves, or
// modules of which every name is undefined.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const { NAME, UNASKED, stub } = require("./examiner.cjs");

// VALUE stands in a title for a text of the submission's.
const VALUE = "\ue000";

// MOST limits the uses of one test: a loop of its may end only with what the submission answers.
const MOST = 100000;

// Blank takes the place of a Link. With nothing, modules are there and empty.
class Blank {
  constructor(root, report, nothing) {
    Object.assign(this, { root, report, nothing });
    this.isBlank = true;
    this.uses = 0;
    this.used = false; // whether the running test, or the file before its tests, did something with the submission
    const value = this.object((key) => key === "name" ? VALUE : value);
    // The two are of different types, so that a test of the type cannot fail in the same way with both.
    this.module = nothing ? this.object(() => undefined, []) : this.object(() => value);
  }

  // object returns one that answers everything, and its properties with what get returns.
  object(get, target = function () {}) {
    const use = (answer) => {
      this.used = true;
      if (++this.uses > MOST) throw new Error("without the submission, this does not end");
      return answer;
    };
    const object = new Proxy(target, {
      get: (_, key) => {
        switch (key) {
          case "prototype": return target.prototype;
          case "then": case "toJSON": case "__esModule": return undefined;
          case "length": return use(0);
          case Symbol.toPrimitive: return (hint) => use(hint === "number" ? 0 : VALUE);
          case Symbol.iterator: return use(function* () {});
          case Symbol.asyncIterator: return use(async function* () {});
          case Symbol.hasInstance: return () => use(false);
        }
        if (this.running) use();
        return UNASKED.has(key) || typeof key === "symbol" ? undefined : get(key);
      },
      apply: () => use(object),
      construct: () => use(object),
      has: () => use(true),
      set: () => use(true),
      defineProperty: () => use(true),
      deleteProperty: () => use(true),
      getPrototypeOf: () => use(Object.getPrototypeOf(target)),
      ownKeys: () => use(Reflect.ownKeys(target)),
    });
    return object;
  }

  require() {
    return this.module;
  }

  // source returns a stub with every name that a file of the tests imports.
  source(file) {
    if (file.endsWith(".json")) return { format: "json", source: this.nothing ? "[]" : "null" };
    this.names ??= imported(this.root);
    return { format: "module", source: stub(file, this.names) };
  }

  exporting() {
    return { exports: this.module, set() {} };
  }

  loads() {}

  begin() {
    if (this.used) this.above = true;
    this.running = true;
    this.used = false;
    this.uses = 0;
  }

  end(id) {
    if (this.used || this.above) this.report({ type: "guild:used", name: id });
    this.running = this.used = false;
  }

  watch() {}
}

// imported returns the names in the import and export declarations below a directory.
function imported(root) {
  const names = new Set(["default"]);
  for (const entry of fs.readdirSync(root, { recursive: true, withFileTypes: true })) {
    const file = path.join(entry.parentPath ?? entry.path, entry.name);
    if (!entry.isFile() || !/\.[cm]?[jt]sx?$/.test(file) || file.includes("/node_modules/")) continue;
    for (const [, list] of fs.readFileSync(file, "utf8").matchAll(/\b(?:import|export)\s[^;{}"']*\{([^}]*)\}\s*from\b/g)) {
      for (const part of list.split(",")) {
        const name = part.trim().split(/\s+as\s+/)[0].replace(/^type\s+/, "");
        if (NAME.test(name)) names.add(name);
      }
    }
  }
  return [...names];
}

module.exports = { Blank };
