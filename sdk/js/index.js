'use strict';

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const { complete } = require('./event.js');
const { openSpool } = require('./spool.js');

const maxBatch = 1000; // events of one request
const maxQueue = 10_000; // events in memory; further ones are spooled at once
const maxWait = 10_000; // ms between two tries

// Failure is a request that the node did not take. A repeated one may succeed if again is true.
class Failure extends Error {
  constructor(message, { status = 0, code = '', again = false, wait = 0 } = {}) {
    super(message);
    Object.assign(this, { status, code, again, wait });
  }
}

class NookProtocol {
  #home;
  #timeout;
  #retries;
  #onError;
  #queue = [];
  #current = []; // the events of the request that is under way
  #counts = { sent: 0, spooled: 0, lost: 0 };
  #pump = null; // the promise of the loop that sends, while it runs
  #closed = false;
  #timer = null; // of the wait between two tries
  #wake = () => {}; // ends that wait
  #waiting = 0; // calls of flush

  // The clients with events that are not sent. What they have left when the process exits is spooled; a node that has taken
  // it already knows it by its id.
  static #busy = new Set();
  static {
    process.on('exit', () => {
      for (const client of NookProtocol.#busy) client.#spool([...client.#current, ...client.#queue]);
    });
  }

  constructor({ agentId, rootIdentity, home, timeout = 2000, retries = 3, onError = () => {} } = {}) {
    for (const [name, value] of Object.entries({ agentId, rootIdentity })) {
      if (typeof value !== 'string' || value === '' || Buffer.byteLength(value) > 128 || /\p{Cc}/u.test(value) || !value.isWellFormed()) {
        throw new TypeError(`NookProtocol: ${name}: not a text of 1 to 128 bytes`);
      }
    }
    this.agentId = agentId;
    this.rootIdentity = rootIdentity;
    this.#home = home ?? (process.env.NOOK_HOME || path.join(os.homedir(), '.nook'));
    this.#timeout = timeout;
    this.#retries = retries;
    this.#onError = onError;
  }

  emit(event) {
    if (this.#closed) throw new Error('NookProtocol: closed');
    const whole = complete(event, this.agentId, Date.now());
    if (this.#queue.length >= maxQueue) {
      this.#spool([whole]);
      return;
    }
    this.#queue.push(whole);
    this.#pump ??= this.#send();
  }

  async flush() {
    this.#waiting++;
    this.#timer?.ref();
    while (this.#pump) await this.#pump;
    this.#waiting--;
    return { ...this.#counts };
  }

  async close() {
    this.#closed = true;
    this.#wake();
    return this.flush();
  }

  // #send sends what is in the queue, until it is empty.
  async #send() {
    NookProtocol.#busy.add(this);
    await null; // so that events emitted together are one request
    while (this.#queue.length > 0) {
      this.#current = this.#queue.splice(0, maxBatch);
      await this.#deliver(this.#current);
      this.#current = [];
    }
    this.#pump = null;
    NookProtocol.#busy.delete(this);
  }

  // #deliver sends events in one request. If the node refuses that for its size or for an event, it sends them in halves.
  async #deliver(events) {
    const failure = await this.#try(events);
    if (!failure) {
      this.#counts.sent += events.length;
    } else if (failure.code === 'root') {
      for (const event of events) this.#lose(failure, event);
    } else if ((failure.status === 400 || failure.status === 413) && events.length > 1) {
      const half = events.length >> 1;
      await this.#deliver(events.slice(0, half));
      await this.#deliver(events.slice(half));
    } else if (failure.status === 400 || failure.status === 413) {
      this.#lose(failure, events[0]);
    } else {
      this.#spool(events);
    }
  }

  // #try posts events until the node takes them, and returns the last failure, or null.
  async #try(events) {
    for (let tries = 0; ; tries++) {
      const failure = await this.#post(events).then(() => null, (error) => error);
      if (!failure || !failure.again || tries >= this.#retries || this.#closed) return failure;
      await this.#pause(Math.min(maxWait, failure.wait || 100 * 2 ** tries * (0.5 + Math.random())));
    }
  }

  // #pause waits. That alone keeps no process alive, unless somebody waits for flush.
  #pause(ms) {
    return new Promise((resolve) => {
      this.#wake = resolve;
      this.#timer = setTimeout(resolve, ms);
      if (this.#waiting === 0) this.#timer.unref();
    }).finally(() => clearTimeout(this.#timer));
  }

  async #post(events) {
    let url, token;
    try {
      url = new URL('/api/nook/events', this.#read('url'));
      url.searchParams.set('root', this.rootIdentity);
      token = this.#read('token');
    } catch (error) {
      throw new Failure(`no node: ${error.message}`);
    }
    let response, answer;
    try {
      response = await fetch(url, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify(events),
        redirect: 'error',
        signal: AbortSignal.timeout(this.#timeout),
      });
      answer = await response.text();
    } catch (error) {
      throw new Failure(error.cause?.message ?? error.message, { again: error.cause?.code !== 'ECONNREFUSED' });
    }
    if (response.ok) return;
    const { status } = response;
    const { error, code } = problemOf(answer);
    throw new Failure(error || `status ${status}`, {
      status,
      code,
      again: status === 401 || status === 429 || status >= 500, // a node that starts again has a new token
      wait: 1000 * (Number(response.headers.get('retry-after')) || 0),
    });
  }

  #read(name) {
    return fs.readFileSync(path.join(this.#home, name), 'utf8').trim();
  }

  #spool(events) {
    let put;
    try {
      put = openSpool(this.#home, this.rootIdentity);
    } catch (error) {
      put = () => {
        throw error;
      };
    }
    for (const event of events) {
      if (event.type === 'agent.heartbeat') { // says nothing later
        this.#counts.lost++;
        continue;
      }
      try {
        put(event);
        this.#counts.spooled++;
      } catch (error) {
        this.#lose(error, event);
      }
    }
  }

  #lose(error, event) {
    this.#counts.lost++;
    try {
      this.#onError(error, event);
    } catch {
      // the caller's own function must not stop the other events
    }
  }
}

// problemOf returns the error and the code of an answer in which the node explains them.
function problemOf(answer) {
  try {
    return JSON.parse(answer) ?? {};
  } catch {
    return {};
  }
}

module.exports = { NookProtocol };
