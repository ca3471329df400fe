package main

import (
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

func TestFullDiskHasHint(t *testing.T) {
	err := fmt.Errorf("remember this hire: %w", &fs.PathError{Op: "write", Path: "hires/5f21", Err: syscall.ENOSPC})
	if hint := hintOf(err); !strings.Contains(hint, "room") {
		t.Errorf("%v has the hint %q", err, hint)
	}
}
