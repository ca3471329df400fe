// Notices when the tests run a text, or start a program: it may be the submission's, which could then change anything
// here. It is reported before it runs.
"use strict";
const childProcess = require("node:child_process");
const vm = require("node:vm");
const workers = require("node:worker_threads");

const PROGRAMS = ["exec", "execFile", "execFileSync", "execSync", "fork", "spawn", "spawnSync"];
const TEXTS = ["runInContext", "runInNewContext", "runInThisContext", "compileFunction"];

// watchTexts makes the functions that run texts and programs tell link first.
function watchTexts(link) {
  const indirect = eval;
  globalThis.eval = function (text) {
    if (typeof text === "string") link.ran("a text ran");
    return indirect(text);
  };
  for (const f of [function () {}, async function () {}, function* () {}, async function* () {}]) {
    const proto = Object.getPrototypeOf(f), original = proto.constructor;
    const watched = new Proxy(original, {
      apply(target, self, args) {
        link.ran("a text ran");
        return Reflect.apply(target, self, args);
      },
      construct(target, args, by) {
        link.ran("a text ran");
        return Reflect.construct(target, args, by === watched ? target : by);
      },
    });
    Object.defineProperty(proto, "constructor", { value: watched, configurable: true, writable: true });
    if (globalThis[original.name] === original) globalThis[original.name] = watched;
  }
  watch(link, childProcess, PROGRAMS, "a program ran");
  watch(link, vm, [...TEXTS, "Script", "SourceTextModule"], "a text ran");
  watch(link, workers, ["Worker"], "a text ran");
}

// watch replaces functions of a module. What the test runner itself calls does not count.
function watch(link, module, names, what) {
  const told = () => {
    const caller = String(new Error().stack).split("\n").slice(3).find((line) => !line.includes("running.cjs")) ?? "";
    if (!/node:internal|\/node_modules\/|\/nodejs\//.test(caller)) link.ran(what);
  };
  for (const name of names) {
    const original = module[name];
    if (typeof original !== "function") continue;
    module[name] = new Proxy(original, {
      apply(target, self, args) {
        told();
        return Reflect.apply(target, self, args);
      },
      construct(target, args) {
        told();
        return Reflect.construct(target, args);
      },
    });
  }
}

module.exports = { watchTexts };
