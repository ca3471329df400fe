"use strict";

// The verifier is a program for WASI, preview 1: it reads an export from its input and writes its report to its output.
// Of everything else that a system has, it gets none: no file, no network, no environment.

const GOOD = 0, NO_SUCH_FILE = 8, NOT_THERE = 52;

// system is what the program may call. Its memory is known only after it is there.
function system(input, output, memory) {
  const view = () => new DataView(memory().buffer);
  const bytes = (at, size) => new Uint8Array(memory().buffer, at, size);
  const each = (list, count, what) => { // a list of places in memory: where, and how much
    let sum = 0;
    for (let i = 0; i < count; i++) {
      const size = view().getUint32(list + 8 * i + 4, true);
      const done = what(view().getUint32(list + 8 * i, true), size);
      sum += done;
      if (done < size) break;
    }
    return sum;
  };
  const nothing = (count, size) => {
    view().setUint32(count, 0, true);
    view().setUint32(size, 0, true);
    return GOOD;
  };
  let at = 0;
  return {
    fd_read(file, list, count, result) {
      if (file !== 0) return NO_SUCH_FILE;
      view().setUint32(result, each(list, count, (where, size) => {
        const part = input.subarray(at, at + size);
        bytes(where, part.length).set(part);
        at += part.length;
        return part.length;
      }), true);
      return GOOD;
    },
    fd_write(file, list, count, result) {
      if (file !== 1 && file !== 2) return NO_SUCH_FILE;
      view().setUint32(result, each(list, count, (where, size) => {
        output[file].push(bytes(where, size).slice());
        return size;
      }), true);
      return GOOD;
    },
    fd_fdstat_get(file, result) {
      if (file > 2) return NO_SUCH_FILE;
      bytes(result, 24).fill(0);
      return GOOD;
    },
    fd_fdstat_set_flags: () => GOOD,
    fd_close: () => GOOD,
    fd_prestat_get: () => NO_SUCH_FILE, // no directory is open
    args_sizes_get: nothing,
    args_get: () => GOOD,
    environ_sizes_get: nothing,
    environ_get: () => GOOD,
    clock_time_get(clock, precision, result) {
      view().setBigUint64(result, BigInt(Math.round(performance.now() * 1e6)), true); // since the page was opened
      return GOOD;
    },
    random_get(where, size) {
      for (let done = 0; done < size; done += 65536) {
        crypto.getRandomValues(bytes(where + done, Math.min(65536, size - done)));
      }
      return GOOD;
    },
    sched_yield: () => GOOD,
    poll_oneoff(asked, events, count, result) { // whatever it waits for has come
      for (let i = 0; i < count; i++) {
        bytes(events + 32 * i, 32).fill(0);
        bytes(events + 32 * i, 8).set(bytes(asked + 48 * i, 8));
      }
      view().setUint32(result, count, true);
      return GOOD;
    },
    proc_exit(code) { throw new Exit(code); },
  };
}

class Exit extends Error {
  constructor(code) { super("the verifier ended with " + code); this.code = code; }
}

// verify runs the program once, and returns its report.
async function verify(program, input) {
  const output = { 1: [], 2: [] };
  let instance;
  const known = system(input, output, () => instance.exports.memory);
  const imports = {};
  for (const { module, name } of WebAssembly.Module.imports(program)) {
    imports[module] ??= {};
    imports[module][name] = known[name] ?? (() => NOT_THERE);
  }
  instance = await WebAssembly.instantiate(program, imports);
  try {
    instance.exports._start();
  } catch (end) {
    if (end.code !== 0) throw new Error(((await text(output[2])) || String(end)).split("\n")[0]);
  }
  return JSON.parse(await text(output[1]));
}

const text = (parts) => new Blob(parts).text();

// unpack makes a program of what the page carries: WebAssembly, compressed, as base64.
async function unpack(base64) {
  const packed = Uint8Array.from(atob(base64.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compile(await new Response(stream).arrayBuffer());
}

// clean makes text from elsewhere safe to read: what turns the reading direction or is no character becomes a dot.
const clean = (words) => words.replace(/[\n\t]/g, " ").replace(/[\p{Cc}\p{Bidi_C}\u2028\u2029\ufffd]/gu, "·");

const LARGEST = 256 << 20; // bytes of an archive that is read at all

const MARKS = { passed: "✓", failed: "✗", absent: "–" };
const SPOKEN = { passed: "passed", failed: "failed", absent: "nothing to check" };

function element(kind, className, words) {
  const e = document.createElement(kind);
  if (className) e.className = className;
  if (words !== undefined) e.textContent = words;
  return e;
}

// marked begins what stands for a state: its mark to be seen, and its word to be heard.
function marked(kind, state) {
  const e = element(kind, state), mark = element("span", "mark", MARKS[state]);
  mark.setAttribute("aria-hidden", "true");
  e.append(mark, element("span", "spoken", SPOKEN[state] + ": "));
  return e;
}

// line shows one check.
function line(check) {
  const e = marked("li", check.state);
  e.append(element("span", "name", clean(check.name)), " ", element("span", "detail", clean(check.detail)));
  return e;
}

// section shows one record: its file's name, what was found in a sentence, and the checks.
function section({ name, state, words, checks }) {
  const e = element("section", state), title = marked("h2", state), list = element("ul");
  title.append(element("span", "file", name));
  list.append(...checks.map(line));
  e.setAttribute("aria-label", name);
  e.append(title, element("p", "", words), list);
  return e;
}

const holds = (report) => report.checks.length > 0 && report.checks.every((c) => c.state !== "failed");

// sum is the last line of a report.
function sum(report) {
  const count = (state) => report.checks.filter((c) => c.state === state).length;
  const what = report.receipt ? "receipt " + clean(report.receipt) : "the receipt";
  const absent = report.checks.filter((c) => c.state === "absent").map((c) => clean(c.name));
  const rest = `${count("passed")} passed` + (absent.length > 0 ? "; nothing to check: " + absent.join(", ") : "");
  return holds(report) ? `${what} holds: ${rest}` : `${what} does not hold: ${count("failed")} failed, ${rest}`;
}

// verdict is what is said of all the records together.
function verdict(all) {
  const bad = all.filter((one) => one.state === "failed").length;
  if (all.length > 1) return bad === 0 ? `All ${all.length} records hold.` : `${bad} of ${all.length} records did not pass.`;
  if (all[0].checks.length === 0) return `${all[0].name} was not checked.`;
  return bad === 0 ? `${all[0].name} holds.` : `${all[0].name} does not hold.`;
}

function start() {
  const choose = document.getElementById("file"), drop = document.getElementById("drop");
  const status = document.getElementById("status"), records = document.getElementById("records");
  let program, turn = 0;
  const say = (state, words) => {
    status.className = state;
    status.textContent = words;
  };
  const check = async (file) => {
    const name = clean(file.name);
    try {
      if (file.size > LARGEST) throw new Error("it is larger than 256 MiB");
      program ??= unpack(document.getElementById("verifier").textContent);
      const report = await verify(await program, new Uint8Array(await file.arrayBuffer()));
      return { name, state: holds(report) ? "passed" : "failed", words: sum(report), checks: report.checks };
    } catch (err) {
      return { name, state: "failed", words: `not checked: ${clean(err.message)}`, checks: [] };
    }
  };
  const checkAll = async (files) => {
    const mine = ++turn; // files that are chosen later count
    const all = [];
    records.replaceChildren();
    say("busy", files.length > 1 ? `Checking ${files.length} records …` : `Checking ${clean(files[0].name)} …`);
    for (const file of files) {
      const one = await check(file);
      if (mine !== turn) return;
      all.push(one);
      records.append(section(one));
    }
    say(all.every((one) => one.state === "passed") ? "passed" : "failed", verdict(all));
  };
  choose.addEventListener("click", () => { choose.value = ""; }); // the same file chosen again is checked again
  choose.addEventListener("change", () => { if (choose.files.length > 0) checkAll([...choose.files]); });
  document.addEventListener("dragover", (e) => { e.preventDefault(); drop.className = "over"; });
  document.addEventListener("dragleave", () => { drop.className = ""; });
  document.addEventListener("drop", (e) => {
    e.preventDefault();
    drop.className = "";
    if (e.dataTransfer.files.length === 0) return;
    choose.value = ""; // what it named is not what is shown
    checkAll([...e.dataTransfer.files]);
  });
}

start();
