package exchange

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
	"guild/internal/journal/journaltest"
	"guild/internal/policy"
	"guild/internal/step/steptest"
)

func TestMain(m *testing.M) { journaltest.Main(m) }

// other is one of several guilds, with its own journal.
type other struct {
	*steptest.World
	*Fold
	signer nostr.Signer
}

func newOther(t *testing.T, n byte) *other {
	t.Helper()
	x := NewFold(policy.Specification())
	x.Become(guildKey(n))
	o := &other{steptest.New(t), x, signerOf(n)}
	o.OpenJournal(x)
	return o
}

// trusts changes trust by a verdict of the guild's own, or by the given rule.
func (o *other) trusts(task string, n byte, to guild.Trust, rule string) {
	o.Helper()
	before := o.inForce(task, n)
	o.Write(fact.TrustSubject(task), fact.TrustChanged{Task: task, Service: service(n), From: before, To: to, EMA: to, Runs: 2, First: before == 0, Rule: rule})
}

func (o *other) inForce(task string, n byte) guild.Trust {
	return o.trustOf(task, service(n)).Trust
}

// hears imports the encoded document of another guild.
func (o *other) hears(from *other) Imported {
	o.Helper()
	b, err := from.Document().Encode()
	if err != nil {
		o.Fatal(err)
	}
	d, err := Decode(b)
	if err != nil {
		o.Fatal(err)
	}
	return o.takes(d.Document)
}

// step returns the step of the guild, which signs with its key.
func (o *other) step() *Step {
	return New(Config{Journal: o.Journal, Signer: o.signer, Now: time.Now}, o.Fold)
}

func (o *other) takes(d Document) Imported {
	o.Helper()
	sum, err := o.step().Import(o.Context(), Signed{Document: d}, Terms{Unsigned: true})
	if err != nil {
		o.Fatal(err)
	}
	return sum
}

// tells returns the guild's document without its key.
func (o *other) tells() string {
	o.Helper()
	d := o.Document()
	d.Guild = ""
	b, err := d.Encode()
	if err != nil {
		o.Fatal(err)
	}
	return string(b)
}

func TestExchangeOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		orders := [][][2]int{ // pairs of importer and exporter; in the end all have everything
			{{0, 1}, {1, 2}, {2, 0}, {0, 1}, {1, 2}, {2, 0}},
			{{2, 1}, {1, 0}, {0, 2}, {2, 1}, {1, 0}, {0, 2}},
			{{0, 1}, {0, 2}, {1, 0}, {2, 0}, {1, 2}},
			{{1, 0}, {1, 0}, {2, 1}, {0, 2}, {1, 2}, {1, 0}},
		}
		var agreed []string
		for _, order := range orders {
			guilds := []*other{newOther(t, 1), newOther(t, 2), newOther(t, 3)}
			for i, g := range guilds {
				g.trusts("go", 1, guild.Trust(800_000-100_000*i), "")
				g.trusts("go", 2, 500_000, "")
				g.Write(fact.VariableSubject(fact.TimeoutConfig), fact.VariableChanged{Name: fact.TimeoutConfig, Key: "go", To: fact.Number(int64(800_000 + 250_000*i))})
				g.Write(fact.VariableSubject(fact.Parallelism), fact.VariableChanged{Name: fact.Parallelism, Key: service(1).PubKey.Hex(), To: fact.Number(int64(7 - i))})
			}
			guilds[2].trusts("python", 3, 550_000, "")
			for _, o := range order {
				guilds[o[0]].hears(guilds[o[1]])
			}
			for _, g := range guilds {
				agreed = append(agreed, g.tells())
				for key, want := range map[[2]string]int64{{fact.TimeoutConfig, "go"}: 1_300_000, {fact.Parallelism, service(1).PubKey.Hex()}: 5} {
					if got, _ := g.variableOf(key[0], key[1]); got.Value != want {
						t.Errorf("%q is %d, want %d", key, got.Value, want)
					}
				}
				for n, want := range map[byte]guild.Trust{1: 600_000, 2: 500_000} {
					if got := g.inForce("go", n); got != want {
						t.Errorf("provider %d is trusted %s, want %s", n, got, want)
					}
				}
				if got := g.inForce("python", 3); got != 550_000 {
					t.Errorf("what one guild knows is %s elsewhere", got)
				}
			}
		}
		for _, told := range agreed[1:] {
			if told != agreed[0] {
				t.Fatalf("guilds tell different things:\n%s\n%s", agreed[0], told)
			}
		}
	})
}

func TestKnownValuesAppendNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newOther(t, 1), newOther(t, 2)
		a.trusts("go", 1, 500_000, "")
		if sum := b.hears(a); sum.Changed != 1 || sum.Same != 0 {
			t.Errorf("%+v", sum)
		}
		last := b.Journal.Last()
		if sum := b.hears(a); sum.Changed != 0 || sum.Noted != 0 || sum.Same != 1 || b.Journal.Last() != last {
			t.Errorf("%+v, %d entries after %d", sum, b.Journal.Last(), last)
		}
		if sum := a.hears(b); sum.Same != 1 {
			t.Errorf("a guild learns from its own word: %+v", sum)
		}
	})
}

func TestNextChangeAfterImport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newOther(t, 1), newOther(t, 2)
		a.trusts("go", 1, 800_000, "")
		b.trusts("go", 1, 600_000, "")
		a.hears(b)
		if got := a.inForce("go", 1); got != 600_000 {
			t.Fatalf("%s, want the lower of two words that do not know of each other", got)
		}
		a.trusts("go", 1, 650_000, "")
		want := says(650_000, 2, 1)
		if got := a.Document().Entries[0].Siblings; len(got) != 1 || got[0].Value != want.Value || !maps.Equal(got[0].Clock, want.Clock) {
			t.Errorf("%v, want one word: %v", got, want)
		}
		b.hears(a) // its clock includes b's value, so it may raise trust
		if got := b.inForce("go", 1); got != 650_000 {
			t.Errorf("%s, want the later word", got)
		}
	})
}

func TestImport(t *testing.T) {
	for _, c := range []struct {
		name     string
		before   []guild.Trust // of this guild
		rule     string        // of this guild's change
		incoming fact.VariableSibling
		want     guild.Trust
		skipped  string
	}{
		{"lower, and it has not seen ours", []guild.Trust{700_000}, "", says(300_000, 0, 1), 300_000, ""},
		{"higher, and it has not seen ours", []guild.Trust{700_000}, "", says(900_000, 0, 1), 700_000, ""},
		{"higher, and it has seen ours", []guild.Trust{700_000}, "", says(800_000, 1, 1), 800_000, ""},
		{"higher, and it has seen what we said before", []guild.Trust{700_000, 600_000}, "", says(800_000, 1, 1), 600_000, ""},
		{"lower, and we have seen it", []guild.Trust{700_000, 600_000}, "", says(100_000, 1), 600_000, ""},
		{"above the ceiling", []guild.Trust{700_000}, "", says(1_000_000, 1, 1), 900_000, ""},
		{"below the floor", []guild.Trust{700_000}, "", says(1, 0, 1), 100_000, ""},
		{"nothing any more, and it has seen ours", []guild.Trust{700_000}, "", says(0, 1, 1), 700_000, ""},
		{"nothing any more of somebody whom we never met", nil, "", says(0, 0, 2), 0, ""},
		{"raising what the owner set", []guild.Trust{200_000}, fact.RuleOwner, says(800_000, 1, 1), 200_000, "the owner"},
		{"raising what the owner restored", []guild.Trust{200_000}, fact.RuleRollback, says(800_000, 1, 1), 200_000, "the owner"},
		{"lowering what the owner set", []guild.Trust{700_000}, fact.RuleOwner, says(300_000, 1, 1), 300_000, ""},
		{"raising by changes of ours that we never made", []guild.Trust{300_000}, "", says(900_000, 9, 1), 300_000, "never made"},
		{"lowering by changes of ours that we never made", []guild.Trust{300_000}, "", says(200_000, 9, 1), 200_000, ""},
		{"another value of our own clock", []guild.Trust{700_000}, "", says(300_000, 1), 300_000, ""},
		{"somebody whom we never met, trusted well", nil, "", says(850_000, 0, 3), 600_000, ""},
		{"somebody whom we never met, trusted little", nil, "", says(250_000, 0, 3), 250_000, ""},
		{"somebody whom we have forgotten", nil, "", says(850_000, 4, 3), 600_000, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOther(t, 1)
				for _, to := range c.before {
					o.trusts("go", 1, to, c.rule)
				}
				d := documentOf(trustOf("go", 1, c.incoming))
				sum := o.takes(d)
				if got := o.inForce("go", 1); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
				if got := strings.Join(sum.Skipped, "; "); (got == "") != (c.skipped == "") || !strings.Contains(got, c.skipped) {
					t.Errorf("skipped for %q, want %q", got, c.skipped)
				}
				last := o.Journal.Last()
				if o.takes(d); o.Journal.Last() != last {
					t.Error("the same document changes something again")
				}
			})
		})
	}
}

func TestImportReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newOther(t, 1), newOther(t, 2)
		a.trusts("go", 1, 500_000, "")
		b.trusts("go", 1, 700_000, "")
		if _, err := b.imports(a.signedAt(time.Now()), Terms{}); err != nil {
			t.Fatal(err)
		}
		e, err := b.Journal.Entry(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		c := e.Facts[0].(fact.TrustChanged)
		if e.Subject != fact.TrustSubject("go") || c.Rule != fact.RuleMerged || c.From != 700_000 || c.To != 500_000 || c.EMA != 500_000 ||
			c.Runs != 2 || c.First || len(c.Siblings) != 2 || c.Policy.IsZero() || !strings.Contains(c.Reason, guildKey(1).Hex()[:8]) || c.Rationale == "" {
			t.Errorf("%+v", c)
		}
		if sum := a.hears(b); sum.Noted != 1 { // the lower one is a's own
			t.Errorf("%+v", sum)
		}
		e, err = a.Journal.Entry(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		if c := e.Facts[0].(fact.TrustChanged); c.From != c.To || c.EMA != 500_000 || len(c.Siblings) != 2 {
			t.Errorf("%+v", c)
		}
	})
}

func TestWithdrawnTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newOther(t, 1), newOther(t, 2)
		a.trusts("go", 1, 450_000, "")
		b.trusts("go", 1, 600_000, "")
		a.Write(fact.TrustSubject("go"), fact.TrustChanged{Task: "go", Service: service(1), From: 450_000, Unfounded: true, Rule: fact.RuleRejudged})
		if got := a.inForce("go", 1); got != 0 {
			t.Errorf("%s is in force", got)
		}
		b.hears(a)
		if got := b.inForce("go", 1); got != 600_000 {
			t.Errorf("%s, want what the only guild says that says something", got)
		}
		a.hears(b)
		if got := a.inForce("go", 1); got != 600_000 {
			t.Errorf("%s, want the word of the other guild", got)
		}
	})
}

func TestRestoredGuildIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newOther(t, 1), newOther(t, 2)
		for range 5 {
			a.trusts("go", 1, 700_000, "")
		}
		b.hears(a)
		rows, err := a.Rows()
		if err != nil {
			t.Fatal(err)
		}
		again := newOther(t, 1)
		again.trusts("go", 1, 700_000, fact.RuleRestored)
		rows["something else"] = []byte("7")
		for range 2 {
			if err := again.RestoreRows(t.Context(), again.Journal, rows); err != nil {
				t.Fatal(err)
			}
		}
		if again.tells() != a.tells() || again.Journal.Last() != 2 {
			t.Errorf("after %d entries:\n%s\n%s", again.Journal.Last(), again.tells(), a.tells())
		}
		again.trusts("go", 1, 750_000, "")
		b.hears(again)
		if got := b.inForce("go", 1); got != 600_000 { // never met, so no more than an ordinary first success
			t.Errorf("%s", got)
		}
		if got := b.Document().Entries[0].Siblings; len(got) != 1 || got[0].Value != 750_000 || got[0].Clock[guildKey(1).Hex()] != 6 {
			t.Errorf("%+v, want the newer word", got)
		}
		good := clockRow("go", service(1))
		for _, row := range [][2]string{{good, "{"}, {good, "[]"}, {good, `[{"value":1,"clock":{"x":1}}]`}, {"clock/x/python/go", "[]"}, {"clock/", "[]"}, {good + "%zz", "[]"}} {
			if err := again.RestoreRows(t.Context(), again.Journal, map[string]json.RawMessage{row[0]: []byte(row[1])}); err == nil {
				t.Errorf("%s is restored", row)
			}
		}
	})
}

func TestLargeImport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOther(t, 1)
		var d Document
		for n := range 400 {
			key := nostr.GetPublicKey(nostr.SecretKey{1: byte(n), 2: byte(n >> 8), 31: 1})
			d.Entries = append(d.Entries, TrustEntry{"go", key, strings.Repeat("x", 500), []fact.VariableSibling{says(500_000, 0, 1), says(500_000, 0, 0, 1)}})
		}
		slices.SortFunc(d.Entries, TrustEntry.compare)
		if sum := o.takes(d); sum.Changed != 400 {
			t.Fatalf("%+v", sum)
		}
		if n := o.Journal.Last(); n < 5 || n > 50 {
			t.Errorf("%d decisions", n)
		}
		for _, e := range o.Entries() {
			if b, err := e.Encode(); err != nil || len(b) > 110<<10 {
				t.Errorf("a decision of %d bytes: %v", len(b), err)
			}
		}
	})
}

func TestTooManySiblings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOther(t, 1)
		for n := range byte(maxSiblings + 2) {
			d := documentOf(trustOf("go", 1, fact.VariableSibling{Value: 500_000, Clock: map[string]uint64{guildKey(n + 2).Hex(): 1}}))
			if sum := o.takes(d); (len(sum.Skipped) > 0) != (n >= maxSiblings) {
				t.Errorf("guild %d: %+v", n, sum)
			}
		}
	})
}

// history draws entries as a journal could hold them.
func history(t *rapid.T) (all []fact.Entry) {
	for n := range rapid.IntRange(0, 12).Draw(t, "entries") {
		var f fact.Fact = fact.TrustChanged{Task: fmt.Sprint("task ", n%2), Service: service(byte(n%3 + 1)), From: 500_000, To: 600_000,
			Unfounded: rapid.Bool().Draw(t, "unfounded"), Rule: rapid.SampledFrom([]string{"", fact.RuleOwner, fact.RuleMean}).Draw(t, "rule")}
		switch rapid.IntRange(0, 3).Draw(t, "what") {
		case 0:
			f = fact.VariableChanged{Name: fact.TimeoutConfig, Key: "go", To: fact.Number(int64(n))}
		case 1:
			f = fact.TrustChanged{Task: "go", Service: service(1), To: 400_000, Rule: fact.RuleMerged,
				Siblings: []fact.Sibling{{Trust: 400_000, Clock: map[string]uint64{guildKey(2).Hex(): uint64(n + 1)}}}}
		}
		all = append(all, fact.Entry{Seq: uint64(n + 1), At: int64(n), Facts: []fact.Fact{f}})
	}
	return all
}

func TestFoldSnapshot(t *testing.T) {
	fresh := func() *Fold { return NewFold(policy.Specification()) }
	foldtest.GoesOn(t, fresh, history, func(t *rapid.T, whole, restored *Fold) {
		a, b := Merge(whole.Document(), Document{}), Merge(restored.Document(), Document{})
		x, err := a.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if y, err := b.Encode(); err != nil || string(x) != string(y) {
			t.Fatalf("%v\n%s\n%s", err, x, y)
		}
	})
}

func TestBadSnapshot(t *testing.T) {
	x := NewFold(policy.Specification())
	x.Apply(fact.Entry{Seq: 1, Facts: []fact.Fact{fact.TrustChanged{Task: "go", Service: service(1), To: 500_000, First: true}}})
	foldtest.Refuses(t, x, append(foldtest.Partial(t, x), `{"trust":7,"variables":{}}`)...)
}
