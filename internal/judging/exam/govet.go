package exam

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"

	"guild/internal/judging/exam/gostub"
	"guild/internal/judging/strength"
)

// vet runs the tests on deliveries that lie: see strength.Vetting. The declarations in the bundle's files are taken for those of
// what is to be delivered; without any, no test can be compiled.
func (c *goCriterion) vet(ctx context.Context, j *examination) (found lied, err error) {
	goroot, version, err := j.engine.goroot()
	if err != nil {
		return lied{}, err
	}
	expected, packages, err := goTests(j.tests, c.script)
	if err != nil {
		return lied{}, undecided("%w", err)
	}
	own := *j
	if j.layout.files != "" {
		own.layout.artifacts = []string{j.layout.files}
	}
	var f Finding
	s, err := own.newGoSplit(ctx, &f, goroot, version, packages)
	if err != nil {
		return lied{}, err
	}
	s.declared = true
	found.weak = map[string]string{}
	for id := range expected {
		name, external, err := goPackage(filepath.Join(j.tests, goDir(id)))
		if err != nil {
			return lied{}, undecided("%w", err)
		}
		if !external {
			found.weak[id] = "it is in package " + name + ", not " + name + "_test"
		}
	}
	if len(found.weak) == len(expected) {
		return found, nil
	}
	for _, step := range []func(context.Context) (string, error){s.describe, s.build} {
		why, err := step(ctx)
		if err != nil {
			return lied{}, err
		}
		if why != "" {
			found.untried = "what the tests call must be declared in the bundle's files/: " + cmp.Or(f.Fault, why)
			return found, nil
		}
	}
	return found, s.tryLies(ctx, &found)
}

// tryLies runs the tests that can be split.
func (s *goSplit) tryLies(ctx context.Context, found *lied) error {
	split := map[string]bool{}
	for _, t := range s.selected {
		switch {
		case t.Because == "":
			split[goDir(t.ID)] = true
		case !strings.Contains(t.Because, "undefined"): // else the declarations are not complete
			found.weak[t.ID] = t.Because
		}
	}
	bounded, stop := context.WithTimeoutCause(ctx, roundsWall, errShort)
	defer stop()
	v := strength.NewVetting(strength.Go, goWords(s.description), make([]string, len(s.packages))...)
	for i, dir := range s.packages {
		if !split[dir] || !isDir(s.binary(i)) {
			continue
		}
		if err := s.play(bounded, v, i, s.againOf(dir, i)); err != nil {
			return err
		}
	}
	found.tests, found.unproven = v.Result()
	if len(found.tests) == 0 {
		found.untried = cmp.Or(cut(s.compiler), "no test can run apart from what it calls")
	}
	return ctx.Err()
}

// goWords returns what declarations say.
func goWords(d gostub.Description) (w strength.Words) {
	for _, p := range d.Packages {
		for _, v := range p.Vars {
			if v.Type.Kind == "basic" && v.Type.Name == "error" {
				w.Raised = append(w.Raised, d.Path(p.Dir)+"."+v.Name)
			}
		}
		for _, t := range p.Types {
			name := d.Path(p.Dir) + "." + t.Name
			if t.Handle {
				w.Objects = append(w.Objects, name)
			}
			i := slices.IndexFunc(t.Methods, func(m gostub.Func) bool { return m.Name == "Error" })
			if i < 0 || !t.Handle && t.Type.Kind != "struct" {
				continue
			}
			if t.Methods[i].Pointer {
				name = "*" + name
			}
			w.Errors = append(w.Errors, name)
		}
	}
	w.Raised, w.Errors = w.Raised[:min(len(w.Raised), mostRaised)], w.Errors[:min(len(w.Errors), mostRaised)]
	return w
}
