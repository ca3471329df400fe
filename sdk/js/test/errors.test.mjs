// What the client does when the node does not answer as it should, on a server that plays the errors.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';

import { NookProtocol } from '@nook/protocol';

const options = { agentId: 'a', rootIdentity: 'r' };

function newHome() {
  return mkdtempSync(path.join(tmpdir(), 'nook-'));
}

function spooled(home) {
  try {
    return readdirSync(path.join(home, 'spool')).map((name) => {
      const { rootIdentity, event } = JSON.parse(readFileSync(path.join(home, 'spool', name)));
      assert.equal(rootIdentity, options.rootIdentity);
      return event;
    });
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    return [];
  }
}

// server answers each request by the next of the given functions, and by the last one from then on. It keeps the requests.
async function server(t, ...answers) {
  const home = newHome();
  const seen = [];
  const http = createServer((request, response) => {
    let body = '';
    request.on('data', (part) => (body += part));
    request.on('end', () => {
      const events = JSON.parse(body);
      seen.push({ url: request.url, method: request.method, token: request.headers.authorization, events });
      const answer = answers.length > 1 ? answers.shift() : answers[0];
      answer(response, events);
    });
  });
  await new Promise((resolve) => http.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    http.closeAllConnections();
    http.close();
  });
  writeFileSync(path.join(home, 'url'), `http://127.0.0.1:${http.address().port}\n`);
  writeFileSync(path.join(home, 'token'), 'secret\n');
  return { home, seen };
}

const says = (status, headers = {}) => (response) => response.writeHead(status, headers).end(JSON.stringify({ error: `status ${status}`, code: 'x' }));
const takes = (response, events) => response.writeHead(200).end(JSON.stringify({ accepted: events.length, duplicates: 0 }));
const hangs = () => {};

test('events emitted together are one request with the token', async (t) => {
  const { home, seen } = await server(t, takes);
  const nook = new NookProtocol({ ...options, home });
  nook.emit({ type: 'agent.started' });
  nook.emit({ type: 'agent.idle', agentId: 'b' });
  assert.deepEqual(await nook.flush(), { sent: 2, spooled: 0, lost: 0 });
  assert.equal(seen.length, 1);
  assert.equal(`${seen[0].method} ${seen[0].url} ${seen[0].token}`, 'POST /api/nook/events?root=r Bearer secret');
  assert.deepEqual(seen[0].events.map((e) => e.agentId), ['a', 'b']);
});

for (const [name, answer] of Object.entries({ 'an old token': says(401), 'too many requests': says(429), 'a broken node': says(503) })) {
  test(`${name}: repeated, and sent once the node takes it`, async (t) => {
    const { home, seen } = await server(t, answer, answer, takes);
    const nook = new NookProtocol({ ...options, home });
    nook.emit({ type: 'agent.idle' });
    assert.deepEqual(await nook.flush(), { sent: 1, spooled: 0, lost: 0 });
    assert.equal(seen.length, 3);
    assert.equal(new Set(seen.map((r) => r.events[0].id)).size, 1, 'every try has the same id');
  });

  test(`${name}: spooled when the tries are used up`, async (t) => {
    const { home, seen } = await server(t, answer);
    const nook = new NookProtocol({ ...options, home, retries: 1 });
    nook.emit({ type: 'agent.idle' });
    assert.deepEqual(await nook.flush(), { sent: 0, spooled: 1, lost: 0 });
    assert.equal(seen.length, 2);
    assert.equal(spooled(home)[0].id, seen[0].events[0].id);
  });
}

test('Retry-After is waited for', async (t) => {
  const { home } = await server(t, says(429, { 'retry-after': '1' }), takes);
  const nook = new NookProtocol({ ...options, home });
  const began = performance.now();
  nook.emit({ type: 'agent.idle' });
  assert.equal((await nook.flush()).sent, 1);
  assert.ok(performance.now() - began >= 990);
});

test('a node that hangs gets its time and no more', async (t) => {
  const { home, seen } = await server(t, hangs);
  const nook = new NookProtocol({ ...options, home, timeout: 100, retries: 1 });
  nook.emit({ type: 'agent.idle' });
  assert.deepEqual(await nook.flush(), { sent: 0, spooled: 1, lost: 0 });
  assert.equal(seen.length, 2);
});

test('close does not repeat what fails', async (t) => {
  const { home, seen } = await server(t, says(429, { 'retry-after': '9' }));
  const nook = new NookProtocol({ ...options, home });
  nook.emit({ type: 'agent.idle' });
  const began = performance.now();
  while (seen.length === 0) await new Promise(setImmediate);
  assert.deepEqual(await nook.close(), { sent: 0, spooled: 1, lost: 0 });
  assert.ok(performance.now() - began < 5000);
  assert.throws(() => nook.emit({ type: 'agent.idle' }), /closed/);
});

test('a refused event is told and stops no other', async (t) => {
  const { home } = await server(t, (response, events) => (events.some((e) => e.workUnitId === 'bad') ? says(400) : takes)(response, events));
  const told = [];
  const nook = new NookProtocol({ ...options, home, onError: (error, event) => told.push(`${error.message} ${event.workUnitId}`) });
  for (const workUnitId of ['1', '2', 'bad', '3', '4']) nook.emit({ type: 'agent.started', workUnitId });
  assert.deepEqual(await nook.flush(), { sent: 4, spooled: 0, lost: 1 });
  assert.deepEqual(told, ['status 400 bad']);
  assert.deepEqual(spooled(home), []);
});

test('a root that the node refuses is refused once', async (t) => {
  const { home, seen } = await server(t, (response) => response.writeHead(400).end(JSON.stringify({ error: 'without a claim', code: 'root' })));
  const told = [];
  const nook = new NookProtocol({ agentId: 'a', rootIdentity: 'npub1 &x', home, onError: (error) => told.push(error.message) });
  for (let i = 0; i < 20; i++) nook.emit({ type: 'agent.idle' });
  assert.deepEqual(await nook.flush(), { sent: 0, spooled: 0, lost: 20 });
  assert.equal(seen.length, 1);
  assert.equal(new URL(seen[0].url, 'http://x').searchParams.get('root'), 'npub1 &x');
  assert.deepEqual(new Set(told), new Set(['without a claim']));
});

test('a request that is too large is halved', async (t) => {
  const { home } = await server(t, (response, events) => (events.length > 3 ? says(413) : takes)(response, events));
  const nook = new NookProtocol({ ...options, home });
  for (let i = 0; i < 20; i++) nook.emit({ type: 'agent.idle' });
  assert.deepEqual(await nook.flush(), { sent: 20, spooled: 0, lost: 0 });
});

test('a redirect does not get the token', async (t) => {
  const other = await server(t, takes);
  const target = readFileSync(path.join(other.home, 'url'), 'utf8').trim();
  const { home } = await server(t, says(307, { location: `${target}/api/nook/events` }));
  const nook = new NookProtocol({ ...options, home, retries: 0 });
  nook.emit({ type: 'agent.idle' });
  assert.deepEqual(await nook.flush(), { sent: 0, spooled: 1, lost: 0 });
  assert.equal(other.seen.length, 0);
});

test('a node that is gone is not waited for', async () => {
  const home = newHome();
  writeFileSync(path.join(home, 'url'), 'http://127.0.0.1:1');
  writeFileSync(path.join(home, 'token'), 'secret');
  const nook = new NookProtocol({ ...options, home });
  nook.emit({ type: 'agent.idle' });
  nook.emit({ type: 'agent.heartbeat' });
  assert.deepEqual(await nook.flush(), { sent: 0, spooled: 1, lost: 1 });
});

test('what is left when the process exits is spooled', async (t) => {
  for (const [name, script] of Object.entries({
    'process.exit': "nook.emit({ type: 'agent.idle' }); process.exit(0)",
    'an exception': "nook.emit({ type: 'agent.idle' }); setImmediate(() => { throw new Error('x') })",
    'the end of a program during a pause': "nook.emit({ type: 'agent.idle' })",
  })) {
    const home = newHome();
    const code = `import { createServer } from 'node:http';
      import { writeFileSync } from 'node:fs';
      import { NookProtocol } from '@nook/protocol';
      const http = createServer((q, r) => { r.writeHead(429, { 'retry-after': '60', connection: 'close' }).end(); http.close(); });
      await new Promise((resolve) => http.listen(0, '127.0.0.1', resolve));
      writeFileSync(process.env.NOOK_HOME + '/url', 'http://127.0.0.1:' + http.address().port);
      writeFileSync(process.env.NOOK_HOME + '/token', 't');
      const nook = new NookProtocol({ agentId: 'a', rootIdentity: 'r' });
      ${script}`;
    const child = spawnSync(process.execPath, ['--input-type=module', '-e', code], {
      cwd: import.meta.dirname, env: { ...process.env, NOOK_HOME: home }, timeout: 30_000, encoding: 'utf8',
    });
    assert.equal(child.signal, null, name);
    assert.equal(spooled(home).length, 1, `${name}: ${child.stderr}`);
  }
});

test('a spool that cannot be written to loses events and breaks nothing', async () => {
  const file = path.join(newHome(), 'file');
  writeFileSync(file, '');
  const linked = newHome();
  mkdirSync(path.join(linked, 'elsewhere'));
  symlinkSync('elsewhere', path.join(linked, 'spool'));
  for (const home of [file, linked]) {
    const told = [];
    const nook = new NookProtocol({ ...options, home, onError: (error) => { told.push(error); throw error; } });
    nook.emit({ type: 'agent.idle' });
    assert.deepEqual(await nook.close(), { sent: 0, spooled: 0, lost: 1 });
    assert.equal(told.length, 1);
  }
});

test('an id becomes the name of a file that is in the spool', async () => {
  const home = newHome();
  const nook = new NookProtocol({ ...options, home });
  for (const id of ['../../up', '.', 'a/b', 'plain-1', 'x'.repeat(128)]) nook.emit({ id, type: 'agent.idle' });
  assert.deepEqual(await nook.close(), { sent: 0, spooled: 5, lost: 0 });
  assert.equal(spooled(home).length, 5);
});

test('an invalid event throws and names the member', () => {
  const nook = new NookProtocol({ ...options, home: newHome() });
  for (const [event, member] of [
    [null, 'object'], [{}, 'type'], [{ type: 'agent.slept' }, 'type'], [{ type: 'toString' }, 'type'],
    [{ type: 'agent.idle', agentId: '' }, 'agentId'], [{ type: 'agent.idle', agentId: 5 }, 'agentId'], [{ type: 'agent.idle', agentId: 'a\n' }, 'agentId'],
    [{ type: 'agent.idle', tokens: 1 }, 'tokens'], [{ type: 'agent.completed', tokens: -1 }, 'tokens'], [{ type: 'agent.completed', tokens: 1.5 }, 'tokens'],
    [{ type: 'agent.completed', tokens: 2e12 }, 'tokens'], [{ type: 'agent.completed', tokens: '1' }, 'tokens'], [{ type: 'agent.completed', success: 1 }, 'success'],
    [{ type: 'agent.state' }, 'state'], [{ type: 'agent.state', state: 'happy' }, 'state'], [{ type: 'agent.failed', error: {} }, 'error'],
    [{ type: 'agent.idle', id: 'ä' }, 'id'], [{ type: 'agent.idle', timestamp: 0 }, 'timestamp'], [{ type: 'agent.idle', mood: 'x' }, 'mood'],
    [{ type: 'agent.completed', trigger: 'git.push' }, 'trigger'], [{ type: 'agent.completed', trigger: 'git.pr', tokens: 5 }, 'tokens'],
    [{ type: 'agent.started', workUnitId: 'x'.repeat(257) }, 'workUnitId'],
  ]) {
    assert.throws(() => nook.emit(event), (error) => error instanceof TypeError && error.message.includes(member), JSON.stringify(event));
  }
  assert.throws(() => new NookProtocol({ rootIdentity: 'r' }), /agentId/);
  for (const rootIdentity of [undefined, '', 5, 'a\n', 'x'.repeat(129)]) assert.throws(() => new NookProtocol({ agentId: 'a', rootIdentity }), /rootIdentity/);
});
