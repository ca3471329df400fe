// Runs a file of tests in rounds, for as long as the judge wants more: the file and all that it loads of the workspace is
// evaluated anew for each, so that nothing stays from one round to the next.
import path from "node:path";
import { describe, test } from "node:test";
import { pathToFileURL } from "node:url";

const { ROUND, END, more } = globalThis[Symbol.for("guild.rounds")];
const [file] = process.argv.splice(1, 2, path.resolve(process.argv[2])).slice(1);
const url = pathToFileURL(path.resolve(file)).href;
for (let round = 1; more(); round++) {
  const stop = new AbortController();
  describe(ROUND, { signal: stop.signal }, async () => { await import(url + "?guild=" + round); });
  process.removeAllListeners("beforeExit"); // the runner's would end all
  process.once("beforeExit", () => {
    globalThis[Symbol.for("guild.split")].giveUp();
    stop.abort();
  });
  await test(END, () => {});
}
process.exit(0);
