package jobs

import (
	"encoding/json"
	"io/fs"
	"path"
	"slices"
	"strings"

	"guild/nutshell"
)

// fileAsked returns the path of the one file that a bundle asks for, below the workspace, or "" if it does not say so.
// extensions.guild.deliver names it; without that it is the only script that the commands of the criteria run and that the
// bundle does not have.
func fileAsked(b *nutshell.Bundle) string {
	var ours struct {
		Deliver string `json:"deliver"`
	}
	if ok, err := b.Manifest().Extension("guild", &ours); ok && err == nil && ours.Deliver != "" {
		if !isFileName(ours.Deliver) {
			return ""
		}
		return ours.Deliver
	}
	return scriptRun(b)
}

// scriptRun returns the script that all io criteria of a bundle run, or "" if there is no such script or the bundle has it.
func scriptRun(b *nutshell.Bundle) string {
	type files map[string]json.RawMessage
	var criteria struct {
		Criteria []struct {
			Type    string   `json:"type"`
			Command []string `json:"command"` // such as python3 solve.py
			Files   files    `json:"files"`
			Cases   []struct {
				Files files `json:"files"`
			} `json:"cases"`
		} `json:"criteria"`
	}
	name := b.Manifest().Acceptance().CriteriaFile
	if name == "" {
		name = nutshell.CriteriaFile
	}
	raw, err := b.ReadFile(name)
	if err != nil || json.Unmarshal(raw, &criteria) != nil {
		return ""
	}
	script := ""
	for _, c := range criteria.Criteria {
		if c.Type != "io" {
			continue
		}
		if len(c.Command) < 2 || script != "" && c.Command[1] != script {
			return ""
		}
		script = c.Command[1]
		brought := c.Files[script] != nil
		for _, one := range c.Cases {
			brought = brought || one.Files[script] != nil
		}
		if brought || path.Ext(script) == "" || !isFileName(script) {
			return ""
		}
	}
	isThere := func(e nutshell.Entry) bool { return e.Path == "files/"+script }
	if slices.ContainsFunc(b.Files(), isThere) {
		return ""
	}
	return script
}

// isFileName reports whether a delivery can have a file with this name.
func isFileName(name string) bool {
	const longest = 255
	return fs.ValidPath(name) && name != "." && len(name) <= longest && !strings.HasPrefix(name, "-") && !strings.ContainsAny(name, "\\`\x00\n")
}

// instruction is the sentence of a plain request that asks for one file.
func instruction(file string) string {
	return "Answer with the content of the file `" + file + "` and nothing else. It may be in one code block."
}

// unfenced returns the content of the file asked for in a plain answer: that of the only code block of Markdown, else the
// whole answer, as it is if no file was asked for. A file of Markdown may have a code block of its own, so there the block
// must be the whole answer.
func unfenced(file, answer string) string {
	const fence = "```"
	if file == "" {
		return answer
	}
	lines := slices.Collect(strings.Lines(answer))
	var fences []int
	for i, line := range lines {
		if strings.HasPrefix(line, fence) {
			fences = append(fences, i)
		}
	}
	if len(fences) != 2 || strings.TrimSpace(lines[fences[1]]) != fence {
		return answer
	}
	around := strings.Join(lines[:fences[0]], "") + strings.Join(lines[fences[1]+1:], "")
	if path.Ext(file) == ".md" && strings.TrimSpace(around) != "" {
		return answer
	}
	return strings.Join(lines[fences[0]+1:fences[1]], "")
}
