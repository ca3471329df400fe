// Providers written with NDK, with its own classes for NIP-89 and NIP-90.
import WebSocket from "ws";
import NDK, {
  NDKAppHandlerEvent, NDKDVMJobResult, NDKDVMRequest, NDKDvmJobFeedbackStatus, NDKPrivateKeySigner, NDKRelaySet,
} from "@nostr-dev-kit/ndk";
import { accepts, bundleOf, config, deliver, inputOf, parcel, say } from "./nut.mjs";

globalThis.WebSocket ??= WebSocket;
const { relay, personas } = config;

class Persona {
  constructor(name) {
    this.name = name;
    this.signer = NDKPrivateKeySigner.generate();
    this.ndk = new NDK({
      explicitRelayUrls: [relay], signer: this.signer, enableOutboxModel: false, autoConnectUserRelays: false,
    });
  }

  async start() {
    await this.ndk.connect(5000);
    this.relays = NDKRelaySet.fromRelayUrls([relay], this.ndk);
    this.pubkey = (await this.signer.user()).pubkey;
    await new Promise((resolve) => {
      this.ndk.subscribe({ kinds: [5000], "#p": [this.pubkey] }, {
        closeOnEose: false, relaySet: this.relays, onEose: resolve,
        onEvent: (event) => {
          say({ persona: this.name, heard: event.id, encrypted: event.hasTag("encrypted") });
          this.answer(NDKDVMRequest.from(event)).catch((err) => say({ error: `${this.name}: ${err?.stack ?? err}` }));
        },
      });
    });
    await this.announce();
    say({ persona: this.name, pubkey: this.pubkey });
  }

  async announce(...tags) {
    const card = new NDKAppHandlerEvent(this.ndk);
    card.tags = [["d", "echo"], ["k", "5000"], ["t", "echo"], ...tags];
    card.content = JSON.stringify({ name: this.name, supported_kinds: [5000], accepts: this.bundles ? accepts : undefined });
    await card.publish(this.relays);
  }

  async feedback(request, status, ...tags) {
    const feedback = request.createFeedback(status);
    feedback.tags.push(...tags);
    await feedback.publish(this.relays);
  }

  // read returns the tags of the work.
  async read(request) {
    if (!request.hasTag("encrypted")) return request.tags;
    const copy = NDKDVMRequest.from(request);
    await copy.decrypt(request.author, this.signer);
    return JSON.parse(copy.content);
  }

  async result(request, content) {
    const result = new NDKDVMJobResult(this.ndk);
    result.jobRequest = request;
    result.result = content;
    result.status = "success";
    await result.publish(this.relays);
  }

  async sealed(request, content) {
    const result = new NDKDVMJobResult(this.ndk);
    result.jobRequest = request;
    result.removeTag("request");
    result.result = content;
    await result.encrypt(request.author, this.signer);
    result.tags.push(["encrypted"]);
    await result.publish(this.relays);
  }

  delivery(tags) {
    return parcel(deliver(bundleOf(tags), inputOf(tags).toUpperCase()));
  }
}

class Bundles extends Persona {
  bundles = true;

  async answer(request) {
    await this.feedback(request, NDKDvmJobFeedbackStatus.Processing);
    await this.result(request, this.delivery(await this.read(request)));
  }
}

class SealedBundles extends Persona {
  bundles = true;

  announce() {
    return super.announce(["encryption", "nip44"]);
  }

  async answer(request) {
    await this.feedback(request, NDKDvmJobFeedbackStatus.Processing);
    await this.sealed(request, this.delivery(await this.read(request)));
  }
}

class Text extends Persona {
  async answer(request) {
    await this.result(request, inputOf(await this.read(request)).toUpperCase());
  }
}

class SealedText extends SealedBundles {
  bundles = false;

  async answer(request) {
    await this.sealed(request, inputOf(await this.read(request)).toUpperCase());
  }
}

// Payment asks for it in NDK's word, with an underscore.
class Payment extends Persona {
  async answer(request) {
    await this.feedback(request, NDKDvmJobFeedbackStatus.PayReq, ["amount", "21000"]);
  }
}

// Scheduled says a word that NIP-90 does not have, and delivers.
class Scheduled extends Persona {
  bundles = true;

  async answer(request) {
    await this.feedback(request, NDKDvmJobFeedbackStatus.Scheduled);
    await this.result(request, this.delivery(await this.read(request)));
  }
}

// Clear answers in clear what was asked encrypted.
class Clear extends SealedBundles {
  async answer(request) {
    await this.result(request, this.delivery(await this.read(request)));
  }
}

const kinds = { Bundles, SealedBundles, Text, SealedText, Payment, Scheduled, Clear };
for (const name of personas) await new kinds[name](name).start();
say({ ready: true });
