package container

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// seccomp is a system call filter in the format of the OCI specification and of the runtimes' profile files.
type seccomp struct {
	Default       string   `json:"defaultAction"`
	Architectures []string `json:"architectures"`
	Calls         []calls  `json:"syscalls"`
}

type calls struct {
	Names  []string `json:"names"`
	Action string   `json:"action"`
	Errno  int      `json:"errnoRet,omitempty"`
	Args   []arg    `json:"args,omitempty"`
}

type arg struct {
	Index    int    `json:"index"`
	Value    uint64 `json:"value"`
	ValueTwo uint64 `json:"valueTwo"`
	Op       string `json:"op"`
}

// Actions and comparison operators.
const (
	actKill     = "SCMP_ACT_KILL"
	actKillAll  = "SCMP_ACT_KILL_PROCESS"
	actErrno    = "SCMP_ACT_ERRNO"
	opEqual     = "SCMP_CMP_EQ"
	opMaskedEq  = "SCMP_CMP_MASKED_EQ"
	flagsOfName = unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
		unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
)

func newSeccomp(list []calls) *seccomp {
	arch := map[string]string{"amd64": "SCMP_ARCH_X86_64", "arm64": "SCMP_ARCH_AARCH64"}[runtime.GOARCH]
	return &seccomp{Default: "SCMP_ACT_ALLOW", Architectures: []string{arch}, Calls: list}
}

// gvisorSeccomp returns a filter that kills a process for calls that gVisor's kernel allows and no run needs. Calls
// that the kernel refuses are not in it, because they are traced instead. A filter cannot read the flags of clone3, so
// a run can create a user namespace inside gVisor, where gVisor's kernel still confines it.
func gvisorSeccomp() *seccomp {
	granted := []string{"ptrace", "process_vm_readv", "process_vm_writev", "unshare", "setns", "chroot"}
	return newSeccomp(append([]calls{{Names: granted, Action: actKill}}, cloneNamespaces(actKill)...))
}

// cloneNamespaces returns the rules against a clone that creates a namespace, one for each kind.
func cloneNamespaces(action string) []calls {
	var list []calls
	for bit := uint64(1); bit <= flagsOfName; bit <<= 1 {
		if bit&flagsOfName != 0 {
			flag := arg{Index: 0, Value: bit, ValueTwo: bit, Op: opMaskedEq}
			list = append(list, calls{Names: []string{"clone"}, Action: action, Args: []arg{flag}})
		}
	}
	return list
}

// engineSeccomp returns the filter for a runtime on the host's kernel: an attempt to escape kills the process.
func engineSeccomp() *seccomp {
	list := []calls{{
		Names: []string{
			"ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "mount", "umount2", "pivot_root", "chroot",
			"open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "unshare", "setns",
			"open_by_handle_at", "bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key",
			"kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot",
		},
		Action: actKillAll,
	}, {
		Names: []string{"clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"}, Action: actErrno, Errno: int(unix.ENOSYS),
	}, {
		Names: []string{
			"swapon", "swapoff", "acct", "quotactl", "syslog", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex",
			"sethostname", "setdomainname", "vhangup", "lookup_dcookie", "name_to_handle_at", "fanotify_init", "kcmp",
		},
		Action: actErrno, Errno: int(unix.EPERM),
	}}
	for _, family := range []uint64{unix.AF_PACKET, unix.AF_VSOCK} {
		list = append(list, calls{Names: []string{"socket"}, Action: actKillAll, Args: []arg{{Index: 0, Value: family, Op: opEqual}}})
	}
	return newSeccomp(append(list, cloneNamespaces(actKillAll)...))
}
