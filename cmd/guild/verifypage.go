package main

import (
	"guild/internal/cli"
	"guild/verify/page"
)

// writeVerifyPage writes the verifier as a web page, for people without guild.
func (p *program) writeVerifyPage(path string) error {
	html, err := page.HTML()
	if err != nil {
		return err
	}
	return p.writeVerifier(path, html, "page")
}

// writeVerifier writes a verifier to a file, or with - to standard output.
func (p *program) writeVerifier(path string, verifier []byte, what string) error {
	if path == "-" {
		_, err := p.out.Write(verifier)
		return err
	}
	if err := writeWhole(path, verifier); err != nil {
		return err
	}
	line(p.out, "%s: a %s that checks what it is given, offline (%s)", cli.Clean(path), what, cli.Size(int64(len(verifier))))
	return nil
}
