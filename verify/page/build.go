//go:build ignore

// Build compiles the verifier of the page and compresses it: go generate ./verify/page. With a directory as argument
// it writes there, for the test that compares the builds.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

func main() {
	dir := "."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if err := build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func build(dir string) error {
	temporary, err := os.MkdirTemp("", "verifier")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	file := filepath.Join(temporary, "wasm")
	// The flags and the environment make the build reproducible, because a test compares its bytes with the committed
	// file.
	compile := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", file, "./wasm")
	compile.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=wasip1", "GOARCH=wasm", "GOWASM=", "GOEXPERIMENT=", "GOFLAGS=", "GOFIPS140=off")
	compile.Stderr = os.Stderr
	if err := compile.Run(); err != nil {
		return fmt.Errorf("build the verifier: %w", err)
	}
	program, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is valid
	if _, err := z.Write(program); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "verifier_version"), []byte(runtime.Version()+"\n"), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "verifier.wasm.gz"), packed.Bytes(), 0o644)
}
