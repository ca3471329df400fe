package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"guild/internal/control"
)

func TestFailureReasonIsNotCut(t *testing.T) {
	var out bytes.Buffer
	p := &program{out: &out, now: time.Now}
	why := "the worker failed with exit code 7: " + strings.Repeat("no such file; ", 20) + "that is all"
	p.showRequest(control.Request{Ending: "failed", Reason: why})
	if !strings.Contains(out.String(), "failed: "+why+"\n") {
		t.Error(out.String())
	}
}
