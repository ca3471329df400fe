package taskserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"guild"
	"guild/nutshell/clawnet"
)

// Status asks who the server takes the caller for.
func (c *Client) Status(ctx context.Context) (Status, error) {
	b, err := c.get(ctx, c.at("", "status"))
	if err != nil {
		return Status{}, c.failed("status", err)
	}
	var s Status
	if err := json.Unmarshal(b, &s); err != nil {
		return Status{}, c.failed("status", decodeError(err))
	}
	return s, nil
}

// Task returns a task. One that is not there is a *StatusError with 404.
func (c *Client) Task(ctx context.Context, id string) (Task, error) {
	if err := CheckID(id); err != nil {
		return Task{}, err
	}
	b, err := c.get(ctx, c.at("", "tasks", id))
	if err != nil {
		return Task{}, c.failed("task "+id, err)
	}
	t, err := parseTask(b, id)
	if err != nil {
		return Task{}, c.failed("task "+id, err)
	}
	return t, nil
}

// The list of tasks is asked for in pages, because servers return only some.
const (
	perPage  = 100
	maxPages = 50
)

// Tasks returns the tasks in a state, or all of them if state is empty: at most the first 5,000.
func (c *Client) Tasks(ctx context.Context, state string) ([]Task, error) {
	seen := make(map[string]bool)
	var all []Task
	for page := range maxPages {
		query := url.Values{"limit": {strconv.Itoa(perPage)}, "offset": {strconv.Itoa(page * perPage)}}
		if state != "" {
			query.Set("status", state)
		}
		b, err := c.get(ctx, c.at(query.Encode(), "tasks"))
		if err != nil {
			return nil, c.failed("tasks", err)
		}
		tasks, err := parseTasks(b)
		if err != nil {
			return nil, c.failed("tasks", err)
		}
		before := len(all)
		for _, t := range tasks {
			if !seen[t.ID] {
				seen[t.ID] = true
				all = append(all, t)
			}
		}
		if len(tasks) < perPage || len(all) == before {
			break // the last page, or a server that has no pages
		}
	}
	return all, nil
}

// Find returns the open task of a bundle, by the id in its manifest. It reports false if there is none. author is
// whose task it must be, if that is known.
func (c *Client) Find(ctx context.Context, nutshellID, author string) (Task, bool, error) {
	tasks, err := c.Tasks(ctx, Open)
	if err != nil {
		return Task{}, false, err
	}
	for _, t := range tasks {
		if t.NutshellID == nutshellID && (author == "" || t.AuthorID == author) {
			return t, true, nil
		}
	}
	return Task{}, false, nil
}

// Create makes a task. Creating the same again gives the same task, if the server honours Idempotency-Key; ask Find
// before.
func (c *Client) Create(ctx context.Context, n NewTask) (Task, error) {
	b, err := c.post(ctx, c.at("", "tasks"), n)
	if err != nil {
		return Task{}, c.failed("publish", err)
	}
	t, err := parseTask(b, "")
	if err != nil {
		return Task{}, c.failed("publish", err)
	}
	return t, nil
}

// Bid offers to do a task for an amount.
func (c *Client) Bid(ctx context.Context, id string, amount clawnet.Decimal, words string) error {
	return c.act(ctx, "bid", id, struct {
		Amount  json.Number `json:"amount"`
		Message string      `json:"message"`
	}{json.Number(amount.Plain()), words})
}

// Bids returns what was bid for a task.
func (c *Client) Bids(ctx context.Context, id string) ([]Bid, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	b, err := c.get(ctx, c.at("", "tasks", id, "bids"))
	if err != nil {
		return nil, c.failed("bids for "+id, err)
	}
	bids, err := parseBids(b)
	if err != nil {
		return nil, c.failed("bids for "+id, err)
	}
	return bids, nil
}

// Assign gives a task to a peer. The member has two names, because servers differ.
func (c *Client) Assign(ctx context.Context, id, peer string) error {
	if err := CheckPeer(peer); err != nil {
		return err
	}
	return c.act(ctx, "assign", id, struct {
		AssignTo string `json:"assign_to"`
		BidderID string `json:"bidder_id"`
	}{peer, peer})
}

// Claim takes an open task without bidding. Not every server has that: see CannotClaim.
func (c *Client) Claim(ctx context.Context, id string) error {
	return c.act(ctx, "claim", id, struct{}{})
}

// CannotClaim reports whether err is the answer of a server that has no claiming of this kind, or not for this task.
func CannotClaim(err error) bool { return IsStatus(err, 400, 404, 405, 422, 501) }

// Submit hands in a delivery that has been uploaded: words for the customer, and its hash.
func (c *Client) Submit(ctx context.Context, id, words string, hash guild.Hash) error {
	return c.act(ctx, "submit", id, struct {
		Result string     `json:"result"`
		Hash   guild.Hash `json:"nutshell_hash"`
	}{words, hash})
}

// Approve accepts what was submitted. The server pays the reward.
func (c *Client) Approve(ctx context.Context, id string) (Receipt, error) {
	if err := CheckID(id); err != nil {
		return Receipt{}, err
	}
	b, err := c.post(ctx, c.at("", "tasks", id, "approve"), struct{}{})
	if err != nil {
		return Receipt{}, c.failed("approve "+id, err)
	}
	var r Receipt
	if err := json.Unmarshal(b, &r); err != nil {
		return Receipt{}, nil // it is approved, whatever else the server has to say
	}
	return r, nil
}

// act posts to one of the routes of a task and expects no more than a success.
func (c *Client) act(ctx context.Context, verb, id string, content any) error {
	if err := CheckID(id); err != nil {
		return err
	}
	if _, err := c.post(ctx, c.at("", "tasks", id, verb), content); err != nil {
		return c.failed(verb+" "+id, err)
	}
	return nil
}

// failed says what was asked and of whom.
func (c *Client) failed(what string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%s at %s: %w", what, c.base.Host, err)
}
