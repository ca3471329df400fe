package market

import (
	"bytes"
	"strings"
	"testing"

	"guild/internal/nut/host"
)

func TestDeliverResultIsCleaned(t *testing.T) {
	var out bytes.Buffer
	p := &host.Program{Name: "nutshell", Out: &out}
	const evil = "x\x1b[2J\u202e\nfake: line"
	for _, submitted := range []bool{true, false} {
		made := &deliverResult{File: evil, RequestID: evil, Status: evil, TaskID: evil, Server: evil, LeftOut: []string{evil}, Submitted: submitted}
		if err := made.Print(p); err != nil {
			t.Fatal(err)
		}
	}
	if text := out.String(); strings.ContainsAny(text, "\x1b\u202e") || strings.Contains(text, "\nfake") {
		t.Errorf("%q", text)
	}
}
