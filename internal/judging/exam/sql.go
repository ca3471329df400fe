package exam

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"guild"
	"guild/internal/judging/sandbox"
)

// querier is the program that queries a database.
//
//go:embed querier.py
var querier string

// maxRows limits the rows of an answer.
const maxRows = 1000

// sqlOrder is the querier's task, passed on standard input.
type sqlOrder struct {
	Engine   string   `json:"engine"`
	Database string   `json:"database,omitempty"` // below the workspace
	Programs string   `json:"programs,omitempty"` // directory of PostgreSQL's programs
	Queries  []string `json:"queries"`
	Most     int      `json:"most"`
}

// sqlAnswer is the querier's answer to one query.
type sqlAnswer struct {
	Rows  []json.RawMessage `json:"rows"`
	Error string            `json:"error"`
}

// Database engines of a sql_check.
const (
	sqlite   = "sqlite"
	postgres = "postgresql"
)

// defaultDatabase is the file of a sql_check that names none.
const defaultDatabase = "database.sqlite"

// databaseFields has the location of a sql_check's database.
type databaseFields struct {
	Database string `json:"database,omitempty"` // file below the workspace
	Engine   string `json:"engine,omitempty"`   // sqlite if empty, or postgresql
}

// queryFields has the query of a case.
type queryFields struct {
	Query string `json:"query,omitempty"`
}

// rowsExpected is the expected answer to a query.
type rowsExpected struct {
	Result json.RawMessage   `json:"result,omitempty"` // the only value of the only row
	Rows   []json.RawMessage `json:"rows,omitempty"`   // each an array of values
}

func (e rowsExpected) given() []string {
	return names(map[string]bool{"result": e.Result != nil, "rows": e.Rows != nil})
}

// sqliteCriterion lets the delivery create a database, and queries it in another sandbox, where no delivered code runs.
type sqliteCriterion struct {
	service  Service // creates the database; empty if it is a delivered file
	database string
	cases    []sqlCase
}

type sqlCase struct {
	caseName
	queryFields
	rowsExpected
}

// readSQL determines the database of a criterion.
//
// A query without an expected answer is refused, because it would pass whatever the database contains.
func readSQL(e *Entry, _ *Criteria) (criterion, error) {
	var cases []sqlCase
	for _, one := range e.all() {
		if one.Query == "" {
			return nil, errors.New("a sql_check needs a query")
		}
		if len(one.Expected.rowsExpected.given()) == 0 {
			return nil, errors.New("a sql_check needs expected.result or expected.rows")
		}
		cases = append(cases, sqlCase{caseName: one.caseName, queryFields: one.queryFields, rowsExpected: one.Expected.rowsExpected})
	}
	e.Engine = cmp.Or(e.Engine, sqlite)
	switch {
	case e.Engine != sqlite && e.Engine != postgres:
		return nil, fmt.Errorf("engine %q is neither %s nor %s", e.Engine, sqlite, postgres)
	case e.Database != "" && (!local(e.Database) || e.Engine == postgres):
		return nil, fmt.Errorf("database %q is not a file below the workspace", e.Database)
	case e.Service.empty() && e.Engine == postgres:
		e.Unverifiable = "it has neither a script nor a command that fills the database"
	}
	unnamed := e.Database == ""
	e.Database = cmp.Or(e.Database, defaultDatabase)
	if err := e.only("result", "rows"); err != nil {
		return nil, err
	}
	if e.Engine == postgres {
		return &postgresCriterion{service: e.Service, cases: cases}, nil
	}
	c := &sqliteCriterion{service: e.Service, database: e.Database, cases: cases}
	if unnamed && e.Service.empty() {
		return &unnamedDatabase{c}, nil
	}
	return c, nil
}

// unnamedDatabase is a criterion that gives neither the name of its database nor a way to create it. A person must
// decide if no defaultDatabase was delivered.
type unnamedDatabase struct{ *sqliteCriterion }

func (c *unnamedDatabase) unverifiable(l layout) string {
	if isDir, there := l.seen[c.database]; isDir || !there {
		return "it has neither a script nor a command that makes the database, and no " + c.database + " was delivered"
	}
	return ""
}

func (c *sqliteCriterion) planned(*examination) map[string]int { return ids(c.cases) }

// examine collects the database file and queries a copy of it in a new sandbox. SQLite itself parses a hostile file
// there, so a vulnerability in it is confined too.
func (c *sqliteCriterion) examine(ctx context.Context, j *examination, f *Finding) error {
	f.Strength, f.Because = guild.Strong, "the database was asked where nothing of the delivery runs, and the answer compared outside"
	argv := []string{"/bin/true"} // the database is a delivered file
	if !c.service.empty() {
		var err error
		if argv, err = j.start(c.service); err != nil {
			return err
		}
	}
	s := sandbox.Spec{
		Argv: argv, Copies: j.layout.copies(true, nil), Limits: j.limits(),
		Env:     environment("DATABASE_URL=sqlite:///"+c.database, "DATABASE="+c.database),
		Collect: []string{c.database, c.database + "-wal", c.database + "-journal"}, // SQLite may leave the other two
	}
	if c.service.Script != "" {
		j.showTestsBeside(&s)
	}
	run, left, err := j.runFiles(ctx, f, s, "")
	if err != nil {
		return err
	}
	database := map[string]string{}
	for name, content := range left {
		database[name] = string(content)
	}
	why := f.Fault
	_, there := database[c.database]
	switch {
	case why != "":
	case run.Result.Exit != 0:
		why = fmt.Sprintf("what makes the database ended with exit code %d; %s", run.Result.Exit, lastLine(run.Stderr))
	case !there:
		why = "there is no database " + c.database
	}
	if why != "" {
		f.Tests = tests(c.cases, guild.TestFailed, why)
		return nil
	}
	dir, err := j.writeFiles(database)
	if err != nil {
		return err
	}
	return j.query(ctx, f, c.cases, sqlOrder{Engine: sqlite, Database: c.database}, sandbox.Spec{
		Copies: []sandbox.Copy{{Host: dir, Inside: sandbox.Workspace}}, Env: environment(), Limits: j.limits(),
	})
}

// query runs the querier with the arguments s.Argv, and compares its answers.
func (j *examination) query(ctx context.Context, f *Finding, cases []sqlCase, o sqlOrder, s sandbox.Spec) error {
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
	var got []sqlAnswer // of the cases that passed
	for i, one := range cases {
		t := one.test(guild.TestFailed, "")
		var a sqlAnswer
		switch {
		case f.Fault != "":
			t.Message = f.Fault
		case i >= len(answers)-1 || strict([]byte(answers[i]), &a) != nil:
			t.Message = cut("no answer; " + lastLine(run.Stderr))
		default:
			t.Message = cut(one.differs(a))
			if t.Message == "" {
				t.State = guild.TestPassed
				got = append(got, a)
			}
		}
		f.Tests = append(f.Tests, t)
	}
	if o.Engine == sqlite {
		f.proveCases(o.Database, queries(cases).lies(got), queries(cases).idle)
	}
	return nil
}

// prove says what the cases can show if the database passes all.
func (c *sqliteCriterion) prove() Finding {
	return proven(c.database, c.cases, queries(c.cases).lies(nil), queries(c.cases).idle)
}

// queries are the cases of a criterion.
type queries []sqlCase

// looks matches queries that look at a database.
var looks = regexp.MustCompile(`(?i)\bFROM\b|^\s*PRAGMA\b`)

// idle reports whether the answer to a query does not depend on the database.
func (q queries) idle(i int) bool { return !looks.MatchString(q[i].Query) }

// quoted matches a text in a query.
var quoted = regexp.MustCompile(`'([^']*)'`)

// lies returns what lies say about the rows. got has the answers in the cases that passed.
func (q queries) lies(got []sqlAnswer) iter.Seq[part] {
	one := func(value string) sqlAnswer {
		return sqlAnswer{Rows: []json.RawMessage{json.RawMessage("[" + value + "]")}}
	}
	always := func(says string, a sqlAnswer) lie {
		return lie{says, func(i int) bool { return q[i].differs(a) == "" }}
	}
	p := part{
		{"tables without rows", func(i int) bool {
			return q[i].differs(sqlAnswer{}) == "" || q[i].differs(q[i].ofNothing()) == ""
		}},
		{"the text in the query", func(i int) bool {
			return slices.ContainsFunc(quoted.FindAllStringSubmatch(q[i].Query, -1), func(found []string) bool {
				value, err := json.Marshal(found[1])
				return err == nil && q[i].differs(one(string(value))) == ""
			})
		}},
	}
	for _, value := range []string{"0", "1", "-1", "0.0", "null", `""`} {
		p = append(p, always("always "+value, one(value)))
	}
	if len(q) > 1 {
		for _, a := range got[:min(len(got), mostSame)] {
			p = append(p, always("always "+quote(rowsText(a.Rows)), a))
		}
		for _, one := range q[:min(len(q), mostSame)] {
			p = append(p, always("always the same", one.sample()))
		}
	}
	return slices.Values([]part{p})
}

// sample returns an answer that is as expected.
func (e rowsExpected) sample() sqlAnswer {
	if e.Result != nil {
		return sqlAnswer{Rows: []json.RawMessage{slices.Concat([]byte("["), e.Result, []byte("]"))}}
	}
	return sqlAnswer{Rows: e.Rows}
}

// ofNothing returns the row that a query for sums and counts answers where there is nothing to sum up or count: NULL and
// 0, in the order in which they are expected.
func (e rowsExpected) ofNothing() sqlAnswer {
	a := e.sample()
	if len(a.Rows) != 1 {
		return sqlAnswer{}
	}
	var row []json.RawMessage
	if json.Unmarshal(a.Rows[0], &row) != nil {
		return sqlAnswer{}
	}
	for i, value := range row {
		if string(value) != "null" {
			row[i] = json.RawMessage("0")
		}
	}
	b, err := json.Marshal(row)
	if err != nil {
		return sqlAnswer{}
	}
	return sqlAnswer{Rows: []json.RawMessage{b}}
}

// differs returns how an answer differs from the expected one, or "".
func (e rowsExpected) differs(a sqlAnswer) string {
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
	var texts []string
	for _, r := range rows {
		texts = append(texts, string(r))
	}
	return "[" + strings.Join(texts, ",") + "]"
}

// Additions to the limits of a judged run, for a PostgreSQL server.
const (
	postgresTime = 20 * time.Second
	postgresDisk = 256 << 20
)

// postgresCriterion queries a PostgreSQL server that runs in the same sandbox as the program that fills it.
type postgresCriterion struct {
	service Service
	cases   []sqlCase
}

func (c *postgresCriterion) planned(*examination) map[string]int { return ids(c.cases) }

// examine runs the server, the program that fills it and the queries in one sandbox. A data directory cannot be moved
// to another sandbox like an SQLite file; so the finding is weak.
func (c *postgresCriterion) examine(ctx context.Context, j *examination, f *Finding) error {
	f.Because = "the database server ran beside the delivery"
	programs, version, err := postgresPrograms()
	if err != nil {
		return err
	}
	f.Tools = map[string]string{"postgresql": version}
	argv, err := j.start(c.service)
	if err != nil {
		return err
	}
	s := sandbox.Spec{
		Argv:   argv, // arguments of the querier
		Copies: j.layout.copies(true, nil), Limits: j.limits(),
		Env: environment(),
	}
	s.Limits.Wall += postgresTime
	s.Limits.CPU += postgresTime
	s.Limits.Disk = postgresDisk
	if c.service.Script != "" {
		j.showTestsBeside(&s)
	}
	return j.query(ctx, f, c.cases, sqlOrder{Engine: postgres, Programs: programs}, s)
}

// postgresPrograms returns the newest installation of PostgreSQL below /usr, which sandboxes can see.
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
