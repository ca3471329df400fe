// Package page is package verify as a web page in one file, for somebody who has no guild: it carries the verifier with
// it, compiled to WebAssembly, and shows the lines that `guild verify` prints. The page can reach no network, and says so
// in a policy that browsers enforce. The verifier is carried inside guild as it was built from the source beside this
// package; a test builds it again and compares.
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

// maxProgram is far more than the verifier has, in bytes.
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

// HTML returns the page.
func HTML() ([]byte, error) {
	program, err := Program()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(program)
	policy := fmt.Sprintf("default-src 'none'; script-src %s 'wasm-unsafe-eval'; style-src %s; base-uri 'none'; form-action 'none'; "+
		"require-trusted-types-for 'script'; trusted-types 'none'", source(script), source(style))
	return []byte(strings.NewReplacer(
		"{{policy}}", policy, "{{style}}", style, "{{script}}", script, "{{version}}", strings.TrimSpace(version),
		"{{sum}}", hex.EncodeToString(sum[:]), "{{wasm}}", base64.StdEncoding.EncodeToString(verifier),
	).Replace(frame)), nil
}

// source is how a policy names what stands in the page itself and nothing else.
func source(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
