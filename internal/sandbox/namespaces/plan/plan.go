// Package plan is what the starter of a run and the run's first process tell each other: a Plan, and then
// Messages. Both sides are ours; the encoding is bounded all the same, because one of them stands in the midst of
// strangers. It imports next to nothing, for the first process must start within a millisecond.
package plan

// Plan says what the first process is to make of its namespaces, and what it is to start there.
//
// The first process gets its own descriptors after those that the command gets (0, 1, 2 and Passed more), in
// this order: the encoded plan, the control socket, then, if the plan has them, Copies, Collect's and the Trees.
type Plan struct {
	Binds    []Bind // in order: a later one may lie below an earlier one
	Links    []Link
	Files    []File
	Dirs     []string // empty directories
	Hidden   []string // directories of the binds that appear empty
	Proc     Proc
	Terminal bool    // a new /dev/pts
	Scratch  Scratch // the bounded temporary file system
	Trees    int     // how many descriptors are detached mounts

	Hostname string
	Loopback bool // the network namespace is new: start its loopback
	Guard    bool // the command could send signals to the first process, which is to shrug them off

	Argv    []string
	Env     []string
	Dir     string
	Passed  int    // descriptors of the command from 3 on
	User    int    // user and group of the command
	Change  bool   // the first process has another user, and changes for the command
	Trusted bool   // the command is ours: it keeps all privileges within its user namespace
	Filter  []byte // of system calls: an array of struct sock_filter; empty for none
	Asking  bool   // the filter puts calls to a supervisor
	Rules   Rules
	Rlimits []Rlimit

	Copies   bool     // a tar stream of files is to be laid out
	Places   []string // where its files may be
	ReadOnly []string // what nobody may change from then on
	Collect  []string // what is sent out in the end: names below Workspace
	Workdir  string   // the directory that Collect's names are below
	Bytes    int64    // of files, that are sent out at most
	Entries  int64    // files and directories, that are sent out at most
}

// Bind shows something of the host.
type Bind struct {
	From     string // a path of the host's, unless Tree says otherwise
	Tree     int    // 0, or the position of a detached mount among the Trees, from 1
	Inside   string
	Writable bool
	Optional bool // leave it out where it is not there
	Device   bool // it is, or holds, device nodes
}

// Link is a symbolic link.
type Link struct{ To, Inside string }

// File is a read-only file.
type File struct{ Inside, Content string }

// Proc says what /proc shows.
type Proc int

// What /proc shows: nothing at all; the processes of the run; everything that a process namespace allows, as
// mounting another one below it demands.
const (
	NoProc Proc = iota
	ProcessesOnly
	FullProc
)

// Scratch is one temporary file system, parts of which appear in several places. Without Bytes there is none.
type Scratch struct {
	Bytes, Inodes int64
	Parts         []Part
}

// Part is a directory of the scratch file system.
type Part struct {
	Inside string
	Mode   uint32
	Mine   bool     // belongs to the command's user, else to the first process's
	Dirs   []string // directories in it that belong to the command's user
}

// Rules are Landlock's. Without ABI there are none.
type Rules struct {
	ABI      int
	Writable []string // files and directories
}

// Rlimit is a resource limit.
type Rlimit struct {
	Resource int
	Value    uint64
}

// Kinds of messages.
const (
	Failed   = 'f' // the world could not be built: Errno, Text
	Listener = 'l' // the filter is in force; its listener comes with the message
	Started  = 's' // the command runs; a pidfd of it comes with the message
	Ended    = 'e' // the command and everything that it started have ended: Status, CPU, Memory, Disk, Full
)

// Message is what the first process reports on the control socket, in packets. When that socket ends, the first
// process does, and with it, by the rules of a process namespace, the whole run.
type Message struct {
	Kind   byte
	Errno  int
	Text   string
	Status uint32 // of the command, as wait(2) gives it
	CPU    int64  // microseconds, user and system, of all that was waited for
	Memory int64  // bytes that the largest process had resident
	Disk   int64  // bytes in use in the scratch file system
	Full   bool   // it has no room for another page or file
}

// MaxMessage is the longest encoded message in bytes.
const MaxMessage = 4096
