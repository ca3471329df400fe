package main

import (
	"bytes"
	"strings"
	"testing"

	"guild/internal/cli"
	"guild/internal/control"
)

func TestFeeOfAReceivedToken(t *testing.T) {
	var out bytes.Buffer
	p := &program{out: &out}
	if err := p.showMoved(control.Moved{Amount: 7, Fee: 1, Unit: "sat", Mint: "https://m"}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "received  7 sat at https://m, after the mint's fee of 1\n" {
		t.Errorf("%q", out.String())
	}
}

func TestReconciledOrNot(t *testing.T) {
	open := control.Reconciled{
		Differences: []control.Difference{{Unit: "sat", Amount: 8, State: "SPENT"}},
		Imbalances:  []control.Imbalance{{Unit: "sat", Account: "held", Ledger: -300}},
	}
	booked := control.Reconciled{
		Differences: []control.Difference{{Unit: "sat", Amount: 8, State: "SPENT", Booked: true}},
		Imbalances:  []control.Imbalance{{Unit: "sat", Account: "held", Ledger: -300, Booked: true}},
	}
	for _, c := range []struct {
		name  string
		of    control.Reconciled
		write bool
		hint  string
		says  []string
	}{
		{name: "nothing differs", says: []string{"balanced"}},
		{name: "it differs", of: open, hint: "guild wallet reconcile --write", says: []string{"SPENT", "-300"}},
		{name: "it was booked", of: booked, write: true, says: []string{"lost", "corrected"}},
		{name: "some was not booked", of: open, write: true, hint: "when its mint"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			p := &program{out: &out}
			if err := p.showReconciled(c.of); err != nil {
				t.Fatal(err)
			}
			for _, word := range c.says {
				if !strings.Contains(out.String(), word) {
					t.Errorf("%q does not say %q", out.String(), word)
				}
			}
			err := differing(c.of, c.write)
			if (err != nil) != (c.hint != "") || !strings.Contains(cli.HintOf(err), c.hint) {
				t.Errorf("%v, hint %q, want %q", err, cli.HintOf(err), c.hint)
			}
		})
	}
}
