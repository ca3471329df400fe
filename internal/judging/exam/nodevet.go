package exam

import (
	"context"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"guild/internal/judging/strength"
)

// What the source of JavaScript tests says about names.
var (
	scriptFile     = regexp.MustCompile(`\.([cm]?[jt]s|[jt]sx)$`)
	replacedScript = regexp.MustCompile(`\b(?:spyOn|mock\.method)\(\s*[\w$.]+\s*,\s*["']([\w$]+)["']`)
	calledScript   = regexp.MustCompile(`([A-Za-z_$][\w$]*)\s*\(`)
	togetherScript = regexp.MustCompile(`\bPromise\.(?:all|allSettled|any|race)\(.*`)
	raisedScript   = regexp.MustCompile(`(?:\b(?:throws|rejects)\(.*,\s*|\btoThrow(?:Error)?\(\s*|\b(?:e|err|error)\s+instanceof\s+|\bname:\s*["'])(?:[\w$]+\.)*([A-Z][\w$]*)`)
	importedScript = regexp.MustCompile(`\{([^{}]*)\}\s*(?:=\s*await\s+import\b|from\b)`)
	wholeScript    = regexp.MustCompile(`(?:\*\s*as\s+([\w$]+)\s+from\b|([\w$]+)\s*=\s*await\s+import\b)`)
	oneScript      = regexp.MustCompile(`await\s+import\([^()]*\)\s*\)\s*\.\s*([\w$]+)`)
	importedName   = regexp.MustCompile(`(?:^|,)\s*(?:type\s+)?([A-Za-z_$][\w$]*)`)
	relativeModule = regexp.MustCompile("[\"'`](\\.{1,2}/[^\"'`\n]+)[\"'`]")
)

// awaitedScripts match calls that bring a promise.
var awaitedScripts = []*regexp.Regexp{
	regexp.MustCompile(`\bawait\s+(?:[\w$]+\.)*([\w$]+)\s*\(`),
	regexp.MustCompile(`\b(?:rejects|doesNotReject)\(\s*(?:async\s*)?(?:\(\s*\)\s*=>\s*)?(?:await\s+)?(?:[\w$]+\.)*([\w$]+)\s*\(`),
	regexp.MustCompile(`\bexpect\(\s*(?:[\w$]+\.)*([\w$]+)\(.*?\)\s*\)\s*\.(?:rejects|resolves)\b`),
	regexp.MustCompile(`([\w$]+)\((?:[^()\n]|\([^()\n]*\))*\)\s*\.(?:then|catch|finally)\b`),
}

// scriptWords returns what a source says.
func scriptWords(source string) strength.Words {
	w := strength.Words{Called: matches(calledScript, source), Awaited: map[string]bool{}}
	maps.Copy(w.Called, matches(replacedScript, source)) // a function in the place of another
	for _, pattern := range awaitedScripts {
		maps.Copy(w.Awaited, matches(pattern, source))
	}
	for _, list := range togetherScript.FindAllString(source, -1) {
		maps.Copy(w.Awaited, matches(calledScript, list))
	}
	raised := matches(raisedScript, source)
	raised["Error"] = true
	w.Raised = slices.Sorted(maps.Keys(raised))
	w.Raised = w.Raised[:min(len(w.Raised), mostRaised)]
	exported := matches(oneScript, source)
	for _, list := range importedScript.FindAllStringSubmatch(source, -1) {
		maps.Copy(exported, matches(importedName, list[1]))
	}
	for _, whole := range wholeScript.FindAllStringSubmatch(source, -1) {
		member := regexp.MustCompile(`(?:^|[^\w$.])` + regexp.QuoteMeta(whole[1]+whole[2]) + `\s*\.\s*([A-Za-z_$][\w$]*)`)
		maps.Copy(exported, matches(member, source))
	}
	w.Exported = slices.Sorted(maps.Keys(exported))
	return w
}

// vet runs the tests on deliveries that lie: see strength.Vetting.
func (c *nodeCriterion) vet(ctx context.Context, j *examination) (found lied, err error) {
	if c.inproc {
		return lied{}, nil
	}
	files, err := nodeFiles(j.tests, c.script)
	if err != nil {
		return lied{}, undecided("%w", err)
	}
	p, err := c.parts(j)
	if err != nil {
		return lied{}, err
	}
	var prefixes []string
	for _, file := range files {
		prefixes = append(prefixes, file+"::")
	}
	v := strength.NewVetting(strength.JavaScript, scriptWords(sourceOf(j.tests, scriptFile)), prefixes...)
	bounded, stop := context.WithTimeoutCause(ctx, roundsWall, errShort)
	defer stop()
	for i, file := range files {
		if err := j.play(bounded, v, i, c.again(j, p, file)); err != nil {
			return lied{}, err
		}
	}
	found.tests, found.unproven = v.Result()
	if len(found.tests) == 0 {
		found.untried = "no test begins beside a delivery that lies"
	}
	return found, ctx.Err()
}

// importedModules returns the names in the workspace of the modules that the tests import from outside of tests/.
func (j *examination) importedModules() []string {
	names := map[string]bool{}
	readAll(j.tests, scriptFile, func(name, text string) {
		for module := range matches(relativeModule, text) {
			at := path.Join("tests", path.Dir(name), module)
			if top, _, _ := strings.Cut(at, "/"); !local(at) || top == "tests" || top == "node_modules" || path.Ext(at) == ".json" {
				continue
			}
			if isDirectory, there := j.layout.seen[filepath.FromSlash(at)]; there && isDirectory {
				at += "/index"
			}
			if !nodeModule.MatchString(at) {
				at += ".js"
			}
			names[filepath.FromSlash(at)] = true
		}
	})
	return slices.Sorted(maps.Keys(names))
}
