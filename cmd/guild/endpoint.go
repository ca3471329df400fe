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
	if set.URL == "" {
		return nil, nil, nil
	}
	if set.Type == "" {
		m, err := chatOf(c, set.URL, set.Model, set.KeyEnv)
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
func chatOf(c config.Config, url, name, keyEnv string) (*chat.Model, error) {
	if keyEnv != "" && !envName.MatchString(keyEnv) {
		return nil, fmt.Errorf("%.80q is not the name of a variable", keyEnv)
	}
	counts := filepath.Join(c.Paths.State, "tokens")
	if err := os.MkdirAll(counts, 0o700); err != nil {
		return nil, err
	}
	api := model.API{URL: url, Day: &model.Day{Path: filepath.Join(counts, cmp.Or(keyEnv, "none")+".json"), Now: time.Now}}
	if keyEnv != "" {
		text, set := os.LookupEnv(keyEnv)
		if !set || strings.TrimSpace(text) == "" {
			return nil, cli.WithHint(fmt.Errorf("the variable %s is not set", keyEnv), "export "+keyEnv+"=… with the key of the API")
		}
		api.Key = vault.NewSecret([]byte(strings.TrimSpace(text)))
	}
	m := &chat.Model{API: api, Name: name, Brief: briefForModel}
	return m, m.Check()
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
