package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"guild/internal/cli"
	"guild/internal/durable"
	"guild/internal/step/agents"
	"guild/nipae"
	"guild/nipae/agentfile"
)

const agentTemplate = `+++
slug = '%s'
title = '%s'
description = 'one line'
use_criteria = 'when to choose this agent'
# tools = ['read', 'write', 'run']   # without: all that the worker has
+++

` + templateText + `
`

const templateText = "What the agent should do, and how."

// writeAgentFile writes an agent file that does not exist, to be edited. Its error says so.
func writeAgentFile(path string) error {
	if filepath.Ext(path) != ".md" {
		return cli.Usage(fmt.Errorf("%s does not exist; a new one is written if its name ends in .md", path))
	}
	slug := strings.TrimSuffix(filepath.Base(path), ".md")
	if err := agents.CheckName(slug); err != nil {
		return cli.WithHint(cli.Usage(err), "another name of the file, as fixer.md")
	}
	if err := durable.Create(path, fmt.Appendf(nil, agentTemplate, slug, slug)); err != nil {
		return err
	}
	return cli.WithHint(fmt.Errorf("%s did not exist and is written now, with a beginning", path), "edit it, and then: guild agent new "+path)
}

// readAgentFile reads an agent file.
func readAgentFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, cli.Usage(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, agentfile.MaxSize+1))
	var d nipae.Definition
	if err == nil {
		d, err = agentfile.Parse(b)
	}
	switch {
	case err != nil:
	case d.Instructions == "" && d.Content == "":
		err = errors.New("it has no instructions")
	case d.Instructions == templateText:
		err = errors.New("it is as it was written: edit it first")
	}
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("%s: %w", path, err))
	}
	return b, nil
}

// edited has the person edit a text, and hands the file to next. If that fails, the file stays.
func (p *program) edited(ctx context.Context, name string, text []byte, next func(path string) (*cli.Result, error)) (*cli.Result, error) {
	dir, err := os.MkdirTemp("", "guild-agent-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, filepath.Base(name)+".md")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	err = p.openWith(ctx, path, "vi")
	var result *cli.Result
	if err == nil {
		result, err = next(path)
	}
	if err != nil {
		return nil, cli.WithHint(err, "what you wrote is kept: guild agent edit "+name+" --file "+path)
	}
	return result, os.RemoveAll(dir)
}
