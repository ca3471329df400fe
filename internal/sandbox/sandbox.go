// Package sandbox runs commands that nobody trusts: a stranger's agent on the provider's side, a stranger's
// delivery on the customer's. It owns the meaning of a limit and of a breach; what a run is for, and what its
// output means, is the caller's business.
//
// Whatever builds the walls is behind Runner. It never runs a command without them: where no runner is usable,
// tiers.Best returns an *UnusableError that says what to install.
//
// Every run sees the same world: the host's programs and libraries read-only, an almost empty /etc, a fresh
// /proc and /dev, and one bounded temporary file system that is the workspace, /tmp and /dev/shm at once.
// Nothing of the host's environment, homes, configuration or processes is there, nor, unless the Spec says so,
// any network but an empty loopback. When the command ends, everything it started ends with it.
package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"guild"
)

// Places inside every sandbox.
const (
	Workspace = "/box/work" // where a run starts when Spec.Dir is empty; writable and empty
	Home      = "/box/home" // an empty home directory, for programs that insist on one
	Judge     = "/judge"    // for what the judge lays out beside the workspace
	Temp      = "/tmp"
)

// Descriptors inside every sandbox, beside the usual three.
const (
	ResultsFD = 3 // what is written to it arrives at IO.Results
	ChannelFD = 4 // one end of IO.Channel, if that is given
)

// Defaults of Limits.
const (
	DefaultWall   = 5 * time.Minute
	DefaultCPU    = 60 * time.Second
	DefaultMemory = 4 << 30
	DefaultDisk   = 100 << 20
	DefaultOutput = 1 << 20
	DefaultPids   = 100

	DefaultCPUs       = 2
	DefaultInodes     = 20_000
	DefaultSoftCPU    = 30 * time.Second
	DefaultSoftMemory = 512 << 20
)

// Causes of Result.Killed.
const (
	KilledWall   = "wall"
	KilledCPU    = "cpu"
	KilledMemory = "memory"
	KilledPids   = "pids"
	KilledDisk   = "disk"
	KilledOutput = "output"
)

// Caps says what a runner can do on this machine.
type Caps struct {
	Tier   string // its name in verdicts, as "namespaces"
	Usable bool
	MAC    string   // the mandatory access control in force, as "landlock 7"; empty if none is
	Rootfs string   // what the programs and libraries are: "host", or the hash of an image, "sha256:…"
	Forks  bool     // keeps an interpreter warm for Spec.Program and forks it
	Reason string   // why it is not usable
	Remedy string   // one line that makes it usable, as "install podman: apt-get install podman crun"
	Gaps   []string // what it does less well here than it should; shown by guild doctor

	// Lacks are the features of the contract that it does not have here, for programs; Gaps says them to people.
	Lacks []Feature
}

// Feature is something that not every runner can do. What a run must not do is refused by all of them, and what
// it does not need of these decides nothing.
type Feature string

// The features.
const (
	ReportsEscapes     Feature = "reports escapes"           // an attempt to escape is a Breach
	ReportsDescendants Feature = "reports descendants"       // also one of a process that the command started
	ReportsNetwork     Feature = "reports network attempts"  // an attempt to reach out is a Breach
	ReportsAddresses   Feature = "reports addresses"         // and says where to
	LimitsInodes       Feature = "limits inodes"             // Limits.Inodes bites
	LimitsShared       Feature = "limits /dev/shm"           // Limits.Disk holds there, too
	NamesLimits        Feature = "names limits"              // Killed tells processes and disk from an ordinary end
	MeasuresDisk       Feature = "measures disk"             // Usage.DiskPeak
	MeasuresPids       Feature = "measures processes"        // Usage.PidsPeak
	CountsRefused      Feature = "counts refused calls"      // Usage.Refused
	SharesNetwork      Feature = "shares the host's network" // Spec.Network
	OrdinaryUser       Feature = "runs as user 1000"         // whatever user runs guild
	KeepsFirst         Feature = "keeps its first process"   // a run cannot end or stop the process that all of it ends with
	CollectsKilled     Feature = "collects from a killed run"
)

// Has reports whether the runner has a feature.
func (c Caps) Has(f Feature) bool { return !slices.Contains(c.Lacks, f) }

// Mount makes a file or directory of the host visible inside.
type Mount struct {
	Host, Inside string // absolute paths
	Writable     bool   // what is written there lands on the host, outside Limits.Disk
}

// Copy puts a private, writable copy of a directory of the host inside. Only regular files and directories are
// copied: a link, device or socket is an error, because a stranger may have made it. Its bytes count against
// Limits.Disk. Where two copies meet, the later one wins.
type Copy struct {
	Host   string // absolute path of a directory
	Inside string // absolute path below Workspace, Home or Judge

	// ReadOnly keeps the run from changing what was copied. Such a copy may not lie below another.
	ReadOnly bool

	// Skip reports whether to leave a file or a whole directory out. The name is relative to Host, with
	// slashes. Nil leaves nothing out.
	Skip func(name string) bool
}

// Limits bound one run; zero fields take the defaults.
type Limits struct {
	Wall   time.Duration // from the start to the end of everything
	CPU    time.Duration // all processes together
	Memory int64         // bytes, all processes and the workspace together
	Disk   int64         // bytes in the workspace, Temp and /dev/shm together
	Output int64         // bytes kept of each of stdout, stderr and results; 16 times that in total kills the run
	Pids   int           // processes and threads at one time

	CPUs       int           // processors that may be busy at one time
	Inodes     int64         // files and directories in the same places as Disk
	SoftCPU    time.Duration // passing it is a warning
	SoftMemory int64         // bytes; passing it is a warning
}

// WithDefaults fills the zero fields in.
func (l Limits) WithDefaults() Limits {
	l.Wall = cmp.Or(l.Wall, DefaultWall)
	l.CPU = cmp.Or(l.CPU, DefaultCPU)
	l.Memory = cmp.Or(l.Memory, DefaultMemory)
	l.Disk = cmp.Or(l.Disk, DefaultDisk)
	l.Output = cmp.Or(l.Output, DefaultOutput)
	l.Pids = cmp.Or(l.Pids, DefaultPids)
	l.CPUs = cmp.Or(l.CPUs, DefaultCPUs)
	l.Inodes = cmp.Or(l.Inodes, DefaultInodes)
	l.SoftCPU = cmp.Or(l.SoftCPU, min(DefaultSoftCPU, l.CPU))
	l.SoftMemory = cmp.Or(l.SoftMemory, min(DefaultSoftMemory, l.Memory))
	return l
}

// Profile is a set of system calls that a run may make.
type Profile string

// The profiles: what a wide program needs (threads, processes, sockets of its own, asyncio, databases), and what
// a plain computation does. What neither allows is refused as an old kernel would (ENOSYS) and counted in
// Usage.Refused; only an attempt to escape or to reach out is a breach.
const (
	Standard Profile = "standard" // the default
	Strict   Profile = "strict"
)

// Program is a Python program in two parts, so that a runner may do the first once, in a trusted process that
// it forks for each run. Setup is our own source: it imports, and defines main(). It must not read anything,
// start threads, or keep what differs from run to run; main() does the work.
type Program struct {
	Name  string // for evidence, as "examiner"
	Setup string
}

// Source is the program in one part, for python3 -c.
func (p *Program) Source() string { return p.Setup + "\n\nmain()\n" }

// Spec is one run.
type Spec struct {
	Argv    []string // Argv[0] is an absolute path or a name found on PATH of Env
	Program *Program // nil, or what Argv, a Python interpreter with its options, is to run
	Profile Profile
	Env     []string // "NAME=value"; complete: nothing is inherited
	Dir     string   // where it starts; Workspace if empty
	Mounts  []Mount
	Copies  []Copy
	Network bool // the host's network; without it only an empty loopback
	Limits  Limits

	// Collect names files and directories below Workspace that are handed to IO.Files when the command has
	// ended and nothing of it runs any more. What is not there, and what is no file, is left out.
	Collect []string
}

// IO is what flows in and out of a run. Nil readers are empty, nil writers discard. Output arrives as it is
// written, so a line-wise writer can follow a long run.
type IO struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Results        io.Writer // what is written to descriptor ResultsFD
	Files          io.Writer // a tar stream of what Spec.Collect names, below Workspace; hostile

	// Channel is a connected stream socket that the run has as descriptor ChannelFD, to talk to another run.
	// Run closes it, early enough that the other side sees the end when the run ends.
	Channel *os.File
}

// Whole is a writer of IO that gets all of its stream, where others get the first Limits.Output bytes. What comes counts
// for the end of a run that writes too much all the same, unless the stream is Free: then its reader has bounds of its
// own, and no length of it ends a run.
type Whole struct {
	io.Writer
	Free bool
}

// Result is how a run ended.
type Result struct {
	Exit     int    // the exit code; 128 plus the signal's number if a signal ended it
	Signal   string // "SIGSEGV" and the like; empty for an ordinary exit
	Killed   string // the limit that ended it, one of the Killed constants; empty if none did
	Cut      bool   // output was longer than Limits.Output
	Usage    guild.Usage
	Breaches []guild.Breach // attempts to escape or to reach out that were seen, all of them refused
	Warnings []string       // soft limits passed and the like; they decide nothing
}

// Runner is something that builds sandboxes. Its methods may be called concurrently; runs share nothing.
type Runner interface {
	// Probe really runs a command and reports what works.
	Probe(ctx context.Context) Caps

	// Run runs a command to its end. The error is about the sandbox or ctx; a program that fails, or that a
	// limit ends, is a Result. When Run returns, nothing of the run is left: no process, mount or file.
	Run(ctx context.Context, s Spec, streams IO) (Result, error)
}

// UnusableError says that no runner works on this machine, and what would help.
type UnusableError struct {
	Reason string
	Remedy string // one line
}

func (e *UnusableError) Error() string {
	return fmt.Sprintf("no sandbox is usable: %s", e.Reason)
}

// Check refuses what no runner can do or what would be ambiguous.
func (s Spec) Check() error {
	if len(s.Argv) == 0 {
		return errors.New("sandbox: no command")
	}
	for _, v := range append(slices.Clone(s.Env), s.Argv...) {
		if strings.ContainsRune(v, 0) {
			return fmt.Errorf("sandbox: %.40q contains a zero byte", v)
		}
	}
	for _, v := range s.Env {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
			return fmt.Errorf("sandbox: environment: %.40q is not NAME=value", v)
		}
	}
	for _, m := range s.Mounts {
		if !path.IsAbs(m.Host) || !path.IsAbs(m.Inside) {
			return fmt.Errorf("sandbox: mount %s at %s: want absolute paths", m.Host, m.Inside)
		}
	}
	if err := s.checkCopies(); err != nil {
		return err
	}
	for _, name := range s.Collect {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("sandbox: collect %q: want a name below %s", name, Workspace)
		}
	}
	if s.Profile != "" && s.Profile != Standard && s.Profile != Strict {
		return fmt.Errorf("sandbox: no profile %q", s.Profile)
	}
	return nil
}

func (s Spec) checkCopies() error {
	for i, c := range s.Copies {
		inside := path.Clean(c.Inside)
		if !path.IsAbs(c.Host) || !below(inside, Workspace) && !below(inside, Home) && !below(inside, Judge) {
			return fmt.Errorf("sandbox: copy %s to %s: want an absolute path and a place in %s", c.Host, c.Inside, Workspace)
		}
		for j, other := range s.Copies {
			at := path.Clean(other.Inside)
			if c.ReadOnly && i != j && below(inside, at) && (inside != at || !other.ReadOnly) {
				return fmt.Errorf("sandbox: read-only copy to %s: lies in the one to %s", c.Inside, other.Inside)
			}
			if c.ReadOnly && !other.ReadOnly && below(at, inside) {
				return fmt.Errorf("sandbox: copy to %s: lies in the read-only one to %s", other.Inside, c.Inside)
			}
		}
	}
	return nil
}

// Command is the whole command line of a run on a runner that starts it as it stands.
func (s Spec) Command() []string {
	if s.Program == nil {
		return s.Argv
	}
	return append(slices.Clone(s.Argv), "-c", s.Program.Source())
}

func below(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }
