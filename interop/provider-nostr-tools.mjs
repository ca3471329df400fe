// Providers written with nostr-tools. Each speaks the dialect of a program that is found on relays.
import WebSocket from "ws";
import { finalizeEvent, generateSecretKey, getPublicKey, nip44 } from "nostr-tools";
import { SimplePool, useWebSocketImplementation } from "nostr-tools/pool";
import { accepts, bundleOf, config, deliver, inputOf, parcel, say } from "./nut.mjs";

useWebSocketImplementation(WebSocket);
const { relay, personas } = config;
const pool = new SimplePool();

const now = () => Math.floor(Date.now() / 1000);
const has = (event, name) => event.tags.some((t) => t[0] === name);
const value = (tags, name) => tags.find((t) => t[0] === name)?.[1];

// persona has a key, an announcement and a way to answer.
class Persona {
  constructor(name) {
    this.name = name;
    this.secret = generateSecretKey();
    this.pubkey = getPublicKey(this.secret);
  }

  publish(kind, tags, content) {
    const event = finalizeEvent({ kind, created_at: now(), tags, content }, this.secret);
    return Promise.any(pool.publish([relay], event));
  }

  key(other) {
    return nip44.getConversationKey(this.secret, other);
  }

  // read returns the tags of the work, as they stand inside where the request is encrypted.
  read(request) {
    if (!has(request, "encrypted")) return request.tags;
    return JSON.parse(nip44.decrypt(request.content, this.key(request.pubkey)));
  }

  seal(request, text) {
    return nip44.encrypt(text, this.key(request.pubkey));
  }

  announce(...tags) {
    const card = { name: this.name, accepts: this.bundles ? accepts : undefined };
    return this.publish(31990, [["d", "echo"], ["k", "5000"], ["t", "echo"], ...tags], JSON.stringify(card));
  }

  // result answers in the way of NIP-90's text.
  result(request, content) {
    const tags = [["request", JSON.stringify(request)], ["e", request.id, relay], ["p", request.pubkey]];
    return this.publish(request.kind + 1000, tags, content);
  }

  sealed(request, content) {
    const tags = [["e", request.id, relay], ["p", request.pubkey], ["encrypted"]];
    return this.publish(request.kind + 1000, tags, this.seal(request, content));
  }

  delivery(tags) {
    return parcel(deliver(bundleOf(tags), inputOf(tags).toUpperCase()));
  }
}

class Bundles extends Persona {
  bundles = true;

  async answer(request) {
    await this.publish(7000, [["status", "processing"], ["e", request.id], ["p", request.pubkey]], "");
    return this.result(request, this.delivery(this.read(request)));
  }
}

class Reads44 extends Persona {
  announce() {
    return super.announce(["encryption", "nip44"]);
  }
}

class SealedBundles extends Reads44 {
  bundles = true;

  answer(request) {
    return this.sealed(request, this.delivery(this.read(request)));
  }
}

class Text extends Persona {
  answer(request) {
    return this.result(request, inputOf(this.read(request)).toUpperCase());
  }
}

class SealedText extends Reads44 {
  answer(request) {
    return this.sealed(request, inputOf(this.read(request)).toUpperCase());
  }
}

// Capacity is the agent of 2020117 when it has no slot left: p, e, status, and a newline at the end.
class Capacity extends Persona {
  async announce() {
    await this.publish(30333, [["d", "agent"], ["status", "available"], ["capacity", "0"]], "");
    return super.announce();
  }

  answer(request) {
    const tags = [["p", request.pubkey], ["e", request.id], ["status", "error"]];
    return this.publish(7000, tags, "Agent at capacity\n");
  }
}

// Clear is the same agent with a slot: it reads the bid outside only, and answers in clear whatever was asked.
class Clear extends Reads44 {
  async answer(request) {
    say({ persona: this.name, bid: value(request.tags, "bid") ?? null });
    const tags = [["p", request.pubkey], ["e", request.id], ["status", "processing"]];
    await this.publish(7000, tags, "on it\n");
    await this.publish(31117, [["d", request.id], ["p", request.pubkey], ["rating", "5"]], "a good customer\n");
    return this.result(request, inputOf(this.read(request)).toUpperCase() + "\n");
  }
}

// Nostrdvm is nostrdvm: it puts the decrypted tags in place of all the others, and has many words for how it goes.
class Nostrdvm extends Reads44 {
  bundles = true;

  async announce() {
    await this.publish(11998, [["status", "online"]], "");
    return super.announce();
  }

  async answer(request) {
    const encrypted = has(request, "encrypted");
    const tags = this.read(request);
    say({ persona: this.name, bid: value(tags, "bid") ?? null });
    await this.publish(7007, [["p", request.pubkey], ["status", "pong"]], "");
    await this.publish(9735, [["p", request.pubkey], ["e", request.id], ["bolt11", "lnbc1"]], "");
    for (const status of ["pong", "subscription-required", "payment-rejected", "chain-scheduled", "processing"]) {
      const said = [["e", request.id], ["p", request.pubkey], ["status", status], ["alt", "a job"]];
      if (encrypted) {
        const inside = this.seal(request, JSON.stringify([...said, ["content", `${status} it is`]]));
        await this.publish(7000, [["e", request.id], ["p", request.pubkey], ["encrypted"]], inside);
      } else {
        await this.publish(7000, said, `${status} it is`);
      }
    }
    if (encrypted) {
      const outside = [["encrypted"], ["p", request.pubkey], ["e", request.id]];
      return this.publish(request.kind + 1000, outside, this.seal(request, this.delivery(tags)));
    }
    const plain = [
      ["request", JSON.stringify(request)], ["e", request.id], ["p", request.pubkey], ["status", "success"],
      ["expiration", String(now() + 600)], ["alt", "the result of a NIP-90 job"],
    ];
    return this.publish(request.kind + 1000, plain, this.delivery(tags));
  }
}

class NostrdvmPlain extends Nostrdvm {
  announce() {
    return Persona.prototype.announce.call(this);
  }
}

// OpenAgents announces without d and k, and asks for its money with the result.
class OpenAgents extends Persona {
  announce() {
    const tags = [["handler", "compute_provider"], ["capability", "echo"], ["price", "10", "sats"]];
    return this.publish(31990, tags, JSON.stringify({ name: this.name, description: "inference", accepts }));
  }

  async answer(request) {
    const amount = ["amount", "10000"];
    await this.publish(7000, [["status", "processing"], ["e", request.id], ["p", request.pubkey], amount], "");
    const tags = [["e", request.id], ["p", request.pubkey], ["request", JSON.stringify(request)], [...amount, "lnbc100n1"]];
    return this.publish(request.kind + 1000, tags, this.delivery(request.tags));
  }
}

// WrongKind answers with the kind of another job.
class WrongKind extends Persona {
  bundles = true;

  async answer(request) {
    const tags = [["e", request.id], ["p", request.pubkey]];
    await this.publish(6999, tags, this.delivery(this.read(request)));
    return this.publish(7000, [...tags, ["status", "error", "no such model"]], "");
  }
}

// wallet connects to the Lightning wallet of the configuration, by Alby's client.
async function wallet() {
  globalThis.WebSocket ??= WebSocket; // before the SDK is loaded, which looks for it then
  const { NWCClient } = await import("@getalby/sdk/nwc");
  return new NWCClient({ nostrWalletConnectUrl: config.wallet });
}

// Invoiced asks for its price first, and works once its wallet has it.
class Invoiced extends Persona {
  async answer(request) {
    const ours = await wallet();
    const { invoice, payment_hash } = await ours.makeInvoice({ amount: 50000 });
    const tags = [["status", "payment-required"], ["e", request.id], ["p", request.pubkey], ["amount", "50000", invoice]];
    await this.publish(7000, tags, "");
    while ((await ours.lookupInvoice({ payment_hash })).state !== "settled") await new Promise((r) => setTimeout(r, 200));
    ours.close();
    return this.result(request, inputOf(this.read(request)).toUpperCase());
  }
}

// Billed works first, and asks for its price in the result.
class Billed extends Persona {
  async answer(request) {
    const ours = await wallet();
    const { invoice } = await ours.makeInvoice({ amount: 40000 });
    ours.close();
    const tags = [["e", request.id], ["p", request.pubkey], ["amount", "40000", invoice]];
    return this.publish(request.kind + 1000, tags, inputOf(this.read(request)).toUpperCase());
  }
}

const kinds = { Bundles, SealedBundles, Text, SealedText, Capacity, Clear, Nostrdvm, NostrdvmPlain, OpenAgents, WrongKind, Invoiced, Billed };
for (const name of personas) {
  const p = new kinds[name](name);
  const listening = new Promise((resolve) => {
    pool.subscribe([relay], { kinds: [5000], "#p": [p.pubkey] }, {
      oneose: resolve,
      onevent(request) {
        say({ persona: name, heard: request.id, encrypted: has(request, "encrypted") });
        p.answer(request).catch((err) => say({ error: `${name}: ${err?.stack ?? err}` }));
      },
    });
  });
  await listening;
  await p.announce();
  say({ persona: name, pubkey: p.pubkey });
}
say({ ready: true });
