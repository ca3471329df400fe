// Package taskservertest is a task server for tests: the routes of taskserver over HTTP, with tasks that go from open
// to assigned, submitted and approved and no other way. It keeps everything in memory and trusts its callers as little
// as a server should: their token says who they are.
package taskservertest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"

	"guild"
	"guild/internal/hand/taskserver"
	"guild/nutshell"
)

// maxBundle limits the size of a bundle, in bytes, as in ClawNet.
const maxBundle = 50 << 20

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
	answered map[string]any // by peer and Idempotency-Key
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

// call is a request by a peer, about a task if its route names one.
type call struct {
	*http.Request
	peer string
	t    *task
}

// read decodes the body of a request.
func (r call) read(v any) error {
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(v); err != nil {
		return refuse(http.StatusBadRequest, err.Error())
	}
	return nil
}

func refuse(code int, why string) error { return &taskserver.StatusError{Code: code, Message: why} }

// Start runs a server on a free port of this machine.
func Start(c Config) *Server {
	s := &Server{c: c, tasks: map[string]*task{}, answered: map[string]any{}, paid: map[string]int64{}}
	mux := http.NewServeMux()
	for route, act := range map[string]func(call) (any, error){
		taskserver.RouteStatus: func(r call) (any, error) {
			return map[string]any{"peer_id": r.peer, "peer_count": len(c.Peers), "agent_name": r.peer}, nil
		},
		taskserver.RouteCreate:   s.create,
		taskserver.RouteTasks:    s.list,
		taskserver.RouteTask:     func(r call) (any, error) { return *r.t, nil },
		taskserver.RouteUpload:   upload,
		taskserver.RouteDownload: download,
		taskserver.RouteBid:      placeBid,
		taskserver.RouteBids:     func(r call) (any, error) { return append([]bid{}, r.t.bids...), nil },
		taskserver.RouteAssign:   assign,
		taskserver.RouteClaim:    claim,
		taskserver.RouteSubmit:   s.submit,
		taskserver.RouteApprove:  s.approve,
	} {
		if route == taskserver.RouteClaim && c.NoClaim {
			continue
		}
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
			v, err := s.answer(r, act)
			if bundle, ok := v.([]byte); ok {
				w.Write(bundle)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			if refused, ok := errors.AsType[*taskserver.StatusError](err); ok {
				w.WriteHeader(refused.Code)
				v = map[string]string{"error": refused.Message}
			}
			json.NewEncoder(w).Encode(v)
		})
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

// answer does what a request asks for, one request at a time. A POST with the same Idempotency-Key as an earlier one
// gets the same answer. Every error is a *taskserver.StatusError.
func (s *Server) answer(r *http.Request, act func(call) (any, error)) (any, error) {
	peer, ok := s.c.Owner, s.c.Owner != ""
	if token := r.Header.Get("Authorization"); token != "" {
		peer, ok = s.c.Peers[strings.TrimPrefix(token, "Bearer ")]
	}
	if !ok {
		return nil, refuse(http.StatusUnauthorized, "who are you?")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := peer + r.Header.Get("Idempotency-Key")
	if v, ok := s.answered[key]; ok && r.Method == http.MethodPost {
		return v, nil
	}
	t := s.tasks[r.PathValue("id")]
	if t == nil && r.PathValue("id") != "" {
		return nil, refuse(http.StatusNotFound, "task not found")
	}
	v, err := act(call{r, peer, t})
	if err == nil && r.Method == http.MethodPost {
		s.answered[key] = v
	}
	return v, err
}

// move moves a task to another state and answers with that.
func (t *task) move(to string) (any, error) {
	if next[t.Status] != to {
		return nil, refuse(http.StatusConflict, fmt.Sprintf("the task is %s: it cannot be %s", t.Status, to))
	}
	t.Status = to
	return map[string]string{"status": to}, nil
}

func (s *Server) create(r call) (any, error) {
	var n struct {
		task
		Tags []string `json:"tags"`
	}
	if err := r.read(&n); err != nil {
		return nil, err
	}
	if n.Title == "" || n.Reward < 0 {
		return nil, refuse(http.StatusBadRequest, "a task has a title, and a reward that is not negative")
	}
	tags, _ := json.Marshal(n.Tags) // strings can be marshalled
	t := n.task
	t.ID = "task-" + strconv.Itoa(len(s.tasks)+1)
	t.AuthorID, t.AuthorName, t.Tags, t.Status, t.AssignedTo, t.Result = r.peer, r.peer, string(tags), taskserver.Open, "", ""
	s.tasks[t.ID] = &t
	return map[string]any{"task": t}, nil
}

func (s *Server) list(r call) (any, error) {
	query := r.URL.Query()
	found := []task{}
	for _, id := range slices.Sorted(maps.Keys(s.tasks)) {
		if state := query.Get("status"); state == "" || state == s.tasks[id].Status {
			found = append(found, *s.tasks[id])
		}
	}
	offset, _ := strconv.Atoi(query.Get("offset"))
	limit, _ := strconv.Atoi(cmp.Or(query.Get("limit"), "50"))
	found = found[min(max(offset, 0), len(found)):]
	return found[:min(max(limit, 0), len(found))], nil
}

// upload takes the request's bundle from the author, or the delivery from the peer who works on it. The bundle is in the
// first part of a multipart form.
func upload(r call) (any, error) {
	var b []byte
	parts, err := r.MultipartReader()
	if err == nil {
		var part *multipart.Part
		if part, err = parts.NextPart(); err == nil && part.FormName() == "bundle" {
			b, err = io.ReadAll(io.LimitReader(part, maxBundle+1))
		}
	}
	if err != nil || len(b) > maxBundle || !bytes.HasPrefix(b, []byte("NUT")) {
		return nil, refuse(http.StatusBadRequest, "that is not a form with a bundle, or it is too large")
	}
	t, hash := r.t, guild.Sum(b)
	switch {
	case r.peer == t.AuthorID && (t.Status == taskserver.Open || t.Status == taskserver.Assigned):
		if !t.Hash.IsZero() && t.Hash != hash {
			return nil, refuse(http.StatusUnprocessableEntity, "the bundle is not the one of the task")
		}
	case r.peer != t.AssignedTo || t.Status != taskserver.Assigned:
		return nil, refuse(http.StatusForbidden, "the bundle is not yours to change")
	}
	t.bundle = b
	return map[string]any{"task_id": t.ID, "hash": hash.Hex(), "size": len(b)}, nil
}

// download gives the bundle to everybody while the task is open, and later to its author and its assignee.
func download(r call) (any, error) {
	if t := r.t; t.Status != taskserver.Open && r.peer != t.AuthorID && r.peer != t.AssignedTo {
		return nil, refuse(http.StatusForbidden, "the bundle is for "+t.AssignedTo)
	}
	if r.t.bundle == nil {
		return nil, refuse(http.StatusNotFound, "no bundle for this task")
	}
	return r.t.bundle, nil
}

func placeBid(r call) (any, error) {
	var b bid
	if err := r.read(&b); err != nil {
		return nil, err
	}
	if r.peer == r.t.AuthorID {
		return nil, refuse(http.StatusForbidden, "cannot bid on your own task")
	}
	if r.t.Status != taskserver.Open {
		return nil, refuse(http.StatusConflict, "the task is "+r.t.Status)
	}
	b.ID, b.TaskID, b.BidderID, b.BidderName = "bid-"+strconv.Itoa(len(r.t.bids)+1), r.t.ID, r.peer, r.peer
	r.t.bids = append(r.t.bids, b)
	return b, nil
}

func assign(r call) (any, error) {
	var to struct {
		Peer string `json:"assign_to"`
	}
	if err := r.read(&to); err != nil {
		return nil, err
	}
	switch {
	case r.peer != r.t.AuthorID:
		return nil, refuse(http.StatusForbidden, "only the author assigns a task")
	case to.Peer == "" || to.Peer == r.t.AuthorID:
		return nil, refuse(http.StatusBadRequest, "a task is assigned to somebody else")
	}
	return r.t.assignTo(to.Peer)
}

func claim(r call) (any, error) {
	if r.peer == r.t.AuthorID {
		return nil, refuse(http.StatusForbidden, "cannot claim your own task")
	}
	return r.t.assignTo(r.peer)
}

func (t *task) assignTo(peer string) (any, error) {
	answer, err := t.move(taskserver.Assigned)
	if err == nil {
		t.AssignedTo = peer
	}
	return answer, err
}

func (s *Server) submit(r call) (any, error) {
	var what struct {
		Result string     `json:"result"`
		Hash   guild.Hash `json:"nutshell_hash"`
	}
	if err := r.read(&what); err != nil {
		return nil, err
	}
	t := r.t
	switch {
	case t.Status == taskserver.Assigned && r.peer != t.AssignedTo:
		return nil, refuse(http.StatusForbidden, "the task is assigned to "+t.AssignedTo)
	case t.Status == taskserver.Assigned && !what.Hash.IsZero() && what.Hash != guild.Sum(t.bundle):
		return nil, refuse(http.StatusUnprocessableEntity, "the delivery has not been uploaded")
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

func (s *Server) approve(r call) (any, error) {
	if r.peer != r.t.AuthorID {
		return nil, refuse(http.StatusForbidden, "only the author approves")
	}
	if _, err := r.t.move(taskserver.Approved); err != nil {
		return nil, err
	}
	s.paid[r.t.AssignedTo] += r.t.Reward
	return map[string]any{"status": r.t.Status, "task_id": r.t.ID, "reward_paid": r.t.Reward}, nil
}
