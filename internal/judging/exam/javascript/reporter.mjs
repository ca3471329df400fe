// Reports each test of node --test as one line of JSON on descriptor 3.
import { writeSync } from "node:fs";

export default async function* report(source) {
  for await (const { type, data } of source) {
    if (type !== "test:start" && type !== "test:pass" && type !== "test:fail") continue;
    write(JSON.stringify({
      type,
      name: data.name,
      file: data.file ?? "",
      nesting: data.nesting,
      suite: data.details?.type === "suite",
      us: Math.round((data.details?.duration_ms ?? 0) * 1000),
      skip: data.skip !== undefined || data.todo !== undefined,
      message: String(data.details?.error?.cause?.message ?? data.details?.error?.message ?? "").slice(0, 1000),
    }) + "\n");
  }
}

// write writes all of a text, which a pipe may take in parts.
function write(text) {
  let rest = Buffer.from(text);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(3, rest));
    } catch (e) {
      if (e.code !== "EAGAIN") throw e;
    }
  }
}
