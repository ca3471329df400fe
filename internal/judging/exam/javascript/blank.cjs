// What stands for the submission while the tests are listed without it: one object that answers everything with itself.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const { NAME, UNASKED, stub } = require("./examiner.cjs");

const blank = new Proxy(function () {}, {
  get(target, key, receiver) {
    switch (key) {
      case "prototype": return target.prototype;
      case "then": case "toJSON": case "__esModule": return undefined;
      case "length": return 0;
      case Symbol.toPrimitive: return () => "";
      case Symbol.iterator: return function* () {};
      case Symbol.asyncIterator: return async function* () {};
      case Symbol.hasInstance: return () => false;
    }
    return UNASKED.has(key) || typeof key === "symbol" ? undefined : receiver;
  },
  apply: () => blank,
  construct: () => blank,
  has: () => true,
  set: () => true,
  defineProperty: () => true,
  deleteProperty: () => true,
});

// Blank takes the place of a Link.
class Blank {
  constructor(root) {
    this.root = root;
    this.isBlank = true;
  }

  require() {
    return blank;
  }

  // source returns a stub with every name that a file of the tests imports.
  source(file) {
    if (file.endsWith(".json")) return { format: "json", source: "null" };
    this.names ??= imported(this.root);
    return { format: "module", source: stub(file, this.names) };
  }

  exporting() {
    return { exports: blank, set() {} };
  }

  loads() {}

  begin() {}

  end() {}

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
