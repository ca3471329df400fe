// Reads what a guild published about an agent (NIP-AE) from a relay, knowing only the owner's key and the slug: with the
// classes of TENEX, and with NDK's general calls where there are none. It tells what it read, once.
import WebSocket from "ws";
import NDK, { NDKRelaySet, getReplyTag, getRootTag } from "@nostr-dev-kit/ndk";
import { NDKAgentDefinition, NDKAgentLesson } from "./tenex.mjs";
import { config, say } from "./nut.mjs";

globalThis.WebSocket ??= WebSocket;
const { relay, owner, slug } = config;
const ndk = new NDK({ explicitRelayUrls: [relay], enableOutboxModel: false, autoConnectUserRelays: false });
await ndk.connect(5000);
const relays = NDKRelaySet.fromRelayUrls([relay], ndk);

async function find(filter) {
  const found = await ndk.fetchEvent(filter, undefined, relays);
  if (!found) throw new Error(`nothing for ${JSON.stringify(filter)}`);
  return found;
}

const values = (event, name) => event.getMatchingTags(name).map((tag) => tag[1]);

const definition = NDKAgentDefinition.from(await find({ kinds: NDKAgentDefinition.kinds, authors: [owner], "#d": [slug] }));
const claims = await find({ kinds: [14199], authors: [owner] });
const [agent] = values(claims, "p");
const profile = await find({ kinds: [0], authors: [agent] });
const about = await ndk.getUser({ pubkey: agent }).fetchProfile();
const lesson = NDKAgentLesson.from(await find({ kinds: NDKAgentLesson.kinds, "#e": [definition.id] }));
const comment = await find({ kinds: [1111], "#E": [lesson.id] });
const nudge = await find({ kinds: [4201], authors: [owner] });

say({
  definition: {
    id: definition.id, slug: definition.slug, title: definition.title, role: definition.role, instructions: definition.instructions,
    use: definition.useCriteria, description: definition.description, version: definition.version, tools: values(definition, "tool"),
    fork: definition.getForkSource()?.eventId, files: definition.getFileETags().length,
  },
  profile: {
    agent, name: about.name, about: about.about, bot: profile.hasTag("bot"), definition: profile.tagValue("e"), owners: values(profile, "p"),
  },
  claimed: values(claims, "p"),
  lesson: { id: lesson.id, agent: lesson.pubkey, title: lesson.title, category: lesson.category, text: lesson.lesson, definition: lesson.agentDefinitionId },
  comment: {
    author: comment.pubkey, text: comment.content, root: getRootTag(comment)[1], rootKind: comment.tagValue("K"), rootAuthor: comment.tagValue("P"),
    parent: getReplyTag(comment)[1], parentKind: comment.tagValue("k"), parentAuthor: comment.tagValue("p"),
  },
  nudge: {
    id: nudge.id, title: nudge.tagValue("title"), text: nudge.content, only: values(nudge, "only-tool"), allow: values(nudge, "allow-tool"),
    deny: values(nudge, "deny-tool"),
  },
});
