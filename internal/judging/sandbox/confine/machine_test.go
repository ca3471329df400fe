package confine

import (
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// machineWith returns a machine with these files, and guild as an ordinary user's program.
func machineWith(files map[string]string) Machine {
	m := fstest.MapFS{}
	for name, content := range files {
		m[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return Machine{Files: m, User: 1000, Program: "/home/ann/bin/guild"}
}

func TestUserNamespaceObstacles(t *testing.T) {
	const (
		sysctl = "proc/sys/kernel/apparmor_restrict_unprivileged_userns"
		label  = "proc/self/attr/current"
		clone  = "proc/sys/kernel/unprivileged_userns_clone"
		most   = "proc/sys/user/max_user_namespaces"
	)
	const install = `sudo apparmor_parser -r /etc/apparmor.d/guild`
	for _, c := range []struct {
		name  string
		files map[string]string
		root  bool
		want  []string // in the remedies, one each
	}{
		{name: "no settings"},
		{name: "all allowed", files: map[string]string{sysctl: "0\n", clone: "1\n", most: "63000\n", label: "unconfined\n"}},
		{name: "ubuntu", files: map[string]string{sysctl: "1\n", clone: "1\n", label: "unconfined\n"}, want: []string{install}},
		{name: "ubuntu without a label", files: map[string]string{sysctl: "1\n"}, want: []string{install}},
		{name: "ubuntu with the profile", files: map[string]string{sysctl: "1\n", label: "guild (unconfined)\n"}},
		{name: "ubuntu as root", files: map[string]string{sysctl: "1\n", label: "unconfined\n"}, root: true},
		{name: "debian", files: map[string]string{clone: "0\n"}, want: []string{"kernel.unprivileged_userns_clone=1"}},
		{name: "debian as root", files: map[string]string{clone: "0\n"}, root: true},
		{name: "none may be created", files: map[string]string{most: "0\n"}, root: true, want: []string{"user.max_user_namespaces=15000"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := machineWith(c.files)
			if c.root {
				m.User = 0
			}
			got := m.Obstacles()
			if len(got) != len(c.want) {
				t.Fatalf("got %+v, want %q", got, c.want)
			}
			for i, o := range got {
				if !strings.Contains(o.Remedy, c.want[i]) || strings.Contains(o.Remedy, "\n") || o.Reason == "" {
					t.Errorf("got %+v, want %q", o, c.want[i])
				}
			}
		})
	}
}

func TestProfileNamesTheProgram(t *testing.T) {
	m := machineWith(map[string]string{"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"})
	remedy := m.Obstacles()[0].Remedy
	if want := `profile guild "/home/ann/bin/guild" flags=(unconfined) { userns,`; !strings.Contains(remedy, want) {
		t.Errorf("got %s, want %s", remedy, want)
	}
	if strings.ContainsAny(ThisMachine().Program, notPlain) || ThisMachine().Program == "" {
		t.Errorf("program %q", ThisMachine().Program)
	}
}

// The profile that is shipped and the one that doctor prints have the same rules.
func TestShippedProfile(t *testing.T) {
	b, err := os.ReadFile("../../../../packaging/apparmor/guild")
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "#") {
			words = append(words, strings.Fields(line)...)
		}
	}
	if got, want := strings.Join(words, " "), profile(defaultProgram); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFilteredMachine(t *testing.T) {
	for status, want := range map[string]bool{
		"Name:\tguild\nSeccomp:\t2\nSeccomp_filters:\t1\n": true,
		"Name:\tguild\nSeccomp:\t0\n":                      false,
	} {
		if got := machineWith(map[string]string{"proc/self/status": status}).Filtered(); got != want {
			t.Errorf("%q: got %v, want %v", status, got, want)
		}
	}
	if (Machine{Files: fs.FS(fstest.MapFS{})}).Filtered() {
		t.Error("filtered without a status")
	}
}
