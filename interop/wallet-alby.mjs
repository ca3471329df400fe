// A Lightning wallet behind Nostr Wallet Connect, by Alby's SDK. It holds no money: it says of each invoice in its
// configuration that it was paid, with the preimage there. It prints a line when it listens, and one for each request.
import WebSocket from "ws";

globalThis.WebSocket ??= WebSocket; // before the SDK is loaded, which looks for it then
const { NWCWalletService, NWCWalletServiceKeyPair } = await import("@getalby/sdk/nwc");
const { relay, secret, client, invoices } = JSON.parse(process.argv[2]);
const print = (line) => console.log(JSON.stringify(line));
const failed = (code) => ({ result: undefined, error: { code, message: `nothing to say: ${code}` } });
const done = (result) => ({ result, error: undefined });

const service = new NWCWalletService({ relayUrls: [relay] });
const keys = new NWCWalletServiceKeyPair(secret, client);
const announce = () =>
  service.publishWalletServiceInfoEvent(secret, ["get_info", "get_balance", "make_invoice", "pay_invoice", "lookup_invoice"], []);
await service.subscribe(keys, {
  async getInfo() {
    return done({ alias: "Alby", network: "regtest", methods: ["get_info", "pay_invoice"] });
  },
  async getBalance() {
    return done({ balance: 21000 });
  },
  async makeInvoice({ amount }) {
    const found = invoices.find((i) => i.amount === amount);
    return found ? done({ type: "incoming", invoice: found.invoice, payment_hash: found.hash, amount }) : failed("OTHER");
  },
  async payInvoice({ invoice }) {
    print({ pays: invoice });
    const found = invoices.find((i) => i.invoice === invoice);
    return found ? done({ preimage: found.preimage, fees_paid: 2 }) : failed("PAYMENT_FAILED");
  },
  async lookupInvoice({ payment_hash }) {
    const found = invoices.find((i) => i.hash === payment_hash);
    if (!found) return failed("NOT_FOUND");
    const { invoice, hash, preimage, amount } = found;
    return done({ type: "outgoing", state: "settled", invoice, payment_hash: hash, preimage, amount, fees_paid: 2, settled_at: 1 });
  },
});
await announce(); // when the relay has this, it has the subscription before it
print({ listens: true });
process.stdin.on("end", () => process.exit(0)).resume();
