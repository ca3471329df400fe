package namespaces

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// User ids of the host that root assigns to runs, 65536 to each concurrent run. They are above the ids that
// distributions assign and below those that systemd reserves.
const (
	firstID  = 0x7000_0000
	idsEach  = 0x1_0000
	idRanges = 4000
)

// ids holds the user ids of a run on the host.
type ids struct {
	ranged bool // there are idsEach ids from first on; otherwise first is the only one, and our own
	first  int
	lock   *os.File  // reserves the range; nil without a range
	maps   [2]idMaps // of users and of groups
}

type idMaps = []syscall.SysProcIDMap

// takeIDs returns a range of ids that no other run on this machine has, if we are root with ranges to assign. Otherwise
// it returns our own id, mapped to inside in the run's namespace.
func takeIDs(inside int) (*ids, error) {
	if os.Geteuid() != 0 || !mapsEverything("/proc/self/uid_map") || !mapsEverything("/proc/self/gid_map") {
		own := func(id int) idMaps { return idMaps{{ContainerID: inside, HostID: id, Size: 1}} }
		return &ids{first: os.Geteuid(), maps: [2]idMaps{own(os.Geteuid()), own(os.Getegid())}}, nil
	}
	start := rand.IntN(idRanges)
	for i := range idRanges {
		n := (start + i) % idRanges
		lock, err := lockRange(n)
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		} else if err != nil {
			return nil, err
		}
		first := firstID + n*idsEach
		all := idMaps{{ContainerID: 0, HostID: first, Size: idsEach}}
		return &ids{ranged: true, first: first, lock: lock, maps: [2]idMaps{all, all}}, nil
	}
	return nil, errors.New("every range of user ids is in use")
}

// lockRange reserves a range by binding an abstract socket name. The kernel frees the name when the file is closed or
// this process ends, so a killed guild leaves no lock.
func lockRange(n int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("range of user ids: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("@guild/ids/%d", n)}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("range of user ids: %w", err)
	}
	return os.NewFile(uintptr(fd), "ids"), nil
}

// mapsEverything reports whether our user namespace has all the ids that we assign to runs, as the initial one does.
func mapsEverything(file string) bool {
	b, _ := os.ReadFile(file)
	for line := range strings.Lines(string(b)) {
		var inside, outside, count int64
		n, _ := fmt.Sscan(line, &inside, &outside, &count)
		if n == 3 && inside <= firstID && inside+count >= firstID+idRanges*idsEach {
			return true
		}
	}
	return false
}

// capabilities lists what the first process can do in its namespaces. It has no user there when it executes its program, and
// would lose what is not listed. Root of a range, or of a trusted program, can do everything.
func (i *ids) capabilities() (all []uintptr) {
	if !i.ranged && i.maps[0][0].ContainerID != 0 {
		return []uintptr{
			unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_KILL, unix.CAP_SYS_PTRACE,
			unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH,
		}
	}
	for c := range uintptr(unix.CAP_LAST_CAP + 1) {
		all = append(all, c)
	}
	return all
}

// assign gives a new user namespace, that of a process, its users and groups.
func (i *ids) assign(pid int) error {
	groups := "deny"
	if i.ranged {
		groups = "allow"
	}
	for _, file := range []struct{ name, text string }{
		{"setgroups", groups}, {"gid_map", lineOf(i.maps[1])}, {"uid_map", lineOf(i.maps[0])},
	} {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/%s", pid, file.name), []byte(file.text), 0); err != nil {
			return fmt.Errorf("users of the namespace: %w", err)
		}
	}
	return nil
}

func lineOf(m idMaps) string {
	return fmt.Sprintf("%d %d %d\n", m[0].ContainerID, m[0].HostID, m[0].Size)
}

func (i *ids) release() {
	if i.lock != nil {
		i.lock.Close()
	}
}
