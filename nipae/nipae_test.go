package nipae_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nipae"
)

var publisher, owner, agent, mallory = key(1), key(2), key(3), key(4)

func key(seed byte) nostr.PubKey { return nostr.SecretKey{31: seed}.Public() }

func id(n byte) nostr.ID { return nostr.ID{n, 31: n} }

// hex is an id or key as it stands in tags.
func hex(n byte) string { return id(n).Hex() }

func definition() nipae.Definition {
	return nipae.Definition{
		D: "reviewer", Title: "Code Reviewer", Role: "Strict,\nbut kind.", Instructions: "Read everything.", UseCriteria: "review of code",
		Description: "reviews code", Tools: []string{"read", "mcp__git__log", "fs:write", "@scope/tool"}, Ver: 3, Image: "https://x/y.png",
		Files:   []nipae.Reference{{ID: id(1)}, {ID: id(2), Relay: "wss://r"}},
		Fork:    nipae.Reference{ID: id(3), Relay: "wss://r"},
		Content: "# More\n\ttext", Other: nostr.Tags{{"category", "developer"}, {"e", hex(4), "", "script"}, {"phase", "plan", "think"}},
	}
}

func comment() nipae.Comment {
	return nipae.Comment{
		Lesson: nipae.Reference{ID: id(1), Relay: "wss://r"}, LessonAuthor: agent, Parent: nipae.Reference{ID: id(2)}, ParentAuthor: owner,
		Content: "not quite", Other: nostr.Tags{{"p", publisher.Hex()}},
	}
}

// returns checks that an event is read as what it was written from.
func returns[T interface{ Event() (nostr.Event, error) }](t *testing.T, want T, parse func(nostr.Event) (T, error)) nostr.Event {
	t.Helper()
	e, err := want.Event()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := parse(e); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("\n%+v, %v, want\n%+v", got, err, want)
	}
	return e
}

func TestRoundTrips(t *testing.T) {
	returns(t, definition(), nipae.ParseDefinition)
	returns(t, nipae.Definition{D: "x", Ver: 1}, nipae.ParseDefinition)
	returns(t, nipae.Lesson{Title: "Tests", Category: "go", Definition: nipae.Reference{ID: id(1)}, Content: "Run them.",
		Other: nostr.Tags{{"detailed", "…"}, {"e", hex(2)}, {"t", "x"}}}, nipae.ParseLesson)
	returns(t, comment(), nipae.ParseComment)
	returns(t, nipae.Nudge{Title: "calm", Only: []string{"a"}, Allow: []string{"b"}, Deny: []string{"c", "d"}, Content: "Slowly.",
		Other: nostr.Tags{{"t", "x"}}}, nipae.ParseNudge)
	returns(t, nipae.Profile{Bot: true, Definition: nipae.Reference{ID: id(1), Relay: "wss://r"}, Owners: []nostr.PubKey{owner, mallory},
		Members: map[string]json.RawMessage{"name": json.RawMessage(`"A & B"`), "x": json.RawMessage(`{"y":[1.0]}`)}, Other: nostr.Tags{{"t"}}}, nipae.ParseProfile)
	returns(t, nipae.Claims{Tags: nostr.Tags{{"p", agent.Hex(), "wss://r", "bob"}, {"p", "not a key"}, {"alt", "x"}}, Content: "sealed"}, nipae.ParseClaims)
}

// Forms that other programs write.
func TestDefinitionOfOthers(t *testing.T) {
	d, err := nipae.ParseDefinition(nostr.Event{Kind: 4199, PubKey: publisher, Tags: nostr.Tags{
		{"d", "human-replica"}, {"title", "x"}, {"version", "7"}, {"tool"}, {"category", "assistant"}, {"e", hex(1), "wss://r"},
		{"e", hex(2), "", "", publisher.Hex()}, {"e", hex(3), "", "fork"}, {"e", hex(4), "", "fork"}, {"image"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := nostr.Tags{{"category", "assistant"}, {"e", hex(4), "", "fork"}}
	if d.Ver != 7 || len(d.Files) != 2 || d.Fork.ID != id(3) || !reflect.DeepEqual(d.Other, want) {
		t.Errorf("%+v", d)
	}
}

// NDK's reply() to a lesson with a p tag, and its reply to that reply.
func TestCommentOfNDK(t *testing.T) {
	lesson := nostr.Tags{{"e", hex(1), "", agent.Hex()}, {"E", hex(1), "", agent.Hex()}, {"K", "4129"}, {"P", agent.Hex()}, {"k", "4129"},
		{"p", mallory.Hex()}, {"p", agent.Hex()}}
	reply := nostr.Tags{{"E", hex(1), "", agent.Hex()}, {"P", agent.Hex()}, {"K", "4129"}, {"e", hex(2), "", owner.Hex()}, {"k", "1111"},
		{"p", agent.Hex()}, {"p", owner.Hex()}}
	bare := nostr.Tags{{"E", hex(1)}, {"K", "4129"}, {"P", agent.Hex()}, {"e", hex(2)}, {"k", "1111"}, {"p", agent.Hex()}, {"p", owner.Hex()}}
	for _, c := range []struct {
		tags   nostr.Tags
		parent nostr.ID
		author nostr.PubKey
	}{{lesson, id(1), agent}, {reply, id(2), owner}, {bare, id(2), owner}} {
		got, err := nipae.ParseComment(nostr.Event{Kind: 1111, Tags: c.tags, Content: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if got.Lesson.ID != id(1) || got.LessonAuthor != agent || got.Parent.ID != c.parent || got.ParentAuthor != c.author || len(got.Other) > 1 {
			t.Errorf("%v became %+v", c.tags, got)
		}
	}
}

func many(tag nostr.Tag, n int) nostr.Tags { return slices.Repeat(nostr.Tags{tag}, n) }

func TestRefusedEvents(t *testing.T) {
	d, e := nostr.Tag{"d", "x"}, nostr.Tag{"e", hex(1)}
	replyTags := func(change ...nostr.Tag) nostr.Tags {
		tags := nostr.Tags{{"E", hex(1)}, {"K", "4129"}, {"P", agent.Hex()}, {"e", hex(2)}, {"k", "1111"}, {"p", agent.Hex()}}
		for _, c := range change {
			tags = slices.DeleteFunc(tags, func(tag nostr.Tag) bool { return tag[0] == c[0] })
			if len(c) > 1 {
				tags = append(tags, c)
			}
		}
		return tags
	}
	for _, c := range []struct {
		name    string
		kind    nostr.Kind
		tags    nostr.Tags
		content string
		reason  error
		text    string
	}{
		{"no slug", 4199, nil, "", nipae.ErrMissing, "d tag"},
		{"empty slug", 4199, nostr.Tags{{"d", ""}}, "", nipae.ErrMissing, "d tag"},
		{"slug of two lines", 4199, nostr.Tags{{"d", "a\nb"}}, "", nipae.ErrInvalid, "d tag"},
		{"long slug", 4199, nostr.Tags{{"d", strings.Repeat("a", 201)}}, "", nipae.ErrTooBig, "d tag"},
		{"two slugs", 4199, nostr.Tags{d, d}, "", nipae.ErrInvalid, "d tag"},
		{"two titles", 4199, nostr.Tags{d, {"title", "a"}, {"title", "b"}}, "", nipae.ErrInvalid, "title tag"},
		{"version 0", 4199, nostr.Tags{d, {"ver", "0"}}, "", nipae.ErrInvalid, "ver tag"},
		{"negative version", 4199, nostr.Tags{d, {"ver", "-1"}}, "", nipae.ErrInvalid, "ver tag"},
		{"version in words", 4199, nostr.Tags{d, {"version", "1.2.0"}}, "", nipae.ErrInvalid, "version tag"},
		{"huge version", 4199, nostr.Tags{d, {"ver", "99999999999"}}, "", nipae.ErrInvalid, "ver tag"},
		{"10,000 tools", 4199, append(many(nostr.Tag{"tool", "x"}, 10_000), d), "", nipae.ErrTooBig, "tool tag"},
		{"201 tools", 4199, append(many(nostr.Tag{"tool", "x"}, 201), d), "", nipae.ErrTooBig, "tool tag"},
		{"5 MB of content", 4199, nostr.Tags{d}, strings.Repeat("x", 5<<20), nipae.ErrTooBig, "content"},
		{"5 MB of instructions", 4199, nostr.Tags{d, {"instructions", strings.Repeat("x", 5<<20)}}, "", nipae.ErrTooBig, "instructions tag"},
		{"many long tags", 4199, append(many(nostr.Tag{"x", strings.Repeat("x", 60<<10)}, 5), d), "", nipae.ErrTooBig, "bytes"},
		{"tool for a shell", 4199, nostr.Tags{d, {"tool", "bash;rm -rf /"}}, "", nipae.ErrInvalid, "tool tag"},
		{"tool with two names", 4199, nostr.Tags{d, {"tool", "a", "b"}}, "", nipae.ErrInvalid, "tool tag"},
		{"file without id", 4199, nostr.Tags{d, {"e", "x", "", "file"}}, "", nipae.ErrInvalid, "e tag"},
		{"id in capitals", 4199, nostr.Tags{d, {"e", strings.Repeat("A", 64)}}, "", nipae.ErrInvalid, "e tag"},
		{"id zero", 4199, nostr.Tags{d, {"e", strings.Repeat("0", 64)}}, "", nipae.ErrInvalid, "e tag"},
		{"other kind", 4201, nostr.Tags{d}, "", nipae.ErrKind, "kind 4201"},
		{"lesson about nothing", 4129, nil, "x", nipae.ErrMissing, "e tag"},
		{"empty lesson", 4129, nostr.Tags{e}, "", nipae.ErrMissing, "content"},
		{"comment on a note", 1111, replyTags(nostr.Tag{"K", "1"}), "x", nipae.ErrInvalid, "K tag"},
		{"no root kind", 1111, replyTags(nostr.Tag{"K"}), "x", nipae.ErrInvalid, "K tag"},
		{"no root", 1111, replyTags(nostr.Tag{"E"}), "x", nipae.ErrInvalid, "E tag"},
		{"no root author", 1111, replyTags(nostr.Tag{"P"}), "x", nipae.ErrMissing, "P tag"},
		{"no parent", 1111, replyTags(nostr.Tag{"e"}), "x", nipae.ErrInvalid, "e tag"},
		{"no parent author", 1111, replyTags(nostr.Tag{"p"}), "x", nipae.ErrMissing, "p tag"},
		{"parent of another kind", 1111, replyTags(nostr.Tag{"k", "1"}), "x", nipae.ErrInvalid, "k tag"},
		{"parent that is not the lesson", 1111, replyTags(nostr.Tag{"k", "4129"}), "x", nipae.ErrInvalid, "e tag"},
		{"lesson as a comment", 1111, replyTags(nostr.Tag{"e", hex(1)}), "x", nipae.ErrInvalid, "e tag"},
		{"empty comment", 1111, replyTags(), "", nipae.ErrMissing, "content"},
		{"nudge for a shell", 4201, nostr.Tags{{"allow-tool", "$(id)"}}, "", nipae.ErrInvalid, "allow-tool tag"},
		{"profile of no owner", 0, nostr.Tags{{"p", "npub1xyz"}}, "", nipae.ErrInvalid, "p tag"},
		{"profile in words", 0, nil, "I am an agent", nipae.ErrInvalid, "content"},
		{"profile null", 0, nil, "null", nipae.ErrInvalid, "content"},
		{"2,001 claims", 14199, many(nostr.Tag{"p", agent.Hex()}, 2001), "", nipae.ErrTooBig, "p tag"},
	} {
		event := nostr.Event{Kind: c.kind, Tags: c.tags, Content: c.content}
		parse := parsers[c.kind]
		if c.reason == nipae.ErrKind {
			parse = parsers[4199]
		}
		if err := parse(event); !errors.Is(err, c.reason) || !strings.Contains(err.Error(), c.text) || len(err.Error()) > 400 {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// parsers are all parsers, by kind. Each also writes what it read, and reads that again.
var parsers = map[nostr.Kind]func(nostr.Event) error{
	0: again(nipae.ParseProfile), 1111: again(nipae.ParseComment), 4129: again(nipae.ParseLesson),
	4199: again(nipae.ParseDefinition), 4201: again(nipae.ParseNudge), 14199: again(nipae.ParseClaims),
}

var errChanged = errors.New("changed")

func again[T interface{ Event() (nostr.Event, error) }](parse func(nostr.Event) (T, error)) func(nostr.Event) error {
	return func(e nostr.Event) error {
		first, err := parse(e)
		if err != nil {
			return err
		}
		written, err := first.Event()
		if err != nil {
			return errors.Join(errChanged, err)
		}
		second, err := parse(written)
		if err != nil {
			return errors.Join(errChanged, err)
		}
		if last, err := second.Event(); err != nil || guild.EventID(last) != guild.EventID(written) {
			return errors.Join(errChanged, err)
		}
		return nil
	}
}

func fuzz(f *testing.F, kind nostr.Kind, seeds ...interface{ Event() (nostr.Event, error) }) {
	for _, seed := range seeds {
		e, err := seed.Event()
		if err != nil {
			f.Fatal(err)
		}
		tags, _ := json.Marshal(e.Tags)
		f.Add(tags, e.Content)
	}
	f.Add([]byte(`[[],["d"],["d","\u0000x"],["ver",""],["e","",""],["tool","\n"],["p","\ufffd"],["bo\u0000t"]]`), `{"a":"\u0000<","a":1}`)
	f.Fuzz(func(t *testing.T, tags []byte, content string) {
		e := nostr.Event{Kind: kind, Content: content}
		if json.Unmarshal(tags, &e.Tags) != nil {
			return
		}
		err := parsers[kind](e)
		big := errors.Is(err, nipae.ErrTooBig) // a version, markers and authors may be added
		if errors.Is(err, errChanged) && !big || err != nil && len(err.Error()) > 1000 {
			t.Fatal(err)
		}
	})
}

func FuzzDefinition(f *testing.F) { fuzz(f, 4199, definition()) }

func FuzzLesson(f *testing.F) {
	fuzz(f, 4129, nipae.Lesson{Title: "x", Category: "y", Definition: nipae.Reference{ID: id(1)}, Content: "z"})
}

func FuzzComment(f *testing.F) { fuzz(f, 1111, comment()) }

func FuzzNudge(f *testing.F) {
	fuzz(f, 4201, nipae.Nudge{Only: []string{"a"}, Allow: []string{"b"}, Deny: []string{"c"}, Content: "x"})
}

func FuzzProfile(f *testing.F) {
	fuzz(f, 0, nipae.Profile{Bot: true, Definition: nipae.Reference{ID: id(1)}, Owners: []nostr.PubKey{owner}})
}

func FuzzClaims(f *testing.F) { fuzz(f, 14199, nipae.Claims{}.Add(agent)) }

func TestVersionOrder(t *testing.T) {
	older := nipae.Definition{ID: id(5), PubKey: publisher, D: "x", Ver: 2, CreatedAt: 10}
	for _, c := range []struct {
		name  string
		newer nipae.Definition
	}{
		{"higher version, earlier date", nipae.Definition{ID: id(9), PubKey: publisher, D: "x", Ver: 10, CreatedAt: 1}},
		{"same version, later date", nipae.Definition{ID: id(9), PubKey: publisher, D: "x", Ver: 2, CreatedAt: 11}},
		{"same version and date, lower id", nipae.Definition{ID: id(4), PubKey: publisher, D: "x", Ver: 2, CreatedAt: 10}},
	} {
		if c.newer.Compare(older) <= 0 || older.Compare(c.newer) >= 0 {
			t.Errorf("%s is not newer", c.name)
		}
		for _, all := range [][]nipae.Definition{{older, c.newer}, {c.newer, older}} {
			if got := nipae.Newest(all); len(got) != 1 || got[older.Address()].ID != c.newer.ID {
				t.Errorf("%s: %v", c.name, got)
			}
		}
		if !c.newer.Inherits(older) || older.Inherits(c.newer) || !older.Inherits(older) {
			t.Errorf("%s: lessons apply to earlier versions, or not to later ones", c.name)
		}
	}
	foreign := older
	foreign.PubKey = mallory
	if foreign.Inherits(older) || len(nipae.Newest([]nipae.Definition{older, foreign})) != 2 {
		t.Error("versions of two keys are of one definition")
	}
}

func TestForkOfItself(t *testing.T) {
	known := map[nostr.ID]nipae.Definition{}
	for n, fork := range map[byte]byte{1: 2, 2: 3, 3: 1, 4: 4, 5: 6} {
		known[id(n)] = nipae.Definition{ID: id(n), Fork: nipae.Reference{ID: id(fork)}}
	}
	find := func(id nostr.ID) (nipae.Definition, bool) { d, ok := known[id]; return d, ok }
	for n, want := range map[byte]int{1: 2, 4: 0, 5: 0} {
		if got := nipae.Ancestry(known[id(n)], find); len(got) != want {
			t.Errorf("%d has the ancestors %v", n, got)
		}
	}
	endless := func(id nostr.ID) (nipae.Definition, bool) {
		next := id
		next[5]++
		return nipae.Definition{ID: id, Fork: nipae.Reference{ID: next}}, true
	}
	if got := nipae.Ancestry(known[id(5)], endless); len(got) != nipae.MaxForks {
		t.Errorf("%d ancestors", len(got))
	}
}

func TestTools(t *testing.T) {
	base := []string{"write", "read"}
	only := func(tools ...string) nipae.Nudge { return nipae.Nudge{Only: tools} }
	allow := func(tools ...string) nipae.Nudge { return nipae.Nudge{Allow: tools} }
	deny := func(tools ...string) nipae.Nudge { return nipae.Nudge{Deny: tools} }
	for _, c := range []struct {
		name   string
		nudges []nipae.Nudge
		want   string
	}{
		{"no nudges", nil, "read write"},
		{"allow adds", []nipae.Nudge{allow("bash")}, "bash read write"},
		{"allow of what is there", []nipae.Nudge{allow("read")}, "read write"},
		{"deny removes", []nipae.Nudge{deny("read")}, "write"},
		{"deny of what is not there", []nipae.Nudge{deny("bash")}, "read write"},
		{"deny of all", []nipae.Nudge{deny("read", "write")}, ""},
		{"deny wins over allow", []nipae.Nudge{{Allow: []string{"bash"}, Deny: []string{"bash"}}}, "read write"},
		{"deny wins over a later allow", []nipae.Nudge{deny("bash"), allow("bash")}, "read write"},
		{"only is exact", []nipae.Nudge{only("bash")}, "bash"},
		{"only ignores allow", []nipae.Nudge{{Only: []string{"bash"}, Allow: []string{"web"}}}, "bash"},
		{"only ignores deny", []nipae.Nudge{{Only: []string{"bash"}, Deny: []string{"bash"}}}, "bash"},
		{"only ignores other nudges", []nipae.Nudge{allow("web"), deny("bash"), only("bash")}, "bash"},
		{"several only are united", []nipae.Nudge{only("bash", "read"), only("web")}, "bash read web"},
	} {
		for range 2 {
			if got := nipae.Tools(base, c.nudges); got == nil || strings.Join(got, " ") != c.want {
				t.Errorf("%s: %v, want %s", c.name, got, c.want)
			}
			slices.Reverse(c.nudges)
		}
	}
	if got := nipae.Tools(nil, nil); got == nil || len(got) != 0 {
		t.Errorf("no tools: %v", got)
	}
}

func TestToolNames(t *testing.T) {
	for _, good := range []string{"read", "Read", "mcp__git__log", "fs:write", "a/b-c.d", "@scope/x", "c++", "_x", "7z", strings.Repeat("a", 128)} {
		if !nipae.IsTool(good) {
			t.Errorf("%q is refused", good)
		}
	}
	for _, bad := range []string{
		"", "a b", "a\tb", "a\nb", "a\x00", "-rf", "/bin/sh", "../x", ".x", ":x", "+x", strings.Repeat("a", 129), "rеad", "a\u202eb", "a\u200bb",
		"a;b", "a&b", "a|b", "a<b", "a>b", "$a", "a`b", `a\b`, `a"b`, "a'b", "a*", "a?", "a[b", "a]b", "a#", "~a", "a~", "a=b", "a%b", "a!", "a{b", "a}b", "a(b", "a)b", "a,b", "a^b",
	} {
		if nipae.IsTool(bad) {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestVerify(t *testing.T) {
	profile := nipae.Profile{PubKey: agent, Owners: []nostr.PubKey{owner}}
	claim := nipae.Claims{ID: id(5), PubKey: owner, CreatedAt: 10}.Add(agent)
	withdrawn := nipae.Claims{ID: id(6), PubKey: owner, CreatedAt: 11}
	forged := nipae.Claims{ID: id(7), PubKey: mallory, CreatedAt: 12}.Add(agent)
	sameDate := nipae.Claims{ID: id(4), PubKey: owner, CreatedAt: 10}
	for _, c := range []struct {
		name   string
		owners []nostr.PubKey
		claims []nipae.Claims
		want   []error
	}{
		{"claimed both ways", []nostr.PubKey{owner}, []nipae.Claims{claim}, []error{nil}},
		{"claimed by the agent only", []nostr.PubKey{owner}, nil, []error{nipae.ErrNoClaims}},
		{"claimed by the owner only", nil, []nipae.Claims{claim}, nil},
		{"forged by a third key", []nostr.PubKey{owner}, []nipae.Claims{forged}, []error{nipae.ErrNoClaims}},
		{"withdrawn", []nostr.PubKey{owner}, []nipae.Claims{claim, withdrawn}, []error{nipae.ErrNotClaimed}},
		{"withdrawn at the same time", []nostr.PubKey{owner}, []nipae.Claims{claim, sameDate}, []error{nipae.ErrNotClaimed}},
		{"each owner alone", []nostr.PubKey{mallory, owner, publisher}, []nipae.Claims{claim, {PubKey: mallory}}, []error{nipae.ErrNotClaimed, nil, nipae.ErrNoClaims}},
		{"its own owner", []nostr.PubKey{agent}, []nipae.Claims{nipae.Claims{PubKey: agent}.Add(agent)}, []error{nipae.ErrOwnsItself}},
	} {
		profile.Owners = c.owners
		for range 2 {
			var got []error
			for i, o := range nipae.Verify(profile, c.claims) {
				if o.Owner != c.owners[i] {
					t.Errorf("%s: %v", c.name, o)
				}
				got = append(got, o.Err)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
			slices.Reverse(c.claims)
		}
	}
}

func TestClaimsAddAndRemove(t *testing.T) {
	first := nipae.Claims{Tags: nostr.Tags{{"p", agent.Hex(), "wss://r"}, {"alt", "x"}}}
	both := first.Add(owner).Add(agent)
	if !slices.Equal(both.Agents(), []nostr.PubKey{agent, owner}) || len(first.Agents()) != 1 || len(both.Tags) != 3 {
		t.Errorf("%v, %v", first, both)
	}
	if rest := both.Remove(agent); !slices.Equal(rest.Agents(), []nostr.PubKey{owner}) || len(rest.Tags) != 3 || len(both.Agents()) != 2 {
		t.Errorf("%v, %v", rest, both)
	}
}

// An older list at another relay does not bring a disowned agent back, and what another program left out returns.
func TestDisownedAgentStaysAway(t *testing.T) {
	old := nipae.Claims{ID: id(1), CreatedAt: 1}.Add(agent).Add(owner)
	disowning := old.Remove(agent)
	disowning.ID, disowning.CreatedAt = id(2), 2
	short := nipae.Claims{ID: id(3), CreatedAt: 3}.Add(key(9))
	for _, all := range [][]nipae.Claims{{old, disowning, short}, {short, disowning, old}, {disowning, short, old}, {old, short, disowning}} {
		merged := nipae.Merged(all)
		if merged.Has(agent) || !merged.Has(owner) || !merged.Has(key(9)) {
			t.Errorf("%v", merged.Tags)
		}
		if again := merged.Add(agent); !again.Has(agent) || len(again.Tags) != 3 {
			t.Errorf("claimed again: %v", again.Tags)
		}
	}
}

// A 14199 from a relay that has an old or a short list never makes the next one shorter.
func TestMergeLosesNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	list := func(n byte) nipae.Claims {
		c := nipae.Claims{ID: id(n), PubKey: owner, CreatedAt: nostr.Timestamp(random.IntN(3))}
		for range random.IntN(8) {
			switch n := byte(random.IntN(6)); random.IntN(4) {
			case 0:
				c.Tags = append(c.Tags, nostr.Tag{"x", hex(n)}, nostr.Tag{"p", "broken"})
			case 1:
				c.Tags = append(c.Tags, nostr.Tag{"p", key(n + 1).Hex(), "wss://r"})
			default:
				c = c.Add(key(n + 1))
			}
		}
		return c
	}
	for range 500 {
		a, b := list(1), list(2)
		ab, ba := nipae.Merged([]nipae.Claims{a, b}), nipae.Merged([]nipae.Claims{b, a})
		if !reflect.DeepEqual(ab, ba) {
			t.Fatalf("%v with %v: %v or %v", a, b, ab, ba)
		}
		if again := nipae.Merged([]nipae.Claims{a, ab}); !reflect.DeepEqual(again, ab) {
			t.Fatalf("%v with %v again: %v", ab, a, again)
		}
		for _, tag := range slices.Concat(a.Tags, b.Tags) {
			if ab.Tags.FindWithValue(tag[0], tag[1]) == nil {
				t.Fatalf("%v is lost: %v", tag, ab)
			}
		}
	}
	var full nipae.Claims
	for i := range nipae.MaxTags {
		full.Tags = append(full.Tags, nostr.Tag{"p", guild.Sum([]byte{byte(i), byte(i >> 8)}).Hex()})
	}
	if _, err := full.Event(); err != nil {
		t.Error(err)
	}
	if _, err := nipae.Merged([]nipae.Claims{full, nipae.Claims{}.Add(agent)}).Event(); !errors.Is(err, nipae.ErrTooBig) {
		t.Errorf("%d claims and one more: %v", nipae.MaxTags, err)
	}
}

func TestNextVersionKeepsUnknownTags(t *testing.T) {
	d, err := nipae.ParseDefinition(returns(t, definition(), nipae.ParseDefinition))
	if err != nil {
		t.Fatal(err)
	}
	d.Ver++
	e, err := d.Event()
	if err != nil {
		t.Fatal(err)
	}
	if e.Tags.FindWithValue("ver", "4") == nil || e.Tags.Find("phase") == nil || e.Tags.Find("category") == nil || e.Tags.FindWithValue("e", hex(4)) == nil {
		t.Errorf("%v", e.Tags)
	}
}

func TestControlCharactersRemoved(t *testing.T) {
	d, err := nipae.ParseDefinition(nostr.Event{Kind: 4199, Tags: nostr.Tags{{"d", "x"}, {"role", "a\r\n\x1bb\xff"}}, Content: "\x00c\t"})
	if err != nil || d.Role != "a\nb\uFFFD" || d.Content != "c\t" {
		t.Errorf("%+v, %v", d, err)
	}
}
