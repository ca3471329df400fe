package work

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"guild"
	"guild/internal/judging/sandbox"
	"guild/nutshell"
)

// Files of Assignment.Hints.
const (
	hintsFile       = "hints.json"
	constraintsFile = "constraints.txt" // a line for each; absent without any
)

// hintWord is the form of the hints that are variables. Others are in hints.json only.
var hintWord = regexp.MustCompile(`^[a-z][a-z-]{0,31}$`)

// writeHints writes the customer's advice to the files of a new directory, and returns that. It returns "", and writes nothing,
// without any advice.
func writeHints(h nutshell.Harness, dir string) (string, error) {
	if h.AgentTypeHint == "" && h.ContextBudgetHint == 0 && h.ExecutionStrategy == "" && !h.Checkpoints && len(h.Constraints) == 0 {
		return "", nil
	}
	text, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, hintsFile), append(text, '\n'), 0o644); err != nil || len(h.Constraints) == 0 {
		return dir, err
	}
	var lines strings.Builder
	for _, c := range h.Constraints {
		lines.WriteString(strings.Join(strings.Fields(guild.Clean(c)), " ") + "\n")
	}
	return dir, os.WriteFile(filepath.Join(dir, constraintsFile), []byte(lines.String()), 0o644)
}

// addHints lets the command read the hints, and sets those that are a word or a number as variables. The constraints are a
// stranger's sentences, which a script might expand, so the variable only names their file.
func (x Exec) addHints(spec *sandbox.Spec, a Assignment) {
	dir := a.Hints
	if _, bare := x.Runner.(Bare); !bare {
		dir = insideHints
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Host: a.Hints, Inside: insideHints})
	}
	spec.Env = append(spec.Env, "GUILD_HINTS="+path.Join(dir, hintsFile))
	h := a.Harness
	set := func(name, value string, ok bool) {
		if ok {
			spec.Env = append(spec.Env, name+"="+value)
		}
	}
	set("GUILD_AGENT_TYPE", h.AgentTypeHint, hintWord.MatchString(h.AgentTypeHint))
	set("GUILD_STRATEGY", h.ExecutionStrategy, hintWord.MatchString(h.ExecutionStrategy))
	set("GUILD_CONTEXT_BUDGET", strconv.FormatFloat(h.ContextBudgetHint, 'f', -1, 64), h.ContextBudgetHint > 0 && h.ContextBudgetHint <= 1)
	set("GUILD_CHECKPOINTS", "1", h.Checkpoints)
	set("GUILD_CONSTRAINTS", path.Join(dir, constraintsFile), len(h.Constraints) > 0)
}
