package probe

// attack is one hostile program.
type attack struct {
	name    string
	program string // Python; it calls succeeded(…), failed(…) or skipped(…) at its end, unless it is killed before
}

// prelude starts every program. A network attempt is made only where the program sees nothing but an empty loopback.
const prelude = `
import ctypes, errno, os, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)

def say(word, *detail):
    print(word, *detail, flush=True)
    os._exit(0)

def succeeded(*detail): say("succeeded", *detail)
def failed(*detail): say("failed", *detail)
def skipped(*detail): say("skipped", *detail)

def call(name, *arguments):
    if getattr(libc, name)(*arguments) == 0:
        succeeded(name, "returned 0")
    failed(os.strerror(ctypes.get_errno()))

def attempt(do):
    try:
        succeeded(do())
    except OSError as e:
        failed(e.strerror)

def empty_network():
    tunnels = {"lo", "tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "sit0", "ip6tnl0", "ip6gre0"}
    try:
        return {name for _, name in socket.if_nameindex()} <= tunnels
    except OSError:
        return False

def reach(kind, do):
    if not empty_network():
        skipped("this tier has no empty network of its own, where it would be safe to try")
    s = socket.socket(socket.AF_INET, kind)
    s.settimeout(1)
    attempt(lambda: do(s))
`

// attacks are run in this order. The addresses are those for documentation of RFC 5737.
var attacks = []attack{
	{"connect to an address outside", `reach(socket.SOCK_STREAM, lambda s: s.connect(("192.0.2.1", 80)))`},
	{"send a datagram outside", `reach(socket.SOCK_DGRAM, lambda s: s.sendto(b"x", ("192.0.2.1", 9)))`},
	{"open a raw socket", `attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 255))`},
	{"trace a process (ptrace)", `call("ptrace", 0, 0, 0, 0)`},
	{"mount a file system", `call("mount", b"none", b"/tmp", b"tmpfs", 0, None)`},
	{"make a namespace (unshare)", `call("unshare", 0x10000000)`},
	{"write to /usr", `
def write():
    name = "/usr/guild-probe"
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    os.unlink(name)
    return name
attempt(write)`},
	{"read /root", `attempt(lambda: "%d names" % len(os.listdir("/root")))`},
	{"read /etc/shadow", `attempt(lambda: "%d bytes" % len(open("/etc/shadow", "rb").read()))`},
	{"start processes without end", `
n = 0
try:
    while n < 200:
        if os.fork() == 0:
            time.sleep(3)
            os._exit(0)
        n += 1
except OSError as e:
    time.sleep(1)
    failed("at", n, "processes:", e.strerror)
time.sleep(1)
succeeded(n, "processes")`},
	{"take memory without end", `
taken = []
try:
    for _ in range(64):
        taken.append(bytearray(b"x") * (8 << 20))
        time.sleep(0.01)
except MemoryError:
    failed("at", len(taken) * 8, "MB")
time.sleep(1)
succeeded("512 MB")`},
	{"fill the disk", `
try:
    with open("fill", "wb", buffering=0) as f:
        for n in range(64):
            f.write(bytes(1 << 20))
except OSError as e:
    time.sleep(1)
    failed("at", n, "MB:", e.strerror)
time.sleep(1)
succeeded("64 MB")`},
	{"signal the first process", `
try:
    os.kill(1, 18)
except OSError as e:
    failed(e.strerror)
if os.getpid() < 100 and os.getppid() < 100:
    failed("it is the sandbox's own, and goes on")
succeeded("it is the host's")`},
	{"read of other processes", `
seen = []
given = {*os.environb, b"HOME", b"HOSTNAME", b"TERM", b"PWD"}  # of the sandbox's own first process
try:
    names = [n for n in os.listdir("/proc") if n.isdigit() and int(n) != os.getpid()]
except OSError as e:
    failed("/proc:", e.strerror)
for n in names:
    try:
        words = open("/proc/%s/environ" % n, "rb").read().split(b"\0")
        if {w.partition(b"=")[0] for w in words if w} - given:
            seen.append(n)
    except OSError:
        pass
if seen:
    succeeded("the environment of", len(seen), "processes")
if len(names) > 8:
    succeeded("the names of", len(names), "processes")
failed(len(names), "others, which tell nothing")`},
}
