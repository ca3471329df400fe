// A customer written with NDK: it publishes requests as the test words them, with NDK's own classes for NIP-90, and
// tells what those made of the answers.
import WebSocket from "ws";
import NDK, {
  NDKAppHandlerEvent, NDKDVMJobFeedback, NDKDVMJobResult, NDKDVMRequest, NDKPrivateKeySigner, NDKRelaySet,
} from "@nostr-dev-kit/ndk";
import { config, over, say } from "./nut.mjs";

globalThis.WebSocket ??= WebSocket;
const { relay, provider, requests } = config;
const signer = NDKPrivateKeySigner.generate();
const ndk = new NDK({ explicitRelayUrls: [relay], signer, enableOutboxModel: false, autoConnectUserRelays: false });
await ndk.connect(5000);
const relays = NDKRelaySet.fromRelayUrls([relay], ndk);
const dvm = ndk.getUser({ pubkey: provider });
const own = await signer.user();

const card = NDKAppHandlerEvent.from(await ndk.fetchEvent({ kinds: [31990], authors: [provider] }, undefined, relays));
say({ card: { tags: card.tags, content: card.content } });

async function read(event) {
  const encrypted = event.hasTag("encrypted");
  const raw = event.content;
  if (event.kind === 7000) {
    const feedback = await NDKDVMJobFeedback.from(event);
    return { kind: 7000, status: feedback.status, tags: feedback.tags, raw, content: feedback.content, encrypted };
  }
  const result = NDKDVMJobResult.from(event);
  if (encrypted) await result.decrypt(dvm, signer);
  return { kind: result.kind, request: result.jobRequestId, tags: result.tags, raw, content: result.result ?? "", encrypted };
}

for (const wanted of requests) {
  const request = new NDKDVMRequest(ndk);
  request.kind = wanted.kind;
  for (const [name, ...values] of wanted.tags) {
    if (name === "i") request.addInput(...values);
    else if (name === "param") request.addParam(...values);
    else if (name === "output") request.output = values;
    else if (name === "bid") request.bid = Number(values[0]);
    else request.tag([name, ...values]);
  }
  request.tag(["relays", relay]);
  if (wanted.encryption) await request.encryption(dvm);
  else request.dvm = dvm;
  await request.sign();
  const heard = [];
  let reading = Promise.resolve();
  ndk.subscribe({ kinds: [7000, wanted.kind + 1000], "#e": [request.id], "#p": [own.pubkey] }, {
    closeOnEose: false, relaySet: relays,
    onEvent(event) {
      reading = reading.then(async () => {
        if (event.pubkey !== provider) throw new Error("an answer of somebody else");
        heard.push(await read(event));
        if (over(heard)) say({ name: wanted.name, answers: heard.splice(0) });
      });
    },
  });
  await request.publish(relays);
}
