// Publishes what an owner and its agent say of themselves (NIP-AE): two versions of a definition, the agent's profile, the
// owner's claim, a lesson with comments, and a nudge; with the classes of TENEX, and with NDK's general calls where there
// are none. It tells the keys first, and the events once the relay has them.
import WebSocket from "ws";
import NDK, { NDKEvent, NDKPrivateKeySigner, NDKRelaySet } from "@nostr-dev-kit/ndk";
import { NDKAgentDefinition, NDKAgentLesson } from "./tenex.mjs";
import { config, say } from "./nut.mjs";

globalThis.WebSocket ??= WebSocket;
const { relay } = config;
const owner = NDKPrivateKeySigner.generate();
const agent = NDKPrivateKeySigner.generate();
say({ owner: owner.pubkey, agent: agent.pubkey });
const ndk = new NDK({ explicitRelayUrls: [relay], enableOutboxModel: false, autoConnectUserRelays: false });
await ndk.connect(5000);
const relays = NDKRelaySet.fromRelayUrls([relay], ndk);

async function publish(event, signer) {
  await event.sign(signer);
  await event.publish(relays);
  return event;
}

function define(version) {
  const definition = new NDKAgentDefinition(ndk);
  definition.slug = "reviewer";
  definition.title = "Reviewer";
  definition.role = "You review changes.";
  definition.instructions = `Read everything before you write, ${version}.`;
  definition.useCriteria = "reviews of Python";
  definition.description = "reviews what others wrote";
  definition.version = version;
  definition.category = "developer"; // no tag of NIP-AE
  definition.markdownDescription = "More about **it**.";
  definition.tags.push(["tool", "read"], ["tool", "search"]);
  return publish(definition, owner);
}

const first = await define(1);
const second = await define(2);

const profile = new NDKEvent(ndk);
profile.kind = 0;
profile.content = JSON.stringify({ name: "Reviewer", about: "of TENEX" });
profile.tag(["bot"]);
profile.tag(["e", second.id]);
profile.tag(["p", owner.pubkey]);
await publish(profile, agent);

const claims = new NDKEvent(ndk);
claims.kind = 14199;
claims.tag(["p", agent.pubkey]);
await publish(claims, owner);

const lesson = new NDKAgentLesson(ndk);
lesson.title = "Dates";
lesson.category = "python";
lesson.lesson = "Take both forms of ISO 8601.";
lesson.agentDefinitionId = first.id;
lesson.detailed = "The basic form has no dashes."; // no tag of NIP-AE
await publish(lesson, agent);

async function comment(on, text, signer) {
  const reply = on.reply();
  reply.content = text;
  return publish(reply, signer);
}

const correction = await comment(lesson, "Week dates, too.", agent);
await comment(correction, "And ordinal dates.", agent);
await comment(lesson, "Nonsense.", owner);

const nudge = new NDKEvent(ndk);
nudge.kind = 4201;
nudge.content = "Change nothing.";
for (const tag of [["title", "careful"], ["allow-tool", "read"], ["deny-tool", "run"]]) nudge.tag(tag);
await publish(nudge, owner);

say({ definition: second.encode(), first: first.id, lesson: lesson.id, nudge: nudge.encode() });
