// Package page puts package verify into one HTML file, for people who do not have guild. The file contains the
// verifier compiled to WebAssembly and shows the lines that `guild verify` prints. A content security policy, which
// browsers enforce, denies it all network access. The compiled verifier is committed and embedded in guild; a test
// builds it again from source and compares. The page also has verify.py to download, a second verifier that shares no code
// with the first.
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

//go:generate go run build.go

// maxProgram limits the size of the uncompressed verifier in bytes.
const maxProgram = 64 << 20

var (
	//go:embed page.html
	frame string

	//go:embed page.css
	style string

	//go:embed page.js
	script string

	//go:embed verifier.wasm.gz
	verifier []byte

	//go:embed sample.zip
	sample []byte // a record to try, one of the vectors

	//go:embed verify.py
	python []byte

	//go:embed verifier_version
	version string
)

// Program returns the verifier: WebAssembly for WASI, preview 1, which reads an export in one file from its input and
// writes the report as JSON to its output.
func Program() ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(verifier))
	if err != nil {
		return nil, fmt.Errorf("verifier: %w", err)
	}
	program, err := io.ReadAll(io.LimitReader(z, maxProgram))
	if err != nil {
		return nil, fmt.Errorf("verifier: %w", err)
	}
	return program, nil
}

// Python returns verify.py: the same checks as one Python program, which needs no other module than Python's own.
func Python() []byte { return bytes.Clone(python) }

// HTML returns the page.
func HTML() ([]byte, error) {
	program, err := Program()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(program)
	// Nothing may be loaded or contacted, and only the page's own script and style may run: both are allowed by their
	// hashes. Compiling WebAssembly requires 'wasm-unsafe-eval'.
	policy := fmt.Sprintf("default-src 'none'; script-src %s 'wasm-unsafe-eval'; style-src %s; base-uri 'none'; form-action 'none'; "+
		"require-trusted-types-for 'script'; trusted-types 'none'", source(script), source(style))
	return []byte(strings.NewReplacer(
		"{{policy}}", policy, "{{style}}", style, "{{script}}", script, "{{version}}", strings.TrimSpace(version),
		"{{sum}}", hex.EncodeToString(sum[:]), "{{wasm}}", base64.StdEncoding.EncodeToString(verifier),
		"{{sample}}", base64.StdEncoding.EncodeToString(sample), "{{python}}", base64.StdEncoding.EncodeToString(python),
	).Replace(frame)), nil
}

// source returns the policy's source expression for an inline script or style: its hash, so that nothing else may run.
func source(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
