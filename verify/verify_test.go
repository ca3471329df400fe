package verify_test

import (
	"io/fs"
	"maps"
	"slices"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"guild"
	"guild/nip90"
	"guild/receipt"
	"guild/verify"
)

// dir returns an export as a directory.
func dir(f files) fstest.MapFS {
	d := fstest.MapFS{}
	for name, b := range f {
		d[name] = &fstest.MapFile{Data: b}
	}
	return d
}

// states returns the states of a report's lines by name.
func states(r verify.Report) map[string]verify.State {
	m := map[string]verify.State{}
	for _, c := range r.Checks {
		m[c.Name] = c.State
	}
	return m
}

// failures returns the names of the failed lines.
func failures(r verify.Report) (names []string) {
	for _, c := range r.Checks {
		if c.State == verify.Failed {
			names = append(names, c.Name)
		}
	}
	return names
}

// stories returns the valid exports.
func stories() map[string]story {
	return map[string]story{
		"in clear":              {},
		"sealed and opened":     {sealed: true},
		"sealed":                {sealed: true, closed: true},
		"that supersedes":       {superseding: true},
		"paid over Lightning":   {rail: "lightning"},
		"held over Lightning":   {rail: "lightning", sealed: true, quote: func(f *nip90.Feedback) { f.Extra = append(f.Extra, nip90.Hold(paidHash())) }},
		"paid in ecash, sealed": {rail: "cashu", sealed: true},
		"paid on the chain":     {rail: "onchain"},
		"paid to an address":    {rail: "address"},
		"paid, and no block":    {rail: "address", chain: unconfirmed},
		"paid from an escrow":   {rail: "escrow"},
		"paid a share, sealed":  {rail: "escrow", sealed: true, deal: shared},
		"refunded":              {rail: "escrow", deal: refunded},
		"paid, with an arbiter": {rail: "escrow", deal: judged, request: names("arbiter")},
		"paid a share, with an arbiter": {rail: "escrow", request: names("arbiter"), deal: func(d *deal) {
			judged(d)
			shared(d)
		}},
		"paid ahead":            {rail: "escrow", deal: inAdvance},
		"paid ahead, sealed":    {rail: "escrow", sealed: true, deal: inAdvance},
		"made by the customer":  {selfmade: true},
		"refunded, undelivered": {rail: "escrow", deal: refunded, undelivered: true, unjudged: true},
		"paid ahead in vain":    {rail: "escrow", sealed: true, deal: inAdvance, undelivered: true, unjudged: true},
		"typed":                 {typed: true},
		"chosen by an opinion":  {typed: true, verdict: preferred, evidence: alone},
		"typed, and ruled":      {typed: true, verdict: ruledPartial},
		"typed, sealed":         {typed: true, sealed: true},
		"answered in plain":     {plain: "42"},
		"by an agent, sealed": {
			sealed: true, result: func(r *nip90.Result) { r.Behaviour = guild.Sum([]byte("x")) },
			receipt: func(r *receipt.Receipt) { r.Behaviour = guild.Sum([]byte("x")) },
		},
		"with strengths":               {verdict: proven},
		"with hidden tests":            {verdict: proven, reveals: true},
		"with its worker's trajectory": {sealed: true, closed: true, worker: true},
		"with encrypted members in its entry": {entry: func(decision map[string]any) string {
			decision["v"], decision["sealed"] = 2, "c2VhbGVk"
			return ""
		}},
	}
}

func TestValidExports(t *testing.T) {
	for name, s := range stories() {
		r := verify.Export(dir(s.export(t)))
		for _, c := range r.Checks {
			t.Logf("%s: %s %s: %s", name, c.State, c.Name, c.Detail)
		}
		if !r.OK() || r.Receipt == "" {
			t.Errorf("%s: %v", name, r)
		}
		var absent []string
		for _, c := range r.Checks {
			if c.State == verify.Absent {
				absent = append(absent, c.Name)
			}
		}
		want := []string{}
		if s.closed {
			want = append(want, "job hash")
		}
		if s.selfmade {
			want = append(want, "result")
		}
		if s.undelivered {
			want = append(want, "result", "delivery", "verdict", "evidence")
		}
		if !s.reveals {
			want = append(want, "hidden tests")
		}
		if !s.worker {
			want = append(want, "worker trajectory")
		}
		if s.rail == "" || s.rail == "onchain" || s.rail == "address" || name == "held over Lightning" || r.Facts.Refunded > 0 {
			want = append(want, "payment")
		}
		if s.selfmade {
			want = append(want, "witness")
		}
		if !s.superseding {
			want = append(want, "supersedes")
		}
		if !slices.Equal(absent, want) {
			t.Errorf("%s: absent %v, want %v", name, absent, want)
		}
	}
}

func TestMissingFilesAbsent(t *testing.T) {
	needed := map[string]string{verify.FileReceipt: "receipt", verify.FileReceiptEvent: "receipt signature"}
	for name, s := range stories() {
		good := s.export(t)
		for file := range good {
			less := maps.Clone(good)
			delete(less, file)
			r := verify.Export(dir(less))
			want := []string{}
			if line := needed[file]; line != "" {
				want = append(want, line)
			}
			_, sealed := good[verify.FileRequestKey]
			switch {
			case file == verify.FileEntry:
				want = append(want, "journal entry") // its proof remains
			case file == verify.FileTransaction && good[verify.FileInclusion] != nil:
				want = append(want, "payment") // its block remains
			case sealed && (file == verify.FileRequest || file == verify.FileResult) || file == verify.FileQuote && good[verify.FileQuoteKey] != nil:
				want = append(want, about(file)) // its key remains
			}
			if got := failures(r); !slices.Equal(got, want) && len(got)+len(want) > 0 {
				t.Errorf("%s without %s: failed %q, want %q", name, file, got, want)
			}
			if line := about(file); len(want) == 0 && file != verify.FileRequestKey && file != verify.FileResultKey && states(r)[line] == verify.Passed &&
				!(s.rail == "onchain" && file == verify.FileQuote) {
				t.Errorf("%s without %s: the line %s has passed", name, file, line)
			}
		}
	}
}

func TestEmptyExportsFail(t *testing.T) {
	for name, f := range map[string]files{
		"nothing": {}, "no receipt": {verify.FilePolicy: []byte("{}")}, "something else": {"x": nil}, "an empty receipt": {verify.FileReceipt: nil},
	} {
		r := verify.Export(dir(f))
		if r.OK() || r.Receipt != "" || states(r)["receipt"] != verify.Failed {
			t.Errorf("%s: %v", name, r)
		}
	}
	if (verify.Report{}).OK() {
		t.Error("a report of nothing is good")
	}
}

// A receipt that another key signs again, with everything that follows from it, is not the customer's.
func TestReceiptSignedByStranger(t *testing.T) {
	other := stranger()
	f := story{judge: &other}.export(t)
	delete(f, verify.FileEntry)
	delete(f, verify.FileProof)
	if got := failures(verify.Export(dir(f))); !slices.Equal(got, []string{"receipt signature"}) {
		t.Errorf("failed %q", got)
	}
}

func TestUnjudgedExport(t *testing.T) {
	f := story{unjudged: true}.export(t)
	r := verify.Export(dir(f))
	if !r.OK() || states(r)["verdict"] != verify.Absent {
		t.Errorf("%v", r)
	}
	judged := story{}.export(t)
	for _, name := range []string{verify.FileVerdict, verify.FileEvidence} {
		f[name] = judged[name]
	}
	if got := failures(verify.Export(dir(f))); !slices.Equal(got, []string{"verdict", "evidence"}) {
		t.Errorf("failed %q", got)
	}
}

func FuzzExport(f *testing.F) {
	base := story{sealed: true, rail: "lightning"}.export(f)[verify.FileReceipt]
	for _, s := range stories() {
		for name, b := range s.export(f) {
			f.Add(name, b)
		}
	}
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		if !fs.ValidPath(name) || name == "." {
			return
		}
		r := verify.Export(dir(files{verify.FileReceipt: base, name: b})) // without the other files, because their signatures take long
		if len(r.Checks) != 20 {
			t.Fatalf("%v", r)
		}
		for _, c := range r.Checks {
			if !utf8.ValidString(c.Detail) || len(c.Detail) > 2000 {
				t.Fatalf("%s: a detail of %d bytes: %.200q", c.Name, len(c.Detail), c.Detail)
			}
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	archive := must[[]byte](b)(verify.Pack(story{sealed: true, rail: "lightning"}.export(b)))
	for b.Loop() {
		if r, err := verify.Archive(archive); err != nil || !r.OK() {
			b.Fatal(r, err)
		}
	}
}
