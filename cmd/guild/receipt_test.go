package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestReceiptForAPerson(t *testing.T) {
	var out bytes.Buffer
	receipt := `{"receipt_id":"r-1","job":"5f21c9aa00","task":"python","outcome":"SUCCESS","provider_id":"npub1abc","passed":3,"expected":3,
		"timestamp":"2026-11-24T03:21:23.889Z","amount_msats":0,"delivery_hash":"sha256:1b[2J\u001b"}`
	if err := showReceipt(&out, []byte(receipt)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"receipt   r-1\n", "outcome   SUCCESS, 3 of 3 tests passed\n", "provider  npub1abc\n", "guild receipt export 5f21c9aa writes"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("it drives a terminal: %q", out.String())
	}
}
