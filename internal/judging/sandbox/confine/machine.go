package confine

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Machine describes the machine that a program runs on, as far as the program can see it.
type Machine struct {
	Files   fs.FS  // the machine's files, from the root directory
	User    int    // effective user id of the program
	Program string // absolute path of the program
}

// ThisMachine returns the machine as this process sees it.
func ThisMachine() Machine {
	m := Machine{Files: os.DirFS("/"), User: os.Geteuid(), Program: defaultProgram}
	if path, err := os.Executable(); err == nil && !strings.ContainsAny(path, notPlain) {
		m.Program = path
	}
	return m
}

const (
	defaultProgram = "/usr/local/bin/guild"
	notPlain       = "\"'*?[]{}^\\\n" // characters with a meaning in an AppArmor profile or in a shell
)

// Obstacle is a setting of a machine that prevents a program from creating user namespaces.
type Obstacle struct {
	Reason string
	Remedy string // one line with the commands that help
}

// Obstacles returns the settings that prevent the program from creating user namespaces, as far as they can be read.
func (m Machine) Obstacles() []Obstacle {
	var all []Obstacle
	if m.Setting("user/max_user_namespaces") == "0" {
		all = append(all, Obstacle{
			Reason: "no user namespace may be created (user.max_user_namespaces)",
			Remedy: "allow user namespaces: sudo sysctl -w user.max_user_namespaces=15000",
		})
	}
	if m.User == 0 {
		return all // the others are for ordinary users
	}
	if m.Setting("kernel/unprivileged_userns_clone") == "0" {
		all = append(all, Obstacle{
			Reason: "only root may create user namespaces (kernel.unprivileged_userns_clone)",
			Remedy: "allow them for ordinary users: sudo sysctl -w kernel.unprivileged_userns_clone=1",
		})
	}
	if m.Setting("kernel/apparmor_restrict_unprivileged_userns") == "1" && !m.hasProfile() {
		all = append(all, Obstacle{
			Reason: "AppArmor takes the capabilities in new user namespaces away from programs without a profile " +
				"(kernel.apparmor_restrict_unprivileged_userns)",
			Remedy: "give guild its AppArmor profile: echo '" + profile(m.Program) + "' | sudo tee /etc/apparmor.d/guild && " +
				"sudo apparmor_parser -r /etc/apparmor.d/guild; or lift the restriction for every program: " +
				"sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
		})
	}
	return all
}

// profile returns packaging/apparmor/guild for a program, without its comments, on one line.
func profile(program string) string {
	return fmt.Sprintf("abi <abi/4.0>, include <tunables/global> "+
		`profile guild "%s" flags=(unconfined) { userns, include if exists <local/guild> }`, program)
}

// hasProfile reports whether the program runs under an AppArmor profile. The restriction of user namespaces applies to
// programs without one. If the profile forbids them, a second profile would not help.
func (m Machine) hasProfile() bool {
	b, err := fs.ReadFile(m.Files, "proc/self/attr/current")
	return err == nil && strings.Trim(string(b), "\x00\n") != "unconfined"
}

// Setting returns a value below /proc/sys, without surrounding space; empty if the kernel does not have it.
func (m Machine) Setting(name string) string {
	b, _ := fs.ReadFile(m.Files, "proc/sys/"+name)
	return strings.TrimSpace(string(b))
}

// Filtered reports whether the program is under a system call filter, such as that of a container.
func (m Machine) Filtered() bool {
	b, _ := fs.ReadFile(m.Files, "proc/self/status")
	return strings.Contains(string(b), "\nSeccomp:\t2")
}
