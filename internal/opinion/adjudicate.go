package opinion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"guild/oa"
)

// ErrNoJudge is what adjudication by a judge comes to where nobody was appointed.
var ErrNoJudge = errors.New("there is no judge to ask")

// Adjudicate decides a question in the way that its job asks for. The judge is asked for judge_model only, and may
// be nil for the rest. With merge comes one result made of all.
func Adjudicate(ctx context.Context, adjudication oa.Adjudication, q Question, judge Opinion) (Choice, json.RawMessage, error) {
	switch adjudication {
	case oa.NoAdjudication:
		c, err := all(q)
		return c, nil, err
	case oa.MajorityVote:
		c, err := Majority{}.Best(ctx, q)
		return c, nil, err
	case oa.JudgeModel:
		if judge == nil {
			return Choice{}, nil, ErrNoJudge
		}
		c, err := judge.Best(ctx, q)
		return c, nil, err
	case oa.Merge:
		merged, c, err := Merge(q)
		return c, merged, err
	default:
		return Choice{}, nil, fmt.Errorf("opinion: no adjudication %q", adjudication)
	}
}

// all takes every result, which nobody looked at.
func all(q Question) (Choice, error) {
	if err := q.Check(); err != nil {
		return Choice{}, err
	}
	c := Choice{Reason: "nobody was asked"}
	for i := range q.Results {
		c.Best = append(c.Best, i)
	}
	return c, nil
}
