package config_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"guild/internal/config"
)

func TestHomeHoldsEverything(t *testing.T) {
	home := t.TempDir()
	for name, load := range map[string]func() (config.Config, error){
		"flag": func() (config.Config, error) { return config.Load(home, nil) },
		"environment": func() (config.Config, error) {
			return config.Load("", []string{"GUILD_HOME=" + home, "HOME=/elsewhere"})
		},
	} {
		c, err := load()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, path := range []string{c.Paths.Config, c.Paths.Data, c.Paths.State, c.Paths.Runtime, c.Socket(), c.JournalDir(), c.HighWater()} {
			if !strings.HasPrefix(path, home) {
				t.Errorf("%s: %s is outside", name, path)
			}
		}
	}
}

func TestXDGDirectories(t *testing.T) {
	c, err := config.Load("", []string{"HOME=/home/a", "XDG_CONFIG_HOME=/c", "XDG_STATE_HOME=relative", "XDG_RUNTIME_DIR=/run/user/7"})
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		c.Paths.Config: "/c/guild/config.toml", c.Paths.Data: "/home/a/.local/share/guild",
		c.Paths.State: "/home/a/.local/state/guild", filepath.Dir(filepath.Dir(c.Socket())): "/run/user/7/guild",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if _, err := config.Load("", []string{"XDG_CONFIG_HOME=/c"}); err == nil {
		t.Error("no HOME, and nothing is said")
	}
}

func TestTwoHomesAreTwoNodes(t *testing.T) {
	sockets := map[string]bool{}
	for _, environ := range [][]string{
		{"HOME=/home/a"}, {"HOME=/home/b"}, {"HOME=/home/a", "XDG_RUNTIME_DIR=/run/user/7"}, {"HOME=/home/b", "XDG_RUNTIME_DIR=/run/user/7"},
		{"HOME=/home/a", "XDG_RUNTIME_DIR=/run/user/7", "XDG_DATA_HOME=/data"},
	} {
		c, err := config.Load("", environ)
		if err != nil {
			t.Fatal(err)
		}
		sockets[c.Socket()] = true
	}
	if len(sockets) != 5 {
		t.Errorf("5 homes have the sockets %v", sockets)
	}
	c, err := config.Load("", []string{"HOME=/home/c", "XDG_DATA_HOME=/data", "XDG_RUNTIME_DIR=/run/user/7"})
	if err != nil || !sockets[c.Socket()] {
		t.Errorf("one data directory has two sockets: %s, %v", c.Socket(), err)
	}
}

func TestSocketPathLength(t *testing.T) {
	deep := filepath.Join(t.TempDir(), strings.Repeat("deep/", 40))
	for _, environ := range [][]string{nil, {"XDG_RUNTIME_DIR=/" + strings.Repeat("x", 100)}, {"XDG_RUNTIME_DIR=/run/user/7"}} {
		a, err := config.Load(deep, environ)
		if err != nil {
			t.Fatal(err)
		}
		b, err := config.Load(deep+"er", environ)
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Socket()) > 103 {
			t.Errorf("%d bytes: %s", len(a.Socket()), a.Socket())
		}
		if a.Socket() == b.Socket() {
			t.Error("two homes share a socket")
		}
	}
}

func TestSocketDirectoryIsPrivate(t *testing.T) {
	c, err := config.Load(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(c.Socket())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.PrepareRuntime(); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(dir); info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v", info.Mode())
	}
	l, err := net.Listen("unix", c.Socket())
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestLinkedSocketDirectoryRefused(t *testing.T) {
	c, err := config.Load(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), filepath.Dir(c.Socket())); err != nil {
		t.Fatal(err)
	}
	if err := c.PrepareRuntime(); err == nil {
		t.Error("a link was taken for our directory")
	}
}
