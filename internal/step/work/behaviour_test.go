package work

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"guild"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// acts returns a service that is done by an agent with a behaviour.
func (b Behaviour) acts(s Service) Service {
	b.ID = guild.Sum([]byte("behaviour"))
	s.Behave = func(context.Context, nip90.Request) (*Behaviour, error) { return &b, nil }
	return s
}

// behaves runs a command with a behaviour and returns what it printed.
func behaves(t *testing.T, x Exec, b Behaviour) string {
	t.Helper()
	_, lines, err := tries(t, b.acts(x.service()), advising(t, `{}`))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func TestBehaviourReachesCommand(t *testing.T) {
	files := t.TempDir()
	if err := os.WriteFile(filepath.Join(files, "style.md"), []byte("short\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const prompt = "Be kind to $(id).\n"
	for runner, box := range runners(t) {
		t.Run(runner, func(t *testing.T) {
			got := behaves(t, Exec{Runner: box, Command: `cat "$GUILD_BEHAVIOUR" "$GUILD_FILES/style.md"; echo "$GUILD_TOOLS"; echo ok >"$GUILD_DELIVERY/out"`},
				Behaviour{Prompt: prompt, Tools: []string{"cat", "server/tool", "@me/c++"}, Files: files})
			if want := "Be kind to $(id).\nshort\ncat server/tool @me/c++"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			behaves(t, Exec{Runner: box, Command: `echo no >"$GUILD_FILES/style.md"; echo ok >"$GUILD_DELIVERY/out"`}, Behaviour{Prompt: prompt, Files: files})
			if kept, err := os.ReadFile(filepath.Join(files, "style.md")); err != nil || string(kept) != "short\n" {
				t.Errorf("the command changed the files of all requests: %q %v", kept, err)
			}
		})
	}
}

func TestOnlyNamedProgramsAreOnPath(t *testing.T) {
	script := filepath.Join(t.TempDir(), "solve.py")
	if err := os.WriteFile(script, []byte(`#!/usr/bin/env python3
import os, shutil
print(*[name for name in ("ls", "git", "sort", "python3", "sh") if shutil.which(name)])
open(os.environ["GUILD_DELIVERY"] + "/out", "w").write("ok")
`), 0o755); err != nil {
		t.Fatal(err)
	}
	for runner, box := range runners(t) {
		x := Exec{Runner: box, Command: script, Mounts: []string{filepath.Dir(script)}}
		for want, tools := range map[string][]string{
			"ls git sort python3 sh": nil, "python3": {}, "ls sort python3": {"sort", "ls", "bin/sh", "a..b", "no-such-program", "x:sh"},
		} {
			if got := behaves(t, x, Behaviour{Tools: tools}); got != want {
				t.Errorf("%s: with %q it finds %q, want %q", runner, tools, got, want)
			}
		}
	}
}

func TestBehaviourIsRefused(t *testing.T) {
	for name, b := range map[string]Behaviour{
		"tool with a space":        {Tools: []string{"read", "a b"}},
		"tool with a command":      {Tools: []string{"$(touch x)"}},
		"tool with a line":         {Tools: []string{"a\nPATH=/evil"}},
		"tool that is an option":   {Tools: []string{"--dangerous"}},
		"tool without a name":      {Tools: []string{""}},
		"tool with a quote":        {Tools: []string{`a":"allow`}},
		"tool with a long name":    {Tools: []string{strings.Repeat("a", 200)}},
		"ten thousand tools":       {Tools: make([]string, 10_000)},
		"prompt of five megabytes": {Prompt: strings.Repeat("x", 5<<20)},
		"prompt with a zero":       {Prompt: "a\x00b"},
	} {
		_, _, err := tries(t, b.acts(Exec{Runner: Bare{}, Command: `echo ran >"$GUILD_DELIVERY/out"`}.service()), advising(t, `{}`))
		failed, ok := errors.AsType[*FailedError](err)
		if !ok || failed.Text != cannotAct || !strings.HasPrefix(failed.Stderr, "the agent") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The result and the record of a request name its behaviour, which is asked for once; so does the announcement.
func TestBehaviourIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id, asked := guild.Sum([]byte("behaviour")), 0
		s := python(echo)
		s.Behave = func(_ context.Context, r nip90.Request) (*Behaviour, error) {
			if r.Job != "" {
				asked++
			}
			return &Behaviour{ID: id}, nil
		}
		w := newWorld(t, s)
		_, stop := w.announced()
		if h := w.latest(); h.Behaviour != id {
			t.Errorf("announced %s", h.Behaviour)
		}
		request := w.asks(customer, task(t, bundle(t, []byte("in"))))
		w.pass(time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
		r, err := nip90.ParseResult(w.sent(6000, request)[0].Event, customer.opener())
		if err != nil || r.Behaviour != id || asked != 1 {
			t.Errorf("the result names %s, asked %d times: %v", r.Behaviour, asked, err)
		}
		rec, err := w.newRecording(s, fact.RequestReceived{Request: request}, &Behaviour{ID: id}, nil)
		if err != nil {
			t.Fatal(err)
		}
		rec.began = true
		made := w.endSession(t.Context(), rec, "", nil)
		for _, document := range [][]byte{made.replay, made.receipt} {
			if !strings.Contains(string(document), `"behaviour_id":"`+id.String()+`"`) {
				t.Errorf("%s", document)
			}
		}
	})
}
