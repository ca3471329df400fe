package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"guild/internal/hand/model/modeltest"
)

// modelstub is a program for the tests: the API of a language model that has an agent run COMMANDs and then end. It writes
// its address into DIR/url, and what it was asked into DIR/asked: a line with the headers that have the key, and the body.
//
//	modelstub DIR COMMAND...
func modelstub() {
	dir := os.Args[1]
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	asked, err := os.Create(filepath.Join(dir, "asked"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	m := &modeltest.Model{Commands: os.Args[2:], Text: "It is done."}
	m.Heard = func(r modeltest.Request) {
		fmt.Fprintf(asked, "%s key=%q bearer=%q\n%s\n", r.Path, r.Header.Get("X-Api-Key"), r.Header.Get("Authorization"), r.Body)
	}
	if err := os.WriteFile(filepath.Join(dir, "url"), []byte("http://"+l.Addr().String()), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	http.Serve(l, m)
}
