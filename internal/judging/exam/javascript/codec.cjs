// Values as they cross between examiner and subject. Plain data of an exact type travels by value; arrays, objects, maps
// and the like are shared: both sides have one, and each frame carries what has changed in them since the last. All else
// is a number that only its owner can follow, and stands on the other side as a proxy. Nothing that arrives is
// executed, or looked up by a name outside of a closed list.
"use strict";
const { types } = require("node:util");
const { Deep, Malformed } = require("./channel.cjs");

const DEPTH = 100; // how deeply values may be nested
const MOST = 1 << 20; // objects that are known to both sides

// CLASSES lists what is the same on both sides and travels by its name.
const CLASSES = new Map();
for (const name of ["Object", "Array", "Map", "Set", "WeakMap", "WeakSet", "Promise", "Date", "RegExp", "Error", "TypeError",
  "RangeError", "SyntaxError", "ReferenceError", "EvalError", "URIError", "AggregateError", "Number", "String", "Boolean",
  "BigInt", "Symbol", "ArrayBuffer", "Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array",
  "Uint32Array", "Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array", "Buffer", "URL", "URLSearchParams"]) {
  CLASSES.set(name, globalThis[name]);
}
CLASSES.set("EventEmitter", require("node:events"));
CLASSES.set("AssertionError", require("node:assert").AssertionError);
const NAMES = new Map([...CLASSES].map(([name, value]) => [value, name]));

// BASES lists those whose prototype a class of the other side may have here.
const BASES = new Set([...CLASSES.keys()].filter((name) => name.endsWith("Error")).concat("Object", "EventEmitter", "URL", "URLSearchParams"));

const SYMBOLS = new Map(Object.getOwnPropertyNames(Symbol).filter((n) => typeof Symbol[n] === "symbol").map((n) => [Symbol[n], n]));
const ARRAYS = ["Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array",
  "Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array", "Buffer"];
const NUMBERS = { nan: NaN, inf: Infinity, "-inf": -Infinity, "-0": -0 };
const HOLE = { hole: true };

// isObject reports whether a JSON value is an object with members.
const isObject = (v) => v !== null && typeof v === "object" && !Array.isArray(v);

function check(good, what) {
  if (!good) throw new Malformed(what);
}

// define sets a property whatever its name is.
function define(o, name, value, enumerable = true) {
  Object.defineProperty(o, name, { value, enumerable, writable: true, configurable: true });
}

// className returns the name of the class whose instance v is, as its prototype has it.
function className(v) {
  const proto = Object.getPrototypeOf(v);
  const c = proto && Object.getOwnPropertyDescriptor(proto, "constructor")?.value;
  return typeof c === "function" && c.prototype === proto ? c.name : "";
}

// isPlain reports whether an object has no class: its prototype is Object's, perhaps of another realm, or null.
function isPlain(v) {
  const proto = Object.getPrototypeOf(v);
  return proto === null || proto === Object.prototype ||
    Object.getPrototypeOf(proto) === null && className(v) === "Object" && Object.hasOwn(proto, "isPrototypeOf");
}

// entries returns [key, value, key, …] of an object's own enumerable properties, or undefined if it has others.
function entries(v) {
  const flat = [];
  for (const key of Reflect.ownKeys(v)) {
    const d = Object.getOwnPropertyDescriptor(v, key);
    if (!d.enumerable || !("value" in d)) return undefined;
    flat.push(key, d.value);
  }
  return flat;
}

function refillObject(o, flat) {
  const keep = new Set(flat.filter((_, i) => i % 2 === 0));
  for (const key of Reflect.ownKeys(o)) if (!keep.has(key)) delete o[key];
  for (let i = 0; i < flat.length; i += 2) define(o, flat[i], flat[i + 1]);
}

// view returns the bytes of a typed array.
const view = (v) => Buffer.from(v.buffer, v.byteOffset, v.byteLength);

// KINDS are the shared containers: tag → how one is recognized, made, read and filled. pairs means that every other item
// of the contents is a key.
const KINDS = {
  L: {
    is: (v) => Array.isArray(v) && className(v) === "Array",
    make: () => [],
    read: (v) => Array.from({ length: v.length }, (_, i) => Object.hasOwn(v, i) ? v[i] : HOLE),
    fill(v, items) {
      v.length = 0;
      items.forEach((item, i) => item === HOLE || define(v, i, item));
      v.length = items.length;
    },
  },
  D: { is: (v) => Object.getPrototypeOf(v) !== null && isPlain(v), make: () => ({}), read: entries, fill: refillObject, pairs: true },
  G: { is: (v) => Object.getPrototypeOf(v) === null, make: () => Object.create(null), read: entries, fill: refillObject, pairs: true },
  P: {
    is: (v) => types.isMap(v) && className(v) === "Map",
    make: () => new Map(),
    read: (v) => [...Map.prototype.entries.call(v)].flat(1),
    fill(v, flat) {
      Map.prototype.clear.call(v);
      for (let i = 0; i < flat.length; i += 2) Map.prototype.set.call(v, flat[i], flat[i + 1]);
    },
  },
  S: {
    is: (v) => types.isSet(v) && className(v) === "Set",
    make: () => new Set(),
    read: (v) => [...Set.prototype.values.call(v)],
    fill(v, items) {
      Set.prototype.clear.call(v);
      for (const item of items) Set.prototype.add.call(v, item);
    },
  },
  T: {
    is: (v) => types.isDate(v) && className(v) === "Date",
    make: () => new Date(0),
    read: (v) => [Date.prototype.getTime.call(v)],
    fill: (v, [time]) => Date.prototype.setTime.call(v, Number(time)),
  },
};

// Codec turns values into JSON and back, and keeps what both sides have. Its user adds what can be asked:
// ask(op, build), later(op, build), and what the numbers of this side's things mean to the other.
class Codec {
  constructor(first) {
    this.last = first; // the numbers of our things are odd or even, as the first is
    this.objects = new Map(); // number → value
    this.numbers = new Map(); // value → number
    this.shared = new Map(); // number → {o, kind, before}
    this.ours = new Set(); // numbers that the other side may follow
    this.remotes = new Map(); // proxy → {number, methods, and of a class its instances' prototype, of an object its target}
  }

  // Values out.

  encode(v, depth = 0) {
    switch (typeof v) {
      case "boolean": return v;
      case "string": return v.isWellFormed() ? v : { s: spelled(v) };
      case "number": return Number.isFinite(v) && !Object.is(v, -0) ? v
        : { f: Object.is(v, -0) ? "-0" : Number.isNaN(v) ? "nan" : v > 0 ? "inf" : "-inf" };
      case "undefined": return { u: 0 };
      case "bigint": return { i: (v < 0n ? "-" : "") + "0x" + (v < 0n ? -v : v).toString(16) };
      case "symbol": return this.symbol(v);
    }
    if (v === null) return null;
    if (v === HOLE) return { u: 1 };
    if (depth > DEPTH) throw new Deep("a value is nested too deeply");
    const known = this.numbers.get(v);
    if (known !== undefined) return { k: known };
    const name = NAMES.get(v) ?? this.named(v);
    if (name !== undefined) return { g: name };
    if (typeof v === "function") return this.function(v, depth);
    if (types.isProxy(v)) return this.handle(v, depth);
    if (types.isPromise(v)) return this.promise(v);
    if (types.isNativeError(v)) return this.error(v, depth);
    if (types.isRegExp(v) && className(v) === "RegExp") return { R: [v.source, v.flags] };
    if (types.isTypedArray(v) && ARRAYS.includes(className(v))) return this.bytes(v, className(v));
    if (types.isArrayBuffer(v)) return { A: [this.own(v), Buffer.from(v).toString("base64")] };
    for (const [tag, kind] of Object.entries(KINDS)) {
      if (!kind.is(v)) continue;
      const contents = kind.read(v);
      if (!contents || kind.pairs && !this.plain(v, contents)) break;
      return this.container(v, tag, kind, contents, depth);
    }
    return this.handle(v, depth);
  }

  items(values, depth = 0) {
    return values.map((v) => this.encode(v, depth));
  }

  // named returns the name by which a library's function or module goes to the other side, if it may.
  named() {
    return undefined;
  }

  // plain reports whether an object without a class travels by value.
  plain() {
    return true;
  }

  symbol(v) {
    if (SYMBOLS.has(v)) return { y: SYMBOLS.get(v) };
    if (Symbol.keyFor(v) !== undefined) return { y: ["for", Symbol.keyFor(v)] };
    const known = this.numbers.get(v);
    return known !== undefined ? { k: known } : { y: [this.own(v), v.description ?? null] };
  }

  // own gives something of ours its number.
  own(v) {
    this.last += 2;
    if (this.objects.size > MOST) throw new Deep("too many objects");
    this.objects.set(this.last, v);
    this.numbers.set(v, this.last);
    return this.last;
  }

  // lend gives something of ours a number that the other side may follow.
  lend(v) {
    const number = this.own(v);
    this.ours.add(number);
    return number;
  }

  container(v, tag, kind, contents, depth) {
    const number = this.own(v);
    const frozen = Object.isFrozen(v) || this.keeps(v);
    if (!frozen) this.shared.set(number, { o: v, kind, before: contents });
    const extra = tag === "L" ? Object.keys(v).slice(contents.filter((x) => x !== HOLE).length) : [];
    const named = extra.flatMap((key) => [key, this.encode(v[key], depth + 1)]);
    return { [tag]: [number, this.items(contents, depth + 1), frozen ? 1 : 0, ...named.length ? [named] : []] };
  }

  bytes(v, name) {
    const number = this.own(v);
    const kind = { read: () => [view(v).toString("base64")] };
    this.shared.set(number, { o: v, kind, before: kind.read() });
    return { B: [number, name, view(v).toString("base64")] };
  }

  promise(v) {
    v.catch(() => {}); // the other side says whether somebody handles it
    return { p: this.lend(v) };
  }

  // error describes an exception: its prototype, message, trace, own properties and cause.
  error(e, depth) {
    const number = this.lend(e);
    const own = [];
    for (const key of Reflect.ownKeys(e)) {
      const d = Object.getOwnPropertyDescriptor(e, key);
      if (["message", "stack", "cause"].includes(key) || !("value" in d)) continue;
      own.push(this.encode(key, depth + 1), this.encode(d.value, depth + 1), d.enumerable);
    }
    const text = (key) => {
      const d = Object.getOwnPropertyDescriptor(e, key);
      return typeof d?.value === "string" ? d.value.slice(0, 1 << 16).toWellFormed() : null;
    };
    const cause = Object.hasOwn(e, "cause") ? [this.encode(e.cause, depth + 1)] : [];
    return { E: [number, this.proto(e, depth + 1).ref, text("message"), text("stack") ?? String(e.stack ?? "").slice(0, 4096).toWellFormed(), own, ...cause] };
  }

  // proto describes what an object is derived from: a class, or nothing, and the methods that it has on the way there.
  proto(v, depth) {
    const methods = [];
    let p = Object.getPrototypeOf(v);
    for (let steps = 0; p !== null && steps < 50; steps++, p = Object.getPrototypeOf(p)) {
      const c = Object.getOwnPropertyDescriptor(p, "constructor")?.value;
      if (typeof c === "function" && Object.getOwnPropertyDescriptor(c, "prototype")?.value === p) {
        const ref = this.encode(c, depth);
        return { ref: "h" in ref ? { g: "Object" } : ref, methods };
      }
      methods.push(...methodsOf(p));
    }
    return { ref: p === null && Object.getPrototypeOf(v) === null ? null : { g: "Object" }, methods };
  }

  handle(v, depth) {
    const number = this.lend(v);
    if (types.isProxy(v)) return { h: [number, { g: "Object" }, []] };
    const { ref, methods } = this.proto(v, depth + 1);
    return { h: [number, ref, this.items(methods.filter((m) => !Object.hasOwn(v, m)))] };
  }

  // function describes a function or class: name, parameters, whether it is a function (0), one that can construct (1)
  // or a class (2), the class above it, and its methods.
  function(f, depth) {
    const number = this.lend(f);
    const own = (key) => types.isProxy(f) ? undefined : Object.getOwnPropertyDescriptor(f, key)?.value;
    const prototype = own("prototype");
    const constructs = prototype !== null && typeof prototype === "object" && Object.getOwnPropertyDescriptor(prototype, "constructor")?.value === f;
    const kind = !constructs ? 0 : Object.getOwnPropertyDescriptor(f, "prototype").writable ? 1 : 2;
    const above = constructs ? Object.getPrototypeOf(prototype) : null;
    const parent = above && Object.getOwnPropertyDescriptor(above, "constructor")?.value;
    const ref = typeof parent === "function" && parent !== Object ? this.encode(parent, depth + 1) : null;
    const name = own("name"), length = own("length");
    return { F: [number, typeof name === "string" ? name.slice(0, 1000).toWellFormed() : "", Number.isSafeInteger(length) ? length : 0, kind, ref,
      constructs ? this.items(methodsOf(prototype)) : [], constructs ? this.lend(prototype) : 0] };
  }

  // changes returns what was changed in the shared containers since the other side was last told.
  changes() {
    const told = [];
    for (const [number, entry] of this.shared) {
      const now = entry.kind.read(entry.o);
      if (!now || now.length === entry.before.length && now.every((v, i) => Object.is(v, entry.before[i]))) continue;
      entry.before = now;
      told.push([number, this.items(now, 1)]);
    }
    return told;
  }

  // Values in.

  // decode returns a value from JSON. Whatever is wrong with it is Malformed.
  decode(v, depth = 0) {
    if (v === null || typeof v !== "object") return v;
    check(isObject(v) && depth < 2 * DEPTH, "a value of no known form");
    const tags = Object.keys(v);
    check(tags.length === 1, "a value of no known form");
    const [tag] = tags;
    const p = v[tag];
    if (Object.hasOwn(KINDS, tag)) return this.takeContainer(KINDS[tag], tag, p, depth + 1);
    switch (tag) {
      case "u": check(p === 0 || p === 1, "a wrong undefined"); return p ? HOLE : undefined;
      case "f": check(Object.hasOwn(NUMBERS, p), "a wrong number"); return NUMBERS[p];
      case "i": check(typeof p === "string" && /^-?0x[0-9a-f]+$/.test(p), "a wrong integer"); return p[0] === "-" ? -BigInt(p.slice(1)) : BigInt(p);
      case "s": check(typeof p === "string" && /^([0-9a-f]{2})*$/.test(p), "a wrong text"); return unspelled(p);
      case "y": return this.takeSymbol(p);
      case "k": check(Number.isSafeInteger(p) && this.objects.has(p), "a number of nothing"); return this.known(p);
      case "g": return this.takeNamed(p);
      case "R": return this.takeRegExp(p);
      case "B": return this.takeBytes(p);
      case "A": check(Array.isArray(p) && typeof p[1] === "string", "wrong bytes"); return this.keep(p[0], Uint8Array.from(Buffer.from(p[1], "base64")).buffer);
      case "p": return this.takePromise(p);
      case "E": return this.takeError(p, depth + 1);
      case "F": return this.takeFunction(p, depth + 1);
      case "h": return this.takeHandle(p, depth + 1);
    }
    throw new Malformed("a value of no known kind");
  }

  // known returns what a number stands for when the other side has sent it.
  known(number) {
    return this.objects.get(number);
  }

  // keeps reports whether the other side must not change something of ours.
  keeps() {
    return false;
  }

  values(list, depth = 0) {
    check(Array.isArray(list), "no list");
    return list.map((v) => this.decode(v, depth));
  }

  // keep remembers what the other side has numbered.
  keep(number, v) {
    check(Number.isSafeInteger(number) && number > 0 && Math.abs(number - this.last) % 2 === 1 && !this.objects.has(number), "a wrong number");
    check(this.objects.size <= MOST, "too many objects");
    this.objects.set(number, v);
    this.numbers.set(v, number);
    return v;
  }

  takeNamed(name) {
    check(CLASSES.has(name), "a wrong name");
    return CLASSES.get(name);
  }

  takeSymbol(p) {
    if (typeof p === "string") {
      const found = [...SYMBOLS].find(([, name]) => name === p);
      check(found, "a wrong symbol");
      return found[0];
    }
    check(Array.isArray(p) && p.length === 2 && (p[1] === null || typeof p[1] === "string"), "a wrong symbol");
    return p[0] === "for" ? Symbol.for(String(p[1])) : this.keep(p[0], Symbol(p[1] ?? undefined));
  }

  takeRegExp(p) {
    check(Array.isArray(p) && typeof p[0] === "string" && typeof p[1] === "string", "a wrong expression");
    try {
      return new RegExp(p[0], p[1]);
    } catch {
      throw new Malformed("a wrong expression");
    }
  }

  takeBytes(p) {
    check(Array.isArray(p) && ARRAYS.includes(p[1]) && typeof p[2] === "string", "wrong bytes");
    const bytes = Buffer.from(p[2], "base64");
    const v = p[1] === "Buffer" ? Buffer.from(bytes)
      : Reflect.construct(CLASSES.get(p[1]), [Uint8Array.from(bytes.subarray(0, bytes.length - bytes.length % CLASSES.get(p[1]).BYTES_PER_ELEMENT)).buffer]);
    this.keep(p[0], v);
    const kind = { read: () => [view(v).toString("base64")], fill: (o, [text]) => view(o).set(Buffer.from(String(text), "base64").subarray(0, o.byteLength)) };
    this.shared.set(p[0], { o: v, kind, before: kind.read() });
    return v;
  }

  takeContainer(kind, tag, p, depth) {
    check(Array.isArray(p) && p.length >= 2, "a wrong container");
    const v = this.keep(p[0], kind.make());
    const entry = { o: v, kind, before: [] };
    this.shared.set(p[0], entry);
    this.refill(entry, p[1], depth);
    if (p[3] !== undefined) {
      const named = this.values(p[3], depth);
      check(named.length % 2 === 0, "a key without a value");
      this.sift(named, v);
      for (let i = 0; i + 1 < named.length; i += 2) if (typeof named[i] === "string" && named[i] !== "length") define(v, named[i], named[i + 1]);
    }
    if (p[2] === 1 && tag !== "T") {
      this.shared.delete(p[0]);
      Object.freeze(v);
    }
    return v;
  }

  // refill puts the other side's contents into a shared container.
  refill(entry, payload, depth = 1) {
    const contents = this.values(payload, depth);
    if (entry.kind.pairs) {
      check(contents.length % 2 === 0, "a key without a value");
      for (let i = 0; i < contents.length; i += 2) check(["string", "symbol"].includes(typeof contents[i]), "a wrong key");
      this.sift(contents, entry.o);
    }
    entry.kind.fill(entry.o, contents);
    entry.before = entry.kind.read(entry.o) ?? [];
  }

  // sift removes what must not become a property of o from [key, value, …].
  sift() {}

  takeChanges(list) {
    check(Array.isArray(list), "no list of changes");
    for (const change of list) {
      check(Array.isArray(change) && change.length === 2, "a wrong change");
      const entry = this.shared.get(change[0]);
      check(entry, "a change of what is not shared");
      if (entry.kind.fill) this.refill(entry, change[1]);
      else view(entry.o).set(Buffer.from(String(change[1]?.[0]), "base64").subarray(0, entry.o.byteLength));
      entry.before = entry.kind.read(entry.o) ?? entry.before;
    }
  }

  takePromise(number) {
    const promise = this.keep(number, new Promise((resolve, reject) => {
      queueMicrotask(() => this.later("await", () => [{ k: number }], resolve, reject));
    }));
    return promise;
  }

  // base returns what a class gives its instances: their prototype and the names of their methods. A class of the
  // library gives its prototype only if nobody takes an object for plain data because of it.
  base(c) {
    if (c === null) return { proto: null, methods: new Set() };
    check(typeof c === "function", "an object of no class");
    const entry = this.remotes.get(c);
    if (!entry) return { proto: BASES.has(NAMES.get(c)) ? c.prototype : Object.prototype, methods: new Set(builtinMethods(c.prototype)) };
    check(entry.prototype, "a class without instances");
    return { proto: entry.prototype, methods: this.remotes.get(entry.prototype).methods };
  }

  takeError(p, depth) {
    check(Array.isArray(p) && p.length >= 5 && Array.isArray(p[4]), "a wrong exception");
    const [number, ref, message, stack, own, ...cause] = p;
    const e = new Error();
    this.keep(number, e);
    delete e.stack;
    define(e, "stack", typeof stack === "string" ? stack : "", false);
    if (typeof message === "string") define(e, "message", message, false);
    Object.setPrototypeOf(e, this.base(this.decode(ref, depth)).proto);
    const pairs = [];
    for (let i = 0; i + 2 < own.length; i += 3) pairs.push([this.decode(own[i], depth), this.decode(own[i + 1], depth), own[i + 2] === true]);
    for (const [key, value, enumerable] of pairs) {
      check(["string", "symbol"].includes(typeof key), "a wrong key");
      const flat = [key, value];
      this.sift(flat, e);
      if (flat.length > 0 && key !== "stack" && key !== "message") define(e, key, value, enumerable);
    }
    if (cause.length > 0) define(e, "cause", this.decode(cause[0], depth), false);
    return e;
  }

  takeFunction(p, depth) {
    check(Array.isArray(p) && p.length === 7 && typeof p[1] === "string" && Number.isSafeInteger(p[2]) && [0, 1, 2].includes(p[3]), "a wrong function");
    const [number, name, length, kind, above, methods, prototype] = p;
    const target = kind === 0 ? () => {} : function () {};
    Object.defineProperty(target, "name", { value: name, configurable: true });
    Object.defineProperty(target, "length", { value: length, configurable: true });
    const f = this.keep(number, new Proxy(target, this.functionTraps(number, target)));
    const entry = { number, prototype: undefined, methods: new Set() };
    this.remotes.set(f, entry);
    if (kind !== 0) {
      const base = this.base(above === null ? Object : this.decode(above, depth));
      entry.prototype = this.object(prototype, base.proto, this.methods(methods, base.methods));
      define(this.remotes.get(entry.prototype).target, "constructor", f, false);
      this.remotes.get(entry.prototype).class = true;
      target.prototype = entry.prototype;
    }
    return f;
  }

  // methods adds the names in a list to those of the class above.
  methods(list, above) {
    const all = new Set(above);
    for (const name of this.values(list)) {
      check(["string", "symbol"].includes(typeof name) && all.size < 10000, "a wrong method");
      if (name !== "constructor" && name !== "__proto__") all.add(name);
    }
    return all;
  }

  takeHandle(p, depth) {
    check(Array.isArray(p) && p.length === 3, "a wrong object");
    const { proto, methods } = this.base(this.decode(p[1], depth));
    return this.object(p[0], proto, p[2]?.length === 0 ? methods : this.methods(p[2], methods));
  }

  // object returns a proxy for an object of the other side.
  object(number, proto, methods) {
    const target = Object.create(proto);
    const o = this.keep(number, new Proxy(target, this.objectTraps(number, target)));
    this.remotes.set(o, { number, methods, target, stubs: new Map() });
    return o;
  }
}

// methodsOf returns the names of the methods that a prototype has itself.
function methodsOf(proto) {
  if (proto === Object.prototype || types.isProxy(proto)) return [];
  return Reflect.ownKeys(proto).filter((key) => key !== "constructor" && key !== "__proto__" &&
    typeof Object.getOwnPropertyDescriptor(proto, key).value === "function" && (typeof key === "string" || SYMBOLS.has(key)));
}

// builtinMethods returns the names of the methods that a class of the library gives its instances.
function builtinMethods(proto) {
  const all = [];
  for (let p = proto; p !== null && p !== Object.prototype; p = Object.getPrototypeOf(p)) all.push(...methodsOf(p));
  return all;
}

// spelled returns a text with lone surrogates as hexadecimal UTF-8, in which each of them has its three bytes.
function spelled(text) {
  let hex = "";
  for (const c of text) {
    const code = c.codePointAt(0);
    hex += code >= 0xd800 && code < 0xe000 ? Buffer.from([0xe0 | code >> 12, 0x80 | code >> 6 & 63, 0x80 | code & 63]).toString("hex") : Buffer.from(c).toString("hex");
  }
  return hex;
}

function unspelled(hex) {
  const bytes = Buffer.from(hex, "hex");
  let text = "";
  let from = 0;
  for (let i = 0; i + 2 < bytes.length; i++) {
    if (bytes[i] !== 0xed || bytes[i + 1] < 0xa0) continue;
    text += bytes.toString("utf8", from, i) + String.fromCharCode((bytes[i] & 15) << 12 | (bytes[i + 1] & 63) << 6 | bytes[i + 2] & 63);
    i += 2;
    from = i + 1;
  }
  return text + bytes.toString("utf8", from);
}

module.exports = { CLASSES, Codec, HOLE, SYMBOLS, check, className, define, entries, isObject, methodsOf };
