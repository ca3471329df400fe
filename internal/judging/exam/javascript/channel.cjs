// The socket between the examiner and the subject of a split examination: frames of a length in four bytes and a JSON
// array, as docs/adr/0031 has them.
//
// A thread of its own reads and writes the socket. So the main thread can block until an answer comes (Atomics.wait),
// and can also receive what comes while it is idle, such as an answer to a promise.
"use strict";
const fs = require("node:fs");
const { setImmediate } = require("node:timers");
const { MessageChannel, Worker, receiveMessageOnPort } = require("node:worker_threads");

const FRAME = 16 << 20; // bytes of one frame
const DEPTH = 100; // requests within requests
const REQUEST = 0, ANSWER = 1, RAISED = 2;
const MARKS = 2 ** 40; // numbers of requests for the judge alone begin after it
const NOBODY = -1; // the thread of a request that nobody waits for
const ENDED = 3; // from the judge, in the place of an answer: what this run of a test finds does not count

// Gone is thrown when the other side has ended or broke the protocol.
class Gone extends Error {}

// Malformed is a frame or a value that the protocol does not allow.
class Malformed extends Error {}

// Deep is a value that is too large to be sent.
class Deep extends Error {}

const PUMP = `
const { workerData: { descriptor, port, count, largest, most } } = require("node:worker_threads");
const socket = new (require("node:net").Socket)({ fd: descriptor });
const text = new TextDecoder("utf-8", { fatal: true });
let parts = [], have = 0, want = 4, head = true, left = most;
function post(message) {
  port.postMessage(message);
  Atomics.add(count, 0, 1);
  Atomics.notify(count, 0);
}
function end(why) {
  end = () => {};
  post({ closed: why });
  socket.destroy();
}
function take() {
  const all = parts.length === 1 ? parts[0] : Buffer.concat(parts, have);
  const taken = all.subarray(0, want);
  parts = [all.subarray(want)];
  have -= want;
  return taken;
}
socket.on("data", (data) => {
  parts.push(data);
  have += data.length;
  try {
    while (have >= want && left >= 0) {
      const taken = take();
      if (head) {
        want = taken.readUInt32BE(0);
        left -= want;
        if (want > largest || left < 0) return end("the protocol was broken: a message of " + want + " bytes");
      } else {
        post(text.decode(taken));
        want = 4;
      }
      head = !head;
    }
  } catch (e) {
    end("the protocol was broken: a message that is not text");
  }
});
socket.on("error", () => end("the connection was closed"));
socket.on("close", () => end("the connection was closed"));
port.on("message", (frame) => {
  const body = Buffer.from(frame);
  const size = Buffer.alloc(4);
  size.writeUInt32BE(body.length);
  socket.write(size);
  socket.write(body);
});
`;

// Channel is one end of the socket. serve answers a request. busy reports whether a request that nobody there waits for
// must be left until this side is idle. most limits the bytes that may arrive in all.
class Channel {
  constructor(descriptor, { serve, busy, take, most = 256 << 20 }) {
    this.serve = serve;
    this.busy = busy;
    this.takeExtra = take; // receives a frame before its waiter does
    this.count = new Int32Array(new SharedArrayBuffer(4)); // messages that the thread has posted
    this.received = 0;
    this.last = 0; // number of the last request
    this.waiters = new Map(); // number → what to do with the answer; undefined while somebody blocks for it
    this.answers = new Map();
    this.later = []; // requests that wait until this side is idle
    this.waiting = 0; // how many blocking requests are under way
    this.closed = "";
    this.heard = 0; // number of the other side's last request
    this.open(descriptor, most);
  }

  // open starts the thread.
  open(descriptor, most) {
    const { port1, port2 } = new MessageChannel();
    this.port = port1;
    const worker = new Worker(PUMP, {
      eval: true, execArgv: [], env: {}, transferList: [port2],
      workerData: { descriptor, port: port2, count: this.count, largest: FRAME, most },
    });
    worker.on("error", (e) => this.close("the connection was closed: " + e.message));
    worker.unref();
    port1.on("message", (message) => {
      this.received++;
      this.arrived(message);
    });
    port1.unref();
  }

  // send writes one frame.
  send(frame) {
    const text = JSON.stringify(frame);
    if (text.length > FRAME / 3 && Buffer.byteLength(text) > FRAME) throw new Deep("too much for one message");
    this.port.postMessage(text);
  }

  // number returns the number of a new request. With a waiter, the answer is given to it when it comes.
  number(waiter) {
    if (this.closed) throw new Gone(this.closed);
    this.waiters.set(++this.last, waiter);
    return this.last;
  }

  // mark asks the judge alone, and blocks until it answers. The other side never learns of it, nor misses its number.
  mark(op, args) {
    if (this.closed) throw new Gone(this.closed);
    const number = this.marked = (this.marked ?? MARKS) + 1;
    this.waiters.set(number, undefined);
    this.send([REQUEST, number, 0, op, args, {}]);
    return this.wait(number).value;
  }

  // wait blocks until the answer to a request is there.
  wait(number) {
    this.waiting++;
    try {
      for (;;) {
        const answer = this.answers.get(number);
        if (answer) {
          this.answers.delete(number);
          return answer;
        }
        if (this.closed) throw new Gone(this.closed);
        this.block();
      }
    } finally {
      if (--this.waiting === 0 && this.later.length > 0) setImmediate(() => this.idle());
    }
  }

  // block waits for one message.
  block() {
    for (;;) {
      const m = receiveMessageOnPort(this.port);
      if (m) {
        this.received++;
        return this.arrived(m.message);
      }
      Atomics.wait(this.count, 0, this.received);
    }
  }

  // idle serves what had to wait.
  idle() {
    while (this.waiting === 0 && this.later.length > 0) this.serve(this.later.shift());
  }

  // arrived handles one message of the thread.
  arrived(message) {
    if (this.closed) return;
    if (typeof message !== "string") return this.close(message.closed);
    let frame;
    try {
      frame = parse(message);
      if (frame[0] === REQUEST) this.request(frame);
      else this.answer(frame);
    } catch (e) {
      if (!(e instanceof Malformed)) throw e;
      this.close("the protocol was broken: " + e.message);
    }
  }

  request(frame) {
    if (frame[1] !== this.heard + 1) throw new Malformed("a wrong number");
    this.heard++;
    if (this.waiting > DEPTH || this.later.length > 10000) throw new Malformed("too many requests");
    if (this.busy(frame)) this.later.push(frame);
    else this.serve(frame);
  }

  answer(frame) {
    if (!this.waiters.has(frame[1])) throw new Malformed("an answer to nothing that was asked");
    const waiter = this.waiters.get(frame[1]);
    this.waiters.delete(frame[1]);
    const taken = this.takeExtra(frame);
    if (waiter) waiter(taken);
    else this.answers.set(frame[1], taken);
  }

  // close makes all further requests fail.
  close(why) {
    if (this.closed) return;
    this.closed = why;
    this.onclose?.(why);
    for (const waiter of [...this.waiters.values()]) waiter?.({ gone: new Gone(why) });
    this.waiters.clear();
  }
}

// Direct is the end of a socket whose other end is the judge alone, which answers at once. So it needs no thread, and is
// faster: what comes while nobody blocks is read when this side asks whether the other is idle.
class Direct extends Channel {
  open(descriptor) {
    this.descriptor = descriptor;
    this.port = { ref() {}, unref() {} };
  }

  send(frame) {
    const body = Buffer.from(JSON.stringify(frame));
    if (body.length > FRAME) throw new Deep("too much for one message");
    const size = Buffer.alloc(4);
    size.writeUInt32BE(body.length);
    this.transfer(fs.writeSync, Buffer.concat([size, body]));
    if (frame[3] !== "idle") return;
    while (!this.closed && this.waiters.has(frame[1])) this.block();
  }

  block() {
    const head = this.transfer(fs.readSync, Buffer.alloc(4));
    const body = head && this.transfer(fs.readSync, Buffer.alloc(head.readUInt32BE(0)));
    this.arrived(body ? body.toString() : { closed: "the connection was closed" });
  }

  // transfer reads or writes all of a buffer.
  transfer(f, buffer) {
    for (let done = 0; done < buffer.length;) {
      let n = 0;
      try {
        n = f(this.descriptor, buffer, done, buffer.length - done);
      } catch {
        // the judge has ended
      }
      if (n === 0) {
        this.close("the connection was closed");
        return undefined;
      }
      done += n;
    }
    return buffer;
  }
}

// parse returns a frame of the form that every frame has.
function parse(text) {
  let frame;
  try {
    frame = JSON.parse(text);
  } catch {
    throw new Malformed("a message that is not JSON");
  }
  const object = (v) => v !== null && typeof v === "object" && !Array.isArray(v);
  const good = Array.isArray(frame) && Number.isSafeInteger(frame[1]) && (frame[0] === REQUEST
    ? frame.length === 6 && Number.isSafeInteger(frame[2]) && typeof frame[3] === "string" && Array.isArray(frame[4]) && object(frame[5])
    : [ANSWER, RAISED, ENDED].includes(frame[0]) && frame.length === 4 && object(frame[3]));
  if (!good) throw new Malformed("a message of no known form");
  return frame;
}

module.exports = { Channel, Deep, Direct, Gone, Malformed, NOBODY, ANSWER, ENDED, RAISED, REQUEST, parse };
