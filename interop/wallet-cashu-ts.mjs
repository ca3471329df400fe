// A wallet of @cashu/cashu-ts, unmodified, against a mint of guild: node wallet-cashu-ts.mjs '{"mint": URL}'. It prints a line
// for each thing that it did, and ends at the first that did not work.
import {
	CheckStateEnum, MintQuoteState, OutputData, P2PKBuilder, Wallet, createHTLCHash, getEncodedToken, getPubKeyFromPrivKey, hasValidDleq,
	sumProofs,
} from '@cashu/cashu-ts'
import { createHash, randomBytes } from 'node:crypto'

const { mint } = JSON.parse(process.argv[2])
const done = (step, value) => console.log(JSON.stringify({ step, ...value }))
const expect = (what, want, got) => {
	if (String(got) !== String(want)) throw new Error(`${what}: ${got}, want ${want}`)
}
const refused = async (what, code, promise) => {
	const err = await promise.then(() => null, err => err)
	if (err?.code !== code) throw new Error(`${what}: ${err}, code ${err?.code}, want ${code}`)
}
const person = () => {
	const key = randomBytes(32)
	return { key: key.toString('hex'), pub: Buffer.from(getPubKeyFromPrivKey(key)).toString('hex') }
}
const open = async seed => {
	const wallet = new Wallet(mint, { unit: 'test', bip39seed: seed })
	await wallet.loadMint()
	return wallet
}
const fund = async (wallet, amount) => {
	const quote = await wallet.createMintQuoteBolt11(amount)
	expect('state of a faucet quote', MintQuoteState.PAID, quote.state)
	return wallet.mintProofsBolt11(amount, quote)
}
const token = proofs => getEncodedToken({ mint, proofs, unit: 'test' })
const total = proofs => sumProofs(proofs).toString()
const spent = async (wallet, proofs) => (await wallet.checkProofsStates(proofs)).every(s => s.state === CheckStateEnum.SPENT)
const lock = builder => builder.toOptions()

const seed = randomBytes(64)
const alice = await open(seed), bob = await open(), carol = await open()
const info = alice.getMintInfo()
done('info', { name: info.name, motd: info.motd })

let money = await fund(alice, 1000)
expect('minted', 1000, total(money))
const keyset = alice.getKeyset()
expect('proofs with a valid DLEQ', money.length, money.filter(p => hasValidDleq(p, keyset)).length)
await refused('another unit', 11013, new Wallet(mint, { unit: 'sat' }).mint.createMintQuoteBolt11({ amount: 1n, unit: 'sat' }))
done('mint', { amount: total(money) })

const owner = person()
const signed = await alice.createLockedMintQuote(64, owner.pub)
await refused('a quote without its signature', 20008, alice.mint.mintBolt11({
	quote: signed.quote, outputs: OutputData.createRandomData(64, keyset).map(o => o.blindedMessage),
}))
money.push(...await alice.mintProofsBolt11(64, signed, { privkey: owner.key }))
done('signed quote', { amount: total(money) })

let { keep, send } = await alice.send(100, money)
money = keep
const received = await bob.ops.receive(token(send)).requireDleq(true).run()
expect('received', 100, total(received))
expect('spent', true, await spent(alice, send))
await refused('a second time', 11001, carol.receive(token(send)))
done('swap, send, receive', { amount: total(received) })

const one = person(), two = person(), refund = person()
const now = Math.floor(Date.now() / 1000)
const both = lock(new P2PKBuilder().addLockPubkey([one.pub, two.pub]).requireLockSignatures(2).lockUntil(now + 3600).addRefundPubkey(refund.pub))
;({ keep, send } = await alice.ops.send(50, money).asP2PK(both).run())
money = keep
const states = await alice.checkProofsStates(send)
expect('states of locked ecash', 'UNSPENT', [...new Set(states.map(s => s.state))])
const raw = (privkeys) => {
	const locked = privkeys.length ? bob.signP2PKProofs(send, privkeys) : send
	const change = OutputData.createRandomData(50, keyset)
	return bob.mint.swap({
		inputs: locked.map(({ dleq, ...p }) => ({ ...p, witness: p.witness && JSON.stringify(p.witness) })),
		outputs: change.map(o => o.blindedMessage),
	})
}
await refused('no signature of two', 10001, raw([]))
await refused('one signature of two', 10001, raw([one.key]))
await refused('the refund before its time', 10001, raw([refund.key]))
const escrow = await bob.ops.receive(token(send)).privkey([one.key, two.key]).run()
expect('2 of 2', 50, total(escrow))
const witness = (await alice.checkProofsStates(send)).map(s => JSON.parse(s.witness).signatures.length)
expect('signatures that the mint shows', 2, [...new Set(witness)])
done('P2PK 2 of 2', { amount: total(escrow) })

const all = lock(new P2PKBuilder().addLockPubkey(one.pub).sigAll())
;({ keep, send } = await alice.ops.send(20, money).asP2PK(all).run())
money = keep
expect('SIG_ALL', 20, total(await bob.ops.receive(token(send)).privkey(one.key).run()))
done('SIG_ALL', {})

const late = lock(new P2PKBuilder().addLockPubkey([one.pub, two.pub]).requireLockSignatures(2).lockUntil(now - 60).addRefundPubkey(refund.pub))
;({ keep, send } = await alice.ops.send(30, money).asP2PK(late).run())
money = keep
const back = await alice.ops.receive(token(send)).privkey(refund.key).run()
expect('refund', 30, total(back))
money.push(...back)
done('refund after the locktime', { amount: total(back) })

const { hash, preimage } = createHTLCHash()
expect('hash', createHash('sha256').update(Buffer.from(preimage, 'hex')).digest('hex'), hash)
const hashed = lock(new P2PKBuilder().addLockPubkey(one.pub).addHashlock(hash))
;({ keep, send } = await alice.ops.send(40, money).asP2PK(hashed).run())
money = keep
const opened = send.map(p => ({ ...p, witness: JSON.stringify({ preimage, signatures: [] }) }))
const claimed = await bob.ops.receive(opened).privkey(one.key).run()
expect('HTLC', 40, total(claimed))
done('HTLC', { amount: total(claimed) })

const large = 100000
const goal = await bob.createMintQuoteBolt11(large)
expect('state of a quote beyond the faucet', MintQuoteState.UNPAID, goal.state)
await refused('an unpaid quote', 20001, bob.mintProofsBolt11(large, goal))
const rich = []
for (let i = 0; i < 2; i++) rich.push(...await fund(alice, 65536))
const melt = await alice.createMeltQuoteBolt11(goal.request)
expect('amount of the melt quote', large, melt.amount)
const result = await alice.meltProofsBolt11(melt, rich)
expect('state of the melt', 'PAID', result.quote.state)
expect('change', 31072, total(result.change))
expect('length of the preimage', 64, result.quote.payment_preimage.length)
expect('state afterwards', 'PAID', (await alice.checkMeltQuoteBolt11(melt.quote)).state)
expect('state of the paid quote', MintQuoteState.PAID, (await bob.checkMintQuoteBolt11(goal.quote)).state)
expect('minted by a melt', large, total(await bob.mintProofsBolt11(large, goal)))
money.push(...result.change)
await refused('an invoice that is paid', 20006, alice.createMeltQuoteBolt11(goal.request))
done('melt', { amount: large, change: total(result.change) })

const again = await open(seed)
const { proofs } = await again.batchRestore()
const found = await again.checkProofsStates(proofs)
const left = proofs.filter((_, i) => found[i].state === CheckStateEnum.UNSPENT)
expect('restored', total(money), total(left))
expect('restored ecash that is spendable', total(left), total(await carol.receive(token(left))))
done('restore', { amount: total(left), proofs: proofs.length })
