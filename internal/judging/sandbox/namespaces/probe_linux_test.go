package namespaces

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"guild/internal/judging/sandbox/confine"
)

func TestReasonForNoSandbox(t *testing.T) {
	file := func(content string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(content)} }
	ubuntu := fstest.MapFS{"proc/sys/kernel/apparmor_restrict_unprivileged_userns": file("1\n")}
	profiled := fstest.MapFS{"proc/self/attr/current": file("guild (unconfined)\n")}
	for name, setting := range ubuntu {
		profiled[name] = setting
	}
	filtered := fstest.MapFS{"proc/self/status": file("Name:\tguild\nSeccomp:\t2\n")}
	clone := fmt.Errorf("sandbox: fork/exec: %w", unix.EPERM)
	mount := fmt.Errorf("sandbox: %w", &setupError{"mount", unix.EACCES})
	for _, c := range []struct {
		name           string
		err            error
		files          fstest.MapFS
		reason, remedy string
	}{
		{"the profile is missing, building", mount, ubuntu, "AppArmor takes", "apparmor_parser -r /etc/apparmor.d/guild"},
		{"the profile is missing, cloning", clone, ubuntu, "AppArmor takes", "apparmor_parser -r /etc/apparmor.d/guild"},
		{"the profile is there", mount, profiled, "refuses mounts", "apparmor=unconfined"},
		{"another error on such a machine", fmt.Errorf("sandbox: %w", unix.ENOENT), ubuntu, "no such file", "ordinary user"},
		{"no more namespaces", fmt.Errorf("sandbox: %w", unix.ENOSPC), fstest.MapFS{}, "max_user_namespaces", "max_user_namespaces=15000"},
		{"a container", clone, filtered, "system call filter", "seccomp=unconfined"},
		{"an old kernel", fmt.Errorf("sandbox: %w", unix.ENOSYS), fstest.MapFS{}, "too old", "5.12"},
		{"refused without a known cause", clone, fstest.MapFS{}, "are refused", "gVisor"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := confine.Machine{Files: c.files, User: 1000, Program: "/usr/local/bin/guild"}
			reason, remedy := explain(c.err, m)
			if !strings.Contains(reason, c.reason) || !strings.Contains(remedy, c.remedy) || strings.Contains(remedy, "\n") {
				t.Errorf("got %q, %q, want %q, %q", reason, remedy, c.reason, c.remedy)
			}
		})
	}
}
