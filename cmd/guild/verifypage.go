package main

import (
	"fmt"

	"guild/internal/cli"
	"guild/internal/durable"
	"guild/verify/page"
)

// writeVerifyPage writes the verifier as a web page, for somebody who has no guild.
func (p *program) writeVerifyPage(path string) error {
	html, err := page.HTML()
	if err != nil {
		return err
	}
	if err := durable.WriteBytes(path, html); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	line(p.out, "%s: a page that checks what it is given, offline (%s)", cli.Clean(path), cli.Size(int64(len(html))))
	return nil
}
