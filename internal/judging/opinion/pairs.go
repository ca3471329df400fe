package opinion

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
)

// pair is one question to a judge: which of A and B does better what the request asks for. The results are strings in
// it, not JSON, so that their text cannot look like a part of the question.
type pair struct {
	Task    string `json:"task"`
	Request string `json:"request"`
	A       string `json:"a"`
	B       string `json:"b"`
}

// ask asks one such question.
type ask func(ctx context.Context, p pair) (answer, error)

// knockOut compares the best result so far with the next one, each time in both orders. The choice is undecided if an
// answer changes with the order.
//
// A model may prefer the first of two texts, and a hostile result may tell it to. Such an answer follows the position
// instead of the content, and asking in both orders reveals it.
func knockOut(ctx context.Context, q Question, ask ask) (Choice, error) {
	if err := q.Check(); err != nil {
		return Choice{}, err
	}
	if len(q.Results) == 1 {
		return Choice{Reason: "only one result: nothing to compare"}, nil
	}
	c := Choice{Best: []int{0}}
	for i := 1; i < len(q.Results); i++ {
		first := c.Best[0]
		side, sure, err := both(ctx, q, first, i, ask, &c)
		if err != nil {
			return Choice{}, err
		}
		if !sure {
			c.Best, c.Reason = nil, fmt.Sprintf("the answer on results %d and %d changed with their order", first, i)
			return c, nil
		}
		switch side {
		case B:
			c.Best = []int{i}
		case Tie:
			c.Best = append(c.Best, i)
		}
	}
	return c, nil
}

// both asks about two results in both orders; sure reports whether the answers agree. Equal results are a tie without a
// question. It adds the answers to c.
func both(ctx context.Context, q Question, i, j int, ask ask, c *Choice) (side Side, sure bool, err error) {
	if bytes.Equal(q.Results[i], q.Results[j]) {
		return Tie, true, nil
	}
	there, err := ask(ctx, question(q, q.Results[i], q.Results[j]))
	if err != nil {
		return "", false, fmt.Errorf("opinion on results %d and %d: %w", i, j, err)
	}
	back, err := ask(ctx, question(q, q.Results[j], q.Results[i]))
	if err != nil {
		return "", false, fmt.Errorf("opinion on results %d and %d: %w", j, i, err)
	}
	c.Voters += 2
	c.Reason = there.Reason
	sure = there.Choice == back.Choice.other()
	if sure {
		c.Agreeing += 2
	}
	return there.Choice, sure, nil
}

func question(q Question, a, b json.RawMessage) pair {
	return pair{Task: q.Task, Request: string(q.Request), A: string(a), B: string(b)}
}
