//go:build wasip1

// Wasm is package verify as a WebAssembly program, for the web page and other hosts. It reads an export as one archive
// from its input and writes the report as JSON to its output. It opens no files and no connections.
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
	if err != nil { // reported as by `guild verify`
		report = verify.Broken(err)
	}
	return json.NewEncoder(out).Encode(report)
}
