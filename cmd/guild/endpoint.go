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

// modelOf returns the model that does the jobs of a typed service, nil if it has none.
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
