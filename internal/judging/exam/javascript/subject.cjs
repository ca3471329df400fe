// Runs the submission and answers the examiner's requests on descriptor 4.
//
// This process belongs to the submission, which may change anything here. It has no tests, no expected values and no way
// to report a result, and the examiner takes everything that it sends as data.
"use strict";
const { spawnSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const { setImmediate } = require("node:timers"); // a test may replace that of the submission
const { pathToFileURL } = require("node:url");
const { types } = require("node:util");
const { NOBODY } = require("./channel.cjs");
const { CLASSES, isObject } = require("./codec.cjs");
const { Later, Side } = require("./side.cjs");

const PRINTING = ["log", "info", "warn", "error", "debug"];
const TOLD = 1 << 20; // characters of output that are passed on
const MODULE = /\.([cm]?[jt]s|[jt]sx|json)$/;

class Subject extends Side {
  constructor(root, connect) {
    super(0, connect);
    this.root = root;
    this.originals = new Map(); // name of a global function → what it was before a test replaced it
    this.live = new Map(); // exports of an ES module → name → value as last told
    this.idlers = []; // what to call when nothing is left to do here
    this.told = 0;
  }

  thread() {
    return this.depth > 0 ? 0 : NOBODY;
  }

  busy() {
    return false; // the examiner must not wait for the end of something that waits for it
  }

  extra() {
    const extra = super.extra(), changed = [];
    for (const [namespace, before] of this.live) {
      for (const name of before.keys()) {
        let now;
        try {
          now = namespace[name];
        } catch {
          continue; // not yet initialized
        }
        if (Object.is(now, before.get(name))) continue;
        before.set(name, now);
        changed.push([this.numbers.get(namespace), name, this.encode(now)]);
      }
    }
    if (changed.length > 0) extra.m = changed;
    return extra;
  }

  receive(extra) {
    super.receive(extra);
    for (const [name, value] of Object.entries(extra.e ?? {})) {
      if (value === null) delete process.env[name];
      else process.env[name] = value;
    }
    for (const [name, value] of extra.p ?? []) this.replace(name, value);
  }

  // replace puts a test's function in the place of a global one, or the original back.
  replace(name, value) {
    const [last, ...above] = name.split(".").reverse();
    const owner = above.reverse().reduce((o, part) => o[part], globalThis);
    if (!this.originals.has(name)) this.originals.set(name, owner[last]);
    const given = value === null ? this.originals.get(name) : this.decode(value);
    owner[last] = value !== null && name === "Date" ? clock(given) : given;
  }

  get served() {
    return {
      ...super.served,
      import: (name, again, kind) => () => this.import(name, again, kind),
      modules: () => () => modules(this.root),
      idle: () => () => new Later(new Promise((resolve) => { this.idlers.push(resolve); })),
    };
  }

  // import loads a module of the workspace: by require, or as an ES module.
  import(name, again, kind) {
    const [plain, query] = name.split("?"), file = path.join(this.root, plain);
    if (kind === "esm") return new Later(import(pathToFileURL(file).href + (query ? "?" + query : "")).then((namespace) => this.module(namespace)));
    if (/\.([cm]?ts|[jt]sx)$/.test(file) && !process.features.typescript) {
      throw new Error("needs mode inproc, or a build: this Node.js does not load " + name);
    }
    if (again) delete require.cache[file];
    const found = require(file);
    return types.isModuleNamespaceObject(found) || isObject(found) && !file.endsWith(".json") ? this.module(found) : found;
  }

  // module returns a module's exports, which go as an object that stays here. The values of an ES module may change.
  module(exports) {
    if (this.numbers.has(exports)) return exports;
    const handle = new Opaque(exports);
    if (types.isModuleNamespaceObject(exports)) this.live.set(exports, new Map(Object.keys(exports).map((n) => [n, exports[n]])));
    return handle;
  }

  encode(v, depth = 0) {
    return v instanceof Opaque ? this.handle(v.value, depth) : super.encode(v, depth);
  }

  plain(v, contents) {
    return !contents.some((x) => typeof x === "function" || types.isPromise(x));
  }

  // takeNamed returns something of the library that a test has passed: "!Math!max", "node:fs!readFileSync".
  takeNamed(name) {
    if (CLASSES.has(name)) return CLASSES.get(name);
    const [from, ...parts] = name.split("!");
    return parts.reduce((o, part) => o[part], from === "" ? globalThis : require(from));
  }

  // sitOut serves one request when nothing else is left to do here.
  sitOut() {
    if (this.channel.closed) process.exit(0);
    const idlers = this.idlers.splice(0);
    for (const resolve of idlers) resolve();
    if (idlers.length === 0) this.channel.block();
    setImmediate(() => {});
  }

  // print passes what the submission prints to the test, which may have replaced the console.
  print(method, args) {
    this.told += args.reduce((n, a) => n + (typeof a === "string" ? a.length : 10), 1);
    if (this.told < TOLD && !this.channel.closed) this.ask("print", () => [method, this.items(args)]);
  }
}

// Opaque marks a value that goes as an object that stays here, whatever it is.
class Opaque {
  constructor(value) {
    this.value = value;
  }
}

// modules returns the names of the modules below a directory.
function modules(root) {
  const found = [];
  for (const entry of fs.readdirSync(root, { recursive: true, withFileTypes: true })) {
    const name = path.relative(root, path.join(entry.parentPath ?? entry.path, entry.name));
    if (entry.isFile() && MODULE.test(name) && !name.split(path.sep).includes("node_modules")) found.push(name);
  }
  return found;
}

// clock returns a class of dates whose time is that of the test.
function clock(now) {
  return new Proxy(Date, {
    construct: (target, args, by) => Reflect.construct(target, args.length > 0 ? args : [now()], by),
    get: (target, key) => key === "now" ? now : Reflect.get(target, key),
  });
}

function main() {
  const build = JSON.parse(process.env.GUILD_BUILD ?? "[]");
  delete process.env.GUILD_BUILD;
  if (build.length > 0) {
    const { status, error } = spawnSync(build[0], build.slice(1), { stdio: ["ignore", "inherit", "inherit"] });
    if (error || status !== 0) {
      console.error("the build failed:", error?.message ?? "exit code " + status);
      process.exit(1);
    }
  }
  const subject = new Subject(process.cwd());
  subject.channel.onclose = () => process.exit(0);
  for (const method of PRINTING) console[method] = (...args) => subject.print(method, args);
  for (const stream of ["stdout", "stderr"]) {
    process[stream].write = (text) => {
      subject.print(stream, [String(text)]);
      return true;
    };
  }
  process.argv.splice(1);
  process.on("beforeExit", () => subject.sitOut());
}

if (require.main === module) main();
module.exports = { Subject };
