package container

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"guild/internal/judging/sandbox"
)

// bundle is config.json of the OCI runtime specification, version 1.0, with the fields that we use.
type bundle struct {
	Version  string     `json:"ociVersion"`
	Process  process    `json:"process"`
	Root     rootfs     `json:"root"`
	Hostname string     `json:"hostname"`
	Mounts   []ociMount `json:"mounts"`
	Linux    linux      `json:"linux"`
}

type process struct {
	User struct {
		UID int `json:"uid"`
		GID int `json:"gid"`
	} `json:"user"`
	Args            []string `json:"args"`
	Env             []string `json:"env"`
	Cwd             string   `json:"cwd"`
	Capabilities    struct{} `json:"capabilities"` // none
	NoNewPrivileges bool     `json:"noNewPrivileges"`
	Rlimits         []rlimit `json:"rlimits"`
}

type rlimit struct {
	Type string `json:"type"`
	Hard uint64 `json:"hard"`
	Soft uint64 `json:"soft"`
}

type rootfs struct {
	Path     string `json:"path"`
	Readonly bool   `json:"readonly"`
}

type ociMount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options"`
}

type linux struct {
	Namespaces  []namespace `json:"namespaces"`
	UIDMappings []mapping   `json:"uidMappings,omitempty"`
	GIDMappings []mapping   `json:"gidMappings,omitempty"`
	Seccomp     *seccomp    `json:"seccomp,omitempty"`
}

type namespace struct {
	Type string `json:"type"`
}

type mapping struct {
	Inside  int `json:"containerID"`
	Outside int `json:"hostID"`
	Size    int `json:"size"`
}

// nobody is the host user that is root inside, if the run is sandbox.User and thus the host's root.
const nobody = 65534

// writeBundle writes the bundle of a run to its directory. uid is the user inside.
func (r *run) writeBundle(uid int) error {
	_, binds, err := r.skeleton(uid, false)
	if err != nil {
		return err
	}
	b := bundle{Version: "1.0.2", Hostname: "box", Root: rootfs{Path: "root", Readonly: true}}
	b.Process = process{Args: entry(r.spec), Env: append([]string{}, r.spec.Env...), Cwd: "/", NoNewPrivileges: true}
	// These apply to each process. gVisor's kernel counts more processor time than was used on a busy machine, so the
	// limit is four times as high, and the watch from outside ends the run first.
	for name, n := range map[string]uint64{
		"RLIMIT_CPU":    4 * (uint64(r.spec.Limits.CPU/time.Second) + 1),
		"RLIMIT_FSIZE":  uint64(r.spec.Limits.Disk),
		"RLIMIT_NOFILE": 1024,
		"RLIMIT_CORE":   0,
	} {
		b.Process.Rlimits = append(b.Process.Rlimits, rlimit{Type: name, Hard: n, Soft: n})
	}
	b.Process.User.UID, b.Process.User.GID = uid, uid
	b.Mounts = r.ociMounts(binds)
	for _, kind := range []string{"pid", "ipc", "uts", "mount", "network", "user"} {
		if kind == "user" && uid == 0 || kind == "network" && r.spec.Network {
			continue
		}
		b.Linux.Namespaces = append(b.Linux.Namespaces, namespace{kind})
	}
	if uid != 0 {
		b.Linux.UIDMappings = []mapping{{uid, os.Geteuid(), 1}, {0, nobody, 1}}
		b.Linux.GIDMappings = []mapping{{uid, os.Getegid(), 1}, {0, nobody, 1}}
	}
	b.Linux.Seccomp = gvisorSeccomp()
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, "config.json"), text, 0o644)
}

// ociMounts returns the mounts of a run. Each writable directory has its own file system here, and gets a part of the
// disk limit.
func (r *run) ociMounts(binds []bind) []ociMount {
	disk := r.spec.Limits.Disk
	shm, temp, judged := disk/8, disk/4, int64(0)
	if r.spec.WritesJudge() {
		judged = disk / 8
	}
	boxes := disk - shm - temp - judged
	mount := func(at, kind string, options ...string) ociMount {
		return ociMount{Destination: at, Type: kind, Source: kind, Options: options}
	}
	tmpfs := func(at, mode string, size int64) ociMount {
		return mount(at, "tmpfs", "nosuid", "nodev", "mode="+mode, "size="+strconv.FormatInt(size, 10))
	}
	// gVisor would own the parent directories of a mount, so they are file systems of their own.
	own := map[string]int64{}
	for _, dir := range []string{sandbox.Workspace, sandbox.Home} {
		if slices.ContainsFunc(binds, func(b bind) bool { return strings.HasPrefix(b.inside, dir+"/") }) {
			own[dir] = boxes / 2
			boxes -= boxes / 2
		}
	}
	mounts := []ociMount{
		mount("/proc", "proc", "nosuid", "noexec", "nodev"),
		mount("/dev", "tmpfs", "ro", "nosuid", "mode=0755", "size=65536"),
		mount("/sys", "tmpfs", "ro", "size=4096"), // otherwise gVisor mounts its own
		tmpfs("/dev/shm", "1777", shm), tmpfs("/tmp", "1777", temp), tmpfs(sandbox.Box, "0777", boxes),
	}
	for dir, size := range own {
		mounts = append(mounts, tmpfs(dir, "0777", size))
	}
	if judged > 0 {
		mounts = append(mounts, tmpfs(sandbox.Judge, "0777", judged))
	}
	for _, m := range binds {
		kind := "ro"
		if m.writable {
			kind = "rw"
		}
		mounts = append(mounts, ociMount{
			Destination: m.inside, Type: "bind", Source: m.host, Options: []string{"rbind", kind, "nosuid", "nodev"},
		})
	}
	return mounts
}
