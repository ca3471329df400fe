package judge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/judging/opinion"
	"guild/internal/judging/typed"
	"guild/oa"
)

// together returns an order's adjudication if it compares all deliveries at once, else "".
func together(compare string) oa.Adjudication {
	if a := oa.Adjudication(compare); a.Together() {
		return a
	}
	return ""
}

// judgeTogether judges the deliveries of a job between which an opinion chooses. It is due once each provider that was
// asked has answered or failed to.
func (s *Step) judgeTogether(all []pending) due.Work {
	return due.Work{
		Key: all[0].key(), Guard: fact.JobSubject(all[0].Job), Class: Class, Tries: 8, Lease: 10 * time.Minute,
		Act: func(ctx context.Context) (due.Decision, error) {
			decide, err := s.adjudicate(ctx, all)
			if hopeless(err) {
				return func(tx *journal.Tx) error { s.parkAll(tx, all, err.Error()); return nil }, nil
			}
			return decide, err
		},
		Park: func(tx *journal.Tx, reason string) { s.parkAll(tx, all, reason) },
	}
}

func (s *Step) parkAll(tx *journal.Tx, all []pending, reason string) {
	for _, c := range all {
		s.park(tx, c, reason)
	}
}

// adjudicate judges each delivery by itself, and then has an opinion choose one of the successful ones or merge them.
func (s *Step) adjudicate(ctx context.Context, all []pending) (due.Decision, error) {
	var sound []int // indices in all
	verdicts := make([]judged, len(all))
	persons := make([]*PersonNeeded, len(all))
	for i, c := range all {
		v, err := s.verdict(ctx, c)
		person, held := errors.AsType[*PersonNeeded](err)
		if err != nil && !held {
			return nil, err
		}
		verdicts[i], persons[i] = v, person
		if !held && v.Outcome == guild.Success {
			sound = append(sound, i)
		}
	}
	chosen, undecided := s.choose(ctx, all, sound)
	person, held := errors.AsType[*PersonNeeded](undecided)
	if undecided != nil && !held {
		return nil, undecided
	}
	for k, i := range sound {
		persons[i] = person
		if len(chosen) > 0 {
			verdicts[i].Verdict = weighed(verdicts[i].Verdict, chosen[k])
		}
	}
	var decisions []due.Decision
	for i, c := range all {
		decide, err := s.decide(ctx, c, verdicts[i], persons[i])
		if err != nil {
			return nil, err
		}
		decisions = append(decisions, decide)
	}
	return func(tx *journal.Tx) error {
		for _, decide := range decisions {
			if err := decide(tx); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// decide returns the decision that records the verdict on one delivery or, if a person is needed, that it waits for
// one.
func (s *Step) decide(ctx context.Context, c pending, v judged, person *PersonNeeded) (due.Decision, error) {
	if person != nil {
		return s.hold(ctx, c, v, person.Reason)
	}
	kept, err := s.keep(ctx, c.Attempt, v)
	if err != nil {
		return nil, fmt.Errorf("judge attempt %.8s: %w", c.Attempt.Hex(), err)
	}
	return func(tx *journal.Tx) error {
		if s.fold.waits(c.Attempt) {
			tx.Append(kept)
		}
		return nil
	}, nil
}

// choose asks for an opinion on the results and returns a verdict on each, or none if there is nothing to choose. It
// also returns a *PersonNeeded if a person must decide.
func (s *Step) choose(ctx context.Context, all []pending, sound []int) ([]guild.Verdict, error) {
	adjudication := all[0].Order.Together
	switch {
	// A disputed choice goes to a person, and not to the same opinion again.
	case all[0].Again > 0:
		return nil, &PersonNeeded{Reason: "the choice between results is disputed"}
	case len(sound) < 2:
		return nil, nil
	case s.c.Opinion == nil && adjudication == oa.JudgeModel:
		return nil, &PersonNeeded{Reason: "no judge is configured to choose between results"}
	}
	bundle, err := s.c.Blobs.ReadAll(all[0].Order.Bundle, maxBundle)
	if err != nil {
		return nil, fmt.Errorf("our own bundle: %w", err)
	}
	e, _, err := typed.Requested(bundle)
	if err != nil {
		return nil, fmt.Errorf("our own bundle: %w", err)
	}
	q := opinion.Question{Task: all[0].Order.Task, Request: json.RawMessage(e.Payload), Model: typed.JudgeModel(e)}
	for _, i := range sound {
		delivery, err := s.c.Blobs.ReadAll(all[i].Delivery, maxBundle)
		if err != nil {
			return nil, fmt.Errorf("the delivery: %w", err)
		}
		q.Results = append(q.Results, typed.Delivered(delivery))
	}
	if err := q.Check(); err != nil {
		return nil, &PersonNeeded{Reason: err.Error()}
	}
	choice, _, err := opinion.Adjudicate(ctx, adjudication, q, s.c.Opinion)
	if errors.Is(err, opinion.ErrNoMerge) {
		return nil, &PersonNeeded{Reason: err.Error()}
	}
	if err != nil {
		return nil, err
	}
	verdicts, err := Opine(adjudication, len(sound), choice)
	if adjudication == oa.JudgeModel && q.Model != "" && !slices.Contains(choice.Models, q.Model) {
		for i := range verdicts {
			verdicts[i].Warnings = []string{fmt.Sprintf("the request names the judge_model %.80q, and %.80q was asked", guild.Clean(q.Model), choice.Models)}
		}
	}
	return verdicts, err
}

// weighed returns an opinion's verdict on a result, combined with the verdict on the result alone.
func weighed(v, opined guild.Verdict) guild.Verdict {
	opined.Tests = append(v.Tests[:len(v.Tests):len(v.Tests)], opined.Tests...)
	opined.Strengths, opined.Unproven = strengths(opined.Tests), v.Unproven
	opined.Expected, opined.Passed = v.Expected+opined.Expected, v.Passed+opined.Passed
	opined.Warnings = append(v.Warnings[:len(v.Warnings):len(v.Warnings)], opined.Warnings...)
	opined.Usage, opined.Box, opined.Evidence = v.Usage, v.Box, v.Evidence
	opined.Decided, opined.Claims, opined.Tools, opined.Hidden = v.Decided, v.Claims, v.Tools, v.Hidden
	return opined
}
