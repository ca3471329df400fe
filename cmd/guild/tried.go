package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"guild/canon"
	"guild/internal/config"
	"guild/internal/durable"
)

// Each worker that passed its latest try has a file in the state directory, named after the hash of what describes the worker.
// So a changed worker is tried again.

// workerKey returns the hash of what describes the worker of a service, in hex. The content of its program is not included.
func (s service) workerKey() (string, error) {
	sorted := func(names []string) []string { return slices.Sorted(slices.Values(append([]string{}, names...))) }
	worker := map[string]any{
		"command": s.Exec, "type": s.Type, "env": sorted(s.Env), "mounts": sorted(s.Mounts), "network": s.Network == "full",
		"unsandboxed": s.Unsandboxed, "trace": s.Trace,
	}
	if s.Model != nil {
		worker["endpoint"], worker["model"] = s.Model.Endpoint.URL, s.Model.Name
	}
	if s.Agent != nil {
		worker["command"] = "" // it names a directory of the agent's version, which changes with each update
		worker["agent"], worker["agent_model"], worker["agent_login"] = s.Agent.Name, s.Agent.Model, s.Agent.Login != nil
		if s.Agent.API != nil {
			worker["agent_endpoint"] = s.Agent.API.URL
		}
	}
	if s.Chat != nil {
		worker["endpoint"], worker["model"], worker["tools"] = s.Chat.API.URL, s.Chat.Name, true
	}
	if len(s.MCP) > 0 {
		var sources []string
		for _, server := range s.MCP {
			sources = append(sources, server.Source())
		}
		worker["mcp"] = sorted(sources)
	}
	if len(s.As) > 0 {
		worker["as"], worker["nudges"] = sorted(s.As), sorted(s.Nudges)
	}
	h, err := canon.HashValue(worker)
	return h.Hex(), err
}

// tryFile returns the path of the file that a worker has if it passed its latest try.
func tryFile(c config.Config, s service) (string, error) {
	key, err := s.workerKey()
	return filepath.Join(c.Paths.State, "tries", key), err
}

// passedTry reports whether the worker of a service passed its latest try.
func passedTry(c config.Config, s service) bool {
	file, err := tryFile(c, s)
	if err != nil {
		return false
	}
	_, err = os.Stat(file)
	return err == nil
}

// recordTry records whether the worker of a service passed a try.
func recordTry(c config.Config, s service, passed bool) error {
	file, err := tryFile(c, s)
	if err != nil {
		return err
	}
	if !passed {
		err := os.Remove(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return durable.WriteBytes(file, []byte(s.D+"\n"))
}

// markUntried sets Untried of each service whose worker has not passed its latest try. Typed services need none, because guild
// checks their requests and results.
func markUntried(c config.Config, services []service) {
	for i, s := range services {
		services[i].Untried = s.Type == "" && !passedTry(c, s)
	}
}

// tryHint returns a hint on how to try the worker of a service.
func tryHint(c config.Config, d string) string {
	how := "guild work try, with the same flags,"
	if _, configured := c.Services[d]; configured {
		how = "guild work try " + d
	}
	return how + " shows what a customer would get; --untried announces it all the same"
}
