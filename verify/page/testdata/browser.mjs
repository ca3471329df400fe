// As much of a browser as the page needs: browser.mjs PAGE EXPORT... opens the page, chooses or drops each export, and
// prints what is then to be read, one JSON object a line.
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import vm from "node:vm";
import { argv } from "node:process";

const [page, ...exports] = argv.slice(2);
const html = readFileSync(page, "utf8");

class Element {
  constructor(kind) { Object.assign(this, { kind, className: "", own: "", children: [], listeners: {}, attributes: {} }); }
  set textContent(words) { this.own = words; this.children = []; }
  get textContent() { return this.own + this.children.map((c) => (typeof c === "string" ? c : c.textContent)).join(""); }
  set innerHTML(_) { throw new Error("the page writes HTML"); }
  append(...more) { this.children.push(...more); }
  replaceChildren(...all) { this.own = ""; this.children = all; }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener(kind, listener) { this.listeners[kind] = listener; }
  dispatch(kind, event = {}) { this.listeners[kind]({ preventDefault() {}, ...event }); }
}

const byID = {};
for (const [, kind, id] of html.matchAll(/<(\w+)[^>]*\sid="(\w+)"/g)) byID[id] = new Element(kind);
const scripts = [...html.matchAll(/<script([^>]*)>([^]*?)<\/script>/g)];
byID.verifier.textContent = scripts.find(([, attributes]) => attributes.includes('id="verifier"'))[2];
const program = scripts.find(([, attributes]) => attributes === "")[2];

const document = Object.assign(new Element("document"), {
  getElementById: (id) => byID[id] ?? null,
  createElement: (kind) => new Element(kind),
});
for (const name of ["fetch", "XMLHttpRequest", "WebSocket", "process", "require"]) delete globalThis[name];
globalThis.document = document;
vm.runInThisContext(program, { filename: "page.js" });

let dropped = false;
for (const path of exports) {
  const content = readFileSync(path);
  const file = {
    name: basename(path), size: content.length,
    arrayBuffer: async () => content.buffer.slice(content.byteOffset, content.byteOffset + content.length),
  };
  if (dropped) {
    document.dispatch("dragover");
    document.dispatch("drop", { dataTransfer: { files: [file] } });
  } else {
    byID.file.files = [file];
    byID.file.dispatch("change");
  }
  dropped = !dropped;
  while (byID.status.className === "busy") await new Promise((done) => setTimeout(done, 5));
  console.log(JSON.stringify({
    className: byID.status.className, status: byID.status.textContent,
    lines: byID.lines.children.map((li) => ({ className: li.className, parts: li.children.filter((c) => typeof c !== "string").map((c) => c.textContent) })),
  }));
}
