package container

import (
	"bytes"
	"cmp"
	"context"
	"os/exec"
	"strings"

	"guild/internal/judging/sandbox"
)

// Docker is never usable; its Probe explains why and what to use instead. The docker command connects only the three
// standard streams and passes on no other descriptors, so a run would have no results and no channel. podman passes
// them on.
type Docker struct {
	Path string // the docker executable; found on PATH if empty
}

// Probe implements Runner.
func (d Docker) Probe(ctx context.Context) sandbox.Caps {
	c := sandbox.Caps{Tier: TierDocker, Remedy: "install podman, which takes docker's place"}
	docker, err := exec.LookPath(cmp.Or(d.Path, "docker"))
	if err != nil {
		c.Reason = err.Error()
		return c
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, docker, "version", "--format", "{{.Server.Version}}")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		c.Reason = "no engine answers: " + cmp.Or(strings.TrimSpace(stderr.String()), err.Error())
		return c
	}
	c.Reason = "docker " + strings.TrimSpace(stdout.String()) + " answers, but connects only the three standard streams of a run"
	c.Remedy = "install podman; or run guild itself in docker, with --security-opt seccomp=unconfined " +
		"--security-opt systempaths=unconfined, where its own namespaces work"
	return c
}

// Run implements Runner.
func (d Docker) Run(ctx context.Context, _ sandbox.Spec, streams sandbox.IO) (sandbox.Result, error) {
	return sandbox.Refuse(d.Probe(ctx), streams)
}
