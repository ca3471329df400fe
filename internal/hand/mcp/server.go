package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// Server is an MCP server of the owner. It is a command or has a URL.
type Server struct {
	Name    string // the first part of the names of its tools
	Command string // for /bin/sh; the server speaks over its standard input and output
	URL     string // of a server that speaks streamable HTTP

	// Run runs Command in a sandbox until it ends or ctx does. The error says why it ended by itself, for the owner. It is
	// required for a command.
	Run func(ctx context.Context, in io.Reader, out io.Writer) error
}

// maxName limits the name of a server, in bytes.
const maxName = 40

// Parse returns the servers that the owner names by their commands and URLs. A command is named after its program, and a URL after
// its host and path; two of the same name are an error.
func Parse(sources []string) ([]Server, error) {
	var all []Server
	taken := map[string]string{}
	for _, source := range sources {
		s, err := parse(source)
		if err != nil {
			return nil, err
		}
		if other, ok := taken[s.Name]; ok {
			return nil, fmt.Errorf("the MCP servers %.100q and %.100q are both named %s: start one by a script with another name", other, source, s.Name)
		}
		taken[s.Name] = source
		all = append(all, s)
	}
	return all, nil
}

func parse(source string) (s Server, err error) {
	source = strings.TrimSpace(source)
	word, _, _ := strings.Cut(source, " ")
	switch {
	case strings.ContainsRune(source, 0):
		return s, errors.New("the command of an MCP server has a zero byte")
	case strings.Contains(word, "://"):
		s.URL = source
		if s.Name, err = nameOfURL(source); err != nil {
			return s, err
		}
	default:
		s.Command = source
		base := path.Base(word)
		s.Name = nameable(strings.TrimSuffix(base, path.Ext(base)))
	}
	if s.Name == "" || len(s.Name) > maxName {
		return s, fmt.Errorf("the MCP server %.100q has no name of 1 to %d letters or digits: that is its program's name, or its host and path", source, maxName)
	}
	return s, nil
}

// nameOfURL returns the host and the path of a URL as a name, without the "/mcp" at the end that is usual.
func nameOfURL(address string) (string, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return "", errors.New("the address of an MCP server is not one like https://host/mcp")
	case u.User != nil || u.Fragment != "":
		return "", fmt.Errorf("the address of the MCP server at %.100q has a user, a password or a fragment", u.Host)
	}
	return nameable(u.Host + strings.TrimSuffix(u.Path, "/mcp")), nil
}

// unnameable are the characters that the API does not accept in the name of a tool.
var unnameable = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// nameable returns a name with only characters that the API accepts.
func nameable(name string) string {
	return strings.Trim(unnameable.ReplaceAllString(name, "_"), "_-")
}

// Source returns the command or the URL.
func (s Server) Source() string { return s.Command + s.URL }

// Query returns the query of the URL, which may have a token of the owner's; "" without one.
func (s Server) Query() string {
	_, query, _ := strings.Cut(s.URL, "?")
	return query
}
