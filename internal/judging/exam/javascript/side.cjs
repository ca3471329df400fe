// What examiner and subject have in common: asking, answering, and the proxies for what the other side has.
"use strict";
const { ANSWER, Channel, Deep, ENDED, Gone, Malformed, NOBODY, RAISED, REQUEST } = require("./channel.cjs");
const { Codec, check } = require("./codec.cjs");

// OWN lists what every function has and a proxy answers itself.
const OWN = new Set(["prototype", "name", "length", "call", "apply", "bind", "toString", "constructor", "arguments", "caller", "__proto__", Symbol.hasInstance]);
const OBJECT = new Set(Reflect.ownKeys(Object.prototype));

// Side is one end of the conversation.
class Side extends Codec {
  constructor(first, connect = (handlers) => new Channel(4, handlers)) {
    super(first);
    this.depth = 0; // requests of the other side that are being served
    this.channel = connect({
      serve: (frame) => this.serve(frame), busy: (frame) => this.busy(frame), take: (frame) => this.take(frame),
    });
  }

  // Asking.

  // ask asks the other side and blocks until it answers. The arguments are built after what goes with every frame.
  ask(op, build) {
    const number = this.request(op, build, undefined, this.thread());
    const answer = this.channel.wait(number);
    if ("raised" in answer) throw answer.raised;
    return answer.value;
  }

  // later asks without waiting.
  later(op, build, resolve, reject) {
    try {
      this.request(op, build, (answer) => "value" in answer ? resolve(answer.value) : reject(answer.raised ?? answer.gone), NOBODY);
    } catch (e) {
      reject(e);
    }
  }

  request(op, build, waiter, thread) {
    const before = this.last, number = this.channel.number(waiter);
    try {
      const extra = this.extra();
      this.channel.send([REQUEST, number, thread, op, build(), extra]);
      return number;
    } catch (e) {
      this.channel.waiters.delete(number);
      this.channel.last--;
      this.forget(before);
      throw e instanceof Deep || e instanceof RangeError ? this.unsupported(e.message, true) : e;
    }
  }

  // ended returns what a request throws that the judge does not answer.
  ended() {
    throw new Malformed("an end that is not for this side");
  }

  unsupported(what) {
    return new TypeError(what);
  }

  // forget takes back the numbers of a message that was not sent.
  forget(before) {
    for (; this.last > before; this.last -= 2) {
      this.numbers.delete(this.objects.get(this.last));
      this.objects.delete(this.last);
      this.shared.delete(this.last);
      this.ours.delete(this.last);
    }
  }

  extra() {
    const changes = this.changes();
    return changes.length > 0 ? { u: changes } : {};
  }

  receive(extra) {
    if ("u" in extra) this.takeChanges(extra.u);
  }

  // guarded runs a function that reads what the other side sent, and turns whatever goes wrong into Malformed.
  guarded(f) {
    try {
      return f();
    } catch (e) {
      throw e instanceof Malformed ? e : new Malformed("a value that does not fit: " + e?.name);
    }
  }

  // take reads an answer.
  take(frame) {
    return this.guarded(() => {
      if (frame[0] === ENDED) return { raised: this.ended() };
      this.receive(frame[3]);
      const value = this.decode(frame[2]);
      return frame[0] === RAISED ? { raised: value } : { value };
    });
  }

  // Answering.

  serve([, number, thread, op, args, extra]) {
    const before = this.depth;
    let value;
    this.depth = thread === NOBODY ? 0 : this.depth + 1;
    try {
      const run = this.guarded(() => {
        this.receive(extra);
        check(Object.hasOwn(this.served, op), "a request of no known kind");
        return this.served[op](...args);
      });
      value = run();
    } catch (e) {
      if (e instanceof Malformed) return this.channel.close("the protocol was broken: " + e.message);
      if (e instanceof Gone) throw e;
      return this.answer(RAISED, number, e);
    } finally {
      this.depth = before;
    }
    if (!(value instanceof Later)) return this.answer(ANSWER, number, value);
    value.promise.then((v) => this.answer(ANSWER, number, v), (e) => this.answer(RAISED, number, e));
  }

  answer(kind, number, value) {
    if (this.channel.closed) return;
    const before = this.last;
    const extra = this.extra();
    try {
      this.channel.send([kind, number, this.encode(value), extra]);
    } catch (e) {
      this.forget(before);
      this.channel.send([RAISED, number, this.encode(new RangeError("a value that cannot be sent: " + e.message)), extra]);
    }
  }

  // served lists what can be asked: op → a function that checks and decodes the arguments and returns what to run.
  get served() {
    return {
      get: (o, name) => this.reaching(o, name, (v, key) => v[key]),
      set: (o, name, value) => {
        const v = this.decode(value);
        return this.reaching(o, name, (to, key) => {
          this.change(to, key, v);
          if (!Reflect.set(Object(to), key, v)) throw new TypeError("Cannot assign to read only property " + String(key));
        });
      },
      del: (o, name) => this.reaching(o, name, (v, key) => {
        this.change(v, key);
        return Reflect.deleteProperty(v, key);
      }),
      call: (f, args, named, self) => {
        const [v, list, on] = [this.owned(f), this.values(args), this.decode(self ?? { u: 0 })];
        return () => Reflect.apply(v, on, list);
      },
      new: (f, args) => {
        const [v, list] = [this.owned(f), this.values(args)];
        return () => Reflect.construct(v, list);
      },
      method: (o, name, args) => {
        const list = this.values(args);
        return this.reaching(o, name, (v, key) => v[key](...list));
      },
      op: (operator, o, ...operands) => {
        const list = this.values(operands);
        switch (operator) {
          case "has": return this.reaching(o, operands[0], (v, key) => key in v);
          case "get": return this.reaching(o, operands[0], (v, key) => v[key]);
          case "own": return this.reaching(o, operands[0], (v, key) => Object.getOwnPropertyDescriptor(v, key)?.enumerable ?? null);
        }
        const v = this.owned(o);
        switch (operator) {
          case "keys": return () => this.keys(v);
          case "toPrimitive": return () => primitive(v, list[0]);
        }
        throw new Malformed("an operator of no known kind");
      },
      await: (o) => {
        const v = this.owned(o);
        return () => new Later(v);
      },
    };
  }

  // owned returns something of ours that the other side may follow.
  owned(o) {
    return this.decode(o);
  }

  reaching(o, name, f) {
    const v = this.owned(o), key = this.decode(name);
    check(["string", "symbol"].includes(typeof key), "a wrong key");
    return () => f(v, this.reach(v, key));
  }

  reach(v, key) {
    return key;
  }

  // change throws if the other side may not change a property of something of ours.
  change() {}

  keys(v) {
    return Reflect.ownKeys(v);
  }

  // Proxies.

  functionTraps(number, target) {
    const f = { k: number };
    const own = (key) => OWN.has(key) || Object.hasOwn(target, key);
    return {
      apply: (_, self, args) => this.ask("call", () => [f, this.items(args), {}, ...self === undefined || self === globalThis ? [] : [this.encode(self)]]),
      construct: (_, args, by) => {
        if (by !== this.objects.get(number)) throw this.unsupported("a class derived from a class of the other side");
        const made = this.ask("new", () => [f, this.items(args)]);
        return made;
      },
      get: (_, key, receiver) => own(key) ? Reflect.get(target, key, receiver) : this.read(number, key),
      has: (_, key) => own(key) || this.hasKey(number, key),
      ...this.writing(number, target, own),
    };
  }

  objectTraps(number, target) {
    return {
      get: (_, key, receiver) => {
        const entry = this.remotes.get(this.objects.get(number));
        if (key === "constructor") return Reflect.get(target, key, receiver);
        if (OBJECT.has(key) && !entry.methods.has(key)) return Reflect.get(target, key, receiver);
        if (entry.methods.has(key)) return this.stub(entry, key);
        const inherited = receiver !== this.objects.get(number); // an exception here, which has its own properties
        if (inherited && key === Symbol.toPrimitive) return undefined;
        const known = inherited && this.numbers.get(receiver);
        return this.read(known || number, key);
      },
      has: (_, key) => OBJECT.has(key) || this.hasKey(number, key),
      ownKeys: () => this.listed(number),
      setPrototypeOf: () => false,
      preventExtensions: () => false,
      ...this.writing(number, target, () => false),
    };
  }

  // writing returns the traps for what a property is set to.
  writing(number, target, own) {
    const o = { k: number };
    const set = (key, value) => {
      const entry = this.remotes.get(this.objects.get(number));
      if (entry.methods.has(key)) entry.methods = new Set([...entry.methods].filter((m) => m !== key));
      this.ask("set", () => [o, this.encode(key), this.encode(value)]);
      return true;
    };
    return {
      set: (_, key, value) => set(key, value),
      defineProperty: (_, key, d) => {
        if (!("value" in d)) throw this.unsupported("an accessor that a test gives an object of the other side");
        return set(key, d.value);
      },
      deleteProperty: (_, key) => this.ask("del", () => [o, this.encode(key)]),
      getOwnPropertyDescriptor: (_, key) => {
        if (own(key)) return Reflect.getOwnPropertyDescriptor(target, key);
        const enumerable = this.ask("op", () => ["own", o, this.encode(key)]);
        if (enumerable === null || typeof enumerable !== "boolean") return undefined;
        return { value: this.objects.get(number)[key], enumerable, writable: true, configurable: true };
      },
    };
  }

  hasKey(number, key) {
    return Boolean(this.ask("op", () => ["has", { k: number }, this.encode(key)]));
  }

  // listed returns the keys of an object of the other side.
  listed(number) {
    const keys = this.ask("op", () => ["keys", { k: number }]);
    if (!Array.isArray(keys)) return [];
    return [...new Set(keys.filter((key) => ["string", "symbol"].includes(typeof key)))];
  }

  // stub returns the function that stands for a method of an object. Called on nothing, it is the method as a function.
  stub(entry, key) {
    let f = entry.stubs.get(key);
    if (!f) {
      const side = this, name = typeof key === "symbol" ? key : String(key);
      f = { [name](...args) {
        if (this === undefined || this === globalThis) return side.ask("get", () => [{ k: entry.number }, side.encode(key)])(...args);
        return side.ask("method", () => [side.encode(this), side.encode(key), side.items(args), {}]);
      } }[name];
      entry.stubs.set(key, f);
    }
    return f;
  }

  // read asks for a property.
  read(number, key) {
    if (key === Symbol.toPrimitive) return (hint) => this.ask("op", () => ["toPrimitive", { k: number }, String(hint)]);
    return this.ask("get", () => [{ k: number }, this.encode(key)]);
  }
}

// Later is an answer that comes when a promise settles.
class Later {
  constructor(promise) {
    this.promise = Promise.resolve(promise);
  }
}

// primitive converts an object as the language does.
function primitive(v, hint) {
  const own = v[Symbol.toPrimitive];
  if (own !== undefined && own !== null) return own.call(v, hint);
  for (const name of hint === "string" ? ["toString", "valueOf"] : ["valueOf", "toString"]) {
    if (typeof v[name] !== "function") continue;
    const found = v[name]();
    if (found === null || typeof found !== "object" && typeof found !== "function") return found;
  }
  throw new TypeError("Cannot convert object to primitive value");
}

module.exports = { Later, Side };
