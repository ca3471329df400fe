package taskserver

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"guild"
	"guild/nutshell"
	"guild/nutshell/clawnet"
)

// Peer asks whom the server takes the caller for. The answer has not been checked: see CheckPeer.
func (c *Client) Peer(ctx context.Context) (string, error) {
	return ask(ctx, c, question{what: "status", route: RouteStatus}, func(b []byte) (string, error) {
		var status struct {
			PeerID string `json:"peer_id"`
		}
		if err := json.Unmarshal(b, &status); err != nil {
			return "", decodeError(err)
		}
		return status.PeerID, nil
	})
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

// Create makes a task of a bundle with this hash, by the table of section 10.1. Creating the same again gives the same
// task if the server honours Idempotency-Key; call Find first, because not all do.
func (c *Client) Create(ctx context.Context, m *nutshell.Manifest, e clawnet.Extension, hash guild.Hash) (Task, error) {
	list := func(tags []string) []string { return append([]string{}, tags...) } // nil would become null
	var reward clawnet.Reward                                                   // nothing, if none is stated: help is wanted
	if e.Reward != nil {
		reward = *e.Reward
	}
	task := map[string]any{
		"title": m.Task().Title, "description": m.Task().Summary, "tags": list(m.Tags().SkillsRequired),
		"reward":        json.Number(reward.Amount.Plain()), // servers want whole numbers
		"nutshell_hash": hash, "nutshell_id": m.ID(), "bundle_type": m.BundleType(),
		"agent_resume": map[string]any{"skills": list(m.Tags().Domains), "data_sources": list(m.Tags().DataSources)}, // who fits
	}
	if m.ExpiresAt() != "" {
		task["deadline"] = m.ExpiresAt()
	}
	if e.PeerID != "" {
		task["author_id"] = e.PeerID
	}
	q := question{what: "publish", route: RouteCreate, body: task}
	return ask(ctx, c, q, func(b []byte) (Task, error) { return parseTask(b, "") })
}

// Bids returns what was bid for a task.
func (c *Client) Bids(ctx context.Context, id string) ([]Bid, error) {
	return ask(ctx, c, question{what: "bids for " + id, route: RouteBids, id: id}, parseBids)
}

// Bid offers to do a task for an amount.
func (c *Client) Bid(ctx context.Context, id string, amount clawnet.Decimal, words string) error {
	_, err := c.act(ctx, RouteBid, id, map[string]any{"amount": json.Number(amount.Plain()), "message": words})
	return err
}

// Assign gives a task to a peer. The peer is sent under two names, because servers differ.
func (c *Client) Assign(ctx context.Context, id, peer string) error {
	if err := CheckPeer(peer); err != nil {
		return err
	}
	_, err := c.act(ctx, RouteAssign, id, map[string]any{"assign_to": peer, "bidder_id": peer})
	return err
}

// Claim takes an open task without bidding. Not every server allows that: see CannotClaim.
func (c *Client) Claim(ctx context.Context, id string) error {
	_, err := c.act(ctx, RouteClaim, id, map[string]any{})
	return err
}

// CannotClaim reports whether err is the answer of a server that does not let tasks be claimed, or not this one.
func CannotClaim(err error) bool { return IsStatus(err, 400, 404, 405, 422, 501) }

// Submit hands in a delivery that has been uploaded: words for the customer, and its hash.
func (c *Client) Submit(ctx context.Context, id, words string, hash guild.Hash) error {
	_, err := c.act(ctx, RouteSubmit, id, map[string]any{"result": words, "nutshell_hash": hash})
	return err
}

// Approve accepts what was submitted. The server pays the reward, and may say how much: paid is nil if it does not.
func (c *Client) Approve(ctx context.Context, id string) (paid *clawnet.Decimal, err error) {
	answer, err := c.act(ctx, RouteApprove, id, map[string]any{})
	if err != nil {
		return nil, err
	}
	var receipt struct {
		Paid *clawnet.Decimal `json:"reward_paid"`
	}
	if json.Unmarshal(answer, &receipt) != nil {
		return nil, nil // the task is approved, whatever the answer says beside that
	}
	return receipt.Paid, nil
}

// act posts to one of the routes of a task. Its success is in the status; the answer need not even be JSON.
func (c *Client) act(ctx context.Context, route, id string, body map[string]any) ([]byte, error) {
	q := question{what: path.Base(route) + " " + id, route: route, id: id, body: body}
	return ask(ctx, c, q, func(b []byte) ([]byte, error) { return b, nil })
}

// mediaType is that of a bundle, whatever its compression.
const mediaType = "application/x-nutshell+gzip"

// Upload sends the bundle of a task, or the delivery: size bytes of r, whose hash is known. It is streamed.
func (c *Client) Upload(ctx context.Context, id string, r io.Reader, size int64, hash guild.Hash) error {
	// The boundary comes from the hash of the file, which therefore cannot contain it.
	boundary := "nutshell-" + hash.Hex()[:56]
	before := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"bundle\"; filename=\"bundle.nut\"\r\nContent-Type: " + mediaType + "\r\n\r\n"
	after := "\r\n--" + boundary + "--\r\n"
	ctx, moved, stop := c.watch(ctx)
	defer stop()
	body := io.MultiReader(strings.NewReader(before), &transfer{r: r, left: size, whole: true, moved: moved}, strings.NewReader(after))
	return c.send(ctx, "upload to "+id, RouteUpload, id, body, func(req *http.Request) {
		req.ContentLength = int64(len(before)+len(after)) + size
		req.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
		req.Header.Set("Expect", "100-continue") // a server may refuse it before it is sent
		setIdempotencyKey(req, hash[:])
	}, func(*http.Response) error { return nil })
}

// Download writes the bundle of a task to w and returns its hash. The error is ErrTooLarge if it has more than limit
// bytes, and a *HashError if want is not zero and not its hash. After an error, discard what was written.
func (c *Client) Download(ctx context.Context, id string, w io.Writer, want guild.Hash, limit int64) (got guild.Hash, err error) {
	ctx, moved, stop := c.watch(ctx)
	defer stop()
	err = c.send(ctx, "download of "+id, RouteDownload, id, nil, func(req *http.Request) {
		req.Header.Set("Accept", mediaType+", application/octet-stream, */*;q=0.1")
	}, func(resp *http.Response) error {
		if resp.ContentLength > limit {
			return fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, resp.ContentLength, limit)
		}
		sum := sha256.New()
		n, err := io.Copy(io.MultiWriter(sum, w), &transfer{r: resp.Body, left: limit + 1, moved: moved})
		if err != nil {
			return err
		}
		if n > limit {
			return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
		}
		got = guild.Hash(sum.Sum(nil))
		if !want.IsZero() && got != want {
			return &HashError{want, got}
		}
		return nil
	})
	return got, err
}

// watch returns the context of a transfer, which ends when moved has not been called for the client's patience, or after
// the longest time that a transfer may take.
func (c *Client) watch(ctx context.Context) (watched context.Context, moved, stop func()) {
	ctx, end := context.WithTimeoutCause(ctx, c.c.Longest, ErrStalled)
	ctx, cancel := context.WithCancelCause(ctx)
	stalled := time.AfterFunc(c.c.Patience, func() { cancel(ErrStalled) })
	return ctx, func() { stalled.Reset(c.c.Patience) }, func() { stalled.Stop(); cancel(nil); end() }
}

// transfer reads at most left bytes, and calls moved whenever something is read.
type transfer struct {
	r     io.Reader
	left  int64
	whole bool // fewer bytes are an error: half a bundle must not look like a whole one
	moved func()
}

func (t *transfer) Read(p []byte) (int, error) {
	if t.left == 0 {
		return 0, io.EOF
	}
	n, err := t.r.Read(p[:min(int64(len(p)), t.left)])
	t.left -= int64(n)
	ended := errors.Is(err, io.EOF)
	if n > 0 || ended {
		t.moved()
	}
	if ended && t.whole && t.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
