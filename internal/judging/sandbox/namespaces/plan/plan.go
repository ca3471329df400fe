// Package plan is the protocol between guild and the first process of a run: a Plan one way, and then Messages the
// other. Both programs are ours, but decoding is bounded anyway, because the first process is close to hostile code.
// The package imports almost nothing, because the first process must start within a millisecond.
package plan

// Plan says what the first process sets up in its namespaces and what it starts there.
//
// The first process has its own descriptors after those of the command (0, 1, 2 and Passed more), in this order: the
// encoded plan, the control socket, then, if the plan has them, those of Copies and Collect, and the Trees.
type Plan struct {
	Binds    []Bind // in order: a later one may lie below an earlier one
	Links    []Link
	Files    []File
	Dirs     []string // empty directories
	Hidden   []string // directories of the binds to be replaced by empty ones
	Proc     Proc
	Terminal bool    // a new /dev/pts
	Scratch  Scratch // the bounded temporary file system
	Trees    int     // how many descriptors are detached mounts

	Hostname string
	Loopback bool // start the loopback of the new network namespace
	Port     int  // of a socket that listens on that loopback and is passed out; 0 for none
	Guard    bool // handle signals, because the command can send them to the first process

	Argv    []string
	Env     []string
	Dir     string
	Passed  int    // descriptors of the command from 3 on
	User    int    // user and group of the command
	Change  bool   // there are several users: the first process becomes root, and changes to User for the command
	Trusted bool   // the command is ours and keeps all privileges within its user namespace
	Filter  []byte // of system calls: an array of struct sock_filter; empty for none
	Asking  bool   // the filter sends calls to a supervisor
	Rules   Rules
	Rlimits []Rlimit

	Copies   bool     // there is a tar stream of files to unpack
	Places   []string // directories where its files may be
	ReadOnly []string // directories to make read-only afterwards
	Collect  []string // files to send at the end: names below Workdir
	Workdir  string   // the directory that contains the files of Collect
	Bytes    int64    // limit of Collect: bytes of files
	Entries  int64    // limit of Collect: files and directories
}

// Begin is sent to the first process when its namespace has users.
const Begin = 1

// Bind mounts a file or directory of the host.
type Bind struct {
	From     string // a path of the host, unless there is a Tree
	Tree     int    // 0, or the position of a detached mount among the Trees, from 1
	Inside   string
	Writable bool
	Optional bool // a missing From is no error
	Device   bool // it is or contains device nodes
}

// Link is a symbolic link.
type Link struct{ To, Inside string }

// File is a read-only file.
type File struct{ Inside, Content string }

// Proc says what /proc shows.
type Proc int

// Values of Proc: no /proc; only the processes of the run; everything that a process namespace shows, which the
// kernel requires for mounting another /proc in a child namespace.
const (
	NoProc Proc = iota
	ProcessesOnly
	FullProc
)

// Scratch is one temporary file system with parts that are mounted separately. Without Bytes there is none.
type Scratch struct {
	Bytes, Inodes int64
	Parts         []Part
}

// Part is a directory of the scratch file system.
type Part struct {
	Inside string
	Mode   uint32
	Mine   bool     // it belongs to the command's user, else to the first process's
	Dirs   []string // directories in it that belong to the command's user
}

// Rules are the rules of Landlock. Without ABI there are none.
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
	Failed   = 'f' // setting up failed: Errno, Text
	Listener = 'l' // the filter is installed; its listener comes with the message
	Serving  = 'p' // a socket listens on Port; it comes with the message
	Started  = 's' // the command runs; its pidfd comes with the message
	Ended    = 'e' // the command and all that it started have ended: Status, CPU, Memory, Disk, Full
)

// Message is a report of the first process, one packet on the control socket. When we close that socket, the first
// process ends, and the kernel kills all others of its process namespace.
type Message struct {
	Kind   byte
	Errno  int
	Text   string
	Status uint32 // of the command, as from wait(2)
	CPU    int64  // microseconds, user and system, of all children
	Memory int64  // resident bytes of the largest process
	Disk   int64  // bytes in use in the scratch file system
	Full   bool   // the scratch file system is full
}

// MaxMessage is the longest encoded message in bytes.
const MaxMessage = 4096
