// Bundles as somebody would read and write them who has the documentation of the format and nothing of guild's.
import { createHash, randomUUID } from "node:crypto";
import { gunzipSync, gzipSync } from "node:zlib";

const block = 512;

export const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

// unpack returns the files of a bundle: name → Buffer.
export function unpack(nut) {
  if (nut.toString("latin1", 0, 4) !== "NUT\x01") throw new Error("not a bundle");
  const tar = gunzipSync(nut.subarray(4));
  const files = new Map();
  for (let at = 0; at + block <= tar.length && tar[at] !== 0; ) {
    const text = (from, size) => tar.toString("utf8", at + from, at + from + size).replace(/\0.*$/s, "");
    const size = parseInt(text(124, 12), 8);
    const name = text(345, 155) ? `${text(345, 155)}/${text(0, 100)}` : text(0, 100);
    if (text(156, 1) === "0" || text(156, 1) === "") files.set(name, tar.subarray(at + block, at + block + size));
    at += block + Math.ceil(size / block) * block;
  }
  return files;
}

// pack makes a bundle of files: [name, text] each, nutshell.json first.
export function pack(files) {
  const parts = [];
  for (const [name, text] of files) {
    const body = Buffer.from(text);
    const head = Buffer.alloc(block);
    head.write(name, 0, 100);
    head.write("0000644\0", 100);
    head.write("0000000\0", 108);
    head.write("0000000\0", 116);
    head.write(body.length.toString(8).padStart(11, "0") + "\0", 124);
    head.write("00000000000\0", 136);
    head.write("        ", 148);
    head.write("0", 156);
    head.write("ustar\x0000", 257);
    let sum = 0;
    for (const byte of head) sum += byte;
    head.write(sum.toString(8).padStart(6, "0") + "\0 ", 148);
    parts.push(head, body, Buffer.alloc((block - (body.length % block)) % block));
  }
  parts.push(Buffer.alloc(2 * block));
  return Buffer.concat([Buffer.from("NUT\x01", "latin1"), gzipSync(Buffer.concat(parts))]);
}

// deliver makes the delivery that answers a request bundle with one text.
export function deliver(request, text) {
  const asked = JSON.parse(unpack(request).get("nutshell.json"));
  const identity = {
    nutshell_version: "0.2.0", bundle_type: "delivery", request_id: asked.id, id: `nut-${randomUUID()}`,
  };
  return pack([
    ["nutshell.json", JSON.stringify({ ...identity, task: { title: asked.task.title } })],
    ["delivery/result.json", JSON.stringify({ ...identity, status: "completed", summary: "done", artifacts: ["delivery/artifacts/out.txt"] })],
    ["delivery/artifacts/out.txt", text],
  ]);
}

// parcel is the content of a result that carries a delivery.
export function parcel(nut) {
  return JSON.stringify({ v: 1, delivery_sha256: sha256(nut), size: nut.length, bundle: nut.toString("base64") });
}

// bundleOf finds the bundle in the tags of a request; null if it has none.
export function bundleOf(tags) {
  const input = tags.find((t) => t[0] === "i" && t[4] === "bundle");
  if (!input) return null;
  const nut = Buffer.from(input[1], "base64");
  const said = tags.find((t) => t[0] === "param" && t[1] === "bundle_sha256");
  if (!said || said[2] !== sha256(nut)) throw new Error("the bundle is not of its hash");
  return nut;
}

// accepts is what a card says of a provider that reads bundles.
export const accepts = ["application/x-nutshell+gzip"];

// inputOf is what there is to work on, from a bundle or from a plain input.
export function inputOf(tags) {
  const nut = bundleOf(tags);
  if (nut) return unpack(nut).get("files/in.txt").toString();
  const inputs = tags.filter((t) => t[0] === "i");
  const input = inputs.find((t) => t[4] === "files/in.txt") ?? inputs[0];
  return input ? input[1] : "";
}

// say tells the test something, one line of JSON.
export function say(what) {
  process.stdout.write(JSON.stringify(what) + "\n");
}

// over reports whether what a customer heard is all that there will be: an error, or a result and a word on the work,
// which may come in any order.
export function over(heard) {
  const isError = (a) => a.kind === 7000 && a.tags.some((t) => t[0] === "status" && t[1] === "error");
  return heard.some(isError) || (heard.some((a) => a.kind !== 7000) && heard.some((a) => a.kind === 7000));
}

// config is what the test says, and leave ends the program when the test lets go of it.
export const config = JSON.parse(process.argv[2]);
process.stdin.resume().on("end", () => process.exit(0));
process.on("unhandledRejection", (err) => {
  say({ error: String(err?.stack ?? err) });
  process.exit(1);
});
