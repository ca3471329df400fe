//go:build wasip1

// Wasm is package verify for a web page, and for whatever else runs WebAssembly: a program that reads an export in one
// file from its input and writes the report as JSON to its output. It opens no file and no connection.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"guild/verify"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	b, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	report, err := verify.Archive(b)
	if err != nil { // as in `guild verify`
		report.Checks = []verify.Check{{Name: "files", State: verify.Failed, Detail: err.Error()}}
	}
	return json.NewEncoder(out).Encode(report)
}
