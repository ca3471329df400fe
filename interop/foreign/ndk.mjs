// A provider with NDK by its documented calls: its classes for announcements, requests, feedback and results.
import WebSocket from "ws";
import NDK, {
  NDKAppHandlerEvent, NDKDVMJobResult, NDKDVMRequest, NDKDvmJobFeedbackStatus, NDKPrivateKeySigner, NDKRelaySet,
} from "@nostr-dev-kit/ndk";
import { config, say } from "../nut.mjs";

globalThis.WebSocket ??= WebSocket;
const { relay } = config;
const signer = NDKPrivateKeySigner.generate();
const ndk = new NDK({ explicitRelayUrls: [relay], signer, enableOutboxModel: false, autoConnectUserRelays: false });
await ndk.connect(5000);
const relaySet = NDKRelaySet.fromRelayUrls([relay], ndk);
const { pubkey } = await signer.user();

async function answer(event) {
  const request = NDKDVMRequest.from(event);
  await request.createFeedback(NDKDvmJobFeedbackStatus.Processing).publish(relaySet);
  const [text] = request.getMatchingTags("i")[0].slice(1);
  const result = new NDKDVMJobResult(ndk);
  result.jobRequest = request;
  result.result = text.toUpperCase();
  result.status = "success";
  await result.publish(relaySet);
}

await new Promise((resolve) => {
  ndk.subscribe({ kinds: [5050], "#p": [pubkey] }, {
    closeOnEose: false, relaySet, onEose: resolve,
    onEvent: (event) => answer(event).catch((err) => say({ error: String(err?.stack ?? err) })),
  });
});
const card = new NDKAppHandlerEvent(ndk);
card.tags = [["d", "generator"], ["k", "5050"]];
card.content = JSON.stringify({ name: "generator", about: "text generation" });
await card.publish(relaySet);
say({ pubkey });
