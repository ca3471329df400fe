package exam

import (
	"encoding/json"
	"strings"
	"testing"

	"guild"
)

func TestSQLite(t *testing.T) {
	bundle := request(t, map[string]string{"tests/criteria.json": `{"criteria": [
		{"id": "schema", "type": "sql_check", "command": ["/usr/bin/python3", "migrate.py"], "database": "data/app.db", "cases": [
			{"id": "table", "query": "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'users'", "expected": {"result": 1}},
			{"id": "rows", "query": "SELECT name, age, x'00ff', NULL FROM users ORDER BY id", "expected": {"rows": [["ann", 30, {"hex": "00ff"}, null], ["bob", 4.5, {"hex": "00ff"}, null]]}}]}]}`})
	migrate := "import sqlite3, os\nos.mkdir('data')\ndb = sqlite3.connect('data/app.db')\n%s\n" +
		"db.execute('CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, age REAL)')\n" +
		"db.execute(\"INSERT INTO users (name, age) VALUES ('ann', 30), ('bob', 4.5)\")\ndb.commit()\nos._exit(0)"
	for name, journal := range map[string]string{"plain": "", "with a write-ahead log": "db.execute('PRAGMA journal_mode=WAL')"} {
		r := examined(t, bundle, deliver(t, map[string]string{"migrate.py": strings.Replace(migrate, "%s", journal, 1)}))
		t.Log(name)
		r.wants(t, guild.Strong, "schema/table passed", "schema/rows passed")
	}
	r := examined(t, bundle, deliver(t, map[string]string{"migrate.py": "import os\nos.mkdir('data')\nopen('data/app.db', 'w').write('SQLite format 3\\0' + 'x' * 5000)"}))
	r.wants(t, guild.Strong, "schema/table failed", "schema/rows failed")
	r = examined(t, bundle, deliver(t, map[string]string{"migrate.py": "raise SystemExit('no')"}))
	r.wants(t, guild.Strong, "schema/table failed", "schema/rows failed")
	if got := r.Findings[0].Tests[0].Message; !strings.Contains(got, "exit code 1; no") {
		t.Errorf("%q", got)
	}
}

func TestHostileDatabases(t *testing.T) {
	bundle := request(t, map[string]string{"tests/criteria.json": `{"time_limit_seconds": 2, "criteria": [
		{"id": "q", "type": "sql_check", "command": ["/usr/bin/python3", "make.py"], "query": "SELECT count(*) FROM users", "expected": {"result": 1}}]}`})
	open := "import sqlite3, os\ndb = sqlite3.connect(os.environ['DATABASE'])\ndb.executescript('''%s''')\ndb.commit()"
	for name, c := range map[string]struct{ sql, message string }{
		"a view that never ends": {
			"CREATE VIEW users AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n;", ""},
		"a view that reads files":    {"CREATE VIEW users AS SELECT readfile('/etc/passwd');", "readfile"},
		"a view that loads code":     {"CREATE VIEW users AS SELECT load_extension('/box/work/x.so');", "load_extension"},
		"a virtual table":            {"CREATE VIRTUAL TABLE users USING fts5(a); INSERT INTO users VALUES ('x'), ('y');", ""},
		"a table that is not there":  {"CREATE TABLE other (a);", "no such table"},
		"a trigger that nobody asks": {"CREATE TABLE users (a); CREATE TRIGGER t AFTER INSERT ON users BEGIN INSERT INTO users VALUES (2); END; INSERT INTO users VALUES (1);", "rows"},
	} {
		t.Run(name, func(t *testing.T) {
			r := examined(t, bundle, deliver(t, map[string]string{"make.py": strings.Replace(open, "%s", c.sql, 1)}))
			got := r.Findings[0]
			if got.Tests[0].State == guild.TestPassed || !strings.Contains(got.Tests[0].Message+got.Fault, c.message) || got.Strength != guild.Strong {
				t.Errorf("%+v", got)
			}
		})
	}
	huge := "import os\nopen(os.environ['DATABASE'], 'wb').truncate(90 << 20)"
	examined(t, bundle, deliver(t, map[string]string{"make.py": huge})).wants(t, guild.Strong, "q failed")
	linked := "import os\nos.symlink('/etc/passwd', os.environ['DATABASE'])"
	r := examined(t, bundle, deliver(t, map[string]string{"make.py": linked}))
	r.wants(t, guild.Strong, "q failed")
}

func TestQueryAnswer(t *testing.T) {
	row := func(s string) []json.RawMessage { return []json.RawMessage{json.RawMessage(s)} }
	for _, c := range []struct {
		expected string
		rows     []json.RawMessage
		met      bool
	}{
		{`{"result": 1}`, row(`[1]`), true},
		{`{"result": 1}`, row(`[1.0]`), true},
		{`{"result": 1}`, row(`["1"]`), false},
		{`{"result": 1}`, row(`[1, 2]`), false},
		{`{"result": 1}`, nil, false},
		{`{"result": null}`, row(`[null]`), true},
		{`{"result": 9007199254740993}`, row(`[9007199254740992]`), false},
		{`{"rows": []}`, nil, true},
		{`{"rows": []}`, row(`[1]`), false},
		{`{"rows": [[1, "a"]]}`, row(`[1, "a"]`), true},
	} {
		var e rowsExpected
		if err := json.Unmarshal([]byte(c.expected), &e); err != nil {
			t.Fatal(err)
		}
		if why := e.differs(sqlAnswer{Rows: c.rows}); (why == "") != c.met {
			t.Errorf("%s of %s: %q", c.expected, c.rows, why)
		}
	}
}

func TestPostgreSQL(t *testing.T) {
	if _, _, err := postgresPrograms(); err != nil {
		t.Skip(err)
	}
	bundle := request(t, map[string]string{"tests/criteria.json": `{"criteria": [
		{"id": "AC-010", "type": "sql_check", "engine": "postgresql", "command": ["/usr/bin/psql", "-X", "-q", "-f", "schema.sql"], "cases": [
			{"id": "table", "query": "SELECT count(*) FROM information_schema.tables WHERE table_name = 'users'", "expected": {"result": 1}},
			{"id": "rows", "query": "SELECT id, name FROM users ORDER BY id;", "expected": {"rows": [[1, "ann"], [2, null]]}}]}]}`})
	r := examined(t, bundle, deliver(t, map[string]string{"schema.sql": "CREATE TABLE users (id int, name text); INSERT INTO users VALUES (1, 'ann'), (2, NULL);"}))
	r.wants(t, guild.Weak, "AC-010/table passed", "AC-010/rows passed")
	r = examined(t, bundle, deliver(t, map[string]string{"schema.sql": "SELECT 1;"}))
	r.wants(t, guild.Weak, "AC-010/table failed", "AC-010/rows failed")
}
