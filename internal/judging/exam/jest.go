package exam

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"guild"
	"guild/internal/judging/sandbox"
)

// jestConfigs lists the names of jest's configuration files, in the order of the search.
var jestConfigs = []string{"jest.config.js", "jest.config.cjs", "jest.config.mjs", "jest.config.json"}

// jestPlace is the directory of Engine.Jest in a sandbox.
const jestPlace = judgeDir + "/jest"

func readJest(e *Entry, _ *Criteria) (criterion, error) { return readNode(e, runJest, true) }

// runJest runs jest, which writes its results to a file.
func runJest(ctx context.Context, j *examination, f *Finding, s sandbox.Spec, files []string) ([]nodeReport, *RunRecord, error) {
	program, config, err := j.findJest()
	if err != nil {
		return nil, nil, err
	}
	results := "jest-" + rand.Text() + ".json" // random, so that no other file has the name
	s.Argv = append(jestCommand(program, config, "--json", "--outputFile="+sandbox.Workspace+"/"+results, "--runTestsByPath"), files...)
	s.Collect = []string{results}
	run, left, err := j.runFiles(ctx, f, s, "")
	if err != nil {
		return nil, nil, err
	}
	return jestReports(left[results]), run, nil
}

// findJest returns jest's program, from the bundle's files, the engine's settings or this machine, and its configuration.
func (j *examination) findJest() (program, config string, err error) {
	config = `{"testEnvironment":"node","testMatch":["**/*"]}`
	for _, name := range slices.Backward(jestConfigs) {
		if j.layout.files != "" && isFile(filepath.Join(j.layout.files, name)) {
			config = sandbox.Workspace + "/" + name
		}
	}
	const in = "node_modules/jest/bin/jest.js"
	if j.layout.files != "" && isFile(filepath.Join(j.layout.files, in)) {
		return sandbox.Workspace + "/" + in, config, nil
	}
	if j.engine.Jest != "" {
		return jestPlace + "/" + in, config, nil
	}
	for _, dir := range []string{"/usr/local/lib/", "/usr/lib/", "/usr/share/nodejs/"} {
		for _, p := range []string{dir + in, dir + strings.TrimPrefix(in, "node_modules/")} {
			if isFile(p) {
				return p, config, nil
			}
		}
	}
	return "", "", undecided("jest is neither in the bundle's files/node_modules nor installed: npm install --global jest")
}

// jestReports parses the results that jest writes at its end.
func jestReports(results []byte) []nodeReport {
	var all struct {
		TestResults []struct {
			Name             string
			AssertionResults []struct {
				AncestorTitles  []string
				Title, Status   string
				FailureMessages []string
			}
		}
	}
	if json.Unmarshal(results, &all) != nil {
		return nil
	}
	var reports []nodeReport
	for _, file := range all.TestResults {
		for _, a := range file.AssertionResults {
			names := append(slices.Clone(a.AncestorTitles), a.Title)
			r := nodeReport{ID: relative(file.Name) + "::" + strings.Join(names, " > "), State: guild.TestSkipped}
			switch a.Status {
			case "passed":
				r.State = guild.TestPassed
			case "failed":
				r.State, r.Message = guild.TestFailed, strings.Join(a.FailureMessages, "\n")
			}
			reports = append(reports, r)
		}
	}
	return reports
}
