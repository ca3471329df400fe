package exam

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"guild"
	"guild/internal/sandbox"
)

// querier is the program that asks a database.
//
//go:embed querier.py
var querier string

// maxRows bounds what a query may answer.
const maxRows = 1000

// sqlOrder is what the querier reads.
type sqlOrder struct {
	Engine   string   `json:"engine"`
	Database string   `json:"database,omitempty"` // below the workspace
	Programs string   `json:"programs,omitempty"` // directory of PostgreSQL's
	Queries  []string `json:"queries"`
	Most     int      `json:"most"`
}

// sqlAnswer is what it says to one query.
type sqlAnswer struct {
	Rows  []json.RawMessage `json:"rows"`
	Error string            `json:"error"`
}

// sql has a database made by the delivery and asks it.
func (j *examination) sql(ctx context.Context, c Criterion, f *Finding) error {
	if c.Engine == postgres {
		return j.postgres(ctx, c, f)
	}
	f.Strength, f.Because = guild.Strong, "the database was asked where nothing of the delivery runs, and the answer compared outside"
	database, err := j.makeDatabase(ctx, c, f)
	if err != nil {
		return err
	}
	if why := noDatabase(f, database, c); why != "" {
		f.Tests = failed(c.all(), why)
		return nil
	}
	dir, err := j.writeFiles(database)
	if err != nil {
		return err
	}
	return j.query(ctx, c, f, sqlOrder{Engine: sqlite, Database: c.Database}, sandbox.Spec{
		Copies: []sandbox.Copy{{Host: dir, Inside: sandbox.Workspace}}, Env: environment(), Limits: j.limits(),
	})
}

// settleDatabases waits for a person where a bundle says neither how a database is made nor its name, and none has
// the usual name.
func (j *examination) settleDatabases() {
	for i := range j.criteria.Criteria {
		c := &j.criteria.Criteria[i]
		if c.Framework != sqlCheck || !c.usual || c.Script != "" || len(c.Command) > 0 || c.Unverifiable != "" {
			continue
		}
		if isDir, there := j.layout.seen[c.Database]; isDir || !there {
			c.Unverifiable = "it has neither a script nor a command that makes the database, and no " + c.Database + " was delivered"
		}
	}
}

// noDatabase says why there is nothing to ask.
func noDatabase(f *Finding, database map[string]string, c Criterion) string {
	last := f.Runs[len(f.Runs)-1]
	switch _, there := database[c.Database]; {
	case f.Fault != "":
		return f.Fault
	case last.Result.Exit != 0:
		return fmt.Sprintf("what makes the database ended with exit code %d; %s", last.Result.Exit, lastLine(last.Stderr))
	case !there:
		return "there is no database " + c.Database
	default:
		return ""
	}
}

// makeDatabase runs what makes the database and collects it, with the journals that SQLite may leave beside it.
func (j *examination) makeDatabase(ctx context.Context, c Criterion, f *Finding) (map[string]string, error) {
	argv := []string{"/bin/true"} // it is one of the delivered files
	if c.Script != "" || len(c.Command) > 0 {
		var err error
		if argv, err = j.start(c.Service); err != nil {
			return nil, err
		}
	}
	s := sandbox.Spec{
		Argv: argv, Copies: j.layout.copies(true, nil), Limits: j.limits(),
		Env:     environment("DATABASE_URL=sqlite:///"+c.Database, "DATABASE="+c.Database),
		Collect: []string{c.Database, c.Database + "-wal", c.Database + "-journal"},
	}
	if c.Script != "" {
		j.showTests(&s)
	}
	archive := &sandbox.Head{Most: maxArchive}
	if _, err := j.runFiles(ctx, f, s, "", archive); err != nil {
		return nil, err
	}
	database := map[string]string{}
	for name, content := range collected(archive.Bytes(), s.Collect) {
		database[name] = string(content)
	}
	return database, nil
}

// query runs the querier, with s.Argv for arguments, and compares what it answers.
func (j *examination) query(ctx context.Context, c Criterion, f *Finding, o sqlOrder, s sandbox.Spec) error {
	cases := c.all()
	for _, one := range cases {
		o.Queries = append(o.Queries, one.Query)
	}
	o.Most = maxRows
	stdin, err := json.Marshal(o)
	if err != nil {
		return err
	}
	s.Argv = append([]string{j.engine.python(), "-I", "-B", "-c", querier}, s.Argv...)
	run, err := j.run(ctx, f, s, string(stdin))
	if err != nil {
		return err
	}
	run.Argv = slices.Replace(slices.Clone(s.Argv), 4, 5, "querier.py")
	results := run.Results
	if o.Engine == postgres {
		var up bool
		if results, up = strings.CutPrefix(results, `{"up": true}`+"\n"); !up {
			return undecided("PostgreSQL does not start in the sandbox: %s", cut(lastLine(run.Stderr)))
		}
	} else if results == "" && strings.Contains(run.Stderr, "No module named '_sqlite3'") {
		return undecided("%s has no sqlite3 module", s.Argv[0])
	}
	answers := strings.Split(results, "\n")
	for i, one := range cases {
		t := guild.Test{ID: one.ID, State: guild.TestFailed, Layer: one.Layer}
		var a sqlAnswer
		switch {
		case f.Fault != "":
			t.Message = f.Fault
		case i >= len(answers)-1 || strict([]byte(answers[i]), &a) != nil:
			t.Message = cut("no answer; " + lastLine(run.Stderr))
		default:
			if t.Message = cut(one.Expected.selected(a)); t.Message == "" {
				t.State = guild.TestPassed
			}
		}
		f.Tests = append(f.Tests, t)
	}
	return nil
}

// selected says how an answer differs from what was expected.
func (e Expected) selected(a sqlAnswer) string {
	if a.Error != "" {
		return a.Error
	}
	var exact tolerance
	if e.Result != nil {
		want := slices.Concat([]byte("["), e.Result, []byte("]"))
		if len(a.Rows) != 1 || !exact.sameJSON(want, a.Rows[0]) {
			return fmt.Sprintf("rows %s, want one with %s", quote(rowsText(a.Rows)), quote(string(e.Result)))
		}
	}
	if e.Rows != nil && !slices.EqualFunc(e.Rows, a.Rows, func(w, g json.RawMessage) bool { return exact.sameJSON(w, g) }) {
		return fmt.Sprintf("rows %s, want %s", quote(rowsText(a.Rows)), quote(rowsText(e.Rows)))
	}
	return ""
}

func rowsText(rows []json.RawMessage) string {
	return "[" + string(bytes.Join(slices.Collect(func(yield func([]byte) bool) {
		for _, r := range rows {
			if !yield(r) {
				return
			}
		}
	}), []byte(","))) + "]"
}

// failed are the tests of cases that all failed for one reason.
func failed(cases []Case, why string) []guild.Test {
	tests := unrun(cases, why)
	for i := range tests {
		tests[i].State = guild.TestFailed
	}
	return tests
}

// What a PostgreSQL server takes on top of the judged run's own limits.
const (
	postgresTime = 20 * time.Second
	postgresDisk = 256 << 20
)

// postgres asks a PostgreSQL server that runs in the same sandbox as what fills it.
func (j *examination) postgres(ctx context.Context, c Criterion, f *Finding) error {
	f.Because = "the database server ran beside the delivery"
	programs, version, err := postgresPrograms()
	if err != nil {
		return err
	}
	f.Tools = map[string]string{"postgresql": version}
	argv, err := j.start(c.Service)
	if err != nil {
		return err
	}
	s := sandbox.Spec{
		Argv:   argv, // of the querier
		Copies: j.layout.copies(true, nil), Limits: j.limits(),
		Env: environment(),
	}
	s.Limits.Wall += postgresTime
	s.Limits.CPU += postgresTime
	s.Limits.Disk = postgresDisk
	if c.Script != "" {
		j.showTests(&s)
	}
	return j.query(ctx, c, f, sqlOrder{Engine: postgres, Programs: programs}, s)
}

// postgresPrograms finds the newest installation of PostgreSQL below /usr, where sandboxes can see it.
func postgresPrograms() (dir, version string, err error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	byVersion := map[int]string{}
	for _, p := range append(found, "/usr/bin/postgres", "/usr/local/bin/postgres") {
		dir := filepath.Dir(p)
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
			continue
		}
		major := 0
		fmt.Sscanf(strings.TrimPrefix(dir, "/usr/lib/postgresql/"), "%d", &major)
		if byVersion[major] == "" {
			byVersion[major] = dir
		}
	}
	if len(byVersion) == 0 {
		return "", "", undecided("PostgreSQL is not installed: apt-get install postgresql")
	}
	newest := slices.Max(slices.Collect(maps.Keys(byVersion)))
	if newest == 0 {
		return byVersion[newest], "unknown", nil
	}
	return byVersion[newest], fmt.Sprint(newest), nil
}
