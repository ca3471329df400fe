// Package agentfile reads and writes agent definitions (NIP-AE) as files that people edit: TOML, Markdown with TOML
// front matter, and the agent files of Claude Code (.claude/agents/*.md), which have YAML front matter.
package agentfile

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"

	"guild/nipae"
)

// MaxSize limits a file, in bytes.
const MaxSize = 256 << 10

// Reasons why a file is refused.
var (
	ErrTooBig = fmt.Errorf("over %d bytes", MaxSize)
	ErrForm   = errors.New("want TOML, or Markdown that begins with front matter between two lines of +++ (TOML) or --- (YAML)")
)

// fields are the keys of a file in TOML, and of TOML front matter.
type fields struct {
	Slug         string   `toml:"slug"`
	Title        string   `toml:"title"`
	Description  string   `toml:"description,omitempty"`
	UseCriteria  string   `toml:"use_criteria,omitempty,multiline"`
	Role         string   `toml:"role,omitempty,multiline"`
	Tools        []string `toml:"tools,omitempty"`
	Image        string   `toml:"image,omitempty"`
	Content      string   `toml:"content,omitempty,multiline"`
	Instructions string   `toml:"instructions,omitempty,multiline"`
}

// Parse reads a definition. In Markdown the text below the front matter is the instructions, or the content if the front
// matter has instructions. The file of a Claude Code agent gives its name as slug and title, its description also as the
// criteria for its use, its tools and its prompt; its other settings are ignored.
func Parse(b []byte) (nipae.Definition, error) {
	d, err := parse(b)
	if err == nil {
		_, err = d.Event() // the limits of a definition
	}
	if err != nil {
		return nipae.Definition{}, fmt.Errorf("agent file: %w", err)
	}
	return d, nil
}

func parse(b []byte) (nipae.Definition, error) {
	if len(b) > MaxSize {
		return nipae.Definition{}, ErrTooBig
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(b), "\ufeff"), "\r\n", "\n")
	for _, mark := range []string{"+++\n", "---\n"} {
		rest, ok := strings.CutPrefix(text, mark)
		if !ok {
			continue
		}
		head, body, ok := strings.Cut("\n"+rest, "\n"+mark)
		if !ok {
			if head, ok = strings.CutSuffix("\n"+rest, "\n"+strings.TrimSpace(mark)); !ok {
				return nipae.Definition{}, ErrForm
			}
		}
		if mark == "---\n" {
			return ofClaude(head, strings.TrimSpace(body))
		}
		return ofTOML(head, strings.TrimSpace(body))
	}
	return ofTOML(text, "")
}

func ofTOML(head, body string) (d nipae.Definition, err error) {
	var f fields
	decoder := toml.NewDecoder(strings.NewReader(head))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f); err != nil {
		if unknown, ok := errors.AsType[*toml.StrictMissingError](err); ok && len(unknown.Errors) > 0 {
			return d, fmt.Errorf("unknown key %s", strings.Join(unknown.Errors[0].Key(), "."))
		}
		if wrong, ok := errors.AsType[*toml.DecodeError](err); ok {
			row, _ := wrong.Position()
			return d, fmt.Errorf("%w; line %d: %w", ErrForm, row, err)
		}
		return d, errors.Join(ErrForm, err)
	}
	if f.Slug == "" {
		return d, fmt.Errorf("slug: %w", nipae.ErrMissing)
	}
	if f.Instructions == "" {
		f.Instructions, body = body, ""
	}
	if f.Content == "" {
		f.Content, body = body, ""
	}
	if body != "" {
		return d, errors.New("the front matter has instructions and content, and a text follows")
	}
	return nipae.Definition{
		D: f.Slug, Title: f.Title, Description: f.Description, UseCriteria: f.UseCriteria, Role: f.Role, Tools: f.Tools, Image: f.Image,
		Content: f.Content, Instructions: f.Instructions,
	}, nil
}

func ofClaude(head, body string) (d nipae.Definition, err error) {
	var f struct {
		Name        string    `yaml:"name"`
		Description string    `yaml:"description"`
		Tools       yaml.Node `yaml:"tools"`
	}
	if err := yaml.Unmarshal([]byte(head), &f); err != nil {
		return d, errors.Join(ErrForm, err)
	}
	if f.Name == "" {
		return d, errors.New("the front matter has no name")
	}
	tools, err := toolsOf(f.Tools)
	if err != nil {
		return d, err
	}
	line, _, _ := strings.Cut(strings.TrimSpace(f.Description), "\n")
	return nipae.Definition{D: f.Name, Title: f.Name, Description: line, UseCriteria: f.Description, Tools: tools, Instructions: body}, nil
}

// toolsOf reads names between commas, or a list of names.
func toolsOf(n yaml.Node) (tools []string, err error) {
	if n.IsZero() {
		return nil, nil
	}
	if n.Kind == yaml.ScalarNode {
		for name := range strings.SplitSeq(n.Value, ",") {
			if name = strings.TrimSpace(name); name != "" {
				tools = append(tools, name)
			}
		}
		return tools, nil
	}
	if err := n.Decode(&tools); err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	return tools, nil
}

// Format returns a definition as Markdown with TOML front matter. Parse reads the same from it, but for the version, files
// and tags that people do not edit.
func Format(d nipae.Definition) ([]byte, error) {
	f := fields{
		Slug: d.D, Title: d.Title, Description: d.Description, UseCriteria: d.UseCriteria, Role: d.Role, Tools: d.Tools, Image: d.Image, Content: d.Content,
	}
	var b bytes.Buffer
	b.WriteString("+++\n")
	if err := toml.NewEncoder(&b).Encode(f); err != nil {
		return nil, fmt.Errorf("agent file: %w", err)
	}
	fmt.Fprintf(&b, "+++\n\n%s\n", strings.TrimSpace(d.Instructions))
	return b.Bytes(), nil
}
