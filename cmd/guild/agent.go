package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/hand/agent"
	"guild/internal/hand/model"
	"guild/internal/node"
	"guild/internal/step/work"
	"guild/nutshell/vault"
)

// agentOptions say which agent does the work of a service, and what it may cost.
type agentOptions struct {
	Name   string
	URL    string // of its API, if it is not the usual one
	Model  string
	KeyEnv string // the variable with the API's key; the usual one if empty
	Login  bool   // it uses its own login instead of a key
	PerJob int64  // tokens; a default if zero
	PerDay int64
}

// agentFlags gives cmd the flags for an agent.
func (o *workOptions) agentFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.Agent.Name, "agent", "", "agent that does each job: "+strings.Join(agent.Names(), ", "))
	f.BoolVar(&o.Agent.Login, "agent-login", false, "copy the agent's own login into the sandbox: a customer's text can have it sent out")
	f.Int64Var(&o.Agent.PerJob, "tokens-per-job", 0, fmt.Sprintf("most tokens of one job (default: %d)", model.DefaultJobTokens))
	f.Int64Var(&o.Agent.PerDay, "tokens-per-day", 0, fmt.Sprintf("most tokens of all jobs with this key on one day, UTC (default: %d)", model.DefaultDayTokens))
}

// useAgent has an agent do the work of a service.
func (s *service) useAgent(c config.Config, o agentOptions) error {
	if o.Name == "" {
		if o.Login || o.PerJob != 0 || o.PerDay != 0 {
			return errors.New("--agent-login, --tokens-per-job and --tokens-per-day are for --agent")
		}
		return nil
	}
	preset, err := agent.Named(o.Name, o.Model)
	switch {
	case err != nil:
		return err
	case s.Exec != "":
		return errors.New("--exec and --agent: one of them does the work")
	case s.Type != "":
		return errors.New("an agent works on bundles, not on a typed job")
	case s.Trace != "":
		return errors.New("the format of an agent's output (trace) is known, and cannot be set")
	case o.PerJob < 0 || o.PerDay < 0:
		return errors.New("--tokens-per-job and --tokens-per-day are 0 or more")
	}
	found, err := preset.Find()
	if err != nil {
		return err
	}
	s.Exec, s.Trace = found.Command, string(preset.Trace)
	s.Agent = &node.Agent{Name: o.Name, Model: o.Model, Mounts: found.Mounts}
	if o.Model != "" {
		s.Claims.Models = []string{o.Model}
	}
	if o.Login {
		return s.useLogin(preset)
	}
	return s.useKey(c, o, preset)
}

// useKey gives the agent's API the owner's key, which stays in this process.
func (s *service) useKey(c config.Config, o agentOptions, preset agent.Preset) error {
	variable := cmp.Or(o.KeyEnv, preset.API.KeyEnv)
	if !envName.MatchString(variable) {
		return fmt.Errorf("%.80q is not the name of a variable", variable)
	}
	key := strings.TrimSpace(os.Getenv(variable))
	if key == "" {
		return cli.WithHint(fmt.Errorf("the variable %s is not set: it has the key for the agent's API, which no worker sees", variable),
			"export "+variable+"=…, a key of its own with a spending limit")
	}
	counts := filepath.Join(c.Paths.State, "tokens")
	if err := os.MkdirAll(counts, 0o700); err != nil {
		return err
	}
	s.Agent.API = &model.API{
		URL: cmp.Or(o.URL, preset.API.URL), Key: vault.NewSecret([]byte(key)), Header: preset.API.Header, JobTokens: o.PerJob,
		Day: &model.Day{Path: filepath.Join(counts, variable+".json"), Limit: o.PerDay, Now: time.Now},
	}
	s.Agent.Secrets = work.SecretsIn([]string{variable + "=" + key})
	return s.Agent.API.Check()
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
		return cli.WithHint(errors.New("an agent with its own login speaks to its maker by itself, so it needs --network full"),
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
