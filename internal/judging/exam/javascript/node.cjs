// Loaded by node before a file of tests: lets it import the submission, which runs in another sandbox, and reports what
// each test left to the submission on descriptor 3. Without that sandbox (GUILD_BLANK), what stands for the submission
// answers everything with itself, so that the tests can be listed. Where the judge runs the tests again (GUILD_AGAIN),
// rounds.mjs evaluates the file anew for each round.
"use strict";
const fs = require("node:fs");
const Module = require("node:module");
const path = require("node:path");
const { fileURLToPath } = require("node:url");
const { MessageChannel, isMainThread } = require("node:worker_threads");

const HOOKS = `
let port, blank, last = 0;
const waiting = new Map();
export async function initialize(data) {
  ({ port, blank } = data);
  port.on("message", ({ id, ...found }) => {
    waiting.get(id)?.(found);
    waiting.delete(id);
  });
  port.unref();
}
// renewed gives a module of the workspace the round of the module that imports it, so that it is evaluated anew.
function renewed(found, parent) {
  const round = parent?.startsWith("file:") && new URL(parent).searchParams.get("guild");
  if (!round || !found.url.startsWith("file:") || found.url.includes("/node_modules/")) return found;
  const url = new URL(found.url);
  url.searchParams.set("guild", round);
  return { ...found, url: url.href };
}
export async function resolve(specifier, context, next) {
  try {
    return renewed(await next(specifier, context), context.parentURL);
  } catch (e) {
    if (!blank || !/^\\.{1,2}\\//.test(specifier)) throw e;
    return { url: new URL(specifier, context.parentURL).href, format: "module", shortCircuit: true };
  }
}
export async function load(url, context, next) {
  if (!url.startsWith("file:") && !url.startsWith("data:")) return next(url, context);
  const id = ++last;
  const found = await new Promise((resolve) => {
    const late = setTimeout(resolve, 60000, { error: "needs mode inproc: the delivery is imported by a module that a test requires" });
    waiting.set(id, (found) => {
      clearTimeout(late);
      port.unref();
      resolve(found);
    });
    port.ref();
    port.postMessage({ id, url });
  });
  if (found.error) throw new Error(found.error);
  if (found.source) return { ...found, shortCircuit: true };
  const loaded = await next(url, context);
  return loaded.format === "commonjs" ? { ...loaded, source: null } : loaded;
}
`;

// order returns the judge's order, and removes it from the environment of the tests.
function order() {
  const read = JSON.parse(fs.readFileSync(path.join(process.env.GUILD_SPLIT, "order.json")));
  const found = { ...read, root: process.cwd(), blank: process.env.GUILD_BLANK, marks: process.env.GUILD_MARKS === "1", again: "GUILD_AGAIN" in process.env };
  for (const name of ["GUILD_SPLIT", "GUILD_BLANK", "GUILD_MARKS", "GUILD_AGAIN"]) delete process.env[name];
  return found;
}

function main() {
  const { modules, root, blank, build, marks, again } = order();
  const { Direct } = require("./channel.cjs");
  const { Link } = require("./examiner.cjs");
  const { Blank } = require("./blank.cjs");
  const { report } = require("./report.cjs");
  const { watchTexts } = require("./running.cjs");
  const test = require("node:test");
  const link = blank ? new Blank(root, report, blank === "nothing") : new Link({ root, report, marks, runner: [test], connect: again ? (handlers) => new Direct(4, handlers) : undefined });
  if (build && !blank) {
    modules.push(...link.stubs());
    report({ type: "guild:modules", modules });
  }
  const delivered = new Set(modules.map((name) => path.join(root, name)));
  const loaded = hookRequire(link, delivered);
  hookImport(link, delivered);
  globalThis[Symbol.for("guild.split")] = link;
  const id = (t) => again ? t.fullName.replace(ROUND + " > ", "") : t.fullName ?? t.name;
  test.beforeEach((t) => { if (id(t) !== END) link.begin(id(t)); });
  test.afterEach((t) => { if (id(t) !== END) link.end(id(t), t.passed !== false); });
  if (again) globalThis[Symbol.for("guild.rounds")] = rounds(link, loaded);
  link.watch(require("node:assert"));
  link.watch(require("node:assert").strict);
  if (!blank) watchTexts(link);
  Module.syncBuiltinESMExports();
}

// ROUND is the suite of what a file registers in a round, and END the test after it.
const ROUND = "a round of the judge's", END = "the end of a round of the judge's";

// rounds returns what evaluates the tests again: a function that says whether the judge wants one more round.
function rounds(link, loaded) {
  return {
    ROUND, END,
    more() {
      for (const file of Object.keys(Module._cache)) {
        if (!file.includes("/node_modules/")) delete Module._cache[file];
      }
      loaded.clear();
      return link.mark("more", []);
    },
  };
}

// hookRequire answers require() of a delivered module. One that the test has removed from require.cache is loaded anew.
function hookRequire(link, delivered) {
  const load = Module._load, loaded = new Set();
  Module._load = function (request, parent, isMain) {
    if (Module.isBuiltin(request)) return load.call(this, request, parent, isMain);
    let file;
    try {
      file = Module._resolveFilename(request, parent, isMain);
    } catch (e) {
      if (!link.isBlank || !/^\.{1,2}(?:\/|$)/.test(request)) throw e;
      return link.require();
    }
    if (!delivered.has(file)) {
      link.loads(file);
      return load.call(this, request, parent, isMain);
    }
    if (Module._cache[file]) return Module._cache[file].exports;
    const exports = link.require(file, loaded.has(file));
    loaded.add(file);
    const module = new Module(file, parent);
    module.exports = exports;
    module.loaded = true;
    Module._cache[file] = module;
    return exports;
  };
  return loaded;
}

// hookImport answers import of a delivered module with its stub. The loader has a thread of its own, which asks here.
function hookImport(link, delivered) {
  const { port1, port2 } = new MessageChannel();
  port1.on("message", ({ id, url }) => {
    let found = {};
    try {
      const file = url.startsWith("file:") ? fileURLToPath(url) : "";
      if (delivered.has(file) || link.isBlank && file !== "" && !fs.existsSync(file)) found = link.source(file, new URL(url).search);
      else link.loads(file);
    } catch (e) {
      found = { error: String(e?.stack ?? e) };
    }
    port1.postMessage({ id, ...found });
  });
  port1.unref();
  Module.register("data:text/javascript," + encodeURIComponent(HOOKS), { data: { port: port2, blank: link.isBlank }, transferList: [port2] });
}

if (isMainThread) main();
