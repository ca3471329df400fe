// Package taskservertest is a real task server for tests: the routes that a ClawNet daemon has, over HTTP, with
// tasks that go from open to assigned, submitted and approved and by no other way. It keeps everything in memory
// and distrusts its callers as a server should: who somebody is comes from their token.
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
)

// MaxBundle is the size of a bundle at most, in bytes, as ClawNet has it.
const MaxBundle = 50 << 20

// Config says who there is. The zero Config refuses everybody.
type Config struct {
	Peers map[string]string // peer ids by bearer token
	Owner string            // the peer that calls without a token; nobody may if empty

	NoClaim   bool // tasks are bid for only, as with a ClawNet daemon's auctions
	KeepsHash bool // a delivery's hash is not put in place of the request's, as with a ClawNet daemon
}

// Server is a running task server. Close ends it.
type Server struct {
	*httptest.Server
	c Config

	mu       sync.Mutex
	tasks    map[string]*task
	answered map[string]answer // by peer and Idempotency-Key
	paid     map[string]int64
}

// The states of a task, and where each may go.
var next = map[string][]string{"open": {"assigned"}, "assigned": {"submitted"}, "submitted": {"approved"}}

// task is a task as it is told to everybody. Tags is a string that holds a JSON list, because that is what ClawNet
// sends.
type task struct {
	ID          string `json:"id"`
	AuthorID    string `json:"author_id"`
	AuthorName  string `json:"author_name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Tags        string `json:"tags"`
	Deadline    string `json:"deadline"`
	Reward      int64  `json:"reward"`
	Status      string `json:"status"`
	AssignedTo  string `json:"assigned_to"`
	Result      string `json:"result"`
	Hash        string `json:"nutshell_hash,omitempty"`
	NutshellID  string `json:"nutshell_id,omitempty"`
	BundleType  string `json:"bundle_type,omitempty"`

	bids   []bid
	bundle []byte
}

type bid struct {
	ID         string `json:"id"`
	TaskID     string `json:"task_id"`
	BidderID   string `json:"bidder_id"`
	BidderName string `json:"bidder_name"`
	Amount     int64  `json:"amount"`
	Message    string `json:"message"`
}

// answer is what was answered to a request that may be repeated.
type answer struct {
	code int
	body []byte
}

// refusal is an answer that is no success.
type refusal struct {
	code int
	why  string
}

func (r *refusal) Error() string { return r.why }

// Start runs a server on a free port of this machine.
func Start(c Config) *Server {
	s := &Server{c: c, tasks: map[string]*task{}, answered: map[string]answer{}, paid: map[string]int64{}}
	s.Server = httptest.NewServer(s.routes())
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

// Replace puts another bundle in the place of the one that a task has, as a dishonest server would.
func (s *Server) Replace(id string, bundle []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks[id].bundle = bundle
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/status", s.asPeer(func(peer string, _ *http.Request) (any, error) {
		return map[string]any{"peer_id": peer, "peer_count": len(s.c.Peers), "agent_name": peer}, nil
	}))
	mux.HandleFunc("POST /api/tasks", s.asPeer(s.create))
	mux.HandleFunc("GET /api/tasks", s.asPeer(s.list))
	mux.HandleFunc("GET /api/tasks/{id}", s.asPeer(s.onTask(func(_ string, t *task, _ *http.Request) (any, error) { return t, nil })))
	mux.HandleFunc("POST /api/tasks/{id}/bundle", s.asPeer(s.upload))
	mux.HandleFunc("GET /api/tasks/{id}/bundle", s.download)
	mux.HandleFunc("POST /api/tasks/{id}/bid", s.asPeer(s.onTask(s.bid)))
	mux.HandleFunc("GET /api/tasks/{id}/bids", s.asPeer(s.onTask(func(_ string, t *task, _ *http.Request) (any, error) { return append([]bid{}, t.bids...), nil })))
	mux.HandleFunc("POST /api/tasks/{id}/assign", s.asPeer(s.onTask(s.assign)))
	mux.HandleFunc("POST /api/tasks/{id}/submit", s.asPeer(s.onTask(s.submit)))
	mux.HandleFunc("POST /api/tasks/{id}/approve", s.asPeer(s.onTask(s.approve)))
	if !s.c.NoClaim {
		mux.HandleFunc("POST /api/tasks/{id}/claim", s.asPeer(s.onTask(s.claim)))
	}
	return mux
}

// peer is who calls.
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

// asPeer answers with what act returns. What was posted with the same Idempotency-Key before gets the same answer.
func (s *Server) asPeer(act func(peer string, r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		peer, err := s.peer(r)
		if err != nil {
			write(w, nil, err)
			return
		}
		key := peer + r.Header.Get("Idempotency-Key")
		s.mu.Lock()
		was, repeated := s.answered[key]
		s.mu.Unlock()
		if repeated && r.Method == http.MethodPost {
			w.WriteHeader(was.code)
			w.Write(was.body)
			return
		}
		v, err := act(peer, r)
		body := write(w, v, err)
		if err == nil && r.Method == http.MethodPost {
			s.mu.Lock()
			s.answered[key] = answer{http.StatusOK, body}
			s.mu.Unlock()
		}
	}
}

// write answers, and returns what it said.
func write(w http.ResponseWriter, v any, err error) []byte {
	w.Header().Set("Content-Type", "application/json")
	code := http.StatusOK
	if err != nil {
		code = http.StatusInternalServerError
		if refused, ok := errors.AsType[*refusal](err); ok {
			code = refused.code
		}
		v = map[string]string{"error": err.Error()}
	}
	body, _ := json.Marshal(v)
	w.WriteHeader(code)
	w.Write(body)
	return body
}

// onTask finds the task that a route is about and holds it while act runs.
func (s *Server) onTask(act func(peer string, t *task, r *http.Request) (any, error)) func(string, *http.Request) (any, error) {
	return func(peer string, r *http.Request) (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		t, ok := s.tasks[r.PathValue("id")]
		if !ok {
			return nil, &refusal{http.StatusNotFound, "task not found"}
		}
		v, err := act(peer, t, r)
		if shown, ok := v.(*task); ok {
			copied := *shown
			v = &copied
		}
		return v, err
	}
}

// move takes a task to another state, if it may go there.
func (t *task) move(to string) error {
	if !slices.Contains(next[t.Status], to) {
		return &refusal{http.StatusConflict, fmt.Sprintf("the task is %s: it cannot be %s", t.Status, to)}
	}
	t.Status = to
	return nil
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
	if n.Title == "" || n.task.Reward < 0 {
		return nil, &refusal{http.StatusBadRequest, "a task has a title, and a reward that is not negative"}
	}
	tags, err := json.Marshal(n.Tags)
	if err != nil {
		return nil, err
	}
	t := n.task
	t.AuthorID, t.AuthorName, t.Tags, t.Status, t.AssignedTo, t.Result = peer, peer, string(tags), "open", "", ""
	s.mu.Lock()
	defer s.mu.Unlock()
	t.ID = "task-" + strconv.Itoa(len(s.tasks)+1)
	s.tasks[t.ID] = &t
	shown := t
	return map[string]any{"task": &shown}, nil
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

// upload takes the request's bundle from the author, or the delivery from the one who works on it.
func (s *Server) upload(peer string, r *http.Request) (any, error) {
	b, err := readForm(r)
	if err != nil {
		return nil, err
	}
	return s.onTask(func(peer string, t *task, _ *http.Request) (any, error) {
		hash := guild.Sum(b)
		switch wanted, err := guild.ParseHash(t.Hash); {
		case peer == t.AuthorID && (t.Status == "open" || t.Status == "assigned"):
			if err == nil && wanted != hash {
				return nil, &refusal{http.StatusUnprocessableEntity, "the bundle is not the one of the task"}
			}
		case peer != t.AssignedTo || t.Status != "assigned":
			return nil, &refusal{http.StatusForbidden, "the bundle is not yours to change"}
		}
		t.bundle = b
		return map[string]any{"task_id": t.ID, "hash": hash.Hex(), "size": len(b)}, nil
	})(peer, r)
}

// readForm reads the file of a form, or the body itself.
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
			return nil, &refusal{http.StatusBadRequest, "that is no bundle, or too large"}
		}
		return b, nil
	}
}

// download gives the bundle to everybody while the task is open, and to the two who have to do with it later.
func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	peer, err := s.peer(r)
	if err != nil {
		write(w, nil, err)
		return
	}
	v, err := s.onTask(func(peer string, t *task, _ *http.Request) (any, error) {
		if t.Status != "open" && peer != t.AuthorID && peer != t.AssignedTo {
			return nil, &refusal{http.StatusForbidden, "the bundle is for " + t.AssignedTo}
		}
		if t.bundle == nil {
			return nil, &refusal{http.StatusNotFound, "no bundle for this task"}
		}
		return t.bundle, nil
	})(peer, r)
	if err != nil {
		write(w, nil, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Write(v.([]byte))
}

func (s *Server) bid(peer string, t *task, r *http.Request) (any, error) {
	var b bid
	if err := read(r, &b); err != nil {
		return nil, err
	}
	if peer == t.AuthorID {
		return nil, &refusal{http.StatusForbidden, "cannot bid on your own task"}
	}
	if t.Status != "open" {
		return nil, &refusal{http.StatusConflict, "the task is " + t.Status}
	}
	b.ID, b.TaskID, b.BidderID, b.BidderName = "bid-"+strconv.Itoa(len(t.bids)+1), t.ID, peer, peer
	t.bids = append(t.bids, b)
	return b, nil
}

func (s *Server) assign(peer string, t *task, r *http.Request) (any, error) {
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
	if err := t.move("assigned"); err != nil {
		return nil, err
	}
	t.AssignedTo = to.Peer
	return map[string]string{"status": t.Status}, nil
}

func (s *Server) claim(peer string, t *task, _ *http.Request) (any, error) {
	if peer == t.AuthorID {
		return nil, &refusal{http.StatusForbidden, "cannot claim your own task"}
	}
	if err := t.move("assigned"); err != nil {
		return nil, err
	}
	t.AssignedTo = peer
	return map[string]string{"status": t.Status}, nil
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
	case t.Status == "assigned" && peer != t.AssignedTo:
		return nil, &refusal{http.StatusForbidden, "the task is assigned to " + t.AssignedTo}
	case t.Status == "assigned" && !what.Hash.IsZero() && what.Hash != guild.Sum(t.bundle):
		return nil, &refusal{http.StatusUnprocessableEntity, "the delivery has not been uploaded"}
	}
	if err := t.move("submitted"); err != nil {
		return nil, err
	}
	t.Result = what.Result
	if !s.c.KeepsHash && !what.Hash.IsZero() {
		t.Hash, t.BundleType = what.Hash.String(), "delivery"
	}
	return map[string]string{"status": t.Status}, nil
}

func (s *Server) approve(peer string, t *task, _ *http.Request) (any, error) {
	if peer != t.AuthorID {
		return nil, &refusal{http.StatusForbidden, "only the author approves"}
	}
	if err := t.move("approved"); err != nil {
		return nil, err
	}
	s.paid[t.AssignedTo] += t.Reward
	return map[string]any{"status": t.Status, "task_id": t.ID, "reward_paid": t.Reward}, nil
}
