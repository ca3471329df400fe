package taskserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"guild"
	"guild/internal/hand/taskserver"
	"guild/internal/hand/taskserver/taskservertest"
	"guild/nutshell"
	"guild/nutshell/clawnet"
	"guild/nutshell/vault"
)

// town is a server with three peers, who are known by their tokens.
func town(t *testing.T) *taskservertest.Server {
	t.Helper()
	s := taskservertest.Start(taskservertest.Config{Peers: map[string]string{"a-token": "alice", "b-token": "bob", "c-token": "carol"}})
	t.Cleanup(s.Close)
	return s
}

// as is the client of a peer of the town.
func as(t *testing.T, url, token string) *taskserver.Client {
	t.Helper()
	c, err := taskserver.New(taskserver.Config{URL: url, Token: vault.NewSecret([]byte(token)), Pause: time.Millisecond, Patience: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const request = `{"nutshell_version": "0.2.0", "bundle_type": "request", "id": "nut-1", "expires_at": "2026-03-21T10:00:00Z",
 "task": {"title": "Count", "summary": "Count the words"}, "tags": {"skills_required": ["go"], "domains": ["text"]},
 "extensions": {"clawnet": {"reward": {"amount": 5e2}}}}`

// packed is a bundle.
func packed(t *testing.T, manifest string) ([]byte, *nutshell.Manifest) {
	t.Helper()
	var b bytes.Buffer
	if _, err := nutshell.Pack(t.Context(), fstest.MapFS{"nutshell.json": {Data: []byte(manifest)}, "a.txt": {Data: []byte("a")}}, &b, nutshell.Options{}); err != nil {
		t.Fatal(err)
	}
	m, err := nutshell.ParseManifest([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), m
}

// published is the task of a bundle, by alice.
func published(t *testing.T, alice *taskserver.Client, bundle []byte, m *nutshell.Manifest) taskserver.Task {
	t.Helper()
	e, _, err := clawnet.FromManifest(m)
	if err != nil {
		t.Fatal(err)
	}
	hash := guild.Sum(bundle)
	task, err := alice.Create(t.Context(), m, e, hash)
	if err != nil {
		t.Fatal(err)
	}
	if err := alice.Upload(t.Context(), task.ID, bytes.NewReader(bundle), int64(len(bundle)), hash); err != nil {
		t.Fatal(err)
	}
	return task
}

func amount(t *testing.T, s string) clawnet.Decimal {
	t.Helper()
	d, err := clawnet.ParseDecimal(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTaskFromPublicationToPayment(t *testing.T) {
	s, ctx := town(t), t.Context()
	alice, bob, carol := as(t, s.URL, "a-token"), as(t, s.URL, "b-token"), as(t, s.URL, "c-token")
	bundle, m := packed(t, request)
	task := published(t, alice, bundle, m)
	if task.AuthorID != "alice" || task.Title != "Count" || task.Reward.Cmp(amount(t, "500")) != 0 || task.Hash != guild.Sum(bundle) || len(task.Tags) != 1 || task.Tags[0] != "go" {
		t.Errorf("the task became %+v", task)
	}

	open, err := bob.Tasks(ctx, taskserver.Open)
	if err != nil || len(open) != 1 || open[0].NutshellID != "nut-1" {
		t.Fatalf("open: %+v, %v", open, err)
	}
	must(t, bob.Bid(ctx, task.ID, amount(t, "450.0"), "tomorrow"))
	must(t, carol.Bid(ctx, task.ID, amount(t, "400"), ""))
	bids, err := alice.Bids(ctx, task.ID)
	if err != nil || len(bids) != 2 || bids[0].BidderID != "bob" || bids[0].Amount.String() != "450" || bids[0].Message != "tomorrow" {
		t.Fatalf("bids: %+v, %v", bids, err)
	}
	must(t, alice.Assign(ctx, task.ID, "bob"))

	var got bytes.Buffer
	if _, err := carol.Download(ctx, task.ID, &got, task.Hash, 1<<20); !taskserver.IsStatus(err, http.StatusForbidden) {
		t.Errorf("carol, who was not chosen, gets %v", err)
	}
	got.Reset()
	if hash, err := bob.Download(ctx, task.ID, &got, task.Hash, 1<<20); err != nil || hash != task.Hash || !bytes.Equal(got.Bytes(), bundle) {
		t.Fatalf("bob gets %v, %v", hash, err)
	}

	delivery, _ := packed(t, strings.Replace(request, `"request"`, `"delivery"`, 1))
	if err := bob.Submit(ctx, task.ID, "done", guild.Sum(delivery)); !taskserver.IsStatus(err, http.StatusUnprocessableEntity) {
		t.Errorf("submitted before it was uploaded: %v", err)
	}
	must(t, bob.Upload(ctx, task.ID, bytes.NewReader(delivery), int64(len(delivery)), guild.Sum(delivery)))
	must(t, bob.Submit(ctx, task.ID, "done", guild.Sum(delivery)))
	paid, err := alice.Approve(ctx, task.ID)
	if err != nil || paid == nil || paid.Cmp(amount(t, "500")) != 0 {
		t.Errorf("paid %v, %v", paid, err)
	}
	if task, err = alice.Task(ctx, task.ID); err != nil || task.Status != taskserver.Approved {
		t.Errorf("approved: %+v, %v", task, err)
	}
	if s.Paid("bob") != 500 || s.Paid("carol") != 0 {
		t.Errorf("bob has %d, carol %d", s.Paid("bob"), s.Paid("carol"))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestForbiddenTransitions(t *testing.T) {
	s, ctx := town(t), t.Context()
	alice, bob, carol := as(t, s.URL, "a-token"), as(t, s.URL, "b-token"), as(t, s.URL, "c-token")
	bundle, m := packed(t, request)
	id := published(t, alice, bundle, m).ID
	hash := guild.Sum(bundle)
	refused := func(what string, code int, err error) {
		t.Helper()
		if !taskserver.IsStatus(err, code) {
			t.Errorf("%s: %v, want %d", what, err, code)
		}
	}
	_, err := alice.Approve(ctx, id)
	refused("approved while open", 409, err)
	refused("submitted while open", 409, bob.Submit(ctx, id, "x", hash))
	refused("assigned by a stranger", 403, bob.Assign(ctx, id, "carol"))
	refused("assigned to the author", 400, alice.Assign(ctx, id, "alice"))
	refused("bid by the author", 403, alice.Bid(ctx, id, amount(t, "1"), ""))
	refused("claimed by the author", 403, alice.Claim(ctx, id))
	must(t, bob.Claim(ctx, id))
	must(t, bob.Claim(ctx, id)) // the same request again
	refused("claimed twice", 409, carol.Claim(ctx, id))
	refused("bid too late", 409, carol.Bid(ctx, id, amount(t, "1"), ""))
	refused("submitted by another", 403, carol.Submit(ctx, id, "x", hash))
	refused("changed by another", 403, carol.Upload(ctx, id, bytes.NewReader(bundle), int64(len(bundle)), hash))
	_, err = bob.Approve(ctx, id)
	refused("approved by the worker", 403, err)
	_, err = alice.Task(ctx, "task-99")
	refused("unknown", 404, err)
	refused("no bundle of the task", 422, alice.Upload(ctx, id, strings.NewReader("NUT\x01"), 4, guild.Sum([]byte("NUT\x01"))))
	refused("without a token", 401, as(t, s.URL, "no-token").Claim(ctx, id))
}

func TestCreateTwiceMakesOneTask(t *testing.T) {
	s := town(t)
	alice, bob := as(t, s.URL, "a-token"), as(t, s.URL, "b-token")
	bundle, m := packed(t, request)
	first := published(t, alice, bundle, m)
	second := published(t, alice, bundle, m)
	if first.ID != second.ID || s.Tasks() != 1 {
		t.Errorf("%s and %s, %d tasks", first.ID, second.ID, s.Tasks())
	}
	found, ok, err := alice.Find(t.Context(), "nut-1", "alice")
	if err != nil || !ok || found.ID != first.ID {
		t.Errorf("found %+v, %v, %v", found, ok, err)
	}
	if _, ok, err := bob.Find(t.Context(), "nut-1", "bob"); ok || err != nil {
		t.Errorf("somebody else's task was taken for one's own: %v, %v", ok, err)
	}
}

func TestTaskOfABundle(t *testing.T) {
	posted := func(text string) map[string]any {
		m, err := nutshell.ParseManifest([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		e, _, err := clawnet.FromManifest(m)
		if err != nil {
			t.Fatal(err)
		}
		var task map[string]any
		c := against(t, func(w http.ResponseWriter, r *http.Request) {
			if err := json.NewDecoder(r.Body).Decode(&task); err != nil {
				t.Error(err)
			}
			io.WriteString(w, `{"id": "t-1"}`)
		})
		if _, err := c.Create(t.Context(), m, e, guild.Hash{}); err != nil {
			t.Fatal(err)
		}
		return task
	}
	task := posted(`{"id": "nut-1", "task": {"title": "Count"}, "tags": {"skills_required": ["golang", "jwt"], "domains": ["backend"],
 "data_sources": ["postgresql://host"]}, "extensions": {"clawnet": {"peer_id": "12D3KooWAbCdEf...", "reward": {"amount": 5e2, "currency": "shells"}}}}`)
	empty := posted(`{"id": "nut-1"}`)
	for _, row := range []struct {
		field     string
		got, want any
	}{
		{"tags.skills_required", task["tags"], []any{"golang", "jwt"}},
		{"tags.domains and tags.data_sources", task["agent_resume"], map[string]any{"skills": []any{"backend"}, "data_sources": []any{"postgresql://host"}}},
		{"extensions.clawnet.reward", task["reward"], 500.0},
		{"extensions.clawnet.peer_id", task["author_id"], "12D3KooWAbCdEf..."},
		{"no tags.skills_required", empty["tags"], []any{}},
		{"no tags.domains and tags.data_sources", empty["agent_resume"], map[string]any{"skills": []any{}, "data_sources": []any{}}},
		{"no reward", empty["reward"], 0.0},
	} {
		if !reflect.DeepEqual(row.got, row.want) {
			t.Errorf("%s: %v, want %v", row.field, row.got, row.want)
		}
	}
}

func TestTasksReadsAllPages(t *testing.T) {
	s := town(t)
	alice := as(t, s.URL, "a-token")
	for i := range 230 {
		m, err := nutshell.ParseManifest(fmt.Appendf(nil, `{"id": "nut-%d", "task": {"title": "t"}}`, i))
		if err == nil {
			_, err = alice.Create(t.Context(), m, clawnet.Extension{}, guild.Hash{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if tasks, err := alice.Tasks(t.Context(), taskserver.Open); err != nil || len(tasks) != 230 {
		t.Errorf("%d tasks, %v", len(tasks), err)
	}
}

func TestServerUnreachable(t *testing.T) {
	s := town(t)
	s.Close()
	_, err := as(t, s.URL, "a-token").Peer(t.Context())
	if !errors.Is(err, taskserver.ErrUnreachable) || strings.Contains(err.Error(), "a-token") {
		t.Error(err)
	}
}

func TestCancelledQuestion(t *testing.T) {
	s := town(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := as(t, s.URL, "a-token").Peer(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestTokenOnlyInHeader(t *testing.T) {
	s := town(t)
	alice := as(t, s.URL, "a-token")
	if me, err := alice.Peer(t.Context()); err != nil || me != "alice" {
		t.Errorf("%q, %v", me, err)
	}
	if strings.Contains(alice.URL(), "a-token") {
		t.Error(alice.URL())
	}
}
