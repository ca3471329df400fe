'use strict';

const { createHash, randomBytes } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');

const maxFiles = 10_000; // that wait for the node

// openSpool returns a function that writes an event of a root identity to a file of its own, in the directory that the node
// reads: .tmp-RANDOM, renamed to HASH.json, so that the node never sees a part of it. All is synchronous, as the process may be about to exit.
function openSpool(home, rootIdentity) {
  const dir = path.join(home, 'spool');
  fs.mkdirSync(dir, { recursive: true, mode: 0o700 });
  if (fs.lstatSync(dir).isSymbolicLink()) throw new Error(`${dir} is a link`);
  let files = fs.readdirSync(dir).length;
  return (event) => {
    if (files++ >= maxFiles) throw new Error(`${dir} is full`);
    const name = createHash('sha256').update(`${rootIdentity}\0${event.id}`).digest('hex'); // two roots can use one id
    const unfinished = path.join(dir, `.tmp-${randomBytes(8).toString('hex')}`);
    try {
      fs.writeFileSync(unfinished, JSON.stringify({ rootIdentity, event }), { mode: 0o600, flag: 'wx' });
      fs.renameSync(unfinished, path.join(dir, `${name}.json`));
    } catch (error) {
      fs.rmSync(unfinished, { force: true });
      throw error;
    }
  };
}

module.exports = { openSpool };
