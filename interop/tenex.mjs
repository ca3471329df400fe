// The classes of TENEX for agent definitions and lessons, which extend NDK's event. NDK has none for the kinds of NIP-AE
// in any published version (2.14.33 to 2.18.1 and 3.0.0-beta.62 to 3.0.3 were looked through), and TENEX has none for
// nudges. They run as they are published but for the types of TypeScript. Of the packages that TENEX depends on only NDK
// is installed: package.json replaces those that these classes do not use.
import { readFileSync, writeFileSync } from "node:fs";
import { transform } from "sucrase";

async function classOf(name) {
  const source = new URL(`node_modules/@tenex-chat/backend/src/events/${name}.ts`, import.meta.url);
  const { code } = transform(readFileSync(source, "utf8"), { transforms: ["typescript"], disableESTransforms: true });
  const made = new URL(`${name}.mjs`, import.meta.url);
  writeFileSync(made, code);
  return (await import(made))[name];
}

export const NDKAgentDefinition = await classOf("NDKAgentDefinition");
export const NDKAgentLesson = await classOf("NDKAgentLesson");
