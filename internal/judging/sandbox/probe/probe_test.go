package probe

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"guild"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/confine"
	"guild/internal/judging/sandbox/landlock"
	"guild/internal/judging/sandbox/tiers"
)

func TestExamineRunners(t *testing.T) {
	for _, r := range tiers.All() {
		report, err := Examine(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if !report.Caps.Usable {
			t.Logf("%s is not usable: %s", report.Caps.Tier, report.Caps.Reason)
			continue
		}
		t.Run(report.Caps.Tier, func(t *testing.T) {
			for _, c := range report.Checks {
				t.Logf("held %-5v reported %-5v skipped %-5v %s: %s", c.Held, c.Reported, c.Skipped, c.Name, c.Detail)
				network := strings.Contains(c.Name, "outside")
				if !c.Held && !c.Skipped || c.Skipped && !(network && report.Caps.Tier == landlock.Tier) {
					t.Errorf("%s: %+v", c.Name, c)
				}
			}
			if len(report.Checks) != len(attacks) || !report.Held() {
				t.Errorf("%d checks, held %v", len(report.Checks), report.Held())
			}
			t.Logf("remedies: %q", report.Remedies)
		})
	}
}

func TestJudgeOutput(t *testing.T) {
	breach := []guild.Breach{{Syscall: "connect", Detail: "192.0.2.1:80 tcp"}}
	for _, c := range []struct {
		res  sandbox.Result
		said string
		want Check
	}{
		{sandbox.Result{}, "succeeded mount returned 0", Check{Detail: "mount returned 0"}},
		{sandbox.Result{}, "failed Permission denied", Check{Held: true, Detail: "Permission denied"}},
		{sandbox.Result{Breaches: breach}, "failed Network is unreachable", Check{Held: true, Reported: true, Detail: "connect 192.0.2.1:80 tcp"}},
		{sandbox.Result{Breaches: breach}, "", Check{Held: true, Reported: true, Detail: "connect 192.0.2.1:80 tcp"}},
		{sandbox.Result{Breaches: []guild.Breach{{Syscall: "ptrace", Detail: "ptrace request 0x0"}}}, "", Check{Held: true, Reported: true, Detail: "ptrace request 0x0"}},
		{sandbox.Result{Killed: sandbox.KilledMemory}, "", Check{Held: true, Reported: true, Detail: "killed for the limit of memory"}},
		{sandbox.Result{Signal: "SIGSYS"}, "", Check{Held: true, Detail: "killed by SIGSYS"}},
		{sandbox.Result{Exit: 127}, "", Check{Skipped: true, Detail: "it did not run: no python3"}},
		{sandbox.Result{}, "skipped not here", Check{Skipped: true, Detail: "not here"}},
		{sandbox.Result{Killed: sandbox.KilledWall}, "succeeded 64 MB", Check{Reported: true, Detail: "64 MB"}},
	} {
		if got := (attack{}).judge(c.res, c.said, "no python3"); got != c.want {
			t.Errorf("%+v %q: got %+v, want %+v", c.res, c.said, got, c.want)
		}
	}
}

func TestRemediesFitTheMachine(t *testing.T) {
	file := func(content string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(content)} }
	ubuntu := confine.Machine{User: 1000, Program: "/usr/local/bin/guild", Files: fstest.MapFS{
		"proc/sys/kernel/apparmor_restrict_unprivileged_userns": file("1\n"),
		"proc/sys/kernel/unprivileged_userns_clone":             file("1\n"),
		"proc/sys/user/max_user_namespaces":                     file("0\n"),
	}}
	got := remedies(ubuntu, sandbox.Caps{Remedy: "install it"})
	for _, want := range []string{
		"install it", "apparmor_parser -r /etc/apparmor.d/guild", "apparmor_restrict_unprivileged_userns=0", "max_user_namespaces=15000",
	} {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "userns_clone=1") }) {
		t.Errorf("%q: namespaces may be made there", got)
	}
	if again := remedies(ubuntu, sandbox.Caps{Remedy: got[1]}); !slices.Equal(again, got[1:]) {
		t.Errorf("got %q, want %q once", again, got[1:])
	}
	docker := confine.Machine{User: 1000, Files: fstest.MapFS{
		".dockerenv": file(""), "proc/self/status": file("Name:\tguild\nSeccomp:\t2\nSeccomp_filters:\t1\n"),
	}}
	if got := remedies(docker, sandbox.Caps{Usable: true, Remedy: "none"}); !slices.Contains(got, inContainer) || slices.Contains(got, "none") {
		t.Errorf("%q", got)
	}
	if got := remedies(empty, sandbox.Caps{Usable: true}); slices.Contains(got, inContainer) {
		t.Errorf("%q", got)
	}
}

// empty is a machine without files, so without settings.
var empty = confine.Machine{Files: fstest.MapFS{}}

func TestNoLimitRemedyWithoutARunner(t *testing.T) {
	if got := remedies(empty, sandbox.Caps{Remedy: "install it"}); !slices.Equal(got, []string{"install it"}) {
		t.Errorf("%q", got)
	}
}
