package main

import (
	"guild/internal/cli"
	"guild/verify/page"
)

// writeVerifyPage writes the verifier as a web page, for people without guild, to a file or to standard output.
func (p *program) writeVerifyPage(path string) error {
	html, err := page.HTML()
	if err != nil {
		return err
	}
	if path == "-" {
		_, err := p.out.Write(html)
		return err
	}
	if err := writeWhole(path, html); err != nil {
		return err
	}
	line(p.out, "%s: a page that checks what it is given, offline (%s)", cli.Clean(path), cli.Size(int64(len(html))))
	return nil
}
