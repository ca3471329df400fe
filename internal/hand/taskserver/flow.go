package taskserver

import (
	"context"
	"encoding/json"
	"net/url"
	"path"
	"strconv"

	"guild"
	"guild/nutshell/clawnet"
)

// Status asks whom the server takes the caller for.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return ask(ctx, c, question{what: "status", route: RouteStatus}, decode[Status])
}

// Task returns a task. The error is a *StatusError with 404 if there is no such task.
func (c *Client) Task(ctx context.Context, id string) (Task, error) {
	return ask(ctx, c, question{what: "task " + id, route: RouteTask, id: id}, func(b []byte) (Task, error) { return parseTask(b, id) })
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
		tasks, err := ask(ctx, c, question{what: "tasks", route: RouteTasks, query: query}, parseTasks)
		if err != nil {
			return nil, err
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

// Find returns the open task of a bundle, by the id in its manifest and its author, if that is known. It reports false
// if there is none.
func (c *Client) Find(ctx context.Context, nutshellID, author string) (Task, bool, error) {
	tasks, err := c.Tasks(ctx, Open)
	for _, t := range tasks {
		if t.NutshellID == nutshellID && (author == "" || t.AuthorID == author) {
			return t, true, nil
		}
	}
	return Task{}, false, err
}

// Create makes a task. Creating the same again gives the same task if the server honours Idempotency-Key; call Find
// first, because not all do.
func (c *Client) Create(ctx context.Context, n NewTask) (Task, error) {
	q := question{what: "publish", route: RouteCreate, body: n}
	return ask(ctx, c, q, func(b []byte) (Task, error) { return parseTask(b, "") })
}

// Bid offers to do a task for an amount.
func (c *Client) Bid(ctx context.Context, id string, amount clawnet.Decimal, words string) error {
	return c.act(ctx, RouteBid, id, struct {
		Amount  json.Number `json:"amount"`
		Message string      `json:"message"`
	}{json.Number(amount.Plain()), words})
}

// Bids returns what was bid for a task.
func (c *Client) Bids(ctx context.Context, id string) ([]Bid, error) {
	return ask(ctx, c, question{what: "bids for " + id, route: RouteBids, id: id}, parseBids)
}

// Assign gives a task to a peer. The peer is sent under two names, because servers differ.
func (c *Client) Assign(ctx context.Context, id, peer string) error {
	if err := CheckPeer(peer); err != nil {
		return err
	}
	return c.act(ctx, RouteAssign, id, struct {
		AssignTo string `json:"assign_to"`
		BidderID string `json:"bidder_id"`
	}{peer, peer})
}

// Claim takes an open task without bidding. Not every server allows that: see CannotClaim.
func (c *Client) Claim(ctx context.Context, id string) error {
	return c.act(ctx, RouteClaim, id, struct{}{})
}

// CannotClaim reports whether err is the answer of a server that does not let tasks be claimed, or not this one.
func CannotClaim(err error) bool { return IsStatus(err, 400, 404, 405, 422, 501) }

// Submit hands in a delivery that has been uploaded: words for the customer, and its hash.
func (c *Client) Submit(ctx context.Context, id, words string, hash guild.Hash) error {
	return c.act(ctx, RouteSubmit, id, struct {
		Result string     `json:"result"`
		Hash   guild.Hash `json:"nutshell_hash"`
	}{words, hash})
}

// Approve accepts what was submitted. The server pays the reward.
func (c *Client) Approve(ctx context.Context, id string) (Receipt, error) {
	q := question{what: "approve " + id, route: RouteApprove, id: id, body: struct{}{}}
	return ask(ctx, c, q, func(b []byte) (Receipt, error) {
		if r, err := decode[Receipt](b); err == nil {
			return r, nil
		}
		return Receipt{}, nil // the task is approved, whatever the answer says beside that
	})
}

// act posts to one of the routes of a task and expects no more than a success.
func (c *Client) act(ctx context.Context, route, id string, body any) error {
	q := question{what: path.Base(route) + " " + id, route: route, id: id, body: body}
	_, err := ask(ctx, c, q, func([]byte) (struct{}, error) { return struct{}{}, nil })
	return err
}
