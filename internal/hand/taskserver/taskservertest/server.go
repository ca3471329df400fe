// Package taskservertest is a task server for tests: the routes of taskserver over HTTP, with tasks that go from open
// to assigned, submitted and approved and no other way. It keeps everything in memory and trusts its callers as little
// as a server should: their token says who they are.
package taskservertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"

	"guild"
	"guild/internal/hand/taskserver"
	"guild/nutshell"
)

// MaxBundle limits the size of a bundle, in bytes, as in ClawNet.
const MaxBundle = 50 << 20

// Config says who may call. The zero Config refuses everybody.
type Config struct {
	Peers map[string]string // peer ids by bearer token
	Owner string            // the peer that calls without a token; nobody may if empty

	NoClaim   bool // tasks can only be bid for, as in a ClawNet daemon's auctions
	KeepsHash bool // a delivery's hash does not replace the request's, as in a ClawNet daemon
}

// Server is a running task server. Close ends it.
type Server struct {
	*httptest.Server
	c Config

	mu       sync.Mutex
	tasks    map[string]*task
	answered map[string][]byte // by peer and Idempotency-Key
	paid     map[string]int64
}

// next says which states may follow a state of a task.
var next = map[string]string{
	taskserver.Open: taskserver.Assigned, taskserver.Assigned: taskserver.Submitted, taskserver.Submitted: taskserver.Approved,
}

// task is a task as everybody sees it. Tags is a string that holds a JSON list, and amounts are whole numbers, as in
// ClawNet.
type task struct {
	taskserver.Task
	Tags   string `json:"tags"`
	Reward int64  `json:"reward"`

	bids   []bid
	bundle []byte
}

type bid struct {
	taskserver.Bid
	Amount int64 `json:"amount"`
}

// refusal is an answer with a status other than success.
type refusal struct {
	code int
	why  string
}

func (r *refusal) Error() string { return r.why }

// Start runs a server on a free port of this machine.
func Start(c Config) *Server {
	s := &Server{c: c, tasks: map[string]*task{}, answered: map[string][]byte{}, paid: map[string]int64{}}
	mux := http.NewServeMux()
	for route, act := range map[string]func(peer string, r *http.Request) (any, error){
		taskserver.RouteStatus: func(peer string, _ *http.Request) (any, error) {
			return map[string]any{"peer_id": peer, "peer_count": len(s.c.Peers), "agent_name": peer}, nil
		},
		taskserver.RouteCreate:   s.create,
		taskserver.RouteTasks:    s.list,
		taskserver.RouteTask:     s.onTask(func(_ string, t *task, _ *http.Request) (any, error) { return *t, nil }),
		taskserver.RouteUpload:   s.upload,
		taskserver.RouteDownload: s.onTask(download),
		taskserver.RouteBid:      s.onTask(placeBid),
		taskserver.RouteBids:     s.onTask(func(_ string, t *task, _ *http.Request) (any, error) { return append([]bid{}, t.bids...), nil }),
		taskserver.RouteAssign:   s.onTask(assign),
		taskserver.RouteClaim:    s.onTask(claim),
		taskserver.RouteSubmit:   s.onTask(s.submit),
		taskserver.RouteApprove:  s.onTask(s.approve),
	} {
		if route != taskserver.RouteClaim || !c.NoClaim {
			mux.HandleFunc(route, s.asPeer(act))
		}
	}
	s.Server = httptest.NewServer(mux)
	return s
}

// Tasks returns how many tasks there are.
func (s *Server) Tasks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tasks)
}

// Paid returns what a peer has been paid.
func (s *Server) Paid(peer string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paid[peer]
}

// Replace replaces the bundle of a task, as a dishonest server would.
func (s *Server) Replace(id string, bundle []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks[id].bundle = bundle
}

// peer returns who calls.
func (s *Server) peer(r *http.Request) (string, error) {
	token := r.Header.Get("Authorization")
	if token == "" && s.c.Owner != "" {
		return s.c.Owner, nil
	}
	for known, peer := range s.c.Peers {
		if token == "Bearer "+known {
			return peer, nil
		}
	}
	return "", &refusal{http.StatusUnauthorized, "who are you?"}
}

// asPeer answers with what act returns: bytes as they are, and anything else as JSON. A POST with the same
// Idempotency-Key as an earlier one gets the same answer.
func (s *Server) asPeer(act func(peer string, r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		peer, err := s.peer(r)
		key := peer + r.Header.Get("Idempotency-Key")
		s.mu.Lock()
		body, repeated := s.answered[key]
		s.mu.Unlock()
		if err == nil && repeated && r.Method == http.MethodPost {
			w.Write(body)
			return
		}
		var v any
		if err == nil {
			v, err = act(peer, r)
		}
		if bundle, ok := v.([]byte); ok {
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Write(bundle)
			return
		}
		code := http.StatusOK
		if err != nil {
			code = http.StatusInternalServerError
			if refused, ok := errors.AsType[*refusal](err); ok {
				code = refused.code
			}
			v = map[string]string{"error": err.Error()}
		}
		body, _ = json.Marshal(v)
		if err == nil && r.Method == http.MethodPost {
			s.mu.Lock()
			s.answered[key] = body
			s.mu.Unlock()
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		w.Write(body)
	}
}

// onTask finds the task that a request is about, and locks it while act runs.
func (s *Server) onTask(act func(peer string, t *task, r *http.Request) (any, error)) func(string, *http.Request) (any, error) {
	return func(peer string, r *http.Request) (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		t, ok := s.tasks[r.PathValue("id")]
		if !ok {
			return nil, &refusal{http.StatusNotFound, "task not found"}
		}
		return act(peer, t, r)
	}
}

// move moves a task to another state and answers with that.
func (t *task) move(to string) (any, error) {
	if next[t.Status] != to {
		return nil, &refusal{http.StatusConflict, fmt.Sprintf("the task is %s: it cannot be %s", t.Status, to)}
	}
	t.Status = to
	return map[string]string{"status": to}, nil
}

func read(r *http.Request, v any) error {
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(v); err != nil {
		return &refusal{http.StatusBadRequest, err.Error()}
	}
	return nil
}

func (s *Server) create(peer string, r *http.Request) (any, error) {
	var n struct {
		task
		Tags []string `json:"tags"`
	}
	if err := read(r, &n); err != nil {
		return nil, err
	}
	if n.Title == "" || n.Reward < 0 {
		return nil, &refusal{http.StatusBadRequest, "a task has a title, and a reward that is not negative"}
	}
	tags, err := json.Marshal(n.Tags)
	if err != nil {
		return nil, err
	}
	t := n.task
	t.AuthorID, t.AuthorName, t.Tags, t.Status, t.AssignedTo, t.Result = peer, peer, string(tags), taskserver.Open, "", ""
	s.mu.Lock()
	defer s.mu.Unlock()
	t.ID = "task-" + strconv.Itoa(len(s.tasks)+1)
	s.tasks[t.ID] = &t
	return map[string]any{"task": t}, nil
}

func (s *Server) list(_ string, r *http.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []task{}
	for _, id := range slices.Sorted(maps.Keys(s.tasks)) {
		if state := r.URL.Query().Get("status"); state == "" || state == s.tasks[id].Status {
			found = append(found, *s.tasks[id])
		}
	}
	offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil {
		limit = 50
	}
	found = found[min(max(offset, 0), len(found)):]
	return found[:min(max(limit, 0), len(found))], nil
}

// upload takes the request's bundle from the author, or the delivery from the peer who works on it.
func (s *Server) upload(peer string, r *http.Request) (any, error) {
	b, err := readForm(r)
	if err != nil {
		return nil, err
	}
	return s.onTask(func(peer string, t *task, _ *http.Request) (any, error) {
		hash := guild.Sum(b)
		switch {
		case peer == t.AuthorID && (t.Status == taskserver.Open || t.Status == taskserver.Assigned):
			if !t.Hash.IsZero() && t.Hash != hash {
				return nil, &refusal{http.StatusUnprocessableEntity, "the bundle is not the one of the task"}
			}
		case peer != t.AssignedTo || t.Status != taskserver.Assigned:
			return nil, &refusal{http.StatusForbidden, "the bundle is not yours to change"}
		}
		t.bundle = b
		return map[string]any{"task_id": t.ID, "hash": hash.Hex(), "size": len(b)}, nil
	})(peer, r)
}

// readForm reads the bundle in a multipart form.
func readForm(r *http.Request) ([]byte, error) {
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, &refusal{http.StatusBadRequest, err.Error()}
	}
	for {
		part, err := parts.NextPart()
		if err != nil {
			return nil, &refusal{http.StatusBadRequest, "the form has no bundle"}
		}
		if part.FormName() != "bundle" {
			continue
		}
		b, err := io.ReadAll(io.LimitReader(part, MaxBundle+1))
		if err != nil || len(b) > MaxBundle || !bytes.HasPrefix(b, []byte("NUT")) {
			return nil, &refusal{http.StatusBadRequest, "that is not a bundle, or too large"}
		}
		return b, nil
	}
}

// download gives the bundle to everybody while the task is open, and later to its author and its assignee.
func download(peer string, t *task, _ *http.Request) (any, error) {
	if t.Status != taskserver.Open && peer != t.AuthorID && peer != t.AssignedTo {
		return nil, &refusal{http.StatusForbidden, "the bundle is for " + t.AssignedTo}
	}
	if t.bundle == nil {
		return nil, &refusal{http.StatusNotFound, "no bundle for this task"}
	}
	return t.bundle, nil
}

func placeBid(peer string, t *task, r *http.Request) (any, error) {
	var b bid
	if err := read(r, &b); err != nil {
		return nil, err
	}
	if peer == t.AuthorID {
		return nil, &refusal{http.StatusForbidden, "cannot bid on your own task"}
	}
	if t.Status != taskserver.Open {
		return nil, &refusal{http.StatusConflict, "the task is " + t.Status}
	}
	b.ID, b.TaskID, b.BidderID, b.BidderName = "bid-"+strconv.Itoa(len(t.bids)+1), t.ID, peer, peer
	t.bids = append(t.bids, b)
	return b, nil
}

func assign(peer string, t *task, r *http.Request) (any, error) {
	var to struct {
		Peer string `json:"assign_to"`
	}
	if err := read(r, &to); err != nil {
		return nil, err
	}
	switch {
	case peer != t.AuthorID:
		return nil, &refusal{http.StatusForbidden, "only the author assigns a task"}
	case to.Peer == "" || to.Peer == t.AuthorID:
		return nil, &refusal{http.StatusBadRequest, "a task is assigned to somebody else"}
	}
	return t.assignTo(to.Peer)
}

func claim(peer string, t *task, _ *http.Request) (any, error) {
	if peer == t.AuthorID {
		return nil, &refusal{http.StatusForbidden, "cannot claim your own task"}
	}
	return t.assignTo(peer)
}

func (t *task) assignTo(peer string) (any, error) {
	answer, err := t.move(taskserver.Assigned)
	if err == nil {
		t.AssignedTo = peer
	}
	return answer, err
}

func (s *Server) submit(peer string, t *task, r *http.Request) (any, error) {
	var what struct {
		Result string     `json:"result"`
		Hash   guild.Hash `json:"nutshell_hash"`
	}
	if err := read(r, &what); err != nil {
		return nil, err
	}
	switch {
	case t.Status == taskserver.Assigned && peer != t.AssignedTo:
		return nil, &refusal{http.StatusForbidden, "the task is assigned to " + t.AssignedTo}
	case t.Status == taskserver.Assigned && !what.Hash.IsZero() && what.Hash != guild.Sum(t.bundle):
		return nil, &refusal{http.StatusUnprocessableEntity, "the delivery has not been uploaded"}
	}
	answer, err := t.move(taskserver.Submitted)
	if err != nil {
		return nil, err
	}
	t.Result = what.Result
	if !s.c.KeepsHash && !what.Hash.IsZero() {
		t.Hash, t.BundleType = what.Hash, nutshell.TypeDelivery
	}
	return answer, nil
}

func (s *Server) approve(peer string, t *task, _ *http.Request) (any, error) {
	if peer != t.AuthorID {
		return nil, &refusal{http.StatusForbidden, "only the author approves"}
	}
	if _, err := t.move(taskserver.Approved); err != nil {
		return nil, err
	}
	s.paid[t.AssignedTo] += t.Reward
	return map[string]any{"status": t.Status, "task_id": t.ID, "reward_paid": t.Reward}, nil
}
