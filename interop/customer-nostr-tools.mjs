// A customer written with nostr-tools: it publishes requests as the test words them, and tells what came back.
import WebSocket from "ws";
import { finalizeEvent, generateSecretKey, getPublicKey, nip04, nip44 } from "nostr-tools";
import { SimplePool, useWebSocketImplementation } from "nostr-tools/pool";
import { config, over, say } from "./nut.mjs";

useWebSocketImplementation(WebSocket);
const { relay, provider, requests } = config;
const secret = generateSecretKey();
const own = getPublicKey(secret);
const conversation = nip44.getConversationKey(secret, provider);
const pool = new SimplePool();

const card = await pool.get([relay], { kinds: [31990], authors: [provider] });
say({ card: { tags: card.tags, content: card.content } });

function seal(text, scheme) {
  return scheme === "nip04" ? nip04.encrypt(secret, provider, text) : nip44.encrypt(text, conversation);
}

function open(event) {
  if (!event.tags.some((t) => t[0] === "encrypted")) return event.content;
  return nip44.decrypt(event.content, conversation);
}

function template({ kind, tags, encryption }) {
  const now = Math.floor(Date.now() / 1000);
  const address = [["p", provider], ["relays", relay]];
  if (!encryption) return { kind, created_at: now, tags: [...tags, ...address], content: "" };
  return { kind, created_at: now, tags: [...address, ["encrypted"]], content: seal(JSON.stringify(tags), encryption) };
}

for (const request of requests) {
  const event = finalizeEvent(template(request), secret);
  const heard = [];
  pool.subscribe([relay], { kinds: [7000, request.kind + 1000], "#e": [event.id], "#p": [own] }, {
    onevent(answer) {
      if (answer.pubkey !== provider) throw new Error("an answer of somebody else");
      const encrypted = answer.tags.some((t) => t[0] === "encrypted");
      heard.push({ kind: answer.kind, tags: answer.tags, raw: answer.content, content: open(answer), encrypted });
      if (over(heard)) say({ name: request.name, answers: heard.splice(0) });
    },
  });
  await Promise.any(pool.publish([relay], event));
}
