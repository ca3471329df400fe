package mint

import (
	"context"
	"fmt"

	"guild/cashu"
)

// What mints answer.
type (
	keysetsAnswer struct {
		Keysets list[described] `json:"keysets"`
	}
	keysAnswer struct {
		Keysets list[keysOf] `json:"keysets"`
	}
	keysOf struct {
		ID   string     `json:"id"`
		Unit string     `json:"unit"`
		Keys cashu.Keys `json:"keys"`
	}
	signaturesAnswer struct {
		Signatures list[cashu.Signature] `json:"signatures"`
	}
	restoreAnswer struct {
		Outputs    list[cashu.Output]    `json:"outputs"`
		Signatures list[cashu.Signature] `json:"signatures"`
	}
	statesAnswer struct {
		States list[stateOf] `json:"states"`
	}
	stateOf struct {
		Y       cashu.Point       `json:"Y"`
		State   State             `json:"state"`
		Witness cashu.WitnessText `json:"witness"`
	}
)

// State is the state of a proof (NUT-07) or of a quote (NUT-04, NUT-05).
type State string

// The states. A proof is Unspent, Pending or Spent; a quote to mint is Unpaid, Pending, Paid or Issued; a quote to melt is Unpaid,
// Pending or Paid.
const (
	Unspent State = "UNSPENT"
	Spent   State = "SPENT"
	Unpaid  State = "UNPAID"
	Pending State = "PENDING"
	Paid    State = "PAID"
	Issued  State = "ISSUED"
)

// Swap spends inputs for signatures on outputs, in their order (NUT-03). The sum of the inputs must be that of the outputs and
// the fee. The mint gets neither the DLEQ proofs of the inputs nor the blinding factors in them, by which it could recognise
// what it signed.
func (m *Mint) Swap(ctx context.Context, inputs []cashu.Proof, outputs []cashu.Output) (signatures []cashu.Signature, err error) {
	ctx, end := m.begin(ctx, "swap", &err)
	defer end()
	keysets, err := m.keysetsOf(ctx, outputs, false)
	if err != nil {
		return nil, err
	}
	bare, err := withoutDLEQ(inputs)
	if err != nil {
		return nil, err
	}
	request := struct {
		Inputs  []cashu.Proof  `json:"inputs"`
		Outputs []cashu.Output `json:"outputs"`
	}{bare, outputs}
	var answer signaturesAnswer
	if err := m.call(ctx, request, &answer, "swap"); err != nil {
		return nil, err
	}
	return checkAll(keysets, outputs, answer.Signatures)
}

// Restore returns the signatures that the mint made on some of the outputs, by B (NUT-09). An output with the amount 0 is one of
// which the amount is not known, or was left to the mint. A mint can conceal what it signed.
func (m *Mint) Restore(ctx context.Context, outputs []cashu.Output) (signatures map[cashu.Point]cashu.Signature, err error) {
	ctx, end := m.begin(ctx, "restore", &err)
	defer end()
	keysets, err := m.keysetsOf(ctx, outputs, true)
	if err != nil {
		return nil, err
	}
	request := struct {
		Outputs []cashu.Output `json:"outputs"`
	}{outputs}
	var answer restoreAnswer
	if err := m.call(ctx, request, &answer, "restore"); err != nil {
		return nil, err
	}
	if len(answer.Outputs) != len(answer.Signatures) {
		return nil, lie("%d signatures for %d outputs", len(answer.Signatures), len(answer.Outputs))
	}
	asked := make(map[cashu.Point]cashu.Output, len(outputs))
	for _, o := range outputs {
		asked[o.B] = o
	}
	signatures = map[cashu.Point]cashu.Signature{}
	for i, s := range answer.Signatures {
		o, ok := asked[answer.Outputs[i].B]
		if !ok {
			return nil, lie("signature %d is on an output that it was not asked for, or there twice", i)
		}
		if err := check(keysets, o, s); err != nil {
			return nil, err
		}
		signatures[o.B] = s
		delete(asked, o.B)
	}
	return signatures, nil
}

// ProofState says whether a proof is spent, by the mint.
type ProofState struct {
	State   State
	Witness cashu.WitnessText // that spent it, if it has a condition; empty if the mint has none that can be read
}

// States asks for the states of the proofs with these points, which are cashu.HashToCurve of their secrets, in their order
// (NUT-07).
func (m *Mint) States(ctx context.Context, ys []cashu.Point) (states []ProofState, err error) {
	ctx, end := m.begin(ctx, "states of proofs", &err)
	defer end()
	if err := countable(len(ys)); err != nil {
		return nil, err
	}
	request := struct {
		Ys []cashu.Point `json:"Ys"`
	}{ys}
	var answer statesAnswer
	if err := m.call(ctx, request, &answer, "checkstate"); err != nil {
		return nil, err
	}
	if len(answer.States) != len(ys) {
		return nil, lie("%d states of %d proofs", len(answer.States), len(ys))
	}
	for i, s := range answer.States {
		if s.Y != ys[i] {
			return nil, lie("state %d is that of another proof", i)
		}
		if s.State != Unspent && s.State != Pending && s.State != Spent {
			return nil, fmt.Errorf("state %d is %.20q, which is not known", i, s.State)
		}
		state := ProofState{State: s.State}
		if _, err := cashu.ParseWitness(s.Witness); err == nil && s.State == Spent {
			state.Witness = s.Witness
		}
		states = append(states, state)
	}
	return states, nil
}

// countable returns an error for a list that mints do not take, and whose answer would not be read.
func countable(n int) error {
	if n == 0 || n > cashu.MaxProofs {
		return fmt.Errorf("%d of them in one request: want 1 to %d", n, cashu.MaxProofs)
	}
	return nil
}

// withoutDLEQ returns the proofs as a mint gets them.
func withoutDLEQ(proofs []cashu.Proof) ([]cashu.Proof, error) {
	if err := countable(len(proofs)); err != nil {
		return nil, fmt.Errorf("inputs: %w", err)
	}
	bare := make([]cashu.Proof, len(proofs))
	for i, p := range proofs {
		p.DLEQ = nil
		bare[i] = p
	}
	return bare, nil
}

// keysetsOf returns the keysets of outputs. They must be known before a request is sent, for its answer is checked by them.
func (m *Mint) keysetsOf(ctx context.Context, outputs []cashu.Output, blank bool) (map[string]Keyset, error) {
	if err := countable(len(outputs)); err != nil {
		return nil, fmt.Errorf("outputs: %w", err)
	}
	keysets := map[string]Keyset{}
	for i, o := range outputs {
		k, ok := keysets[o.Keyset]
		if !ok {
			var err error
			if k, err = m.keyset(ctx, o.Keyset); err != nil {
				return nil, err
			}
			keysets[o.Keyset] = k
		}
		if _, ok := k.Keys[o.Amount]; !ok && (!blank || o.Amount != 0) {
			return nil, fmt.Errorf("output %d: keyset %s has no key for %d", i, k.ID, o.Amount)
		}
	}
	return keysets, nil
}

// checkAll checks that there is the right signature on each output.
func checkAll(keysets map[string]Keyset, outputs []cashu.Output, signatures []cashu.Signature) ([]cashu.Signature, error) {
	if len(signatures) != len(outputs) {
		return nil, lie("%d signatures for %d outputs", len(signatures), len(outputs))
	}
	for i, o := range outputs {
		if err := check(keysets, o, signatures[i]); err != nil {
			return nil, err
		}
	}
	return signatures, nil
}

// check checks the signature on an output. If the output has the amount 0, the signature decides the amount.
func check(keysets map[string]Keyset, o cashu.Output, s cashu.Signature) error {
	key, ok := keysets[o.Keyset].Keys[s.Amount]
	switch {
	case s.Keyset != o.Keyset:
		return lie("the signature on %s is of keyset %.70q instead of %s", o.B, s.Keyset, o.Keyset)
	case s.Amount != o.Amount && o.Amount != 0 || !ok:
		return lie("the signature on %s is for %d instead of %d", o.B, s.Amount, o.Amount)
	case s.DLEQ == nil:
		return lie("the signature on %s has no DLEQ proof", o.B)
	}
	if err := s.DLEQ.CheckBlind(key, o.B, s.C); err != nil {
		return lie("the signature on %s: %v", o.B, err)
	}
	return nil
}
