package mintd

import (
	"runtime"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"guild/cashu"
)

type swapRequest struct {
	Inputs  list[cashu.Proof]  `json:"inputs"`
	Outputs list[cashu.Output] `json:"outputs"`
}

type signatures struct {
	Signatures []cashu.Signature `json:"signatures"`
}

// swap exchanges proofs for signatures (NUT-03).
func (m *Mint) swap(r swapRequest) (any, error) {
	worth, err := m.worth(r.Inputs)
	if err != nil {
		return nil, err
	}
	sum, err := m.checkOutputs(r.Outputs)
	if err != nil {
		return nil, err
	}
	if sum != worth {
		return nil, refuse(codeBalance, "the outputs are %d, but the inputs without the fee %d", sum, worth)
	}
	inputs, err := m.checkInputs(r.Inputs, r.Outputs, "", m.options.Now())
	if err != nil {
		return nil, err
	}
	outputs, err := m.sign(r.Outputs)
	if err != nil {
		return nil, err
	}
	err = m.store.update(func(tx *bbolt.Tx) error { return move(tx, inputs, outputs) })
	return signatures{m.wire(outputs)}, err
}

// worth returns the sum of inputs without the fee, after the checks that need no arithmetic on the curve.
func (m *Mint) worth(inputs []cashu.Proof) (uint64, error) {
	if len(inputs) == 0 {
		return 0, refuse(codeBalance, "no inputs")
	}
	seen := map[string]bool{}
	for i, p := range inputs {
		k, ok := m.keysets[p.Keyset]
		if !ok {
			return 0, refuse(codeKeyset, "input %d: keyset %.70q is unknown", i+1, p.Keyset)
		}
		if _, ok := k.private[p.Amount]; !ok {
			return 0, refuse(codeProof, "input %d: there is no key for the amount %d", i+1, p.Amount)
		}
		if seen[p.Secret] {
			return 0, refuse(codeTwiceIn, "input %d is there twice", i+1)
		}
		seen[p.Secret] = true
	}
	sum, err := cashu.Worth(inputs)
	if err != nil {
		return 0, refuse(codeAmount, "inputs: %v", err)
	}
	fee, err := cashu.Fee(inputs, func(id string) (uint64, bool) { return m.keysets[id].Fee, true })
	if err != nil {
		return 0, err
	}
	if sum < fee {
		return 0, refuse(codeBalance, "the inputs are %d, and the fee %d", sum, fee)
	}
	return sum - fee, nil
}

// checkInputs checks that the mint signed the inputs, and their spending conditions (NUT-10, NUT-11, NUT-14). worth has checked
// them. quote is that of a melt, else empty.
func (m *Mint) checkInputs(inputs []cashu.Proof, outputs []cashu.Output, quote string, now time.Time) ([]spend, error) {
	spends := make([]spend, len(inputs))
	err := each(len(inputs), func(i int) error {
		p := inputs[i]
		y := cashu.HashToCurve(p.Secret)
		c, err := m.keysets[p.Keyset].private[p.Amount].Sign(y)
		if err != nil || c != p.C {
			return refuse(codeProof, "input %d is not signed by this mint", i+1)
		}
		spends[i] = spend{y: y, witness: p.Witness}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := cashu.CheckInputs(inputs, outputs, quote, now); err != nil {
		return nil, refuse(codeProof, "%v", err)
	}
	return spends, nil
}

// checkOutputs returns the sum of outputs that can be signed.
func (m *Mint) checkOutputs(outputs []cashu.Output) (uint64, error) {
	if err := m.checkBlank(outputs); err != nil {
		return 0, err
	}
	amounts := make([]uint64, len(outputs))
	for i, o := range outputs {
		if _, ok := m.active.private[o.Amount]; !ok {
			return 0, refuse(codeAmount, "output %d: there is no key for the amount %d", i+1, o.Amount)
		}
		amounts[i] = o.Amount
	}
	sum, err := cashu.Sum(amounts...)
	if err != nil {
		return 0, refuse(codeAmount, "outputs: %v", err)
	}
	return sum, nil
}

// checkBlank checks outputs whose amounts do not matter (NUT-08).
func (m *Mint) checkBlank(outputs []cashu.Output) error {
	seen := map[cashu.Point]bool{}
	for i, o := range outputs {
		k, ok := m.keysets[o.Keyset]
		if !ok {
			return refuse(codeKeyset, "output %d: keyset %.70q is unknown", i+1, o.Keyset)
		}
		if k != m.active {
			return refuse(codeInactive, "output %d: keyset %.70q signs no more", i+1, o.Keyset)
		}
		if o.B == (cashu.Point{}) {
			return refuse(codeRequest, "output %d has no blinded message", i+1)
		}
		if seen[o.B] {
			return refuse(codeTwiceOut, "output %d is there twice", i+1)
		}
		seen[o.B] = true
	}
	return nil
}

// sign signs outputs that were checked. Nobody may see the signatures before they are stored.
func (m *Mint) sign(outputs []cashu.Output) ([]signed, error) {
	all := make([]signed, len(outputs))
	err := each(len(outputs), func(i int) error {
		o := outputs[i]
		key, ok := m.active.private[o.Amount]
		if !ok {
			return refuse(codeAmount, "there is no key for the amount %d", o.Amount)
		}
		c, err := key.Sign(o.B)
		if err != nil {
			return refuse(codeRequest, "output %d: %v", i+1, err)
		}
		proof, err := key.Prove(o.B, c)
		if err != nil {
			return refuse(codeRequest, "output %d: %v", i+1, err)
		}
		all[i] = signed{b: o.B, keyset: m.active.number, amount: o.Amount, c: c, proof: proof}
		return nil
	})
	return all, err
}

// each calls do for the numbers below n, on all processors, and returns the first error.
func each(n int, do func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}

// wire returns signatures as wallets get them (NUT-00, NUT-12).
func (m *Mint) wire(all []signed) []cashu.Signature {
	out := make([]cashu.Signature, len(all))
	for i, s := range all {
		out[i] = cashu.Signature{Amount: s.amount, Keyset: m.keysetID(s.keyset), C: s.c, DLEQ: &all[i].proof}
	}
	return out
}

func (m *Mint) keysetID(number uint32) string {
	for id, k := range m.keysets {
		if k.number == number {
			return id
		}
	}
	return "" // not reached: signatures are stored with keysets that are
}

type stateRequest struct {
	Ys list[cashu.Point] `json:"Ys"`
}

type states struct {
	States []state `json:"states"`
}

type state struct {
	Y       cashu.Point        `json:"Y"`
	State   string             `json:"state"`
	Witness *cashu.WitnessText `json:"witness"`
}

// checkState says which proofs are spent, and by which witness (NUT-07). None is ever pending.
func (m *Mint) checkState(r stateRequest) (any, error) {
	all := states{make([]state, len(r.Ys))}
	err := m.store.view(func(tx *bbolt.Tx) error {
		for i, y := range r.Ys {
			all.States[i] = state{Y: y, State: "UNSPENT"}
			b := tx.Bucket(bucketSpent).Get(y[:])
			if b == nil {
				continue
			}
			all.States[i].State = "SPENT"
			if witness := cashu.WitnessText(b[1:]); witness != "" {
				all.States[i].Witness = &witness
			}
		}
		return nil
	})
	return all, err
}

type restoreRequest struct {
	Outputs list[cashu.Output] `json:"outputs"`
}

type restored struct {
	Outputs    []cashu.Output    `json:"outputs"`
	Signatures []cashu.Signature `json:"signatures"`
}

// restore returns the signatures on blinded messages, of which only those that were signed (NUT-09).
func (m *Mint) restore(r restoreRequest) (any, error) {
	outputs, found := []cashu.Output{}, []signed{}
	err := m.store.view(func(tx *bbolt.Tx) error {
		for _, o := range r.Outputs {
			s, ok, err := signatureOn(tx, o.B)
			if err != nil {
				return err
			}
			if ok {
				outputs, found = append(outputs, o), append(found, s)
			}
		}
		return nil
	})
	return restored{outputs, m.wire(found)}, err
}
