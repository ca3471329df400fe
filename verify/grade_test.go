package verify_test

import (
	"maps"
	"strings"
	"testing"

	"guild/verify"
)

// without returns files without those whose names begin with one of the words.
func without(f files, words ...string) files {
	less := maps.Clone(f)
	maps.DeleteFunc(less, func(name string, _ []byte) bool {
		for _, word := range words {
			if strings.HasPrefix(name, word) {
				return true
			}
		}
		return false
	})
	return less
}

func TestGrades(t *testing.T) {
	good := story{sealed: true}.export(t)
	elsewhere := stranger()
	changed := maps.Clone(good)
	changed[verify.FilePolicy] = []byte("{}")
	for name, c := range map[string]struct {
		files files
		want  verify.Grade
		words string // in the summary
	}{
		"whole":                          {good, verify.Witnessed, "The customer's journal had it on 2026-09-21. The provider countersigned that on 2026-09-21."},
		"without its witness":            {without(good, verify.FileWitness), verify.Sealed, "The customer's journal had it on 2026-09-21."},
		"without its proof":              {without(good, verify.FileProof), verify.Judged, "SUCCESS, with 5 of 6 tests passed; nothing was owed."},
		"without its checkpoint":         {without(good, verify.FileCheckpoint), verify.Judged, "npub14ncmk…lc3y had npub18dt7u…3hgn do “python-function” on 2026-09-21"},
		"without its verdict":            {without(good, verify.FileVerdict), verify.TwoParty, "SUCCESS, says the customer; nothing was owed."},
		"without its quote":              {without(story{sealed: true, rail: "escrow"}.export(t), "quote."), verify.Witnessed, "13 test (play money, worth nothing) in TEST_CASHU(https://mint.example) were paid, says the customer."},
		"done by the customer itself":    {without(story{selfmade: true}.export(t), "journal"), verify.Claim, "The provider signed no result that is here."},
		"without its result":             {without(good, "result."), verify.Claim, "The provider signed no result that is here."},
		"without its request":            {without(good, "request."), verify.Claim, "A claim by npub14ncmk…lc3y, and by nobody else"},
		"stripped, signed by a stranger": {without(story{judge: &elsewhere}.export(t), "request.", "result.", "journal", "reviews"), verify.Claim, "A claim by npub18wu58…zrlc"},
		"changed":                        {changed, verify.Nothing, "It proves nothing: the check of its policy failed."},
		"unsigned":                       {without(good, verify.FileReceiptEvent), verify.Nothing, "It proves nothing: the check of its receipt signature failed."},
	} {
		r := verify.Export(dir(c.files))
		if r.Grade != c.want || !strings.Contains(r.Summary, c.words) {
			t.Errorf("%s: grade %s, want %s: %s", name, r.Grade, c.want, r.Summary)
		}
		if strings.HasPrefix(name, "stripped") {
			for _, check := range r.Checks {
				if strings.Contains(check.Detail, "by the customer "+elsewhere.public.Hex()) {
					t.Errorf("a stranger is the customer: %s", check.Detail)
				}
			}
		}
	}
	if f := verify.Export(dir(good)).Facts; f.Requested != at*1000 || f.Delivered != at*1000 || f.Recorded != at*1000 || f.Sealed != (at+60)*1000 || f.Witnessed != (at+120)*1000 || f.Passed != 5 || f.Expected != 6 {
		t.Errorf("%+v", f)
	}
}

func TestOrderOfGrades(t *testing.T) {
	all := verify.Grades()
	for i, g := range all {
		for j, other := range all {
			if g.AtLeast(other) != (i >= j) {
				t.Errorf("%s at least %s: %t", g, other, g.AtLeast(other))
			}
		}
	}
}
