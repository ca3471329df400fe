package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// Paths holds the locations of the node's files. Without a home they follow the XDG base directories; with one (--home,
// GUILD_HOME) all of them are inside it.
type Paths struct {
	Config  string // config.toml
	Data    string // identity, journal, blobs, the embedded relay's data
	State   string // logs and other files that may be lost
	Runtime string // control socket
	Nook    string // what agents and hooks report to the node: NOOK_HOME, or ~/.nook

	short string // directory for a socket whose path would be too long
}

// ErrNoHome is the error where nothing says in which directory the node's files are.
var ErrNoHome = errors.New("there is no place for files")

// maxSocket is the maximum length of a Unix socket's path on macOS, without the final zero byte. Linux allows four bytes more.
const maxSocket = 103

// locate returns the paths. If home is empty, it is GUILD_HOME, or else the XDG directories are used.
func locate(home string, getenv func(string) string) (Paths, error) {
	if home == "" {
		home = getenv("GUILD_HOME")
	}
	if home == "" {
		return locateXDG(getenv)
	}
	dir, err := filepath.Abs(home)
	if err != nil {
		return Paths{}, fmt.Errorf("home %s: %w", home, err)
	}
	return Paths{
		Config:  filepath.Join(dir, "config.toml"),
		Data:    dir,
		State:   filepath.Join(dir, "state"),
		Runtime: filepath.Join(dir, "run"),
		Nook:    cmp.Or(getenv("NOOK_HOME"), filepath.Join(dir, "nook")),
		short:   shortDir(getenv),
	}, nil
}

// locateXDG returns the paths according to the XDG base directory specification. Homes may share a runtime directory, so that
// of a node is named after its data directory.
func locateXDG(getenv func(string) string) (Paths, error) {
	p := Paths{short: shortDir(getenv)}
	for _, d := range []struct {
		to        *string
		variable  string
		underHome string
	}{
		{&p.Config, "XDG_CONFIG_HOME", ".config"},
		{&p.Data, "XDG_DATA_HOME", ".local/share"},
		{&p.State, "XDG_STATE_HOME", ".local/state"},
	} {
		base := getenv(d.variable)
		if !filepath.IsAbs(base) { // the XDG specification says to ignore a relative path
			base = filepath.Join(cmp.Or(getenv("HOME"), getenv("USERPROFILE")), d.underHome) // the latter is Windows' HOME
		}
		if !filepath.IsAbs(base) {
			return Paths{}, fmt.Errorf("neither HOME nor %s is set: %w", d.variable, ErrNoHome)
		}
		*d.to = filepath.Join(base, "guild")
	}
	p.Config = filepath.Join(p.Config, "config.toml")
	p.Nook = cmp.Or(getenv("NOOK_HOME"), filepath.Join(cmp.Or(getenv("HOME"), getenv("USERPROFILE"), filepath.Dir(p.Data)), ".nook"))
	p.Runtime = filepath.Join(p.short, shortName(p.Data))
	return p, nil
}

// shortDir returns the user's runtime directory or, if there is none, a directory of the user under /tmp.
func shortDir(getenv func(string) string) string {
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && len(dir) < maxSocket/2 {
		return filepath.Join(dir, "guild")
	}
	return filepath.Join("/tmp", "guild-"+strconv.Itoa(os.Getuid()))
}

// Socket returns the path of the control socket. If it would be too long for a Unix socket, it is a short name in the
// user's runtime directory, derived from the long one.
//
// The hash in the short name keeps several homes apart.
func (c Config) Socket() string {
	path := filepath.Join(c.Paths.Runtime, "guild.sock")
	if len(path) <= maxSocket {
		return path
	}
	return filepath.Join(c.Paths.short, shortName(path)+".sock")
}

// shortName returns 16 hex digits of the hash of a path.
func shortName(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:8])
}

// JournalDir returns the directory of the journal.
func (c Config) JournalDir() string {
	if c.Journal.Dir != "" {
		return c.Journal.Dir
	}
	return filepath.Join(c.Paths.Data, "journal")
}

// HighWater returns the path of a file outside the journal that also stores how far the journal got. It reveals that
// the journal was replaced by an old copy.
func (c Config) HighWater() string { return filepath.Join(c.Paths.State, "journal.high") }

// MakeDirs creates the directories for data and state, accessible only to this user.
func (p Paths) MakeDirs() error {
	return errors.Join(os.MkdirAll(p.Data, 0o700), os.MkdirAll(p.State, 0o700))
}

// PrepareRuntime creates all directories that a node needs. It refuses a directory for the control socket that belongs
// to another user, and removes the access of others: a client of the socket controls the node.
func (c Config) PrepareRuntime() error {
	dir := filepath.Dir(c.Socket())
	if err := errors.Join(c.Paths.MakeDirs(), os.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	if filepath.Dir(dir) == c.Paths.short {
		if err := private(c.Paths.short); err != nil {
			return err
		}
	}
	return private(dir)
}

// private makes a directory accessible only to its owner. Lstat does not follow a link, which another user may have
// placed in /tmp.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeDir || !owned(info) {
		return fmt.Errorf("%s is not a directory of ours", dir)
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return os.Chmod(dir, 0o700)
}
