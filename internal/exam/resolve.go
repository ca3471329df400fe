package exam

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// resolve fills in what was left out and refuses what cannot be judged.
func (c *Criteria) resolve() error {
	if c.TimeLimit == 0 {
		c.TimeLimit = defaultTime
	}
	switch {
	case c.TimeLimit < 1 || c.TimeLimit > maxTime:
		return undecided("criteria: time_limit_seconds %d: want 1 to %d", c.TimeLimit, maxTime)
	case len(c.Criteria) == 0:
		return undecided("criteria: there are none")
	}
	seen, total := map[string]bool{}, 0
	for i := range c.Criteria {
		one := &c.Criteria[i]
		one.ID = cmp.Or(one.ID, fmt.Sprintf("AC-%d", i+1))
		if total += max(1, len(one.Cases), one.Tests); total > maxCriteria {
			return undecided("criteria: more than %d of them and their cases", maxCriteria)
		}
		if err := one.resolve(c); err != nil {
			return undecided("criterion %s: %w", one.ID, err)
		}
		for _, test := range one.all() {
			if seen[test.ID] {
				return undecided("criterion %s: the id %s stands there twice", one.ID, test.ID)
			}
			seen[test.ID] = true
		}
	}
	return nil
}

// resolve finds out what judges a criterion, and whether it has what that needs.
func (c *Criterion) resolve(all *Criteria) error {
	switch {
	case slices.Contains(frameworks, c.Type):
		c.Framework = c.Type
	case slices.Contains(frameworks, all.Framework):
		c.Framework = all.Framework
	default:
		return fmt.Errorf("no framework %q", cmp.Or(c.Type, all.Framework))
	}
	if err := c.resolveScript(); err != nil {
		return err
	}
	c.Mode = cmp.Or(c.Mode, all.PythonMode, modeSplit)
	if c.Mode != modeSplit && c.Mode != modeInproc {
		return fmt.Errorf("mode %q is neither %s nor %s", c.Mode, modeSplit, modeInproc)
	}
	if err := c.resolveCases(); err != nil {
		return err
	}
	return c.resolveKind(all)
}

// resolveScript wants a place below tests/, the only part of a bundle that the judge shows to a run as tests.
func (c *Criterion) resolveScript() error {
	if c.Script == "" {
		return nil
	}
	clean, err := scriptPath(c.Script)
	c.Script = clean
	return err
}

// scriptPath cleans the name of a file or directory below tests/; it may go on with "::" and a test's name.
func scriptPath(name string) (string, error) {
	file, test, selected := strings.Cut(name, "::")
	clean := path.Clean(file)
	if clean != "tests" && !strings.HasPrefix(clean, "tests/") || strings.ContainsRune(clean, 0) {
		return "", fmt.Errorf("script %q is not below tests/", name)
	}
	if selected {
		clean += "::" + test
	}
	return clean, nil
}

// resolveKind asks for what one kind of criterion cannot do without.
func (c *Criterion) resolveKind(all *Criteria) error {
	own := c.Type == c.Framework
	counted := c.Report == reportTAP || c.Framework == jest || c.Framework == nodeTest
	if c.Tests < 0 || c.Tests > 0 && !counted {
		return fmt.Errorf("tests %d: only a tap report, jest and node-test have a number of them", c.Tests)
	}
	switch c.Framework {
	case ioCase:
		if len(c.Command) == 0 {
			return fmt.Errorf("an io criterion needs a command")
		}
	case shell, custom:
		return c.resolveProgram()
	case apiTest:
		return c.resolveAPI(all)
	case sqlCheck:
		return c.resolveSQL()
	default:
		if c.Script == "" && !own && c.Type != "" {
			return fmt.Errorf("%q needs a script", c.Type)
		}
		if len(c.Cases) > 0 {
			return fmt.Errorf("a %s criterion has no cases", c.Framework)
		}
	}
	return c.only(c.Framework)
}

// resolveProgram is for the kinds that are a program of the customer's with a verdict of its own.
func (c *Criterion) resolveProgram() error {
	switch {
	case c.Script == "" && (c.Framework == shell || len(c.Command) == 0):
		return fmt.Errorf("%q needs a script", cmp.Or(c.Type, c.Framework))
	case len(c.Cases) > 0:
		return fmt.Errorf("a %s criterion has no cases", c.Framework)
	case c.Report != "" && c.Report != reportTAP:
		return fmt.Errorf("report %q is not known, only %s", c.Report, reportTAP)
	case (c.Report == reportTAP) != (c.Tests > 0):
		return fmt.Errorf("a tap report needs tests, the number of them, so that none can go missing")
	}
	return c.only(c.Framework)
}

// resolveAPI finds the service that a criterion asks. A script without any expectation of an answer is a check
// of the customer's own: it is judged as a shell criterion is.
func (c *Criterion) resolveAPI(all *Criteria) error {
	answer := len(c.Cases) > 0 || c.Endpoint != "" || c.Expected.kinds().has(apiTest)
	if c.Script != "" && !answer {
		c.Framework = shell
		return c.resolveProgram()
	}
	if c.Script == "" && len(c.Command) == 0 && all.Service != nil && (c.Endpoint != "" || len(c.Cases) > 0) {
		c.Service = *all.Service
		if err := c.resolveScript(); err != nil {
			return err
		}
	}
	c.Port = cmp.Or(c.Port, defaultPort)
	switch {
	case c.Port < 1 || c.Port > 65535:
		return fmt.Errorf("port %d: want 1 to 65535", c.Port)
	case c.Script == "" && len(c.Command) == 0 && c.Endpoint == "" && len(c.Cases) == 0:
		c.Unverifiable = "it has neither a script nor a command and an endpoint"
	case c.Script == "" && len(c.Command) == 0:
		c.Unverifiable = "it has an endpoint, but neither a script nor a command that starts the service"
	}
	for _, one := range c.all() {
		if len(c.Cases) > 0 && c.Script != "" && !one.asks() {
			return fmt.Errorf("case %s has no endpoint to ask", one.ID)
		}
		if _, err := c.request(one); err != nil {
			return err
		}
	}
	return c.only(apiTest)
}

// resolveSQL finds the database that a criterion asks.
func (c *Criterion) resolveSQL() error {
	c.Engine = cmp.Or(c.Engine, sqlite)
	for _, one := range c.all() {
		if one.Query == "" {
			return fmt.Errorf("a sql_check needs a query")
		}
		if one.Expected.Result == nil && one.Expected.Rows == nil {
			return fmt.Errorf("a sql_check needs expected.result or expected.rows")
		}
	}
	switch {
	case c.Engine != sqlite && c.Engine != postgres:
		return fmt.Errorf("engine %q is neither %s nor %s", c.Engine, sqlite, postgres)
	case c.Database != "" && (!local(c.Database) || c.Engine == postgres):
		return fmt.Errorf("database %q is not a file below the workspace", c.Database)
	case c.Script == "" && len(c.Command) == 0 && c.Engine == postgres:
		c.Unverifiable = "it has neither a script nor a command that fills the database"
	}
	c.usual = c.Database == ""
	c.Database = cmp.Or(c.Database, defaultDatabase)
	return c.only(sqlCheck)
}

// only refuses expectations that the judge would not check on a criterion of this kind.
func (c *Criterion) only(kind string) error {
	for _, one := range c.all() {
		if stray := one.Expected.kinds().except(kind); len(stray) > 0 {
			return fmt.Errorf("expected.%s cannot be checked by a criterion that is judged as %s", stray[0], kind)
		}
	}
	return nil
}

// all are the cases of a criterion, at least one. A single case has the criterion's id, each of several has its
// own after it.
func (c *Criterion) all() []Case {
	if len(c.Cases) == 0 {
		return []Case{c.Case}
	}
	list := slices.Clone(c.Cases)
	for i := range list {
		list[i].ID = c.ID + "/" + list[i].ID
		list[i].Layer = cmp.Or(list[i].Layer, c.Layer)
		list[i].Method = cmp.Or(list[i].Method, c.Method)
		list[i].Endpoint = cmp.Or(list[i].Endpoint, c.Endpoint)
		list[i].Args = slices.Concat(c.Args, list[i].Args)
		list[i].Files = overlay(c.Files, list[i].Files)
		list[i].Headers = overlay(c.Headers, list[i].Headers)
	}
	return list
}

// overlay is what both have; where they meet, the second holds.
func overlay(a, b map[string]string) map[string]string {
	both := map[string]string{}
	for _, m := range []map[string]string{a, b} {
		for k, v := range m {
			both[k] = v
		}
	}
	return both
}

// resolveCases gives the cases their names and checks what they bring along.
func (c *Criterion) resolveCases() error {
	if len(c.Cases) > 0 && !c.Expected.isZero() {
		return fmt.Errorf("expected stands beside cases; each case has its own")
	}
	for i := range c.Cases {
		c.Cases[i].ID = cmp.Or(c.Cases[i].ID, strconv.Itoa(i+1))
	}
	for _, one := range c.all() {
		if err := one.check(); err != nil {
			return fmt.Errorf("case %s: %w", one.ID, err)
		}
	}
	return nil
}

// check refuses what cannot be laid out or belongs to no layer.
func (c Case) check() error {
	if c.Layer != "" && !slices.Contains(layers(), c.Layer) {
		return fmt.Errorf("no layer %q", c.Layer)
	}
	if len(c.Files) > maxCaseFiles || len(c.Expected.Files) > maxCaseFiles {
		return fmt.Errorf("more than %d files", maxCaseFiles)
	}
	for name := range c.Files {
		if !local(name) {
			return fmt.Errorf("file %q is not below the workspace", name)
		}
	}
	for name := range c.Expected.Files {
		if !local(name) {
			return fmt.Errorf("file %q is not below the workspace", name)
		}
	}
	return nil
}

// local reports whether a name, as it is written, is that of a file below a directory.
func local(name string) bool {
	return filepath.IsLocal(name) && path.Clean(name) == name && name != "." && !strings.ContainsRune(name, 0)
}
