package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"guild"
	"guild/internal/hand/agent"
	"guild/nutshell"
)

// Limits of tools.
const (
	maxRead    = 48 << 10 // bytes that one call reads
	maxWrite   = 1 << 20  // bytes of one written file
	maxWritten = 64 << 20 // bytes written in one task
	maxNames   = 500      // that one call lists
	maxVisited = 10_000   // files and folders that one call looks at
	maxOutput  = 16 << 10 // bytes of a command's output that the model sees
	maxCommand = 32 << 10 // bytes of a command
)

// Folders that the model names.
const (
	bundleFolder   = "bundle"
	deliveryFolder = "delivery"
	inputsFolder   = "inputs"
	hintsFolder    = "hints"
	filesFolder    = "files"
)

// toolList describes the tools in the API's form.
var toolList = []struct {
	name        string
	description json.RawMessage
}{
	{"list", json.RawMessage(`{"type":"function","function":{"name":"list","description":"List the files below a folder.","parameters":{"type":"object","properties":
 {"path":{"type":"string","description":"as bundle or delivery/src"}},"required":["path"]}}}`)},
	{"read", json.RawMessage(`{"type":"function","function":{"name":"read","description":"Read a text file, or a part of it.","parameters":{"type":"object","properties":
 {"path":{"type":"string"},"offset":{"type":"integer","description":"bytes to leave out at the beginning"}},"required":["path"]}}}`)},
	{"write", json.RawMessage(`{"type":"function","function":{"name":"write","description":"Write a whole file. Folders are made; a file of that name is replaced.","parameters":{"type":"object","properties":
 {"path":{"type":"string","description":"as delivery/solution.py"},"content":{"type":"string"}},"required":["path","content"]}}}`)},
	{"run", json.RawMessage(`{"type":"function","function":{"name":"run","description":"Run a command with /bin/sh in the folder bundle, in a sandbox without network.","parameters":{"type":"object","properties":
 {"command":{"type":"string"}},"required":["command"]}}}`)},
	{"finish", json.RawMessage(`{"type":"function","function":{"name":"finish","description":"End the task: everything that is to be delivered is in delivery/.","parameters":{"type":"object","properties":
 {"summary":{"type":"string","description":"what was done, in a sentence or two"}},"required":["summary"]}}}`)},
}

// Tools returns the names of all tools.
func Tools() (names []string) {
	for _, tool := range toolList {
		names = append(names, tool.name)
	}
	return names
}

// meant has the tools that other common words mean.
var meant = map[string]string{"edit": "write", "glob": "list"}

// has reports whether the model has a tool: all of them, unless the task names some.
func (t *tools) has(tool string) bool {
	return t.task.Tools == nil || tool == "finish" || slices.ContainsFunc(t.task.Tools, func(name string) bool {
		word := agent.Word(name)
		return word == tool || meant[word] == tool
	})
}

// offered returns the descriptions of the tools that the model has.
func (t *tools) offered() (all []json.RawMessage) {
	for _, tool := range toolList {
		if t.has(tool.name) {
			all = append(all, tool.description)
		}
	}
	for _, tool := range t.task.More {
		description, err := json.Marshal(map[string]any{"type": "function", "function": map[string]any{
			"name": tool.Name, "description": tool.Description, "parameters": tool.Parameters,
		}})
		if err == nil { // the parameters are JSON
			all = append(all, description)
		}
	}
	return all
}

// tools are the tools for one task.
type tools struct {
	task    Task
	roots   map[string]*os.Root // by folder
	written int                 // bytes
}

// result is the result of a call.
type result struct {
	output   string // for the model
	failed   bool   // the model called it wrongly
	finished bool   // the task is done
	summary  string // if it is
	err      error  // of the sandbox, or of the context if it ended
}

// openTools opens the directories of a task. close closes them.
func openTools(t Task) (*tools, error) {
	all := &tools{task: t, roots: map[string]*os.Root{}}
	for folder, dir := range map[string]string{bundleFolder: t.Bundle, deliveryFolder: t.Delivery, inputsFolder: t.Inputs, hintsFolder: t.Hints, filesFolder: t.Files} {
		if dir == "" {
			continue
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			all.close()
			return nil, err
		}
		all.roots[folder] = root
	}
	return all, nil
}

func (t *tools) close() {
	for _, root := range t.roots {
		root.Close()
	}
}

// arguments are those of all tools.
type arguments struct {
	Path    string `json:"path"`
	Offset  int64  `json:"offset"`
	Content string `json:"content"`
	Command string `json:"command"`
	Summary string `json:"summary"`
}

// call carries out a tool, tells the customer, and records it.
func (t *tools) call(ctx context.Context, name, text string) result {
	if i := slices.IndexFunc(t.task.More, func(tool Tool) bool { return tool.Name == name }); i >= 0 {
		return t.more(ctx, t.task.More[i], text)
	}
	var a arguments
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return t.refused(name, text, "the arguments are not a JSON object of the tool's form")
	}
	if !t.has(name) {
		return t.refused(name, text, "there is no such tool")
	}
	switch name {
	case "list":
		return t.file("list", a.Path, func() (string, string, error) { return t.list(a.Path) })
	case "read":
		return t.file("read", a.Path, func() (string, string, error) { return t.read(a.Path, a.Offset) })
	case "write":
		return t.file("write", a.Path, func() (string, string, error) { return t.write(a.Path, a.Content) })
	case "run":
		return t.run(ctx, a.Command)
	case "finish":
		return t.finish(a.Summary)
	}
	return t.refused(name, text, "there is no such tool")
}

// refused records a call that cannot be carried out.
func (t *tools) refused(name, arguments, why string) result {
	done := t.task.Record("invalid", map[string]string{"tool": guild.Cut(name, 100), "arguments": guild.Cut(arguments, 1000)})
	done(why, 1)
	return result{output: "error: " + why, failed: true}
}

// file carries out a tool for a file. do returns the output for the model, and what the customer reads behind the name.
func (t *tools) file(tool, name string, do func() (output, note string, err error)) result {
	done := t.task.Record(tool, map[string]string{"path": guild.Cut(name, 1000)})
	output, note, err := do()
	if err != nil {
		output = "error: " + err.Error()
		done(output, 1)
		t.task.Say(tool + " " + guild.Cut(name, 200) + ": " + err.Error())
		return result{output: output, failed: true}
	}
	done(output, 0)
	t.task.Say(tool + " " + guild.Cut(name, 200) + note)
	return result{output: output}
}

// find returns the folder of a path and the path below it.
func (t *tools) find(name string) (root *os.Root, folder, below string, err error) {
	name = strings.TrimPrefix(name, "/box/") // as commands see them
	folder, below, _ = strings.Cut(path.Clean(name), "/")
	root = t.roots[folder]
	if root == nil {
		return nil, "", "", errors.New("a path begins with bundle/ or delivery/")
	}
	if below == "" {
		below = "."
	}
	return root, folder, below, nil
}

// reason returns why a file cannot be reached, without the name that it has outside of the task.
func reason(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// open opens a regular file or a folder. A pipe that a command left is not waited for.
func open(root *os.Root, name string, flag int) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile(name, flag|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, nil, reason(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		f.Close()
		return nil, nil, reason(err)
	}
	return f, info, nil
}

// list lists the files below a folder.
func (t *tools) list(name string) (output, note string, err error) {
	root, folder, below, err := t.find(name)
	if err != nil {
		return "", "", err
	}
	var names []string
	visited := 0
	errFull := errors.New("full")
	err = fs.WalkDir(root.FS(), below, func(p string, d fs.DirEntry, err error) error {
		visited++
		switch {
		case err != nil:
			return err
		case visited > maxVisited:
			return errFull
		case !d.Type().IsRegular() && d.Type() != fs.ModeSymlink:
			return nil
		case len(names) == maxNames:
			return errFull
		}
		size := ""
		if info, err := d.Info(); err == nil && d.Type().IsRegular() {
			size = fmt.Sprintf("  %d bytes", info.Size())
		}
		names = append(names, path.Join(folder, p)+size)
		return nil
	})
	if err != nil && !errors.Is(err, errFull) {
		return "", "", reason(err)
	}
	output = strings.Join(names, "\n")
	if errors.Is(err, errFull) {
		output += fmt.Sprintf("\n[only the first %d: list a folder in it]", len(names))
	}
	if len(names) == 0 && err == nil {
		output = "[no files]"
	}
	return output, fmt.Sprintf(": %d files", len(names)), nil
}

// read returns a part of a text file.
func (t *tools) read(name string, offset int64) (output, note string, err error) {
	root, _, below, err := t.find(name)
	if err != nil {
		return "", "", err
	}
	f, info, err := open(root, below, os.O_RDONLY)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	if info.IsDir() {
		return "", "", errors.New("it is a folder: list it")
	}
	if offset < 0 || offset > info.Size() {
		return "", "", fmt.Errorf("the file has %d bytes", info.Size())
	}
	text := make([]byte, maxRead)
	n, err := f.ReadAt(text, offset)
	if err != nil && err != io.EOF {
		return "", "", reason(err)
	}
	text = text[:n]
	if bytes.ContainsRune(text, 0) {
		return "", "", errors.New("it is not a text")
	}
	output = strings.ToValidUTF8(string(text), "\uFFFD")
	if rest := info.Size() - offset - int64(n); rest > 0 {
		output += fmt.Sprintf("\n[%d bytes more: read from offset %d]", rest, offset+int64(n))
	}
	return output, "", nil
}

// write replaces a file, or makes it and its folders.
func (t *tools) write(name, content string) (output, note string, err error) {
	root, folder, below, err := t.find(name)
	switch {
	case err != nil:
		return "", "", err
	case folder != bundleFolder && folder != deliveryFolder:
		return "", "", errors.New("it can only be read")
	case below == ".":
		return "", "", errors.New("it is a folder")
	case len(content) > maxWrite:
		return "", "", fmt.Errorf("it has more than %d bytes", maxWrite)
	}
	t.written += len(content)
	if t.written > maxWritten {
		return "", "", fmt.Errorf("more than %d bytes were written", maxWritten)
	}
	if err := root.MkdirAll(path.Dir(below), 0o755); err != nil {
		return "", "", reason(err)
	}
	f, info, err := open(root, below, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	if info.IsDir() {
		return "", "", errors.New("it is a folder")
	}
	if err := f.Truncate(0); err != nil {
		return "", "", reason(err)
	}
	if _, err := f.WriteString(content); err != nil {
		return "", "", reason(err)
	}
	note = fmt.Sprintf(": %d bytes", len(content))
	return "written" + note, note, reason(f.Close())
}

// run runs a command in the sandbox.
func (t *tools) run(ctx context.Context, command string) result {
	if command == "" || len(command) > maxCommand {
		return t.refused("run", guild.Cut(command, 1000), "the command is empty or too long")
	}
	done := t.task.Record("run", map[string]string{"command": command})
	var out clipped
	exit, err := t.task.Run(ctx, command, &out)
	if err != nil {
		done(err.Error(), 1)
		return result{err: err}
	}
	output := fmt.Sprintf("exit code %d\n%s", exit, &out)
	done(output, exit)
	t.task.Say(fmt.Sprintf("run %s: exit code %d", guild.Cut(strings.Join(strings.Fields(command), " "), 200), exit))
	return result{output: output}
}

// more carries out a tool of the caller's. The customer reads its name only.
func (t *tools) more(ctx context.Context, tool Tool, text string) result {
	if len(text) > maxWrite || !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return t.refused(tool.Name, text, "the arguments are not a JSON object, or too long")
	}
	done := t.task.Record(tool.Name, map[string]string{"arguments": text})
	output, err := tool.Call(ctx, json.RawMessage(text))
	note, exit := "", 0
	if err != nil {
		output, note, exit = "error: "+err.Error(), ": error", 1
	}
	var shown clipped
	shown.Write([]byte(output))
	done(output, exit)
	t.task.Say(tool.Name + note)
	return result{output: shown.String(), failed: err != nil, err: ctx.Err()}
}

// finish ends the task if there is something to deliver.
func (t *tools) finish(summary string) result {
	done := t.task.Record("finish", map[string]string{"summary": guild.Cut(summary, 4000)})
	entries, err := fs.ReadDir(t.roots[deliveryFolder].FS(), ".")
	if err == nil && len(slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "result.json" })) == 0 {
		err = errors.New("delivery/ is empty: write what is to be delivered there first")
	}
	summary = guild.Cut(guild.Clean(summary), 4000)
	if err == nil {
		err = t.report(summary)
	}
	if err != nil {
		output := "error: " + reason(err).Error()
		done(output, 1)
		return result{output: output, failed: true}
	}
	done("", 0)
	return result{finished: true, summary: summary}
}

// report writes the summary to delivery/result.json, unless the model wrote one.
func (t *tools) report(summary string) error {
	text, err := json.Marshal(map[string]string{"status": nutshell.Completed, "summary": summary})
	if err != nil {
		return err
	}
	f, err := t.roots[deliveryFolder].OpenFile("result.json", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Close())
}

// clipped keeps the beginning and the end of what is written to it.
type clipped struct {
	head, tail []byte
	left       int // bytes between them
}

// Write implements io.Writer.
func (c *clipped) Write(p []byte) (int, error) {
	n := len(p)
	room := min(n, maxOutput/2-len(c.head))
	c.head, p = append(c.head, p[:room]...), p[room:]
	c.tail = append(c.tail, p...)
	if over := len(c.tail) - maxOutput/2; over > 0 {
		c.left += over
		c.tail = slices.Clone(c.tail[over:])
	}
	return n, nil
}

func (c *clipped) String() string {
	text := string(c.head)
	if c.left > 0 {
		text += fmt.Sprintf("\n[%d bytes are left out]\n", c.left)
	}
	return strings.ToValidUTF8(strings.ReplaceAll(text+string(c.tail), "\x00", ""), "\uFFFD")
}
