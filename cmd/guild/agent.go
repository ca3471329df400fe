package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/hand/agent"
	"guild/internal/hand/model"
	"guild/internal/node"
	"guild/internal/step/work"
)

// agentOptions describe the agent that does the work of a service.
type agentOptions struct {
	Name   string
	Login  bool   // it uses its own login instead of a key
	URL    string // of its API; the usual one if empty
	Model  string // the agent's own choice if empty
	KeyEnv string // the variable with the API's key; the usual one if empty
	Limits tokenLimits
}

// agentFlags gives cmd the flags for an agent.
func (o *workOptions) agentFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.Agent, "agent", "", "agent that does each job: "+strings.Join(agent.Names(), ", "))
	f.BoolVar(&o.AgentLogin, "agent-login", false, "copy the agent's own login into the sandbox: a customer's text can have it sent out")
	f.Int64Var(&o.Limits.PerJob, "tokens-per-job", 0, fmt.Sprintf("most tokens of one job (default: %d)", model.DefaultJobTokens))
	f.Int64Var(&o.Limits.PerDay, "tokens-per-day", 0, fmt.Sprintf("most tokens of all jobs with this key on one day, UTC (default: %d)", model.DefaultDayTokens))
}

// checkAgent rejects flags that need an agent or a model when neither was given.
func (o workOptions) checkAgent() error {
	none := o.Agent == "" && o.Endpoint == ""
	switch {
	case none && (o.Model != "" || o.KeyEnv != "" || o.Limits != tokenLimits{}):
		return errors.New("--model, --key-env, --tokens-per-job and --tokens-per-day are for --agent and --endpoint")
	case len(o.MCP) > 0 && (o.Endpoint == "" || o.Agent != ""):
		return errors.New("--mcp is for --endpoint without --agent: an agent has its own tools")
	case o.Agent == "" && o.AgentLogin:
		return errors.New("--agent-login is for --agent")
	case o.Limits.PerJob < 0 || o.Limits.PerDay < 0:
		return errors.New("--tokens-per-job and --tokens-per-day are 0 or more")
	}
	return nil
}

// useAgent has an agent do the work of a service, if one is named.
func (s *service) useAgent(c config.Config, o agentOptions) error {
	if o.Name == "" {
		return nil
	}
	preset, err := agent.Named(o.Name, o.Model)
	switch {
	case err != nil:
		return err
	case s.Exec != "":
		return errors.New("a command (exec) and an agent: one of them does the work")
	case s.Type != "":
		return errors.New("an agent works on bundles, not on a typed job")
	case s.Trace != "":
		return errors.New("the format of an agent's output (trace) is known, and cannot be set")
	}
	found, err := preset.Find()
	if err != nil {
		return err
	}
	s.Exec, s.Trace = found.Command, string(preset.Trace)
	s.Agent = &node.Agent{Name: o.Name, Model: o.Model, Mounts: found.Mounts}
	if o.Model != "" && len(s.Claims.Models) == 0 {
		s.Claims.Models = []string{o.Model}
	}
	if o.Login {
		return s.useLogin(preset)
	}
	variable := cmp.Or(o.KeyEnv, preset.API.KeyEnv)
	api, err := apiOf(c, cmp.Or(o.URL, preset.API.URL), variable, o.Limits)
	if err != nil {
		return err
	}
	api.Header = preset.API.Header
	s.Agent.API = &api
	return api.Check()
}

// useLogin copies the agent's own login into each of its sandboxes.
func (s *service) useLogin(preset agent.Preset) error {
	below, err := preset.Login()
	switch {
	case err != nil:
		return err
	case s.Unsandboxed:
		return errors.New("--agent-login is for an agent in a sandbox; an unsandboxed one reads its login anyway")
	case s.Network != string(work.NetworkFull):
		return cli.WithHint(errors.New("an agent with its own login speaks to its maker by itself, so it needs --network"),
			"safer: leave --agent-login out and set "+preset.API.KeyEnv)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	file := filepath.Join(home, below)
	secrets, err := work.SecretsInFile(file)
	if err != nil {
		return cli.WithHint(fmt.Errorf("the login of %s: %w", preset.Name, err), "log in with the agent itself first")
	}
	s.Agent.Login, s.Agent.Secrets = &work.Login{Host: file, Inside: below}, secrets
	return nil
}
