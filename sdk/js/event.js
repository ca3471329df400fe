'use strict';

const { randomUUID } = require('node:crypto');

// The members that events of a type have, next to id, type, agentId and timestamp.
const members = {
  'agent.started': ['workUnitId', 'tokens'],
  'agent.completed': ['workUnitId', 'tokens', 'success', 'trigger'],
  'agent.failed': ['error'],
  'agent.idle': [],
  'agent.state': ['state'],
  'agent.heartbeat': [],
};
const states = ['working', 'idle', 'sleeping'];
const triggers = ['git.commit', 'git.bugfix', 'git.pr', 'git.release'];

// Limits of an event, in bytes.
const maxEvent = 16 << 10;
const maxError = 4096;

function invalid(member, problem) {
  return new TypeError(`nook event: ${member}: ${problem}`);
}

function text(member, value, most) {
  if (typeof value !== 'string') throw invalid(member, 'not a string');
  if (value === '') throw invalid(member, 'empty');
  if (Buffer.byteLength(value) > most) throw invalid(member, `more than ${most} bytes`);
  if (/\p{Cc}/u.test(value) || !value.isWellFormed()) throw invalid(member, 'not printable');
  return value;
}

function integer(member, value, least) {
  if (!Number.isSafeInteger(value) || value < least) throw invalid(member, `not an integer of at least ${least}`);
  return value;
}

function oneOf(member, value, all) {
  if (!all.includes(value)) throw invalid(member, `not one of ${all.join(', ')}`);
  return value;
}

// shortened cuts a text so that it fits, without cutting a character.
function shortened(value, most) {
  if (typeof value !== 'string') throw invalid('error', 'not a string');
  value = value.toWellFormed();
  if (Buffer.byteLength(value) <= most) return value;
  return Buffer.from(value).subarray(0, most).toString().replace(/\uFFFD+$/, '');
}

const readers = {
  id: (v) => {
    if (typeof v !== 'string' || !/^[ -~]{1,128}$/.test(v)) throw invalid('id', 'not 1 to 128 printable ASCII characters');
    return v;
  },
  agentId: (v) => text('agentId', v, 128),
  workUnitId: (v) => text('workUnitId', v, 256),
  tokens: (v) => {
    if (integer('tokens', v, 0) > 1e12) throw invalid('tokens', 'more than 1000000000000');
    return v;
  },
  state: (v) => oneOf('state', v, states),
  success: (v) => oneOf('success', v, [true, false]),
  error: (v) => shortened(v, maxError),
  trigger: (v) => oneOf('trigger', v, triggers),
  timestamp: (v) => integer('timestamp', v, 1),
};

// complete checks an event as a node does, and returns a copy with an id, an agent and a time.
function complete(event, agentId, now) {
  if (event === null || typeof event !== 'object') throw new TypeError('nook event: not an object');
  const allowed = Object.hasOwn(members, event.type) ? members[event.type] : undefined;
  if (!allowed) throw invalid('type', `unknown type ${JSON.stringify(event.type)}`);
  const whole = { id: randomUUID(), type: event.type, agentId, timestamp: now };
  for (const [name, value] of Object.entries(event)) {
    if (name === 'type' || value === undefined) continue;
    if (!['id', 'agentId', 'timestamp', ...allowed].includes(name)) throw invalid(name, `${event.type} events do not have this member`);
    whole[name] = readers[name](value);
  }
  readers.agentId(whole.agentId);
  if (event.type === 'agent.state' && whole.state === undefined) throw invalid('state', 'missing');
  if (whole.trigger && whole.tokens) throw invalid('tokens', 'an event with a trigger has no tokens');
  if (Buffer.byteLength(JSON.stringify(whole)) > maxEvent) throw new TypeError(`nook event: more than ${maxEvent} bytes`);
  return whole;
}

module.exports = { complete };
