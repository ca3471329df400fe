// One of the other implementations, over nostr-tools by its documented calls.
import WebSocket from "ws";
import { finalizeEvent, generateSecretKey, getPublicKey, nip44 } from "nostr-tools";
import { SimplePool, useWebSocketImplementation } from "nostr-tools/pool";
import { config, say } from "../nut.mjs";
import { forms } from "./cards.mjs";

useWebSocketImplementation(WebSocket);
const { relay, form } = config;
const { card, answers, encrypted } = forms[form];
const kinds = card.tags.filter((t) => t[0] === "k").map((t) => Number(t[1])).filter((k) => k >= 5000);
const pool = new SimplePool();
const secret = generateSecretKey();
const own = getPublicKey(secret);

function publish(template) {
  return Promise.any(pool.publish([relay], finalizeEvent({ created_at: Math.floor(Date.now() / 1000), ...template }, secret)));
}

async function answer(event) {
  const key = nip44.getConversationKey(secret, event.pubkey);
  const inside = event.tags.some((t) => t[0] === "encrypted");
  if (Boolean(encrypted) !== inside) throw new Error(`the request is encrypted: ${inside}`);
  const request = inside ? { ...event, tags: JSON.parse(nip44.decrypt(event.content, key)) } : event;
  for (const { seal, ...template } of answers(request)) {
    await publish(seal ? { ...template, content: nip44.encrypt(template.content, key) } : template);
  }
}

await new Promise((resolve) => {
  pool.subscribe([relay], { kinds, "#p": [own] }, {
    oneose: resolve,
    onevent: (event) => answer(event).catch((err) => say({ error: String(err?.stack ?? err) })),
  });
});
await publish({ kind: 31990, ...card });
say({ pubkey: own });
