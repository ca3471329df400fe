package exam

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"guild"
)

// serve is a module for the services of testdata/lies.txtar.
const serve = `
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
def serve(answer):
    class Handler(BaseHTTPRequestHandler):
        def reply(self):
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            code, body = answer(self.command, self.path, sent)
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("X-Mark", "7")
            self.send_header("X-Length", str(len(self.path)))
            self.end_headers()
            self.wfile.write(body.encode())
        do_GET = do_POST = do_DELETE = reply
    HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
`

// TestLyingProgramsNotStrong examines programs, services and databases that lie, and honest ones.
func TestLyingProgramsNotStrong(t *testing.T) {
	e := newEngine(t)
	wait, done := some()
	lies, honest := 0, 0
	for name, files := range programs(t, "lies.txtar") {
		criteria := map[string]string{"tests/criteria.json": files["criteria.json"]}
		deliveries := map[string]bool{}
		for file := range files {
			if dir, _, inside := strings.Cut(file, "/"); inside {
				deliveries[dir] = true
			}
		}
		for _, dir := range slices.Sorted(maps.Keys(deliveries)) {
			if dir == "honest" {
				honest++
			} else {
				lies++
			}
			t.Run(name+"/"+dir, func(t *testing.T) {
				t.Parallel()
				wait()
				defer done()
				delivered := under(files, dir, "")
				delivered["serve.py"] = serve
				r, err := e.Examine(t.Context(), request(t, criteria), deliver(t, delivered))
				if err != nil {
					t.Fatal(err)
				}
				f := r.Findings[0]
				t.Logf("%d of %d passed, %s: %s, unproven %q", Passed(f.Tests), len(f.Tests), f.Strength, f.Because, f.Unproven)
				if dir == "honest" {
					if Passed(f.Tests) != len(f.Tests) || f.Strength != guild.Strong || len(f.Unproven) > 0 {
						t.Errorf("%d of %d passed, %s (%s), want all, strong", Passed(f.Tests), len(f.Tests), f.Strength, f.Because)
						unpassed(t, f)
					}
					return
				}
				if Passed(f.Tests) > 0 && f.Strength != guild.Weak {
					t.Errorf("%d of %d passed, %s (%s), want weak", Passed(f.Tests), len(f.Tests), f.Strength, f.Because)
				}
				for _, test := range f.Tests {
					if test.Strength != "" && test.Strength != guild.Weak {
						t.Errorf("%s is %s", test.ID, test.Strength)
					}
				}
			})
		}
	}
	if lies < 30 || honest < 8 {
		t.Errorf("%d lies and %d honest deliveries", lies, honest)
	}
}

// TestVetKnowsLies vets the criteria of the deliveries above: those without an honest one that is strong show nothing.
func TestVetKnowsLies(t *testing.T) {
	e := quick(t)
	for name, files := range programs(t, "lies.txtar") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := vetted(t, e, request(t, map[string]string{"tests/criteria.json": files["criteria.json"]}), false)
			want := guild.Weak
			if len(under(files, "honest", "")) > 0 {
				want = guild.Strong
			}
			if v.Strength != want || (len(v.Problems) > 0) != (want == guild.Weak) {
				t.Errorf("%s, want %s: %q, %+v", v.Strength, want, v.Problems, v.Criteria)
			}
		})
	}
}
