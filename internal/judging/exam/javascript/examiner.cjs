// The examiner's side of the conversation: it sends what tests do, and answers what the submission asks. No code of the
// submission runs in this process.
"use strict";
const fs = require("node:fs");
const { builtinModules } = require("node:module");
const path = require("node:path");
const { setImmediate } = require("node:timers"); // that of the tests may be replaced
const { types } = require("node:util");
const { Gone, NOBODY, RAISED } = require("./channel.cjs");
const { check, entries, isObject } = require("./codec.cjs");
const { Side } = require("./side.cjs");

// UNASKED lists the extension points by which test libraries would let an object decide. No object of the submission has
// them here.
const UNASKED = new Set(["asymmetricMatch", "$$typeof", "nodeType", "nodeName", "tagName", "isEqualNode", "__proto__", "@@__IMMUTABLE_ITERABLE__@@",
  "@@__IMMUTABLE_KEYED__@@", "@@__IMMUTABLE_LIST__@@", "@@__IMMUTABLE_ORDERED__@@", "@@__IMMUTABLE_RECORD__@@", "_isMockFunction",
  Symbol.for("nodejs.util.inspect.custom"), Symbol.for("nodejs.util.promisify.custom"), Symbol.isConcatSpreadable, Symbol.species,
  Symbol.match, Symbol.matchAll, Symbol.replace, Symbol.search, Symbol.split, Symbol.unscopables, Symbol.hasInstance]);
// CLAIMED lists those that are asked. What the submission answers is its own word.
const CLAIMED = new Set(["toJSON", "then", Symbol.toStringTag]);
// SIFTED lists the keys under which no function of the submission may lie in a plain object here.
const SIFTED = new Set([...UNASKED, ...CLAIMED, "toString", "valueOf", "constructor", "equals", Symbol.toPrimitive, Symbol.iterator, Symbol.asyncIterator]);
// KEPT lists what the submission may not reach of the test's own things: they lead to the classes behind them.
const KEPT = new Set(["constructor", "prototype", "__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__",
  "caller", "callee", "arguments"]);
// WATCHED lists the global functions that tests replace, and the submission calls.
const WATCHED = ["Math.random", "Date.now", "performance.now", "fetch", "setTimeout", "clearTimeout", "setInterval", "clearInterval", "setImmediate",
  "clearImmediate", "queueMicrotask", "Date"];
const LIBRARY = ["fs", "fs/promises", "path", "os", "util", "events", "url", "querystring", "crypto", "timers/promises", "assert"];
// MODULES lists those of the library whose objects are known, but for some that warn when they are loaded.
const MODULES = builtinModules.filter((name) => !/^_|^(cluster|domain|inspector.*|punycode|repl|sys|trace_events|wasi)$/.test(name));
const OBJECTS = ["Math", "JSON", "Reflect", "console", "process"];
const PRINTING = ["log", "info", "warn", "error", "debug"];
const PRINTED = 4 << 20; // characters that the submission may print
const NAME = /^[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]{0,200}$/u;
const ROUND = /[?&]guild=\d+/; // in the URL of a module
const MODULE = /\.(?:[cm]?[jt]s|[jt]sx|json)$/;

// real returns an object of the realm in which this file was loaded by name.
const named = (name) => name.split(".").reduce((o, part) => o?.[part], globalThis);

// NOTHING stands for what the submission has a number of and must not have.
const NOTHING = Object.freeze(Object.create(null));
// OPEN lists what a library has for the test to change.
const OPEN = [process.env, process.argv];

// Link is the examiner's side. report writes a record of the results. runner has what the test runner is reached by.
class Link extends Side {
  constructor({ root, report, marks, connect, runner = [] }) {
    super(-1, connect);
    Object.assign(this, { root, report, marks });
    this.decided = 0; // what the submission has said of its own objects
    this.printed = 0;
    this.refused = ""; // why the running test cannot be believed
    this.beyond = ""; // what the running test needs that the judge cannot do
    this.hint = ""; // what the running test did that may be why it fails
    this.modules = new Map(); // name and kind → exports
    this.setters = new Map(); // exports of an ES module → name → function that sets its stub's variable
    this.reported = 0; // how much of decided was reported with a test
    this.environment = { ...process.env };
    this.originals = new Map(WATCHED.map((name) => [name, named(name)]));
    this.replaced = new Map();
    this.began = Date.now();
    this.running = []; // ids of the tests that have begun
    this.over = undefined; // why nothing more is asked in the running test
    this.runner = reachable(runner);
    this.sent = 0; // frames, but for questions whether the submission is idle
    this.channel.onclose = (why) => report({ type: "guild:closed", message: why });
  }

  thread() {
    return 0;
  }

  // busy reports whether a request must wait until the running code of the test is done: nothing here waits for it.
  busy(frame) {
    return frame[2] === NOBODY && this.channel.waiting > 0;
  }

  // Surroundings.

  extra() {
    const extra = super.extra();
    const changed = {};
    for (const name of new Set([...Object.keys(process.env), ...Object.keys(this.environment)])) {
      if (process.env[name] === this.environment[name]) continue;
      changed[name] = process.env[name] ?? null;
    }
    if (Object.keys(changed).length > 0) {
      extra.e = changed;
      this.environment = { ...process.env };
    }
    for (const [name, original] of this.originals) {
      const now = named(name);
      if (now === (this.replaced.get(name) ?? original)) continue;
      this.replaced.set(name, now);
      const given = name === "Date" ? () => Date.now() : now;
      (extra.p ??= []).push([name, now === original || now === undefined ? null : this.encode(given)]);
    }
    return extra;
  }

  receive(extra) {
    super.receive(extra);
    for (const change of extra.m ?? []) {
      check(Array.isArray(change) && change.length === 3, "a wrong change of a module");
      const set = this.setters.get(this.objects.get(change[0]))?.get(change[1]);
      const value = this.decode(change[2]);
      if (set) set(value);
    }
  }

  request(op, build, waiter, thread) {
    if (this.over && op !== "idle") throw this.over;
    const number = super.request(op, build, waiter, thread);
    if (op !== "idle") this.outlive();
    return number;
  }

  answer(kind, number, value) {
    // The submission may go on as if nothing had failed.
    if (kind === RAISED && isAssertion(value)) this.decided++;
    super.answer(kind, number, value);
    this.outlive();
  }

  ended() {
    this.over = new Gone("the judge has ended this run of the test");
    return this.over;
  }

  // outlive keeps this process alive until the submission has nothing more to do with what was sent: it may still settle
  // a promise, or call what a test has given it.
  outlive() {
    this.sent++;
    if (this.watching || this.channel.closed) return;
    this.watching = true;
    this.channel.port.ref();
    setImmediate(() => this.askIdle());
  }

  askIdle() {
    const at = this.sent;
    const ended = () => {
      if (this.sent !== at && !this.channel.closed) return this.askIdle();
      this.watching = false;
      this.channel.port.unref();
    };
    this.later("idle", () => [], ended, ended);
  }

  get served() {
    const served = super.served;
    return {
      ...served,
      print: (method, args) => {
        const list = this.values(args);
        for (const v of list) this.printed += typeof v === "string" ? v.length : 10;
        check(this.printed < PRINTED, "too much text");
        if (PRINTING.includes(method)) return () => { console[method](...list); };
        check((method === "stdout" || method === "stderr") && typeof list[0] === "string", "a wrong stream");
        return () => { process[method].write(list[0]); };
      },
    };
  }

  // owned returns something that was lent to the submission.
  owned(o) {
    check(isObject(o) && this.ours.has(o.k), "a request about what was not lent");
    return this.known(o.k);
  }

  // known returns nothing in the place of a prototype: whoever has that can change all objects of the class, of which
  // the test runner has some, too.
  known(number) {
    const v = super.known(number);
    return isPrototype(v) ? NOTHING : v;
  }

  keeps(v) {
    return LENT.has(v) || this.runner.has(v);
  }

  // change keeps the submission from what is not the test's own: the library, the runner, and their objects' methods.
  change(o, key, value) {
    const inherited = !Object.hasOwn(o, key) && method(o, key);
    const decides = SIFTED.has(key) && (typeof value === "function" || this.isRemote(value));
    if (o !== NOTHING && !this.keeps(o) && !decides && !(inherited && this.keeps(inherited))) return;
    if (o === NOTHING) this.hint = "needs mode inproc: the delivery changes a class that the tests have";
    throw new TypeError("the test keeps " + String(key));
  }

  reach(v, key) {
    if (KEPT.has(key) || typeof v === "function" && !(Object.hasOwn(v, key) && typeof v[key] !== "function")) {
      throw new TypeError("the test keeps " + String(key));
    }
    return key;
  }

  // Values.

  encode(v, depth) {
    if (typeof v === "string" && v[0] === "/" && v.length < 4096 && !this.hint && fs.existsSync(v)) {
      this.hint = "needs mode inproc: the tests pass the delivery the file or directory " + v;
    }
    return super.encode(v, depth);
  }

  // named returns the name of a function or module of the library that a test passes.
  named(v) {
    return NAMED.get(v);
  }

  // sift removes functions that would decide for the object that they lie in. What a test has put there stays.
  sift(flat, o) {
    for (let i = flat.length - 2; i >= 0; i -= 2) {
      const [key, value] = flat.slice(i, i + 2);
      if (!SIFTED.has(key) || typeof value !== "function" && !this.isRemote(value)) continue;
      if (Object.getOwnPropertyDescriptor(o, key)?.value === value) continue;
      flat.splice(i, 2);
      this.decided++;
    }
  }

  // error describes an exception of the test's. An assertion's expected values are not shown.
  error(e, depth) {
    if (!isAssertion(e)) {
      const { E: [number, ref, message, , ...more] } = super.error(e, depth);
      return { E: [number, ref, message, "", ...more] };
    }
    return { E: [this.own(e), { g: "AssertionError" }, "", "", []] };
  }

  read(number, key) {
    if (UNASKED.has(key) || this.over) return undefined;
    if (key === Symbol.toPrimitive) {
      return (hint) => {
        this.decided++;
        const found = this.ask("op", () => ["toPrimitive", { k: number }, String(hint)]);
        if (found !== null && ["object", "function"].includes(typeof found)) throw new TypeError("Cannot convert object to primitive value");
        return found;
      };
    }
    if (!CLAIMED.has(key)) return super.read(number, key);
    const found = this.ask("op", () => ["get", { k: number }, this.encode(key)]);
    if (found !== undefined) this.decided++;
    if (key === Symbol.toStringTag && typeof found !== "string") return undefined;
    return found;
  }

  stub(entry, key) {
    if (UNASKED.has(key)) return undefined;
    const f = super.stub(entry, key);
    if (CLAIMED.has(key)) this.decided++;
    return f;
  }

  // asked counts a method of an object of the submission's that says yes or no.
  ask(op, build) {
    const found = super.ask(op, build);
    if (typeof found === "boolean" && op === "method") this.decided++;
    return found;
  }

  hasKey(number, key) {
    const found = super.hasKey(number, key);
    if (found) this.decided++;
    return found;
  }

  functionTraps(number, target) {
    const traps = super.functionTraps(number, target), { get } = traps;
    const instance = (v) => {
      const found = Function.prototype[Symbol.hasInstance].call(this.objects.get(number), v);
      if (found && this.isRemote(v)) this.decided++;
      return found;
    };
    return { ...traps, get: (_, key, receiver) => key === Symbol.hasInstance ? instance : get(_, key, receiver) };
  }

  // unsupported fails the running test, or all that do not run. Only what the submission cannot have caused is the judge's
  // fault.
  unsupported(what, caused = false) {
    const why = "needs mode inproc: " + what;
    this.refused ||= why;
    if (!caused) this.beyond ||= why;
    if (!caused && this.running.length === 0) this.report({ type: "guild:beyond", message: why });
    return new TypeError(this.refused);
  }

  // Modules.

  // name returns the name of a file relative to the workspace.
  name(file) {
    return path.relative(this.root, file).split(path.sep).join("/");
  }

  // require returns what a delivered module exports. again loads it anew.
  require(file, again) {
    const name = this.name(file);
    return this.ask("import", () => [name, Boolean(again), "cjs"]);
  }

  // source returns the text of the stub of an ES module: its names are checked, and nothing else in it is the
  // submission's. JSON is read again here, as data.
  source(file, query = "") {
    const asked = this.name(file) + query.replace(ROUND, "").replace(/^&/, "?");
    const name = this.name(file) + query; // each round has its own
    if (file.endsWith(".json")) return { format: "json", source: JSON.stringify(this.require(file)) ?? "null" };
    let exports = this.modules.get(name);
    if (!exports) {
      exports = this.ask("import", () => [asked, false, "esm"]);
      check(this.remotes.has(exports), "a module that is no object");
      this.modules.set(name, exports);
    }
    const names = Reflect.ownKeys(exports).filter((n) => typeof n === "string" && NAME.test(n)).slice(0, 10000);
    return { format: "module", source: stub(name, names) };
  }

  // stub returns what the stub of an ES module exports, and takes the functions by which its variables are set.
  exporting(name) {
    const exports = this.modules.get(name);
    const setters = new Map();
    this.setters.set(exports, setters);
    return { exports, set: (n, f) => setters.set(n, f) };
  }

  // stubs makes a file for each module that the submission has built, so that a path of it can be resolved, and
  // returns their names.
  stubs() {
    const names = this.ask("modules", () => []);
    check(Array.isArray(names) && names.length <= 20000, "wrong names of modules");
    return names.filter((name) => {
      check(typeof name === "string" && name.length < 500, "a wrong name of a module");
      const parts = name.split("/");
      if (!MODULE.test(name) || parts.some((p) => p === "" || p.startsWith(".") || p === "node_modules") || parts[0] === "tests" || parts.length < 2) return false;
      const file = path.join(this.root, name);
      fs.mkdirSync(path.dirname(file), { recursive: true });
      fs.writeFileSync(file, "// The delivery has this module in another sandbox.\n");
      return true;
    });
  }

  // Tests.

  begin(id) {
    this.over = undefined;
    this.refused = this.beyond = this.hint = "";
    this.running.push(id);
    if (this.marks) this.mark("test", [id]);
  }

  end(id, passed) {
    this.running = this.running.filter((one) => one !== id);
    const decided = this.decided - this.reported;
    this.reported = this.decided;
    this.report({ type: "guild:test", name: id, decided, message: this.refused || (passed ? "" : this.hint), refused: this.refused !== "", beyond: this.beyond });
    const clean = this.refused === "" && !this.over;
    this.over = undefined;
    return this.marks && !this.channel.closed && this.mark("done", [id, passed, clean]);
  }

  // giveUp ends the tests that wait for what never comes.
  giveUp() {
    for (const id of this.running.reverse()) this.end(id, false);
  }

  // mark asks the judge something that the submission does not learn of.
  mark(op, args) {
    return this.channel.mark(op, args);
  }

  // ran reports that a text or a program may run here that may be the submission's.
  ran(what) {
    if (!this.told) this.report({ type: "guild:ran", message: what });
    this.told = true;
  }

  // loads reports a module that was written while the tests ran, or comes as a text.
  loads(file) {
    let time = Infinity;
    try {
      if (file) time = fs.statSync(file).ctimeMs;
    } catch {
      return; // it cannot be loaded
    }
    if (time > this.began) this.ran("a new module ran");
  }

  // isRemote reports whether a value is the submission's.
  isRemote(v) {
    return v !== null && ["object", "function"].includes(typeof v) && this.remotes.has(v);
  }

  // holds reports whether a value is the submission's, or plain data that holds such.
  holds(v, depth = 0) {
    if (this.isRemote(v)) return true;
    if (depth > 3 || v === null || typeof v !== "object") return false;
    const parts = Array.isArray(v) ? v : types.isMap(v) ? [...v].flat() : types.isSet(v) ? [...v] : entries(v) ?? [];
    return parts.slice(0, 1000).some((part) => this.holds(part, depth + 1));
  }

  // watch counts what assertions leave to objects of the submission: whether one is there, and whether two are the same.
  watch(library) {
    for (const name of ["ok", "equal", "strictEqual", "deepEqual", "deepStrictEqual", "partialDeepStrictEqual"]) {
      const original = library[name];
      if (typeof original !== "function") continue;
      const link = this;
      library[name] = function (...args) {
        if (name === "ok" ? link.isRemote(args[0]) : link.holds(args[0]) && link.holds(args[1])) link.decided++;
        return original.apply(this, args);
      };
    }
    // A delivered class must not judge what was thrown: only what it is an instance of counts.
    for (const name of ["throws", "rejects"]) {
      const original = library[name];
      const link = this;
      library[name] = function (code, expected, ...rest) {
        if (!link.isRemote(expected)) return original.call(this, code, expected, ...rest);
        return original.call(this, code, (e) => {
          if (e instanceof expected) return true;
          throw e;
        }, ...rest);
      };
    }
  }
}

// isAssertion reports whether an exception is a failed assertion's.
function isAssertion(e) {
  return types.isNativeError(e) && (e.code === "ERR_ASSERTION" || e.name === "AssertionError" || "matcherResult" in e);
}

// isPrototype reports whether an object of the examiner's is what a class gives its instances.
function isPrototype(v) {
  if (v === null || typeof v !== "object" || types.isProxy(v)) return false;
  const c = Object.getOwnPropertyDescriptor(v, "constructor")?.value;
  return typeof c === "function" && !types.isProxy(c) && Object.getOwnPropertyDescriptor(c, "prototype")?.value === v;
}

// method returns the function that an object inherits under a key, or undefined.
function method(o, key) {
  for (let p = o; p !== null && !types.isProxy(p); p = Object.getPrototypeOf(p)) {
    const d = Object.getOwnPropertyDescriptor(p, key);
    if (d) return typeof d.value === "function" ? d.value : undefined;
  }
  return undefined;
}

// reachable returns all objects that lead from some.
function reachable(from) {
  const found = new Set();
  for (const left = [...from]; left.length > 0;) {
    const v = left.pop();
    if (v === null || !["object", "function"].includes(typeof v) || found.has(v) || OPEN.includes(v) || types.isProxy(v)) continue;
    found.add(v);
    left.push(Object.getPrototypeOf(v));
    for (const key of Reflect.ownKeys(v)) {
      const d = Object.getOwnPropertyDescriptor(v, key);
      left.push(d.value, d.get, d.set);
    }
  }
  return found;
}

// library returns the names of what is the same on both sides and not a class: "!Math!max", "node:fs!readFileSync".
function library() {
  const names = new Map();
  const add = (v, name) => {
    if (!names.has(v)) names.set(v, name);
  };
  const within = (o, name) => {
    for (const [key, d] of Object.entries(Object.getOwnPropertyDescriptors(o))) {
      if (typeof d.value === "function" && key !== "constructor") add(d.value, name + "!" + key);
    }
  };
  for (const name of Object.getOwnPropertyNames(globalThis)) {
    const v = OBJECTS.includes(name) ? globalThis[name] : Object.getOwnPropertyDescriptor(globalThis, name).value;
    if (typeof v === "function" ? !Function.prototype.toString.call(v).includes("[native code]") && !WATCHED.includes(name) : !OBJECTS.includes(name)) continue;
    add(v, "!" + name);
    within(v, "!" + name);
    if (typeof v === "function" && v.prototype) within(v.prototype, "!" + name + "!prototype");
  }
  add(globalThis, "!globalThis");
  for (const name of LIBRARY) {
    const v = require("node:" + name);
    add(v, "node:" + name);
    within(v, "node:" + name);
  }
  return names;
}

const NAMED = library();
// LENT has the library's objects: the submission may use those that a test lends it, and not change them.
const LENT = reachable([globalThis, ...MODULES.map((name) => require(name))]);

// stub returns the text of an ES module that exports what the examiner has for these names.
function stub(name, names) {
  const lines = ["const { exports, set } = globalThis[Symbol.for(\"guild.split\")].exporting(" + JSON.stringify(name) + ");"];
  names.forEach((n, i) => {
    lines.push(`let _${i} = exports[${JSON.stringify(n)}];`, `set(${JSON.stringify(n)}, (v) => { _${i} = v; });`, `export { _${i} as ${n} };`);
  });
  return lines.join("\n") + "\n";
}

module.exports = { Link, NAME, UNASKED, stub };
