package main

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/hand/chat"
	"guild/internal/hand/model"
	"guild/internal/judging/opinion"
	"guild/internal/judging/typed"
	"guild/nutshell/brief"
	"guild/nutshell/vault"
	"guild/oa"
)

// modelsOf returns the model that does the jobs of a typed service, or the one that does bundles; nil if it has none.
func modelsOf(c config.Config, set config.Service) (*typed.Model, *chat.Model, error) {
	if set.URL == "" || set.Agent != "" {
		return nil, nil, nil
	}
	if set.Type == "" {
		m, err := chatOf(c, set.URL, set.Model, set.KeyEnv, tokenLimits{set.TokensPerJob, set.TokensPerDay})
		return nil, m, err
	}
	key, err := keyIn(set.KeyEnv)
	if err != nil {
		return nil, nil, err
	}
	return &typed.Model{Endpoint: opinion.Endpoint{URL: set.URL, Key: key}, Name: set.Model, MaxTokens: set.MaxTokens}, nil, nil
}

// chatOf returns the model that does bundles behind an endpoint. keyEnv names the variable with the key; empty for none. All
// services with the same key share the count of a day.
func chatOf(c config.Config, url, name, keyEnv string, limits tokenLimits) (*chat.Model, error) {
	api, err := apiOf(c, url, keyEnv, limits)
	if err != nil {
		return nil, err
	}
	m := &chat.Model{API: api, Name: name, Brief: briefForModel}
	return m, m.Check()
}

// tokenLimits are the most tokens of one job, and of all jobs with the same key on one day; a default where zero.
type tokenLimits struct{ PerJob, PerDay int64 }

// apiOf returns a model's API with the key that is in a variable; without a key if none is named. All services with the same
// variable share the count of a day.
func apiOf(c config.Config, url, keyEnv string, limits tokenLimits) (model.API, error) {
	if keyEnv != "" && !envName.MatchString(keyEnv) {
		return model.API{}, fmt.Errorf("%.80q is not the name of a variable", keyEnv)
	}
	counts := filepath.Join(c.Paths.State, "tokens")
	if err := os.MkdirAll(counts, 0o700); err != nil {
		return model.API{}, err
	}
	api := model.API{URL: url, JobTokens: limits.PerJob, Day: &model.Day{
		Path: filepath.Join(counts, cmp.Or(keyEnv, "none")+".json"), Limit: limits.PerDay, Now: time.Now,
	}}
	if keyEnv != "" {
		text, set := os.LookupEnv(keyEnv)
		if !set || strings.TrimSpace(text) == "" {
			return api, cli.WithHint(fmt.Errorf("the variable %s is not set: it has the key of the API, which no worker sees", keyEnv),
				"export "+keyEnv+"=…, a key of its own with a spending limit")
		}
		api.Key = vault.NewSecret([]byte(strings.TrimSpace(text)))
	}
	return api, nil
}

// briefForModel writes a bundle as the first message to a model, as much of it as the customer's hint allows. The window of which
// that is a share is one that small models have: they can read the rest themselves.
func briefForModel(ctx context.Context, bundle fs.FS) (string, error) {
	const window = 64_000 // tokens
	b, err := brief.Layers(ctx, bundle, brief.Options{Window: window})
	return b.Text, err
}

// keyIn returns an endpoint's key, the value of an environment variable; it is empty if no variable is named.
func keyIn(variable string) (opinion.Key, error) {
	if variable == "" {
		return opinion.Key{}, nil
	}
	text, set := os.LookupEnv(variable)
	if !set {
		return opinion.Key{}, cli.WithHint(fmt.Errorf("key_env: %s is not set", variable), "set it to the endpoint's key")
	}
	return opinion.NewKey(strings.TrimSpace(text)), nil
}

// vectorsAt returns the endpoint where samples of embeddings are made again: the one that is asked for opinions. It is nil
// without one, or without its key.
func vectorsAt(c config.Opinion) *opinion.Endpoint {
	key, err := keyIn(c.KeyEnv)
	if c.URL == "" || err != nil {
		return nil
	}
	return &opinion.Endpoint{URL: c.URL, Key: key}
}

// opinionOf returns the judge of opinions that the configuration appoints; nil without one, or if it is not usable. The
// node knows the preferred models itself.
func opinionOf(c config.Opinion) opinion.Opinion {
	o, err := appointed(c, func(string) []string { return nil })
	if err != nil {
		return nil
	}
	return o
}

// typesBeside returns the job types that are known, with those that are described beside the configuration. A file that is no
// description is left out, and named with the reason: it may be the one that is being written just now.
func typesBeside(c config.Config, leftOut func(file string)) oa.Registry {
	dir := filepath.Join(filepath.Dir(c.Paths.Config), "schemas")
	all, err := oa.Load(os.DirFS(dir))
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			leftOut(filepath.Join(dir, line))
		}
	}
	return all
}
