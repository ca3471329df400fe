// Package agent knows how the coding agents that people use are run for a job: their command line, where their program is,
// the API that they speak to, and the file with their own login. It starts nothing and reads no keys.
//
// A command of this package expects GUILD_PROMPT, GUILD_API_URL, GUILD_API_TOKEN and, if a model was chosen, GUILD_MODEL in
// its environment (package work). The agent has the token where it would have its owner's key. With GUILD_BEHAVIOUR, the path
// of a file, it adds the text of that file to the agent's system prompt; and the variables of Narrow leave the agent only some
// of its tools.
package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"guild/replay/session"
)

// Preset describes how one agent is run.
type Preset struct {
	Name    string         // for people, as "claude-code"
	Trace   session.Format // of its standard output; text for people if empty
	API     API            // unless the model's name chooses another one
	Install string         // the command that installs it

	program string // its name on PATH
	native  string // pattern of the platform's program below node_modules, with ARCH; empty if its launcher is the program
	apis    []API  // others that it can speak to, chosen by a model's name that begins with "NAME/"
	script  string // for /bin/sh; PROGRAM stands for the program, quoted
	login   string // its own login, a file below the home directory; empty if it has none
	tools   tools  // nil if it cannot be kept from using any
}

// API is an API that agents speak to.
type API struct {
	Name   string // in the names of models, as "anthropic"
	URL    string // base URL
	KeyEnv string // the variable with the owner's key, by the API's own custom
	Header string // that has the key; "Authorization: Bearer" if empty
}

var (
	anthropic = API{Name: "anthropic", URL: "https://api.anthropic.com", KeyEnv: "ANTHROPIC_API_KEY", Header: "X-Api-Key"}
	openai    = API{Name: "openai", URL: "https://api.openai.com/v1", KeyEnv: "OPENAI_API_KEY"}
)

// Each script gives its agent no questions to ask, no updates, no reports to its maker, and none of its tools for the
// web: those run at the API, and would bring a customer's task to the Internet. All other tools are allowed, unless Narrow
// leaves some out, because guild's sandbox is around them; the agents' own sandboxes do not work inside of another one.
var presets = []Preset{
	{
		Name: "claude-code", Trace: session.ClaudeCode, API: anthropic, Install: "npm install -g @anthropic-ai/claude-code",
		program: "claude", native: "@anthropic-ai/claude-code-linux-ARCH*/claude", login: ".claude/.credentials.json",
		tools: tools{
			"read": {"Read"}, "write": {"Write"}, "edit": {"Edit"}, "run": {"Bash"},
			"search": {"Grep", "Glob"}, "grep": {"Grep"}, "glob": {"Glob"}, "list": {"Glob"},
			"Read": nil, "Write": nil, "Edit": nil, "NotebookEdit": nil, "Grep": nil, "Glob": nil, "Bash": nil, "Agent": nil, "Skill": nil,
		},
		script: `export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1 IS_SANDBOX=1
if [ -n "${GUILD_API_URL-}" ]; then
	export ANTHROPIC_BASE_URL="$GUILD_API_URL" ANTHROPIC_API_KEY="$GUILD_API_TOKEN"
fi
exec PROGRAM -p --output-format stream-json --verbose --dangerously-skip-permissions --strict-mcp-config \
	--setting-sources user --disallowedTools WebFetch,WebSearch --add-dir "$GUILD_DELIVERY" \
	${GUILD_AGENT_TOOLS+--tools "$GUILD_AGENT_TOOLS"} ${GUILD_BEHAVIOUR:+--append-system-prompt-file "$GUILD_BEHAVIOUR"} \
	${GUILD_MODEL:+--model "$GUILD_MODEL"} <<EOF
$GUILD_PROMPT
EOF`,
	},
	{
		Name: "codex", Trace: session.Codex, API: openai, Install: "npm install -g @openai/codex",
		program: "codex", native: "@openai/codex-linux-ARCH*/vendor/*/bin/codex", login: ".codex/auth.json",
		tools: tools{"write": {"apply_patch"}, "edit": {"apply_patch"}, "run": {"shell"}, "apply_patch": nil, "shell": nil, "view_image": nil},
		script: `if [ -n "${GUILD_API_URL-}" ]; then
	set -- -c model_provider=guild -c model_providers.guild.name=guild -c model_providers.guild.wire_api=responses \
		-c "model_providers.guild.base_url=\"$GUILD_API_URL\"" -c model_providers.guild.env_key=GUILD_API_TOKEN
fi
may=--dangerously-bypass-approvals-and-sandbox
if [ -n "${GUILD_AGENT_TOOLS+set}" ]; then
	for off in multi_agent multi_agent_v2 goals apps plugins image_generation; do
		set -- "$@" -c "features.$off=false"
	done
	case ,$GUILD_AGENT_TOOLS, in *,view_image,*) ;; *) set -- "$@" -c features.view_image=false ;; esac
	case ,$GUILD_AGENT_TOOLS, in
	*,shell,*) ;; # a shell also writes, and does not run in the agent's own sandbox
	*,apply_patch,*) set -- "$@" -c features.shell_tool=false -c features.unified_exec=false ;;
	*)
		set -- "$@" -c features.shell_tool=false -c features.unified_exec=false -c approval_policy=never
		may=--sandbox=read-only
		;;
	esac
fi
if [ -n "${GUILD_BEHAVIOUR-}" ]; then # the first line is no TOML, so the text is taken as it is
	set -- "$@" -c "developer_instructions=Work as your owner says here:
$(cat "$GUILD_BEHAVIOUR")"
fi
exec PROGRAM exec --json --skip-git-repo-check "$may" "$@" \
	-c web_search=disabled -c check_for_update_on_startup=false ${GUILD_MODEL:+-m "$GUILD_MODEL"} - <<EOF
$GUILD_PROMPT
EOF`,
	},
	{
		Name: "opencode", Trace: session.Opencode, API: anthropic, apis: []API{openai}, Install: "npm install -g opencode-ai",
		program: "opencode", native: "opencode-linux-ARCH*/bin/opencode", login: ".local/share/opencode/auth.json",
		tools: tools{
			"read": {"read"}, "write": {"edit"}, "edit": {"edit"}, "search": {"grep", "glob", "list"}, "run": {"bash"},
			"list": nil, "grep": nil, "glob": nil, "bash": nil, "task": nil, "skill": nil, "todowrite": nil,
		},
		script: `export OPENCODE_DISABLE_PROJECT_CONFIG=1 OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_LSP_DOWNLOAD=1 OPENCODE_DISABLE_DEFAULT_PLUGINS=1
key="\"apiKey\":\"${GUILD_API_TOKEN-}\""
may='"*":"allow"'
if [ -n "${GUILD_AGENT_TOOLS+set}" ]; then
	may='"*":"deny","external_directory":"allow"' # the delivery is outside of the project
	for tool in $(echo "$GUILD_AGENT_TOOLS" | tr , ' '); do
		may="$may,\"$tool\":\"allow\""
	done
fi
export OPENCODE_CONFIG_CONTENT="{\"autoupdate\":false,\"share\":\"disabled\",\"permission\":{$may,\"webfetch\":\"deny\",\"websearch\":\"deny\",\"question\":\"deny\"}}"
if [ -n "${GUILD_BEHAVIOUR-}" ]; then
	export OPENCODE_CONFIG_CONTENT="{\"instructions\":[\"$GUILD_BEHAVIOUR\"],${OPENCODE_CONFIG_CONTENT#?}"
fi
if [ -n "${GUILD_API_URL-}" ]; then
	export OPENCODE_CONFIG_CONTENT="{\"provider\":{\"anthropic\":{\"options\":{\"baseURL\":\"$GUILD_API_URL/v1\",$key}},\"openai\":{\"options\":{\"baseURL\":\"$GUILD_API_URL\",$key}}},${OPENCODE_CONFIG_CONTENT#?}"
fi
exec PROGRAM run --auto --format json -m "${GUILD_MODEL:-anthropic/claude-sonnet-4-5}" "$GUILD_PROMPT"`,
	},
	{
		Name: "goose", API: anthropic, apis: []API{openai}, Install: "see https://block.github.io/goose",
		program: "goose",
		script: `export GOOSE_MODE=auto GOOSE_DISABLE_KEYRING=1 GOOSE_PROVIDER=anthropic GOOSE_MODEL="${GUILD_MODEL:-claude-sonnet-4-5}"
export ANTHROPIC_HOST="$GUILD_API_URL" ANTHROPIC_API_KEY="$GUILD_API_TOKEN"
case $GOOSE_MODEL in
openai/*)
	export GOOSE_PROVIDER=openai GOOSE_MODEL="${GOOSE_MODEL#openai/}" OPENAI_API_KEY="$GUILD_API_TOKEN"
	export OPENAI_HOST="${GUILD_API_URL%/v1}"
	;;
anthropic/*) export GOOSE_MODEL="${GOOSE_MODEL#anthropic/}" ;;
esac
if [ -n "${GUILD_BEHAVIOUR-}" ]; then set -- --system "$(cat "$GUILD_BEHAVIOUR")"; fi
exec PROGRAM run --no-session --with-builtin developer "$@" -t "$GUILD_PROMPT"`,
	},
	{
		Name: "aider", API: anthropic, apis: []API{openai}, Install: "pipx install aider-chat",
		program: "aider",
		script: `export ANTHROPIC_API_BASE="$GUILD_API_URL" ANTHROPIC_API_KEY="$GUILD_API_TOKEN"
export OPENAI_API_BASE="$GUILD_API_URL" OPENAI_API_KEY="$GUILD_API_TOKEN"
if [ -d files ]; then cp -R files/. "$GUILD_DELIVERY"; fi
cd "$GUILD_DELIVERY"
set -f
IFS='
' # each line of find is one argument
exec PROGRAM --yes-always --no-git --no-check-update --no-show-release-notes --analytics-disable --no-gitignore \
	--chat-history-file /dev/null --input-history-file /dev/null --no-detect-urls --no-stream --no-pretty \
	${GUILD_BEHAVIOUR:+"--read=$GUILD_BEHAVIOUR"} \
	--model "${GUILD_MODEL:-anthropic/claude-sonnet-4-5}" --message "$GUILD_PROMPT" $(find . -type f ! -path '*
*')`,
	},
}

// tools has the names of tools that an agent is narrowed by: an agent's own names, for each word that people use. A name without
// any is an own name.
type tools map[string][]string

// words are other words for the same tools.
var words = map[string]string{
	"read_file": "read", "fs_read": "read", "view": "read", "cat": "read",
	"write_file": "write", "fs_write": "write", "create": "write",
	"edit_file": "edit", "patch": "edit", "str_replace": "edit",
	"ls": "list", "list_files": "list", "find": "glob",
	"shell": "run", "bash": "run", "exec": "run", "execute": "run", "command": "run", "terminal": "run",
}

// Word returns the common word for a tool, as "run" for "Bash". A name without one is returned in lower case.
func Word(name string) string {
	name = strings.ToLower(name)
	return cmp.Or(words[name], name)
}

// Narrow returns the variables of the command by which the agent has only the named tools: its own names, and common words such
// as read, write, edit, search, run, shell and bash. unknown has the names that no tool of the agent has; they grant nothing.
// The error says that the agent cannot be kept from using its other tools.
func (p Preset) Narrow(names []string) (env, unknown []string, err error) {
	if p.tools == nil {
		return nil, nil, fmt.Errorf("the agent %s cannot be limited to some of its tools: it takes only a behaviour that names none", p.Name)
	}
	var own []string
	for _, name := range names {
		mine := p.own(name)
		if mine == nil {
			unknown = append(unknown, name)
		}
		own = append(own, mine...)
	}
	slices.Sort(own)
	return []string{"GUILD_AGENT_TOOLS=" + strings.Join(slices.Compact(own), ",")}, unknown, nil
}

// own returns the agent's own names for a tool, nil if it has no such tool.
func (p Preset) own(name string) []string {
	for _, known := range []string{name, strings.ToLower(name), Word(name)} {
		if mine, ok := p.tools[known]; ok && mine != nil {
			return mine
		} else if ok {
			return []string{known}
		}
	}
	return nil
}

// Tools returns the common words for what every agent can do.
func Tools() []string { return []string{"read", "write", "edit", "search", "run"} }

// Names lists the agents that there are presets for.
func Names() []string {
	var names []string
	for _, p := range presets {
		names = append(names, p.Name)
	}
	return names
}

// UnknownError is the error of a name that no preset has.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("there is no preset for the agent %.80q", e.Name)
}

// Hint says what to do instead.
func (*UnknownError) Hint() string {
	return "there is one for each of " + strings.Join(Names(), ", ") + "; any other agent is a command for --exec"
}

// Named returns the preset of an agent for a model, whose name may be empty.
func Named(name, model string) (Preset, error) {
	i := slices.IndexFunc(presets, func(p Preset) bool { return p.Name == name })
	if i < 0 {
		return Preset{}, &UnknownError{name}
	}
	p := presets[i]
	for _, other := range p.apis {
		if strings.HasPrefix(model, other.Name+"/") {
			p.API = other
		}
	}
	return p, nil
}

// Login returns the path of the agent's own login below the home directory, or an error if it has none that is a file.
func (p Preset) Login() (string, error) {
	if p.login == "" {
		return "", fmt.Errorf("the agent %s has no login of its own in a file", p.Name)
	}
	return p.login, nil
}
