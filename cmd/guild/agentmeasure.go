package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"fiatjaf.com/nostr"
	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/control"
	"guild/internal/hand/blob"
	"guild/internal/node"
	"guild/internal/step/agents"
	"guild/internal/step/work"
	"guild/nip90"
)

// behaveFor returns the func that composes the behaviour for a try of a service that agents of this node do, by the node or
// its directory. One lesson may be left out.
func (p *program) behaveFor(c config.Config, s service, without nostr.ID) func(context.Context, nip90.Request) (*work.Behaviour, error) {
	return func(ctx context.Context, _ nip90.Request) (*work.Behaviour, error) {
		var composed control.Composed
		err := p.reading(ctx, func(client *control.Client, _ bool) (err error) {
			composed, err = control.ComposeBehaviour.Call(ctx, client, control.Compose{
				Agents: s.As, Task: s.Tasks[0], Nudges: s.Nudges, Worker: s.worker().Tools(), Without: without,
			})
			return err
		})
		if err != nil {
			return nil, err
		}
		b := &work.Behaviour{ID: composed.Behaviour, Agent: composed.PubKey, Prompt: composed.Prompt, Tools: composed.Tools}
		if len(composed.Files) == 0 {
			return b, nil
		}
		blobs, err := blob.Open(filepath.Join(c.Paths.Data, "blob"))
		if err != nil {
			return nil, err
		}
		var files []agents.File
		for _, f := range composed.Files {
			files = append(files, agents.File{Name: f.Name, File: nip90.File{Hash: f.Hash}})
		}
		b.Files, err = node.LayOut(blobs, files, filepath.Join(c.Paths.Data, "agents", "files"))
		return b, err
	}
}

// measured is the output of agent lessons measure --json.
type measured struct {
	Lesson agents.Lesson `json:"lesson"`
	Gain   int64         `json:"gain_micro"` // how much larger the share of passed tries is with the lesson
	From   int64         `json:"gain_from_micro"`
	To     int64         `json:"gain_to_micro"`
	Pairs  int           `json:"pairs"`
}

func (p *program) lessonsMeasureCommand() *cobra.Command {
	var o tryOptions
	var runs int
	cmd := p.local(&cobra.Command{
		Use:   "measure LESSON [BUNDLE]...",
		Short: "Try tasks with and without a lesson, and compare",
		Long: `measure has the worker do each bundle as work try does, in pairs: once with
all lessons that apply, and once without this one. Without a bundle it is the
shipped example for the lesson's category. The flags describe the worker, as for
work try. A lesson that harms is retired: so many pairs passed only without it
that chance does that in less than 5 of 100 cases. The test is made after each
run, so measuring again and again makes a false alarm more likely.`,
		Example: "  guild agent lessons measure 5f21c9aa --exec ./agent/solve.sh\n  guild agent lessons measure 5f21c9aa ./my-task --agent claude-code --runs 10",
		Args:    cli.Arity(cobra.MinimumNArgs(1), "the id of a lesson, and bundles"),
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		if runs < 1 {
			return nil, cli.Usage(fmt.Errorf("--runs %d: want 1 or more", runs))
		}
		o.pair, o.asJSON = true, cli.AsJSON(cmd)
		m, err := p.measure(cmd.Context(), o, args[0], args[1:], runs, cmd.Flags().Changed)
		if err != nil {
			return nil, err
		}
		return &cli.Result{JSON: m, Show: func() error { return p.showLessons([]agents.Lesson{m.Lesson}) }}, nil
	})
	o.flags(cmd)
	cmd.Flags().IntVar(&runs, "runs", 5, "pairs of tries of each bundle")
	return cmd
}

// measure tries bundles with and without a lesson, and has the node record the results.
func (p *program) measure(ctx context.Context, o tryOptions, id string, bundles []string, runs int, given func(string) bool) (m measured, err error) {
	l, err := p.lessonNamed(ctx, id)
	if err != nil {
		return m, err
	}
	c, err := p.config()
	if err != nil {
		return m, err
	}
	if len(o.Tasks) == 0 && (o.Service.Exec != "" || o.Endpoint != "" || o.Agent != "") {
		if l.Category == "" {
			return m, cli.Usage(errors.New("this lesson has no category: --task NAME"))
		}
		o.Tasks = []string{l.Category}
	}
	s, rest, err := o.chooseService(c, nil, given)
	if err != nil {
		return m, cli.Usage(err)
	}
	s.As = []string{l.Agent}
	if len(bundles) == 0 {
		bundles = append(rest, "")
	}
	for _, source := range bundles {
		t, err := p.pairs(ctx, c, s, o, l, source, runs)
		if err != nil {
			return m, err
		}
		err = p.acting(ctx, func(client *control.Client, _ bool) (err error) {
			l, err = control.ActOnLesson.Call(ctx, client, control.LessonAct{Trials: t}, l.ID.Hex(), "measured")
			return err
		})
		if err != nil {
			return m, err
		}
	}
	m = measured{Lesson: l, Pairs: agents.Sum(l.Trials).Pairs()}
	gain, from, to := agents.Sum(l.Trials).Gain()
	m.Gain, m.From, m.To = int64(gain*guild.Micro), int64(from*guild.Micro), int64(to*guild.Micro)
	return m, nil
}

// ended says how a try ended, in a few words.
func (r tryReport) ended() string {
	switch {
	case r.Passed:
		return "passed"
	case r.Failure != "":
		return "nothing was delivered (" + cli.Cut(cli.Clean(r.Failure), 60) + ")"
	}
	return "failed"
}

// lessonNamed finds a lesson by the beginning of its id.
func (p *program) lessonNamed(ctx context.Context, id string) (found agents.Lesson, err error) {
	var all []agents.Lesson
	err = p.reading(ctx, func(client *control.Client, _ bool) (err error) {
		all, err = control.Lessons.Call(ctx, client)
		return err
	})
	if err != nil {
		return found, err
	}
	n := 0
	for _, l := range all {
		if l.Draft == "" && strings.HasPrefix(l.ID.Hex(), id) && l.Applies && l.ID != found.ID { // once for several agents
			found, n = l, n+1
		}
	}
	switch n {
	case 0:
		return found, cli.WithHint(fmt.Errorf("%.20q: no lesson that applies has this id, or its beginning", id), "guild agent lessons")
	case 1:
		return found, nil
	}
	return found, cli.WithHint(fmt.Errorf("%.20q: %w", id, agents.ErrSeveral), "guild agent lessons")
}

// pairs tries one bundle runs times with and without a lesson.
func (p *program) pairs(ctx context.Context, c config.Config, s service, o tryOptions, l agents.Lesson, source string, runs int) (t agents.Trials, err error) {
	scratch, err := os.MkdirTemp("", "guild-measure-")
	if err != nil {
		return t, err
	}
	defer os.RemoveAll(scratch)
	one := trial{service: s, scratch: scratch}
	var args []string
	if source != "" {
		args = []string{source}
	}
	if err := p.setBundle(ctx, &one, args); err != nil {
		return t, err
	}
	t.Bundle = one.name
	for i := range runs {
		with, without := o, o
		without.without = l.ID
		a, err := p.try(ctx, c, one, with)
		if err != nil {
			return t, err
		}
		b, err := p.try(ctx, c, one, without)
		if err != nil {
			return t, err
		}
		fmt.Fprintf(p.err, "%s: pair %d of %d: with it %s, without it %s\n", cli.Clean(one.name), i+1, runs, a.ended(), b.ended())
		switch {
		case a.Passed && b.Passed:
			t.Both++
		case a.Passed:
			t.With++
		case b.Passed:
			t.Without++
		default:
			t.Neither++
		}
	}
	return t, nil
}
