package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"guild/internal/cli"
	"guild/internal/hand/fetch"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/typed"
	"guild/internal/step/judge"
)

// readyForTyped lets a judge without a node check a typed job as a node does: its commands are run again, in the images of
// the configuration, and a sample of its texts is embedded again. Any other bundle needs none of it.
func (p *program) readyForTyped(ctx context.Context, j *judge.Judge, bundle, scratch string) error {
	if _, ok, err := typed.RequestedIn(bundle); !ok || err != nil {
		return nil // the judge will say what is wrong with it
	}
	c, err := p.config()
	if err != nil {
		return err
	}
	images, err := typed.OpenImages(ctx, j.Exam.Runner, c.Images)
	if err != nil {
		return err
	}
	runs := filepath.Join(scratch, "typed")
	if err := os.Mkdir(runs, 0o700); err != nil {
		return err
	}
	j.Typed = typed.Checker{
		Types:   typesBeside(c, func(file string) { fmt.Fprintln(p.err, "guild: left out:", cli.Clean(file)) }),
		Vectors: vectorsAt(c.Judge.Opinion),
		Sandbox: &typed.Sandbox{
			Images: images, Network: true, Scratch: runs, Fetch: fetch.Client{Hosts: c.Work.Fetch}.Fetch,
			Most: sandbox.Limits{Wall: time.Hour, CPU: time.Hour, Memory: 8 << 30, Disk: 1 << 30, Output: 4 << 20, Pids: 500, CPUs: max(runtime.NumCPU(), sandbox.DefaultCPUs)},
		},
	}
	return nil
}
