// A Lightning wallet behind Nostr Wallet Connect, by Alby's SDK, with an account for each client. It holds no money: it makes
// and pays the invoices in its configuration, with the preimages there; the payment of some fails, or comes to no end. It prints
// a line when it listens, and one for each payment.
import WebSocket from "ws";

globalThis.WebSocket ??= WebSocket; // before the SDK is loaded, which looks for it then
const { NWCWalletService, NWCWalletServiceKeyPair } = await import("@getalby/sdk/nwc");
const { relay, secret, clients, invoices } = JSON.parse(process.argv[2]);
const print = (line) => console.log(JSON.stringify(line));
const failed = (code) => ({ result: undefined, error: { code, message: `nothing to say: ${code}` } });
const done = (result) => ({ result, error: undefined });

const service = new NWCWalletService({ relayUrls: [relay] });
const makers = new Map(); // by payment hash: the client whose invoice it is
const payers = new Map(); // by payment hash: the client that has paid
const announce = () =>
  service.publishWalletServiceInfoEvent(secret, ["get_info", "get_balance", "make_invoice", "pay_invoice", "lookup_invoice"], []);
const account = (client) => ({
  async getInfo() {
    return done({ alias: "Alby", network: "regtest", methods: ["get_info", "get_balance", "pay_invoice", "make_invoice", "lookup_invoice"] });
  },
  async getBalance() {
    return done({ balance: 21000 });
  },
  async makeInvoice({ amount }) {
    const found = invoices.find((i) => i.amount === amount);
    if (!found) return failed("OTHER");
    makers.set(found.hash, client);
    return done({ type: "incoming", invoice: found.invoice, payment_hash: found.hash, amount });
  },
  async payInvoice({ invoice }) {
    print({ pays: invoice });
    const found = invoices.find((i) => i.invoice === invoice);
    if (!found) return failed("PAYMENT_FAILED");
    payers.set(found.hash, client);
    if (found.fate) return failed(found.fate === "failed" ? "PAYMENT_FAILED" : "OTHER");
    return done({ preimage: found.preimage, fees_paid: 2 });
  },
  async lookupInvoice({ payment_hash: hash }) {
    const { invoice, amount, preimage, fate } = invoices.find((i) => i.hash === hash) ?? {};
    const one = { invoice, payment_hash: hash, amount, created_at: 1 };
    if (payers.get(hash) === client && fate) return done({ ...one, type: "outgoing", state: fate });
    if (payers.get(hash) === client) return done({ ...one, type: "outgoing", state: "settled", preimage, fees_paid: 2, settled_at: 1 });
    if (makers.get(hash) !== client) return failed("NOT_FOUND");
    return done({ ...one, type: "incoming", ...(payers.has(hash) ? { state: "settled", preimage, settled_at: 1 } : { state: "pending" }) });
  },
});
for (const client of clients) await service.subscribe(new NWCWalletServiceKeyPair(secret, client), account(client));
await announce(); // when the relay has this, it has the subscription before it
print({ listens: true });
process.stdin.on("end", () => process.exit(0)).resume();
