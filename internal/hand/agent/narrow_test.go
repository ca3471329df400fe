package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestToolsInTheAgentsWords(t *testing.T) {
	for _, c := range []struct{ agent, tools, want, unknown string }{
		{"claude-code", "read write run", "Bash,Read,Write", ""},
		{"claude-code", "Read Bash shell nostr_publish", "Bash,Read", "nostr_publish"},
		{"claude-code", "grep search", "Glob,Grep", ""},
		{"claude-code", "WebFetch web/search", "", "WebFetch web/search"},
		{"claude-code", "", "", ""},
		{"codex", "Read Write edit", "apply_patch", "Read"},
		{"codex", "bash apply_patch", "apply_patch,shell", ""},
		{"opencode", "Read Write Grep terminal", "bash,edit,grep,read", ""},
		{"opencode", "* webfetch", "", "* webfetch"},
	} {
		env, unknown, err := preset(t, c.agent).Narrow(strings.Fields(c.tools))
		if err != nil || !slices.Equal(env, []string{"GUILD_AGENT_TOOLS=" + c.want}) || strings.Join(unknown, " ") != c.unknown {
			t.Errorf("%s with %q: %q, unknown %q, %v", c.agent, c.tools, env, unknown, err)
		}
	}
	for _, name := range []string{"goose", "aider"} {
		if _, _, err := preset(t, name).Narrow([]string{"read"}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s takes a list of tools: %v", name, err)
		}
	}
}

// The prompt of a behaviour is other people's text, and reaches the agent as it is.
func TestPromptOfBehaviourIsNotExpanded(t *testing.T) {
	const prompt = "Say \"quux\" `id` $(touch expanded) $HOME \\ 'it'\nEOF\n--evil=1"
	for name, want := range map[string]string{
		"claude-code": "|--append-system-prompt-file|PROMPT|", "codex": "|-c|developer_instructions=Work as your owner says here:\n" + prompt + "|",
		"goose": "|--system|" + prompt + "|", "aider": "|--read=PROMPT|",
	} {
		p := preset(t, name)
		dir := install(t, map[string]string{"bin/" + p.program: "#!/bin/sh\nprintf '|%s' \"$@\"\necho '|'\n", "prompt.md": prompt})
		t.Setenv("PATH", dir+"/bin:/usr/bin:/bin")
		found, err := p.Find()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", found.Command)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GUILD_DELIVERY="+dir, "GUILD_PROMPT=do it", "GUILD_BEHAVIOUR="+filepath.Join(dir, "prompt.md"))
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), strings.ReplaceAll(want, "PROMPT", filepath.Join(dir, "prompt.md"))) {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		if _, err := os.Stat(filepath.Join(dir, "expanded")); err == nil {
			t.Errorf("%s: the prompt was expanded", name)
		}
	}
}
