// These tests report to the node of NOOK_HOME. Where none runs there, the events must be in the spool.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';

import { NookProtocol } from '@nook/protocol';

const home = process.env.NOOK_HOME ?? (process.env.NOOK_HOME = mkdtempSync(path.join(tmpdir(), 'nook-')));
const runs = existsSync(path.join(home, 'url'));

function spooled() {
  const dir = path.join(home, 'spool');
  if (!existsSync(dir)) return [];
  return readdirSync(dir).map((name) => [name, JSON.parse(readFileSync(path.join(dir, name)))]);
}

test('the example of the specification is reported', async () => {
  const nook = new NookProtocol({ agentId: 'your-agent-id', rootIdentity: 'user-root-id', timeout: 30_000 });
  nook.emit({ type: 'agent.started', agentId: 'agent-1' });
  nook.emit({ type: 'agent.completed', agentId: 'agent-1', workUnitId: 'issue-123', tokens: 5000 });
  assert.deepEqual(await nook.close(), runs ? { sent: 2, spooled: 0, lost: 0 } : { sent: 0, spooled: 2, lost: 0 });
});

test('every type is reported', async () => {
  const nook = new NookProtocol({ agentId: 'your-agent-id', rootIdentity: 'user-root-id' });
  nook.emit({ type: 'agent.state', state: 'working' });
  nook.emit({ type: 'agent.completed', success: true, trigger: 'git.commit' });
  nook.emit({ type: 'agent.completed', success: false, tokens: 0, workUnitId: 'ä"\\' });
  nook.emit({ type: 'agent.failed', error: 'line 1\nline 2 ' + 'ä'.repeat(5000) });
  nook.emit({ type: 'agent.idle', timestamp: Math.floor(Date.now() / 1000) });
  if (runs) nook.emit({ type: 'agent.heartbeat' });
  const { sent, spooled, lost } = await nook.close();
  assert.deepEqual([sent + spooled, lost], [runs ? 6 : 5, 0]);
});

test('one event reported twice is one event', async () => {
  const nook = new NookProtocol({ agentId: 'your-agent-id', rootIdentity: 'user-root-id' });
  const event = { id: 'once', type: 'agent.idle', timestamp: Date.now() };
  nook.emit(event);
  await nook.flush();
  nook.emit(event);
  assert.equal((await nook.close()).lost, 0);
  if (!runs) assert.equal(spooled().filter(([, f]) => f.event.id === 'once').length, 1);
});

test('more events than one request has arrive', async () => {
  const nook = new NookProtocol({ agentId: 'your-agent-id', rootIdentity: 'user-root-id', timeout: 30_000 });
  for (let i = 0; i < 2500; i++) nook.emit({ type: 'agent.completed', workUnitId: `unit-${i % 10}`, tokens: 10 });
  const { sent, spooled, lost } = await nook.close();
  assert.deepEqual([sent + spooled, lost], [2500, 0]);
});

test('the events of the client are in the spool without a node', () => {
  const unfinished = spooled().filter(([name]) => !name.endsWith('.json'));
  assert.deepEqual(unfinished, []);
  for (const [, { event, rootIdentity }] of spooled()) {
    assert.equal(rootIdentity, 'user-root-id');
    assert.ok(['your-agent-id', 'agent-1'].includes(event.agentId));
    assert.ok(event.id && event.timestamp > 0);
  }
});

test('CommonJS has the same client', () => {
  assert.equal(createRequire(import.meta.url)('@nook/protocol').NookProtocol, NookProtocol);
});
