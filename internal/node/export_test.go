package node

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"guild/internal/control"
	"guild/verify"
)

// exports stores the exports of jobs, each in a file.
type exports struct {
	dir string

	mu    sync.Mutex
	files map[string]verify.Report
}

func newExports(t *testing.T) *exports {
	return &exports{dir: t.TempDir(), files: map[string]verify.Report{}}
}

// absences lists the checks without a result here: nothing was hidden, paid or disputed, providers send no trajectories, no
// seal is published for a provider to countersign, and reviews come later.
var absences = []string{"hidden tests", "worker trajectory", "payment", "witness", "reviews", "supersedes"}

// unjudged lists the checks without a result where nothing was delivered.
var unjudged = []string{"result", "delivery", "verdict", "evidence"}

// add exports the receipt of a job and verifies it. All checks except the absences must pass.
func (x *exports) add(t *testing.T, customer *control.Client, job control.Job) {
	t.Helper()
	packed, err := control.ReceiptExport.Call(t.Context(), customer, job.ID)
	if err != nil {
		t.Errorf("job %.8s: %v", job.ID, err)
		return
	}
	report, err := verify.Archive(packed)
	if err != nil {
		t.Errorf("job %.8s: %v", job.ID, err)
		return
	}
	for _, c := range report.Checks {
		if report.Facts.Outcome == "" && slices.Contains(unjudged, c.Name) && c.State == verify.Absent {
			continue
		}
		if c.State == verify.Failed || c.State == verify.Absent && !slices.Contains(absences, c.Name) {
			t.Errorf("job %.8s: %s: %s: %s", job.ID, c.Name, c.State, c.Detail)
		}
		if c.Name != "witness" && c.Name != "worker trajectory" && strings.Contains(c.Detail, "not there") || strings.Contains(c.Detail, "only its envelope") {
			t.Errorf("job %.8s: %s is checked by halves: %s", job.ID, c.Name, c.Detail)
		}
	}
	file := filepath.Join(x.dir, job.ID+".zip")
	if err := os.WriteFile(file, packed, 0o600); err != nil {
		t.Error(err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.files[file] = report
}

// agree verifies all exports with the verifier that is written in Python, and compares the results line by line.
func (x *exports) agree(t *testing.T) {
	t.Helper()
	var files []string
	for file := range x.files {
		files = append(files, file)
	}
	program, err := filepath.Abs("../../verify/page/verify.py")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "python3", append([]string{program, "--json"}, files...)...).Output()
	if err != nil {
		t.Fatalf("python3 %s: %v\n%s", program, err, out)
	}
	var said []verify.Report
	if err := json.Unmarshal(out, &said); err != nil || len(said) != len(files) {
		t.Fatalf("%d reports of %d exports, %v", len(said), len(files), err)
	}
	for i, file := range files {
		got := said[i]
		if want := x.files[file]; got.Receipt != want.Receipt || states(got) != states(want) {
			t.Errorf("%s: Python says\n%s\nand we say\n%s", file, states(got), states(want))
		}
	}
}

// states returns the result of each check, without text.
func states(r verify.Report) (s string) {
	for _, c := range r.Checks {
		s += fmt.Sprintf("%s: %s\n", c.Name, c.State)
	}
	return s
}

func TestExportVerifiesOffline(t *testing.T) {
	url := startRelay(t)
	start(t, url, func(c *Config) { c.Workers = []Worker{{Task: "echo", Do: echo}} })
	customer, _ := start(t, url, func(*Config) {})
	job := hire(t, customer, control.Hire{})
	packed, err := control.ReceiptExport.Call(t.Context(), customer, job.ID)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := verify.Archive(packed)
	if err != nil || !whole.OK() {
		t.Fatalf("%s\n%v", states(whole), err)
	}
	packed, err = control.ReceiptExport.Call(t.Context(), customer, job.ID, "", verify.FileBundle, verify.FileDelivery, verify.DirReviews)
	if err != nil {
		t.Fatal(err)
	}
	if archive, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed))); err != nil {
		t.Fatal(err)
	} else {
		for _, f := range archive.File {
			if strings.HasSuffix(f.Name, ".key") {
				t.Errorf("%s opens what was left out", f.Name)
			}
		}
	}
	less, err := verify.Archive(packed)
	if err != nil || !less.OK() || states(less) == states(whole) {
		t.Errorf("%s\n%v", states(less), err)
	}
}

// TestWorkerTrajectoryIsExported has a provider send its customers what its worker did.
func TestWorkerTrajectoryIsExported(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	url := startRelay(t)
	start(t, url, func(c *Config) {
		c.Workers = []Worker{{Task: "echo", Command: `cp "$GUILD_BUNDLE/files/in.txt" "$GUILD_DELIVERY/out.txt"`, Trajectory: true}}
	})
	customer, _ := start(t, url, func(*Config) {})
	job := hire(t, customer, control.Hire{})
	x := newExports(t)
	x.add(t, customer, job)
	x.agree(t)
	for _, report := range x.files {
		if i := slices.IndexFunc(report.Checks, func(c verify.Check) bool { return c.Name == "worker trajectory" }); report.Checks[i].State != verify.Passed {
			t.Errorf("%+v", report.Checks[i])
		}
	}
}
