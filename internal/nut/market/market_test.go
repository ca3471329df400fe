package market_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/hand/taskserver"
	"guild/internal/hand/taskserver/taskservertest"
	"guild/internal/nut/host"
	"guild/internal/nut/market"
	"guild/nutshell"
)

// trader is a person who uses the verbs for task servers.
type trader struct {
	t        *testing.T
	program  *host.Program
	out, err bytes.Buffer
}

func newTrader(t *testing.T) *trader {
	tr := &trader{t: t}
	config := t.TempDir()
	tr.program = &host.Program{
		Name: "nutshell", In: strings.NewReader(""), Out: &tr.out, Err: &tr.err, Random: rand.Reader,
		Now:       func() time.Time { return time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC) },
		ConfigDir: func() (string, error) { return config, nil },
	}
	return tr
}

// does calls a verb with a token.
func (tr *trader) does(token string, args ...string) error {
	tr.t.Helper()
	return tr.doesWithin(tr.t.Context(), token, args...)
}

func (tr *trader) doesWithin(ctx context.Context, token string, args ...string) error {
	tr.t.Helper()
	tr.t.Setenv("GUILD_TASK_TOKEN", token)
	tr.out.Reset()
	tr.err.Reset()
	root := cli.Root(&cobra.Command{Use: "nutshell"})
	cli.Group(root, market.Commands(tr.program)...)
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// aRequest is a directory that is ready to be published.
func aRequest(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "count")
	for name, text := range map[string]string{
		"nutshell.json": `{"nutshell_version": "0.2.0", "bundle_type": "request", "id": "nut-count", "task": {"title": "Count", "summary": "Count words"},
 "context": {"requirements": "context/requirements.md"}, "extensions": {"other": {"a": 1.0}}}`,
		"context/requirements.md": "# Requirements\n\nCount the words of a file.\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// aTown is a task server with a request of alice's, which is task-1.
func aTown(t *testing.T, tr *trader) *taskservertest.Server {
	t.Helper()
	s := taskservertest.Start(taskservertest.Config{Peers: map[string]string{"a": "alice", "b": "bob", "c": "carol"}})
	t.Cleanup(s.Close)
	t.Setenv("GUILD_TASK_SERVER", s.URL)
	if err := tr.does("a", "publish", "--dir", aRequest(t), "--reward", "500"); err != nil {
		t.Fatal(err)
	}
	return s
}

// emptied checks that a directory has no files, not even hidden ones.
func emptied(t *testing.T, dir, why string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("%s: left behind %v, %v", why, entries, err)
	}
}

func TestClaimRefusesHostileBundles(t *testing.T) {
	names, err := filepath.Glob("../../../nutshell/testdata/hostile/*.nut")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if base := filepath.Base(name); strings.HasPrefix(base, "ok-") || strings.HasPrefix(base, "unknown-fields-") {
			continue
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			bundle, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			s := answering(t, bundle, guild.Sum(bundle))
			into := t.TempDir()
			tr := newTrader(t)
			err = tr.does("b", "claim", "task-1", "--server", s.URL, "-o", filepath.Join(into, "work"))
			if err == nil || cli.HintOf(err) == "" {
				t.Errorf("%v, hint %q", err, cli.HintOf(err))
			}
			emptied(t, into, name)
		})
	}
}

// answering is a server with one task and its bundle, which states this hash. A claim fails the test.
func answering(t *testing.T, bundle []byte, hash guild.Hash) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/tasks/task-1", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"id": "task-1", "title": "\x1b[2J../../evil\u202e", "status": "open", "nutshell_hash": hash})
	})
	mux.HandleFunc("GET /api/tasks/task-1/bundle", func(w http.ResponseWriter, _ *http.Request) { w.Write(bundle) })
	mux.HandleFunc("POST /", func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was posted to", r.URL) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestClaimRefusesWrongHash(t *testing.T) {
	tr := newTrader(t)
	s := aTown(t, tr)
	var other bytes.Buffer
	tree := fstest.MapFS{"nutshell.json": {Data: []byte(`{"nutshell_version": "0.2.0", "bundle_type": "request", "id": "nut-count", "task": {"title": "Evil"}}`)}}
	if _, err := nutshell.Pack(t.Context(), tree, &other, nutshell.Options{}); err != nil {
		t.Fatal(err)
	}
	s.Replace("task-1", other.Bytes())
	into := t.TempDir()
	err := tr.does("b", "claim", "task-1", "-o", filepath.Join(into, "work"))
	if _, wrong := errors.AsType[*taskserver.HashError](err); !wrong || cli.HintOf(err) == "" {
		t.Error(err)
	}
	emptied(t, into, "a wrong hash")
	if err := tr.does("c", "claim", "task-1", "-o", filepath.Join(into, "work")); err == nil {
		t.Error("carol got it")
	}
	s.Replace("task-1", nil)
	if err := tr.does("b", "bid", "task-1", "--amount", "1"); err != nil {
		t.Errorf("the task was taken by a claim that failed: %v", err)
	}
}

func TestOutputOfStrangersIsCleaned(t *testing.T) {
	says := "\x1b[2J\x1b]0;x\x07\u202eevil\nPublished \"all\" as task-1\u009b"
	mux := http.NewServeMux()
	task := map[string]any{
		"id": "task-1", "title": says, "status": "open", "author_id": says, "author_name": says, "tags": []string{says},
		"description": says, "assigned_to": says, "result": says, "deadline": says, "bundle_type": says, "nutshell_id": says,
	}
	mux.HandleFunc("GET /api/tasks/task-1", func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(task) })
	mux.HandleFunc("GET /api/tasks", func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode([]any{task}) })
	mux.HandleFunc("GET /api/tasks/task-1/bids", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode([]any{map[string]any{"bidder_id": "bob", "bidder_name": says, "message": says}})
	})
	mux.HandleFunc("POST /", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{}") })
	s := httptest.NewServer(mux)
	defer s.Close()
	for _, state := range []string{"open", "submitted", "approved", says} {
		task["status"] = state
		for _, args := range [][]string{
			{"bids", "task-1"}, {"bids", "task-1", "--json"}, {"claim", "--list"}, {"claim", "--list", "--json"}, {"bid", "task-1", "--amount", "1"},
			{"claim", "task-1", "-o", filepath.Join(t.TempDir(), "work")}, {"approve", "task-1"}, {"approve", "task-1", "--yes"}, {"approve", "task-1", "--yes", "--json"},
			{"assign", "task-1", "--to", "bob", "--dir", aRequest(t)},
		} {
			tr := newTrader(t)
			err := tr.does("b", append(args, "--server", s.URL)...)
			cli.Report(&tr.err, "nutshell", err, cli.HintOf(err))
			shown := tr.out.String() + tr.err.String()
			if strings.ContainsFunc(shown, func(r rune) bool { return r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
				t.Errorf("%q in state %q prints %q", args, state, shown)
			}
			if strings.Contains(shown, "\nPublished") {
				t.Errorf("%q in state %q puts words on a line of their own: %q", args, state, shown)
			}
		}
	}
}

func TestPublishToWebPage(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>nginx</html>") }))
	defer s.Close()
	tr := newTrader(t)
	err := tr.does("", "publish", "--dir", aRequest(t), "--server", s.URL)
	if !errors.Is(err, taskserver.ErrNotTaskServer) || cli.HintOf(err) != "is the address that of a task server? see --server" {
		t.Errorf("%v, %q", err, cli.HintOf(err))
	}
}

func TestInterruptedClaimLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/tasks/task-1", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"id":"task-1","status":"open"}`) })
	mux.HandleFunc("GET /api/tasks/task-1/bundle", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "NUT\x01")
		w.(http.Flusher).Flush()
		cancel()
		<-r.Context().Done()
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	into := t.TempDir()
	err := newTrader(t).doesWithin(ctx, "b", "claim", "task-1", "--server", s.URL, "-o", filepath.Join(into, "work"))
	if cli.CodeOf(err) != cli.ExitInterrupted {
		t.Error(err)
	}
	emptied(t, into, "interrupted")
}

func TestPublishResumes(t *testing.T) {
	tr := newTrader(t)
	s := taskservertest.Start(taskservertest.Config{Owner: "alice", Peers: map[string]string{"b": "bob"}})
	defer s.Close()
	broken := true
	inner := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken && strings.HasSuffix(r.URL.Path, "/bundle") {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		inner.ServeHTTP(w, r)
	})
	dir := aRequest(t)
	before, err := os.ReadFile(filepath.Join(dir, "nutshell.json"))
	if err != nil {
		t.Fatal(err)
	}
	err = tr.does("", "publish", "--dir", dir, "--server", s.URL)
	if err == nil || cli.HintOf(err) != "publish again: it goes on where it stopped" {
		t.Errorf("%v, %q", err, cli.HintOf(err))
	}
	if after, err := os.ReadFile(filepath.Join(dir, "nutshell.json")); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the manifest became %s, %v", after, err)
	}
	broken = false
	if err := tr.does("", "publish", "--dir", dir, "--server", s.URL); err != nil || s.Tasks() != 1 {
		t.Errorf("%d tasks, %v", s.Tasks(), err)
	}
	if err := tr.does("b", "claim", "task-1", "--server", s.URL, "-o", filepath.Join(t.TempDir(), "work")); err != nil {
		t.Error(err)
	}
}

func TestClaimTaskWithoutBundle(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/tasks/task-1", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"id":"task-1","status":"open","title":"Sum it up","description":"The paper.","reward":10,"author_id":"alice","tags":"[\"research\"]","deadline":"2026-03-21T10:00:00Z"}`)
	})
	mux.HandleFunc("POST /api/tasks/task-1/claim", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{}") })
	s := httptest.NewServer(mux)
	defer s.Close()
	dir := filepath.Join(t.TempDir(), "work")
	if err := newTrader(t).does("b", "claim", "task-1", "--server", s.URL, "-o", dir); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "nutshell.json"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := nutshell.ParseManifest(raw)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Validate(); err != nil || m.Task().Title != "Sum it up" || m.Tags().SkillsRequired[0] != "research" || m.ExpiresAt() != "2026-03-21T10:00:00Z" {
		t.Errorf("%s: %v", raw, err)
	}
	if words, err := os.ReadFile(filepath.Join(dir, "context", "requirements.md")); err != nil || string(words) != "# Sum it up\n\nThe paper.\n" {
		t.Errorf("%q, %v", words, err)
	}
}

func TestApproveRefusesReplacedDelivery(t *testing.T) {
	tr := newTrader(t)
	s := aTown(t, tr)
	work := filepath.Join(t.TempDir(), "work")
	file := filepath.Join(t.TempDir(), "done.nut")
	for _, args := range [][]string{{"claim", "task-1", "-o", work}, {"deliver", "--dir", work, "--status", "partial", "-o", file, "--server", s.URL}} {
		if err := tr.does("b", args...); err != nil {
			t.Fatal(err)
		}
	}
	var other bytes.Buffer
	if _, err := nutshell.Pack(t.Context(), fstest.MapFS{
		"nutshell.json":        {Data: []byte(`{"nutshell_version": "0.2.0", "bundle_type": "delivery", "request_id": "nut-count", "id": "nut-x"}`)},
		"delivery/result.json": {Data: []byte(`{"status": "completed"}`)},
	}, &other, nutshell.Options{}); err != nil {
		t.Fatal(err)
	}
	s.Replace("task-1", other.Bytes())
	err := tr.does("a", "approve", "task-1", "--yes")
	if _, wrong := errors.AsType[*taskserver.HashError](err); !wrong || s.Paid("bob") != 0 {
		t.Errorf("%v, bob has %d", err, s.Paid("bob"))
	}
}

func TestApproveForJSONAsksNothing(t *testing.T) {
	tr := newTrader(t)
	s := aTown(t, tr)
	work := filepath.Join(t.TempDir(), "work")
	file := filepath.Join(t.TempDir(), "done.nut")
	for _, args := range [][]string{
		{"claim", "task-1", "-o", work}, {"deliver", "--dir", work, "--status", "partial", "-o", file, "--server", s.URL},
		{"submit", "task-1", file},
	} {
		if err := tr.does("b", args...); err != nil {
			t.Fatal(err)
		}
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	tr.program.In, tr.program.Out = terminal, terminal
	err = tr.does("a", "approve", "task-1", "--json")
	if cli.CodeOf(err) != cli.ExitUsage || !strings.Contains(cli.HintOf(err), "approve task-1 --yes") || s.Paid("bob") != 0 {
		t.Errorf("%v, hint %q, bob has %d", err, cli.HintOf(err), s.Paid("bob"))
	}
}

func TestDeliverLeavesOutSecrets(t *testing.T) {
	tr := newTrader(t)
	dir := aRequest(t)
	for name, text := range map[string]string{
		"credentials/vault.enc.json": "sealed", "credentials/vault.json": "clear", ".env": "SECRET=1", "tests/hidden/a.sh": "exit 0",
		"made.go": "package made", ".nutignore": "*.tmp\n", "x.tmp": "x",
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "done.nut")
	if err := tr.does("", "deliver", "--dir", dir, "-o", out, "--no-submit"); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b, err := nutshell.Open(f, info.Size(), nutshell.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var artifacts []string
	for _, e := range b.Files() {
		if inside, ok := strings.CutPrefix(e.Path, nutshell.ArtifactsDir+"/"); ok {
			artifacts = append(artifacts, inside)
		}
	}
	if strings.Join(artifacts, " ") != "made.go" {
		t.Errorf("it has %v", artifacts)
	}
	if info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v", info.Mode())
	}
}

func TestDeliverMergesWorkersResult(t *testing.T) {
	tr := newTrader(t)
	dir := aRequest(t)
	result := `{"status": "completed", "summary": "theirs", "score": 1.50, "execution_log": {"strategy_used": "incremental", "credentials_used": ["old"]}}`
	for name, text := range map[string]string{"delivery/result.json": result, "delivery/artifacts/a.txt": "a"} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "done.nut")
	err := tr.does("", "deliver", "--dir", dir, "-o", out, "--no-submit", "--status", "partial", "--summary", "mine", "--credential-used", "db@2026-03-15T10:00:00Z", "--model", "m", "--by", "bob")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	b, err := nutshell.Open(bytes.NewReader(raw), int64(len(raw)), nutshell.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	said, err := b.ReadFile(nutshell.ResultFile)
	if err != nil {
		t.Fatal(err)
	}
	r, err := nutshell.ParseResult(said)
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != "partial" || r.Summary != "mine" || r.Deliverer.Model != "m" || r.Deliverer.Name != "bob" || r.ExecutionLog.StrategyUsed != "incremental" || r.RequestID != "nut-count" {
		t.Errorf("%s", said)
	}
	if !bytes.Contains(said, []byte(`"score": 1.50`)) || !bytes.Contains(said, []byte("2026-03-15T10:00:00Z")) || len(r.ExecutionLog.CredentialsUsed) != 2 {
		t.Errorf("%s", said)
	}
}

func TestNotedServerMustBeKnown(t *testing.T) {
	tr := newTrader(t)
	s := aTown(t, tr)
	work := filepath.Join(t.TempDir(), "work")
	if err := tr.does("b", "claim", "task-1", "-o", work); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GUILD_TASK_SERVER", "")
	file := filepath.Join(t.TempDir(), "done.nut")
	stranger := newTrader(t)
	if err := stranger.does("b", "deliver", "--dir", work, "--status", "failed", "-o", file); err == nil || !strings.Contains(cli.HintOf(err), "--server "+s.URL) {
		t.Errorf("somebody who never used it: %v, %q", err, cli.HintOf(err))
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the file was made")
	}
	if err := tr.does("b", "deliver", "--dir", work, "--status", "failed", "-o", file); err != nil {
		t.Errorf("who claimed it there: %v", err)
	}
	if err := tr.does("b", "submit", file, "--dir", work); err != nil || !strings.Contains(tr.out.String(), "Handed in before") {
		t.Errorf("%s, %v", tr.out.String(), err)
	}
}
