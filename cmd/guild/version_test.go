package main

import (
	"bytes"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionNamesRevision(t *testing.T) {
	for want, modified := range map[string]string{
		"v1.2.3 linux/amd64 go1.26 revision 0123456789ab\n":           "false",
		"v1.2.3 linux/amd64 go1.26 revision 0123456789ab, modified\n": "true",
	} {
		b := buildReport{Go: "go1.26", Platform: "linux/amd64"}
		b.read(&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: strings.Repeat("0123456789abcdef", 2)}, {Key: "vcs.modified", Value: modified},
		}})
		var out bytes.Buffer
		if err := (&program{out: &out}).showVersion(b); err != nil || out.String() != "guild "+want {
			t.Errorf("got %q, %v, want %q", out.String(), err, want)
		}
	}
}
