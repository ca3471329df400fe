package opinion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"guild/oa"
)

// ErrNoJudge is the error of an adjudication by judge_model if no judge is configured.
var ErrNoJudge = errors.New("no judge configured")

// Adjudicate decides a question by the method that its job asks for. judge is used only for judge_model, and may
// otherwise be nil. For merge, it also returns the merged result.
func Adjudicate(ctx context.Context, adjudication oa.Adjudication, q Question, judge Opinion) (Choice, json.RawMessage, error) {
	switch adjudication {
	case oa.NoAdjudication:
		if err := q.Check(); err != nil {
			return Choice{}, nil, err
		}
		c := Choice{Reason: "nobody was asked"}
		for i := range q.Results {
			c.Best = append(c.Best, i)
		}
		return c, nil, nil
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
