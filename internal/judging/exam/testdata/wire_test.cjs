// Tests of the protocol in JavaScript: plain values come back exactly, and no frame, however hostile, does anything but
// raise Malformed. Run by TestScriptWire.
"use strict";
const assert = require("node:assert/strict");
const path = require("node:path");
const test = require("node:test");

const HERE = path.join(__dirname, "..", "javascript");
const { Malformed, Gone, parse } = require(path.join(HERE, "channel.cjs"));
const { CLASSES } = require(path.join(HERE, "codec.cjs"));
const { Link, stub } = require(path.join(HERE, "examiner.cjs"));
const { Subject } = require(path.join(HERE, "subject.cjs"));

// silent is a connection that nobody answers.
const silent = () => ({
  last: 0, waiting: 0, closed: "", waiters: new Map(), port: { ref() {}, unref() {} }, sent: [],
  number() { return ++this.last; },
  send(frame) { this.sent.push(frame); },
  wait() { throw new Gone("nobody answers"); },
  close(why) { this.closed ||= why; },
});
const link = () => new Link({ root: "/", report() {}, connect: silent });
const subject = () => new Subject("/", silent);

// through returns a value as the examiner has it when the subject has sent it.
const through = (v) => link().decode(JSON.parse(JSON.stringify(subject().encode(v))));

// random is a generator of numbers from a seed: mulberry32.
function random(seed) {
  return () => {
    seed = seed + 0x6d2b79f5 | 0;
    let t = Math.imul(seed ^ seed >>> 15, 1 | seed);
    t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t;
    return ((t ^ t >>> 14) >>> 0) / 2 ** 32;
  };
}
const pick = (r, list) => list[Math.floor(r() * list.length)];

function value(r, depth = 0) {
  const leaves = [
    () => null, () => undefined, () => true, () => (r() - 0.5) * 10 ** Math.floor(r() * 600 - 300), () => Math.floor(r() * 2 ** 53),
    () => BigInt(Math.floor(r() * 2 ** 53)) ** 3n * (r() < 0.5 ? -1n : 1n), () => pick(r, [NaN, Infinity, -Infinity, -0]),
    () => Array.from({ length: Math.floor(r() * 6) }, () => String.fromCharCode(Math.floor(r() * 65536))).join(""),
    () => new Date(Math.floor(r() * 1e12)), () => /a+(?<n>b)/giu, () => Symbol.for("x"), () => Buffer.from([r() * 256, 1]), () => new Float32Array([r(), -0]),
  ];
  const many = () => Array.from({ length: Math.floor(r() * 5) }, () => value(r, depth + 1));
  const object = () => Object.fromEntries(many().map((v, i) => [pick(r, ["a", "__proto__", "toString", "", "k" + i, "\u00e9"]), v]));
  const nodes = [many, object, () => new Map(many().map((v, i) => [pick(r, [v, i, "k"]), v])), () => new Set(many()), () => Object.assign(Object.create(null), { a: value(r, depth + 1) })];
  return pick(r, depth < 4 && r() < 0.4 ? nodes : leaves)();
}

test("values come back exactly", () => {
  const r = random(1);
  for (let i = 0; i < 1500; i++) {
    const v = value(r);
    assert.deepStrictEqual(through(v), v);
  }
});

test("errors come back", () => {
  class Own extends RangeError { constructor(m) { super(m, { cause: new TypeError("why") }); this.code = 7; } }
  const e = through(new Own("bad"));
  assert.ok(e instanceof RangeError && e.cause instanceof TypeError);
  assert.deepStrictEqual([e.message, e.code, Object.keys(e)], ["bad", 7, ["code"]]);
});

test("depth is bounded", () => {
  let v = [];
  for (let i = 0; i < 1000; i++) v = [v];
  assert.throws(() => subject().encode(v), /too deeply/);
});

const SEEDS = [
  5, "x", { L: [2, [1, 2], 0] }, { L: [2, [1, { L: [4, []] }], 1] }, { D: [2, ["a", 1], 0] }, { G: [2, ["a", { k: 2 }]] }, { P: [2, ["a", 1]] }, { S: [2, [1]] },
  { T: [2, [5]] }, { i: "0x5" }, { k: 2 }, { f: "nan" }, { u: 0 }, { s: "eda080" }, { y: "iterator" }, { y: ["for", "x"] }, { y: [2, "own"] }, { g: "Map" },
  { R: ["a", "g"] }, { B: [2, "Uint8Array", "eA=="] }, { B: [2, "Buffer", "eA=="] }, { A: [2, "eA=="] }, { p: 2 },
  { E: [2, { g: "TypeError" }, "x", "stack", ["code", 1, true], { k: 2 }] }, { F: [2, "f", 1, 0, null, [], 0] }, { F: [2, "C", 0, 2, null, ["m", { y: "iterator" }], 4] },
  { F: [2, "C", 0, 2, { g: "Error" }, ["m"], 4] }, { h: [6, { F: [2, "C", 0, 2, null, ["m"], 4] }, []] }, { h: [2, { g: "Object" }, ["m"]] }, { h: [2, null, []] },
  { D: [2, ["asymmetricMatch", { F: [4, "f", 0, 0, null, [], 0] }, "x", 1]] },
];
const ODD = [null, true, -1, 0, 1, 2, 3, 4, 1e308, "", "k", "\ud800", "__proto__", "constructor", "Function", "eval", "Proxy", [], {}, [[]], { k: 1 }, { k: 0 },
  { g: "Function" }, { g: "Object" }, { g: "__proto__" }, { L: [2, []] }, { i: "0x" + "f".repeat(5000) }, { R: ["(", ""] }, { R: ["(a+)+$", "g"] }, { y: "x" }, { f: "1" }, { u: 1 }];

function mutate(r, v) {
  if (r() < 0.12) return pick(r, ODD);
  if (Array.isArray(v)) {
    v = v.map((x) => mutate(r, x));
    if (v.length > 0 && r() < 0.1) v.splice(Math.floor(r() * v.length), 1);
    if (r() < 0.1) v.splice(Math.floor(r() * (v.length + 1)), 0, pick(r, [...ODD, ...SEEDS]));
    return v;
  }
  if (v === null || typeof v !== "object") return v;
  return Object.fromEntries(Object.entries(v).map(([k, x]) => [r() < 0.05 ? pick(r, [..."LDGPSTEFhkgp"]) : k, mutate(r, x)]));
}

// safe checks that there is no function in a value but stand-ins and the classes of the list.
function safe(side, v, seen = new Set()) {
  if (typeof v === "function") return assert.ok(side.remotes.has(v) || [...CLASSES.values()].includes(v));
  if (v === null || typeof v !== "object" || seen.has(v) || side.remotes.has(v)) return;
  seen.add(v);
  if (v instanceof Map) for (const part of [...v].flat()) safe(side, part, seen);
  else if (v instanceof Set) for (const part of v) safe(side, part, seen);
  else for (const key of Reflect.ownKeys(v)) safe(side, Object.getOwnPropertyDescriptor(v, key).value, seen);
}

const globals = () => JSON.stringify([Object, Function, Array, Map, Promise, Error, Symbol].map((c) => [Object.getOwnPropertyNames(c), Object.getOwnPropertyNames(c.prototype)]));

test("values do nothing but fail", () => {
  const r = random(2), before = globals();
  let failed = 0;
  for (let i = 0; i < 5000; i++) {
    const side = link();
    for (let n = 0; n < 3; n++) {
      try {
        const taken = side.take([1, 1, mutate(r, pick(r, SEEDS)), {}]);
        safe(side, taken.value);
      } catch (e) {
        if (!(e instanceof Malformed)) throw e;
        failed++;
      }
    }
  }
  assert.ok(failed > 2000, String(failed));
  assert.equal(globals(), before);
});

test("changes do nothing but fail", () => {
  const r = random(3);
  for (let i = 0; i < 3000; i++) {
    const side = link(), given = [1, { a: [2] }, new Set([3]), new Map(), new Date(1), Buffer.from("x")];
    side.encode(given);
    const u = [[1, [5]], [3, ["a", 1]], [5, [1]], [7, [1]], [9, ["k", 1]], [11, [5]], [13, ["eA=="]]];
    try {
      side.guarded(() => side.receive(mutate(r, { u, m: [[2, "x", 1]] })));
    } catch (e) {
      if (!(e instanceof Malformed)) throw e;
    }
    safe(side, given);
  }
});

test("requests reach only what was lent", () => {
  const r = random(4);
  class Own { secret() { return eval; } }
  const f = (x) => x, o = new Own(), plain = { f };
  const tried = ["get", "set", "del", "call", "new", "method", "op", "await", "print", "idle", "import", "test", "__proto__", "constructor"];
  const args = [[{ k: 1 }, "constructor"], [{ k: 1 }, "constructor", ["return 1"], {}], [{ k: 3 }, "__proto__", { g: "Map" }], ["has", { k: 1 }, "x"], ["keys", { k: 3 }], [{ k: 5 }, "f"],
    ["log", ["x"]], [{ k: 3 }, "toJSON", { F: [2, "f", 0, 0, null, [], 0] }]];
  const log = console.log;
  console.log = () => {};
  for (let i = 0; i < 5000; i++) {
    const side = link();
    side.encode(f);
    side.encode(o);
    side.encode(plain);
    side.serve([0, 1, 0, pick(r, tried), mutate(r, pick(r, args)), {}]);
    for (const [, , answered] of side.channel.sent) assert.ok(!JSON.stringify(answered ?? null).includes('"Function"'), JSON.stringify(answered));
  }
  console.log = log;
  assert.equal(Object.getPrototypeOf(o), Own.prototype);
});

test("what lies behind the lent is kept", () => {
  for (const [lent, names] of [[(x) => x, ["constructor", "call", "bind", "prototype", "__proto__"]], [new (class A {})(), ["constructor", "__proto__", "__defineGetter__", "__lookupGetter__"]], [class B {}, ["constructor", "prototype", "__proto__"]]]) {
    for (const name of names) {
      const side = link();
      const [[number]] = Object.values(side.encode(lent));
      for (const [op, args] of [["get", [{ k: number }, name]], ["method", [{ k: number }, name, ["return 1"], {}]], ["set", [{ k: number }, name, 1]], ["del", [{ k: number }, name]], ["op", ["own", { k: number }, name]]]) {
        side.serve([0, 1, 0, op, args, {}]);
        const frame = side.channel.sent.at(-1);
        assert.ok(side.channel.closed || frame[0] === 2, `${op} ${name}: ${JSON.stringify(frame)}`);
      }
    }
  }
});

test("no extension point lies in plain data", () => {
  const side = link();
  const f = (n) => ({ F: [n, "f", 0, 0, null, [], 0] });
  const o = side.decode({ D: [2, ["asymmetricMatch", f(4), "toJSON", f(6), "then", f(8), { y: "toPrimitive" }, f(10), "valueOf", f(12), "x", 1]] });
  assert.deepEqual(Reflect.ownKeys(o), ["x"]);
  const e = side.decode({ E: [14, { g: "Error" }, "m", "s", ["asymmetricMatch", f(16), true, "code", 5, true]] });
  assert.equal(Object.hasOwn(e, "asymmetricMatch"), false);
  assert.equal(e.code, 5);
  const list = side.decode({ L: [18, [1], 0, ["asymmetricMatch", { g: "Boolean" }, "toJSON", f(20), "index", 3]] });
  assert.deepEqual(Object.keys(list), ["0", "index"]);
  const other = side.decode({ D: [22, ["asymmetricMatch", { g: "Boolean" }], 0] });
  assert.deepEqual(Reflect.ownKeys(other), []);
});

test("no object is taken for plain data", () => {
  const side = link();
  const o = side.decode({ h: [2, { g: "Map" }, []] });
  assert.equal(o instanceof Map, false);
  const derived = side.decode({ h: [4, { F: [6, "Own", 0, 2, { g: "Array" }, [], 8] }, []] });
  assert.equal(derived instanceof Array, false);
});

test("the library stays as it is", () => {
  const EventEmitter = require("node:events"), http = require("node:http"), { Readable } = require("node:stream");
  const side = link(), emitter = new (class Own extends EventEmitter {})();
  class Named { name = "a"; }
  const number = (v) => side.encode(v).h?.[0] ?? side.numbers.get(v);
  const asked = (op, ...args) => side.served[op](...args)();
  side.encode(Readable.from([]));
  for (const [o, key] of [[Readable.prototype, "push"], [Readable, "from"], [emitter, "emit"], [emitter, "constructor"], [emitter, "__proto__"], [http, "get"]]) {
    assert.throws(() => asked("set", { k: number(o) }, key, 1), /the test keeps/, key);
    assert.throws(() => asked("del", { k: number(o) }, key), /the test keeps/, key);
  }
  assert.notEqual(asked("get", { k: number(Readable.prototype) }, "push"), Readable.prototype.push);
  assert.deepEqual(side.encode(globalThis), { g: "!globalThis" });
  assert.equal(side.decode({ k: number(Readable.prototype) }) === Readable.prototype, false, "as an argument");
  assert.equal(side.encode(http.METHODS).L[2], 1, "a list of the library's is not shared");
  const named = new Named();
  asked("set", { k: number(named) }, "name", "b");
  assert.equal(named.name, "b");
  const e = new assert.AssertionError({ expected: 4711 }), told = side.encode(e).E[0];
  assert.throws(() => asked("get", { k: told }, "expected"), Malformed);
});

test("expected values are not shown", () => {
  const side = link();
  for (const fails of [() => assert.equal(1, 4711), () => { throw Object.assign(new Error("want 4711"), { matcherResult: { expected: 4711 } }); }]) {
    try {
      fails();
    } catch (e) {
      assert.ok(!JSON.stringify(side.encode(e)).includes("4711"));
    }
  }
});

test("subjects only fail", () => {
  const r = random(5);
  for (let i = 0; i < 3000; i++) {
    const side = subject();
    const seed = JSON.parse(JSON.stringify(pick(r, SEEDS)).replace(/\[(\d)\b/g, (_, n) => `[${Number(n) + 1}`));
    try {
      side.take([1, 1, mutate(r, seed), {}]);
    } catch (e) {
      if (!(e instanceof Malformed)) throw e;
    }
  }
});

test("frames only fail", () => {
  const r = random(6);
  const seeds = ['[0,1,0,"call",[],{}]', "[1,1,5,{}]", '[2,1,{"k":1},{}]', "[3,1,null,{}]", "[".repeat(5000), "NaN", "1e999", "", "null", '[1,true,2,{}]', "[1,1,2,[]]"];
  let good = 0;
  for (let i = 0; i < 6000; i++) {
    const text = Buffer.from(pick(r, seeds));
    for (let n = Math.floor(r() * 3); n > 0 && text.length > 0; n--) text[Math.floor(r() * text.length)] = r() * 256;
    try {
      assert.ok([0, 1, 2, 3].includes(parse(text.toString())[0]));
      good++;
    } catch (e) {
      if (!(e instanceof Malformed)) throw e;
    }
  }
  assert.ok(good > 10);
});

test("marks surround a test", () => {
  const connect = () => {
    const channel = silent();
    return Object.assign(channel, { mark: (op, args) => { channel.sent.push([0, 0, 0, op, args, {}]); } });
  };
  for (const [marks, want] of [[true, [["test", ["g > a"]], ["done", ["g > a", true, true]]]], [false, []]]) {
    const side = new Link({ root: "/", report() {}, marks, connect });
    side.begin("g > a");
    side.end("g > a", true);
    assert.deepEqual(side.channel.sent.map(([, , , op, args]) => [op, args]), want);
  }
});

test("the judge can end a test", () => {
  const connect = () => Object.assign(silent(), { wait: () => side.take([3, 1, null, {}]) });
  const side = new Link({ root: "/", report() {}, connect });
  side.begin("a");
  assert.throws(() => side.require("/m.js"), /ended this run/);
  assert.throws(() => side.require("/m.js"), /ended this run/);
  assert.equal(side.channel.sent.filter(([, , , op]) => op !== "idle").length, 1);
  side.begin("b");
  side.channel.wait = () => ({ value: 5 });
  assert.equal(side.require("/m.js"), 5);
  assert.throws(() => subject().take([3, 1, null, {}]), /not for this side/);
});

test("stubs have only checked names", async () => {
  const text = stub("m.mjs", ["a", "default", "\u00e9"]);
  assert.match(text, /export \{ _1 as default \};/);
});
