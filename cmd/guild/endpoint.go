package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/judging/opinion"
	"guild/internal/judging/typed"
	"guild/oa"
)

// modelOf is the model that does the jobs of a typed service; nil where something else does.
func modelOf(set config.Service) (*typed.Model, error) {
	if set.URL == "" {
		return nil, nil
	}
	key, err := keyIn(set.KeyEnv)
	if err != nil {
		return nil, err
	}
	return &typed.Model{Endpoint: opinion.Endpoint{URL: set.URL, Key: key}, Name: set.Model, MaxTokens: set.MaxTokens}, nil
}

// keyIn is an endpoint's key: the value of an environment variable, or none where no variable is named.
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

// vectorsAt is the endpoint where samples of embeddings are made again: the one that is asked for opinions. It is nil
// without one, or without its key.
func vectorsAt(c config.Opinion) *opinion.Endpoint {
	key, err := keyIn(c.KeyEnv)
	if c.URL == "" || err != nil {
		return nil
	}
	return &opinion.Endpoint{URL: c.URL, Key: key}
}

// opinionOf is whom a node asks for opinions; nil if nobody is appointed, or can be asked. Which model is preferred the
// node knows.
func opinionOf(c config.Opinion) opinion.Opinion {
	o, err := appointed(c, func(string) []string { return nil })
	if err != nil {
		return nil
	}
	return o
}

// typesBeside are the job types that are known, with those that are described beside the configuration. A file that is no
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
