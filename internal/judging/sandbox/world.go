package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// Box is the mount point of a run's bounded temporary file system. Workspace and Home are in it.
const Box = "/box"

// User is the user id of a run inside the sandbox, if its runner can choose.
const User = 1000

// Etc returns the files that are written to a sandbox's /etc, by name, for a run as user.
func Etc(user int) map[string]string {
	return map[string]string{
		"passwd":        fmt.Sprintf("box:x:%d:%[1]d::%s:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n", user, Home),
		"group":         fmt.Sprintf("box:x:%d:\nnogroup:x:65534:\n", user),
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
		"hosts":         "127.0.0.1 localhost box\n::1 localhost\n",
	}
}

// HostEtc returns the names of the host's files below /etc that a run sees: those that programs need and that contain
// no secrets. A run with a network sees more of them.
func HostEtc(network bool) []string {
	names := []string{"alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types"}
	if !network {
		return names
	}
	return append(names,
		"resolv.conf", "gai.conf", "services", "protocols", "ssl/certs", "ssl/openssl.cnf", "pki/tls/certs",
		"pki/ca-trust/extracted", "ca-certificates", "ca-certificates.conf")
}

// Writable returns the copies that the run may change, in order.
func (s Spec) Writable() []Copy {
	return slices.DeleteFunc(slices.Clone(s.Copies), func(c Copy) bool { return c.ReadOnly })
}

// WritesJudge reports whether the run may change files below Judge.
func (s Spec) WritesJudge() bool {
	return slices.ContainsFunc(s.Writable(), func(c Copy) bool { return below(path.Clean(c.Inside), Judge) })
}

// Try runs /bin/true, for a Probe, and returns why that fails.
func Try(ctx context.Context, r Runner) error {
	var stderr bytes.Buffer
	res, err := r.Run(ctx, Spec{
		Argv: []string{"/bin/true"}, Env: []string{"PATH=/usr/bin:/bin"}, Limits: Limits{Wall: 30 * time.Second},
	}, IO{Stderr: &stderr})
	switch {
	case err != nil:
		return err
	case res.Killed != "":
		return fmt.Errorf("a trial run was killed for its limit: %s", res.Killed)
	case res.Exit != 0:
		return fmt.Errorf("a trial run exits %d: %s", res.Exit, strings.TrimSpace(stderr.String()))
	default:
		return nil
	}
}

// Refuse implements Run for a runner that is not usable: it closes the channel and returns an *UnusableError.
func Refuse(c Caps, streams IO) (Result, error) {
	if streams.Channel != nil {
		streams.Channel.Close()
	}
	return Result{}, &UnusableError{Reason: c.Reason, Remedy: c.Remedy}
}

// LeaveOut adds a warning if some files of Spec.Collect were skipped.
func (r *Result) LeaveOut(files int) {
	if files > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of the files to collect were left out", files))
	}
}
