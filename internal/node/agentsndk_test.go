package node

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild/internal/control"
	"guild/internal/step/agents"
	"guild/nipae/behaviour"
)

// These tests have agents of other programs over a real relay (NIP-AE): NDK 3.0.3, with the classes of TENEX that extend it
// (interop/tenex.mjs says where they are from). NDK itself, as published, has no classes for definitions, lessons and
// nudges. Comments are replies of NDK (NIP-22); for nudges, profiles and claims there are only NDK's general calls.

// readByNDK has the fields that interop/agents-read.mjs prints.
type readByNDK struct {
	Definition struct {
		ID, Slug, Title, Role, Instructions, Use, Description string
		Version                                               int
		Tools                                                 []string
		Fork                                                  string
		Files                                                 int
	}
	Profile struct {
		Agent, Name, About string
		Bot                bool
		Definition         string
		Owners             []string
	}
	Claimed []string
	Lesson  struct{ ID, Agent, Title, Category, Text, Definition string }
	Comment struct{ Author, Text, Root, RootKind, RootAuthor, Parent, ParentKind, ParentAuthor string }
	Nudge   struct {
		ID, Title, Text   string
		Only, Allow, Deny []string
	}
}

func TestNDKReadsAgents(t *testing.T) {
	t.Parallel()
	relay := startRelay(t)
	client, owner := start(t, relay, func(*Config) {})
	const file = `
slug = 'coder'
title = 'Coder'
role = 'You write Go.'
description = 'one line'
use_criteria = 'tasks in Go'
tools = ['read', 'write']
instructions = 'Test it "well" — with ünïcode.'
`
	version, err := control.PublishDefinition.Call(t.Context(), client, strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	agent, err := control.InstallAgent.Call(t.Context(), client, control.Install{Definition: version.ID.Hex()})
	if err != nil {
		t.Fatal(err)
	}
	lesson, err := control.TeachAgent.Call(t.Context(), client, control.Draft{Agent: "coder", Task: "go", Text: "Time zones\nStore UTC."})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.ActOnLesson.Call(t.Context(), client, control.LessonAct{Text: "And the offset."}, lesson.ID.Hex(), "comment"); err != nil {
		t.Fatal(err)
	}
	nudge, err := control.KeepNudges.Call(t.Context(), client, control.KeepNudge{
		Name: "careful", Title: "Careful", Text: "Read first.", Only: []string{"read"}, Allow: []string{"search"}, Deny: []string{"run", "write"},
	})
	if err != nil {
		t.Fatal(err)
	}

	var got readByNDK
	startProgram(t, "agents-read", map[string]string{"relay": relay, "owner": owner.Hex(), "slug": "coder"}).next(&got)
	key := agent.PubKey.Hex()
	var want readByNDK
	want.Definition.ID, want.Definition.Slug, want.Definition.Title = version.ID.Hex(), "coder", "Coder"
	want.Definition.Role, want.Definition.Instructions = "You write Go.", `Test it "well" — with ünïcode.`
	want.Definition.Use, want.Definition.Description, want.Definition.Version = "tasks in Go", "one line", 1
	want.Definition.Tools = []string{"read", "write"}
	want.Profile.Agent, want.Profile.Name, want.Profile.About, want.Profile.Bot = key, "coder", "one line", true
	want.Profile.Definition, want.Profile.Owners, want.Claimed = version.ID.Hex(), []string{owner.Hex()}, []string{key}
	want.Lesson.ID, want.Lesson.Agent, want.Lesson.Definition = lesson.ID.Hex(), key, version.ID.Hex()
	want.Lesson.Title, want.Lesson.Category, want.Lesson.Text = "Time zones", "go", "Store UTC."
	want.Comment.Author, want.Comment.Text = owner.Hex(), "And the offset."
	want.Comment.Root, want.Comment.RootKind, want.Comment.RootAuthor = lesson.ID.Hex(), "4129", key
	want.Comment.Parent, want.Comment.ParentKind, want.Comment.ParentAuthor = lesson.ID.Hex(), "4129", key
	want.Nudge.ID, want.Nudge.Title, want.Nudge.Text = nudge.ID.Hex(), "Careful", "Read first."
	want.Nudge.Only, want.Nudge.Allow, want.Nudge.Deny = []string{"read"}, []string{"search"}, []string{"run", "write"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("NDK reads\n%+v, want\n%+v", got, want)
	}
}

// publishedByNDK has the ids of the events that interop/agents-publish.mjs published.
type publishedByNDK struct {
	Definition, First, Lesson, Nudge string
}

func TestAgentsOfNDK(t *testing.T) {
	t.Parallel()
	relay := startRelay(t)
	ndk := startProgram(t, "agents-publish", map[string]string{"relay": relay})
	var keys struct{ Owner, Agent string }
	ndk.next(&keys)
	agent, err := nostr.PubKeyFromHex(keys.Agent)
	if err != nil {
		t.Fatal(err)
	}
	var published publishedByNDK
	ndk.next(&published)

	t.Run("strangers", func(t *testing.T) {
		client, _ := start(t, relay, func(*Config) {})
		published.install(t, client, keys.Owner)
		lesson := published.lesson(t, client)
		if lesson.Applies || lesson.Why != behaviour.Stranger || lesson.Author != keys.Agent {
			t.Errorf("%+v", lesson)
		}
		c := composed(t, client, control.Compose{Agents: []string{"reviewer"}, Task: "python"})
		for _, text := range []string{"ISO 8601", "Week dates", "Nonsense"} {
			if strings.Contains(c.Prompt, text) {
				t.Errorf("a stranger's %q is in the prompt:\n%s", text, c.Prompt)
			}
		}
		published.nudge(t, client)
		owned, err := control.Owners.Call(t.Context(), client, keys.Agent)
		if err != nil || len(owned.Owners) != 1 || !owned.Owners[0].Verified || owned.Owners[0].PubKey != keys.Owner {
			t.Errorf("owners %+v, %v", owned.Owners, err)
		}
	})
	t.Run("allowed", func(t *testing.T) {
		client, _ := start(t, relay, func(c *Config) { c.Agents.Allow = []nostr.PubKey{agent} })
		published.install(t, client, keys.Owner)
		eventually(t, "the lesson applies", func() bool { return published.lesson(t, client).Applies })
		var prompt string
		eventually(t, "the comments arrive", func() bool {
			prompt = composed(t, client, control.Compose{Agents: []string{"reviewer"}, Task: "python"}).Prompt
			return strings.Contains(prompt, "> Week dates, too.\n") && strings.Contains(prompt, "> And ordinal dates.\n")
		})
		if !strings.Contains(prompt, "> Dates\n> Take both forms of ISO 8601.\n") || strings.Contains(prompt, "Nonsense") {
			t.Error(prompt)
		}
	})
}

// install installs the definition, and checks its versions.
func (p publishedByNDK) install(t *testing.T, client *control.Client, owner string) {
	t.Helper()
	a, err := control.InstallAgent.Call(t.Context(), client, control.Install{Definition: p.Definition})
	if err != nil {
		t.Fatal(err)
	}
	d := a.Definition
	if a.Name != "reviewer" || d.Publisher.Hex() != owner || d.Ver != 2 || d.UseCriteria != "reviews of Python" || !slices.Equal(d.Tools, []string{"read", "search"}) {
		t.Errorf("installed %+v", a)
	}
	versions, err := control.Definitions.Call(t.Context(), client, "reviewer", "true")
	if err != nil || len(versions) != 2 || versions[0].ID != d.ID || versions[1].ID.Hex() != p.First || versions[1].Ver != 1 {
		t.Errorf("versions %+v, %v", versions, err)
	}
	prompt := composed(t, client, control.Compose{Agents: []string{"reviewer"}}).Prompt
	if want := "# Reviewer\n\nYou review changes.\n\nRead everything before you write, 2.\n\nMore about **it**.\n"; !strings.HasPrefix(prompt, want) {
		t.Errorf("%q, want %q first", prompt, want)
	}
}

// lesson returns what the node says of the lesson, once it has heard of it.
func (p publishedByNDK) lesson(t *testing.T, client *control.Client) (found agents.Lesson) {
	t.Helper()
	eventually(t, "the lesson is listed", func() bool {
		all, err := control.Lessons.Call(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(l agents.Lesson) bool { return l.ID.Hex() == p.Lesson })
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	if found.Title != "Dates" || found.Category != "python" || found.Text != "Take both forms of ISO 8601." {
		t.Errorf("%+v", found)
	}
	return found
}

// nudge keeps the nudge, and works with it.
func (p publishedByNDK) nudge(t *testing.T, client *control.Client) {
	t.Helper()
	n, err := control.KeepNudges.Call(t.Context(), client, control.KeepNudge{Name: "theirs", Event: p.Nudge})
	if err != nil || n.Title != "careful" || n.Text != "Change nothing." || !slices.Equal(n.Allow, []string{"read"}) || !slices.Equal(n.Deny, []string{"run"}) {
		t.Errorf("%+v, %v", n, err)
	}
	c := composed(t, client, control.Compose{Agents: []string{"reviewer"}, Nudges: []string{"theirs"}})
	if !strings.Contains(c.Prompt, "> Change nothing.\n") || !slices.Equal(c.Tools, []string{"read", "search"}) {
		t.Errorf("with the nudge %q: %s", c.Tools, c.Prompt)
	}
}

func composed(t *testing.T, client *control.Client, asked control.Compose) control.Composed {
	t.Helper()
	c, err := control.ComposeBehaviour.Call(t.Context(), client, asked)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
