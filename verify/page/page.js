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

// section shows one record: its file's name, what it proves in a sentence, when what happened, and the checks.
function section({ name, state, words, report }) {
  const e = element("section", state), title = marked("h2", state), list = element("ul");
  title.append(element("span", "file", name));
  e.setAttribute("aria-label", name);
  e.append(title);
  if (report) {
    e.append(element("p", "summary", clean(report.summary)), timeline(report.facts), missing(report.checks));
    list.append(...report.checks.map(line));
  }
  e.append(list, element("p", "sum", words));
  return e;
}

const TIMES = [["requested_at_ms", "asked for"], ["delivered_at_ms", "delivered"], ["recorded_at_ms", "judged, and the receipt signed"],
  ["sealed_at_ms", "sealed in the customer's journal"], ["witnessed_at_ms", "countersigned by the provider"]];
const PEOPLE = ["customer", "provider"];

// timeline shows who it was, and when what happened, as each dated it.
function timeline(facts) {
  const list = element("dl");
  const row = (name, ...value) => {
    const shown = element("dd");
    shown.append(...value);
    list.append(element("dt", "", name), shown);
  };
  for (const who of PEOPLE) {
    if (!/^npub1[0-9a-z]{20,80}$/.test(facts[who] ?? "")) continue;
    const link = element("a", "", facts[who]);
    link.href = "nostr:" + facts[who];
    row(who, link);
  }
  for (const [name, what] of TIMES) {
    if (facts[name]) row(new Date(facts[name]).toISOString().slice(0, 16).replace("T", " ") + " UTC", what);
  }
  return list;
}

// WHY says what is not known without a file.
const WHY = { request: "Without the request, nobody is known to be the customer.", result: "Without the result, the provider signed nothing.",
  verdict: "Without the verdict, the outcome is only claimed.", bundle: "Without the bundle, nobody can judge again.",
  delivery: "Without the delivery, nobody can judge again.", "journal entry": "Without its place in a sealed journal, the receipt may have been made later.",
  trajectory: "Without the trajectory, nothing shows how it came about.",
  witness: "Without the provider's countersignature, the customer may show others another journal." };

// missing lists what is not there although it could be, and why it matters.
function missing(checks) {
  const list = element("ul", "missing");
  const absent = checks.filter((c) => c.state === "absent" && WHY[c.name] && / is not there/.test(c.detail));
  for (const why of new Set(absent.map((c) => WHY[c.name]))) list.append(element("li", "", why));
  return list;
}

const holds = (report) => report.checks.length > 0 && report.checks.every((c) => c.state !== "failed");

// sum is the last line of a report.
function sum(report) {
  const count = (state) => report.checks.filter((c) => c.state === state).length;
  const what = report.receipt ? "receipt " + clean(report.receipt) : "the receipt";
  const absent = report.checks.filter((c) => c.state === "absent").map((c) => clean(c.name));
  const rest = `${count("passed")} passed` + (absent.length > 0 ? "; nothing to check: " + absent.join(", ") : "");
  if (holds(report) && report.grade === "claim") return `${what} is a claim by ${clean(report.facts.signer)}: ${rest}`;
  return holds(report) ? `${what} holds, grade ${clean(report.grade)}: ${rest}` : `${what} does not hold: ${count("failed")} failed, ${rest}`;
}

// verdict is what is said of all the records together.
function verdict(all) {
  const bad = all.filter((one) => one.state === "failed").length;
  if (all.length > 1) return bad === 0 ? `All ${all.length} records hold${all.some((one) => one.report.grade === "claim") ? ", and some are claims that prove no more" : ""}.` : `${bad} of ${all.length} records did not pass.`;
  if (!all[0].report) return `${all[0].name} was not checked.`;
  if (bad > 0) return `${all[0].name} does not hold.`;
  return all[0].report.grade === "claim" ? `${all[0].name} is a claim, and proves no more.` : `${all[0].name} holds.`;
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
      return { name, state: holds(report) ? "passed" : "failed", words: sum(report), report };
    } catch (err) {
      return { name, state: "failed", words: `not checked: ${clean(err.message)}` };
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
  document.getElementById("try").addEventListener("click", ({ currentTarget }) => {
    const packed = Uint8Array.from(atob(currentTarget.dataset.sample), (c) => c.charCodeAt(0));
    checkAll([new File([packed], "sample.zip")]);
  });
  document.getElementById("python").addEventListener("click", ({ currentTarget }) => {
    const link = document.createElement("a");
    link.download = "verify.py";
    link.href = `data:text/x-python;base64,${currentTarget.dataset.program}`;
    link.click();
  });
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
