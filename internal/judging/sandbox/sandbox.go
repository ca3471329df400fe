// Package sandbox runs untrusted commands: a stranger's agent on the provider's side, a stranger's delivery on the
// customer's. It defines limits and breaches. It does not know what a run is for or what its output means.
//
// A Runner isolates a command. Without a usable Runner no command is run: tiers.Best then returns an *UnusableError
// that says what to install.
//
// Every run sees the same files: the host's programs and libraries read-only, an almost empty /etc, a fresh /proc and
// /dev, and one bounded temporary file system for the workspace, /tmp and /dev/shm together. It sees nothing of the
// host's environment, home directories, configuration or processes, and no network but an empty loopback unless the
// Spec asks for one. When the command ends, all processes that it started are killed.
package sandbox

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
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
	Workspace = "/box/work" // working directory if Spec.Dir is empty; writable, and empty but for copies
	Home      = "/box/home" // an empty home directory, for programs that require one
	Judge     = "/judge"    // for the judge's own files, beside the workspace
	Temp      = "/tmp"
)

// File descriptors inside every sandbox, beside the standard three.
const (
	ResultsFD = 3 // its output goes to IO.Results
	ChannelFD = 4 // IO.Channel, if there is one
)

// ServePort is the port on 127.0.0.1 inside a sandbox whose connections go to IO.Serve.
const ServePort = 7777

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

// Values of Result.Killed.
const (
	KilledWall   = "wall"
	KilledCPU    = "cpu"
	KilledMemory = "memory"
	KilledPids   = "pids"
	KilledDisk   = "disk"
	KilledOutput = "output"
)

// Caps describes what a runner can do on this machine.
type Caps struct {
	Tier   string // its name in verdicts, as "namespaces"
	Usable bool
	MAC    string   // the mandatory access control in force, as "landlock 7"; empty if there is none
	Rootfs string   // source of the programs and libraries: "host", or the hash of an image, "sha256:…"
	Forks  bool     // keeps an interpreter warm for Spec.Program and forks it
	Reason string   // why it is not usable
	Remedy string   // one line that makes it usable, as "install podman: apt-get install podman crun"
	Gaps   []string // shortcomings on this machine, for people; shown by guild doctor

	// Lacks are the missing features of the contract, for programs.
	Lacks []Feature
}

// Feature is an ability that not every runner has. None of them is about isolation: every runner refuses what a run
// must not do.
type Feature string

// Features of a runner.
const (
	ReportsEscapes     Feature = "reports escapes"           // an attempt to escape is a Breach
	ReportsDescendants Feature = "reports descendants"       // also that of a process that the command started
	ReportsNetwork     Feature = "reports network attempts"  // an attempt to reach the network is a Breach
	ReportsAddresses   Feature = "reports addresses"         // and names the address
	LimitsInodes       Feature = "limits inodes"             // Limits.Inodes is enforced
	LimitsShared       Feature = "limits /dev/shm"           // Limits.Disk covers it
	NamesLimits        Feature = "names limits"              // Killed names the limits of processes and disk
	MeasuresDisk       Feature = "measures disk"             // Usage.DiskPeak
	MeasuresPids       Feature = "measures processes"        // Usage.PidsPeak
	CountsRefused      Feature = "counts refused calls"      // Usage.Refused
	SharesNetwork      Feature = "shares the host's network" // Spec.Network
	OrdinaryUser       Feature = "runs as user 1000"         // whichever user runs guild
	KeepsFirst         Feature = "keeps its first process"   // a run cannot kill or stop its own first process
	CollectsKilled     Feature = "collects from a killed run"
	ServesInside       Feature = "serves connections from inside" // IO.Serve
)

// Has reports whether the runner has a feature.
func (c Caps) Has(f Feature) bool { return !slices.Contains(c.Lacks, f) }

// Mount makes a file or directory of the host visible inside.
type Mount struct {
	Host, Inside string // absolute paths
	Writable     bool   // writes go to the host and do not count against Limits.Disk
}

// Copy puts a private, writable copy of a directory of the host inside. Only regular files and directories are
// copied: a link, device or socket is an error, because a stranger may have made it. Its bytes count against
// Limits.Disk. Where two copies overlap, the later one wins.
type Copy struct {
	Host   string // absolute path of a directory
	Inside string // absolute path below Workspace, Home or Judge

	// ReadOnly keeps the run from changing the copy. Such a copy must not lie below another.
	ReadOnly bool

	// Skip reports whether to omit a file or a whole directory. The name is relative to Host, with slashes. Nil omits
	// nothing.
	Skip func(name string) bool
}

// Limits bound one run; zero fields take the defaults.
type Limits struct {
	Wall   time.Duration // from the start of the command to the end of all its processes
	CPU    time.Duration // processor time of all processes together
	Memory int64         // bytes, all processes and the workspace together
	Disk   int64         // bytes in the workspace, Temp and /dev/shm together
	Output int64         // bytes kept of each of stdout, stderr and results; the run is killed at 16 times that in total
	Pids   int           // processes and threads at one time

	CPUs       int           // processors in use at one time
	Inodes     int64         // files and directories in the same places as Disk
	SoftCPU    time.Duration // exceeding it is a warning
	SoftMemory int64         // bytes; exceeding it is a warning
}

// WithDefaults returns the limits with defaults in place of zero fields.
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

// Profile is a set of system calls that a run may make. Other calls fail as on a kernel without them (ENOSYS) and are
// counted in Usage.Refused. Only an attempt to escape or to reach the network is a breach.
type Profile string

// Profiles of system calls.
const (
	Standard Profile = "standard" // the default: also threads, processes, local sockets, asyncio, databases
	Strict   Profile = "strict"   // a plain computation
)

// Program is a Python program in two parts. A runner may execute Setup once, in a trusted process that it forks for each
// run, and only main() for each run. Setup is our own source: it imports modules and defines main(). It must not read
// input, start threads, or keep state that differs from run to run.
type Program struct {
	Name  string // for reports, as "examiner"
	Setup string
}

// maxPlain is the longest program that is passed as it is, in bytes. Linux takes arguments of 128 KiB.
const maxPlain = 96 << 10

// Source returns the whole program, for python3 -c. A long one is compressed.
func (p *Program) Source() string {
	plain := p.Setup + "\n\nmain()\n"
	if len(plain) <= maxPlain {
		return plain
	}
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed) // writing to memory does not fail
	w.Write([]byte(plain))
	w.Close()
	return "import base64, zlib\nexec(compile(zlib.decompress(base64.b64decode('" + base64.StdEncoding.EncodeToString(packed.Bytes()) +
		"')), '<string>', 'exec'))\n"
}

// Spec describes one run.
type Spec struct {
	Argv    []string // Argv[0] is an absolute path or a name found on PATH of Env
	Program *Program // nil, or the program for Argv, which is then a Python interpreter with its options
	Profile Profile
	Env     []string // "NAME=value"; complete: nothing is inherited
	Dir     string   // working directory; Workspace if empty
	Mounts  []Mount
	Copies  []Copy
	Network bool // share the host's network; otherwise there is only an empty loopback
	Limits  Limits

	// Collect names files and directories below Workspace that are written to IO.Files after all processes have ended.
	// Missing ones, and what is neither a file nor a directory, are skipped.
	Collect []string
}

// IO has the streams of a run. Nil readers are empty, nil writers discard. Output arrives as it is written, so a
// writer can follow a long run.
type IO struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Results        io.Writer // output of descriptor ResultsFD
	Files          io.Writer // a tar stream of the files of Spec.Collect, below Workspace; their content is untrusted

	// Channel is a connected stream socket to another run. The command has it as descriptor ChannelFD. Run closes it, so
	// the other side reads the end of the stream when this run ends.
	Channel *os.File

	// Serve gets a listener for the connections that the command makes to ServePort. It is for a run without a network,
	// which can reach this and nothing else. Run closes the listener when the command has ended, and waits until Serve
	// has returned; then it must have closed the connections, too. A runner without the feature refuses the run.
	Serve func(net.Listener)
}

// CannotServe returns the error of a runner without the feature ServesInside.
func CannotServe(tier string) error {
	return fmt.Errorf("the %s tier of the sandbox cannot pass connections out of a run", tier)
}

// Whole is a writer of IO that gets its whole stream, not only the first Limits.Output bytes. The stream still counts
// against the total after which a run is killed, unless it is Free: the writer then has limits of its own.
type Whole struct {
	io.Writer
	Free bool
}

// Result says how a run ended.
type Result struct {
	Exit     int    // the exit code; 128 plus the signal's number if a signal ended it
	Signal   string // "SIGSEGV" and the like; empty for an ordinary exit
	Killed   string // the limit that it was killed for, one of the Killed constants; empty if none
	Cut      bool   // output was longer than Limits.Output
	Usage    guild.Usage
	Breaches []guild.Breach // attempts to escape or to reach the network, all of them refused
	Warnings []string       // such as exceeded soft limits; they do not change the result
}

// Runner runs commands in sandboxes. Its methods may be called concurrently; runs share nothing.
type Runner interface {
	// Probe runs a command and reports what works.
	Probe(ctx context.Context) Caps

	// Run runs a command to its end. The error is about the sandbox or ctx; a program that fails, or is killed for a
	// limit, is a Result. When Run returns, no process, mount or file of the run is left.
	Run(ctx context.Context, s Spec, streams IO) (Result, error)
}

// UnusableError is the error of a machine on which no runner works.
type UnusableError struct {
	Reason string
	Remedy string // what would help, one line
}

func (e *UnusableError) Error() string {
	return fmt.Sprintf("no sandbox is usable: %s", e.Reason)
}

// Check returns an error if no runner can run the spec, or if it is ambiguous.
func (s Spec) Check() error {
	if len(s.Argv) == 0 {
		return errors.New("sandbox: no command")
	}
	for _, v := range append(slices.Clone(s.Env), s.Argv...) {
		// execve(2) would cut the string there.
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

// checkCopies rejects copies outside of the sandbox's own directories, and copies in each other if one is read-only: a
// runner makes a read-only copy unwritable as a whole.
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

// Command returns the command line of a run for a runner that does not fork a warm interpreter.
func (s Spec) Command() []string {
	if s.Program == nil {
		return s.Argv
	}
	return append(slices.Clone(s.Argv), "-c", s.Program.Source())
}

// below reports whether a path is dir or in it.
func below(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }
