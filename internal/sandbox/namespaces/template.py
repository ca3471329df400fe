"""Keeps an interpreter warm: forks it into a fresh sandbox for each request.

The interpreter has run the first part of a program (its imports, the definition of main) and now executes this
text instead of calling main(). It is trusted and stays so: it never runs submitted code, and never reads what a
request is about. A request is one descriptor, the socket to talk about the new run, and a user id for it.

    template        forks once for each request
    first process   number 1 in the run's own namespaces: mounts, unpacks, starts the payload, reaps, reports
    payload         loses all rights, returns from this text as if it had not been there, and calls main()

Nothing of one run is left in the next: each is a fork of the template, which has seen none of them. Of this
text the payload keeps no frame, no function and no descriptor.
"""
import sys
present = set(sys.modules)  # what the program has imported itself

import _signal
import _socket
import ctypes
import errno
import fcntl
import gc
import os
import stat

libc = ctypes.PyDLL(None, use_errno=True)  # PyDLL: keep the interpreter's lock, also across clone
libc.syscall.restype = ctypes.c_long
libc.syscall.argtypes = [ctypes.c_long] * 6
libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4

CLONE, SECCOMP, CAPSET = {"x86_64": (56, 317, 126), "aarch64": (220, 277, 91)}[os.uname().machine]
PIDFD_OPEN, CLOSE_RANGE, PIDFD_GETFD = 434, 436, 438
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND = 1, 2, 4, 8, 32, 4096
PDEATHSIG, DUMPABLE, BOUNDING_DROP, NO_NEW_PRIVS = 1, 4, 24, 38

USER = 1000  # who a run is, inside
SERVER = 3  # the socket on which requests arrive
SOURCE = 4  # this text
HIGH = 64  # no descriptor of a payload is there
MOST = 16  # descriptors that come with one message


def checked(result, what):
    """The result of a call into libc, or the error it left."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, what + ": " + os.strerror(number))
    return result


def syscall(what, number, *arguments):
    """A system call that libc has no function for."""
    return checked(libc.syscall(number, *(arguments + (0,) * (5 - len(arguments)))), what)


def mount(source, target, kind, flags, options=None):
    """mount(2)"""
    text = [s and os.fsencode(s) for s in (source, target, kind, options)]
    checked(libc.mount(text[0], text[1], text[2], flags, text[3]), "mount " + target)


def prctl(what, option, value=0):
    """prctl(2)"""
    checked(libc.prctl(option, value, 0, 0, 0), what)


# The template.


def receive(sock, count):
    """One message of up to four bytes with up to count descriptors."""
    data, extra, _, _ = sock.recvmsg(4, _socket.CMSG_SPACE(4 * count), _socket.MSG_CMSG_CLOEXEC)
    fds = []
    for _, _, raw in extra:
        fds += [int.from_bytes(raw[i:i + 4], sys.byteorder) for i in range(0, len(raw), 4)]
    return data, fds


def serve():
    """Forks for each request. It returns, with the run's environment in place, only in a payload."""
    interrupt = _signal.getsignal(_signal.SIGINT)
    _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)  # the kernel reaps
    server = _socket.socket(fileno=SERVER)
    os.close(SOURCE)
    sys.stdout.flush()
    sys.stderr.flush()
    with open("/proc/self/uid_map") as uid_map:
        users = int(uid_map.read().split()[2])  # there are of us
    gc.collect()
    gc.freeze()
    server.send(b"up")
    while True:
        user, fds = receive(server, 1)
        if not user:
            os._exit(0)  # whoever started us has gone
        control = _socket.socket(fileno=fds[0])
        try:
            child, mapped, release = spawn()
        except OSError as e:
            refuse(control, e)
            continue
        if child == 0:
            server.close()
            os.close(release)
            begin(control, mapped)
            _signal.signal(_signal.SIGINT, interrupt)
            return
        control.close()
        os.close(mapped)
        identify(child, int.from_bytes(user, "little") % users, release)
        os.close(release)


def spawn():
    """Forks into new namespaces: the child, or 0 in it, and both ends of the pipe by which it learns who it is."""
    mapped, release = os.pipe()
    try:
        new = NEWUSER | NEWNS | NEWPID | NEWNET | NEWIPC | NEWUTS
        return syscall("clone", CLONE, new | _signal.SIGCHLD), mapped, release
    except OSError:
        os.close(mapped)
        os.close(release)
        raise


def refuse(control, error):
    """Says that there is no run, and why. The run goes another way then."""
    try:
        control.send(b"e" + str(error).encode()[:1000])
    except OSError:
        pass  # nobody waits for it any more
    control.close()


def identify(child, user, release):
    """Says which of our users the run's one user is, and tells the child. Without a word it gives up."""
    try:
        for name in ("uid_map", "gid_map"):
            fd = os.open("/proc/%d/%s" % (child, name), os.O_WRONLY)
            os.write(fd, b"%d %d 1" % (USER, user))
            os.close(fd)
        os.write(release, b"1")
    except OSError:
        pass  # the child sees the end of the pipe


# The first process of a run.


def begin(control, mapped):
    """Builds the run's sandbox and starts its payload, in which it returns."""
    try:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # number 1 ignores what it does not handle
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        become(mapped)
        control.send(b"hello")  # the kernel adds who we are
        word, fds = receive(control, MOST)
        if not word:
            os._exit(0)
        for _ in range(int(word)):
            enter(fds.pop())
        with open(fds.pop(), "rb") as orders:
            settings = read_settings(orders)
            build(settings, orders)
        gate, inside = gates()
        child = os.fork()
    except Exception as e:  # whatever it is
        give_up(control, e)
    if child:
        inside.close()
        watch(control, gate, child, fds)
    gate.close()
    control.close()
    try:
        surrender(settings, fds, inside)
    except Exception as e:  # as above
        inside.send(str(e).encode()[:1000])
        os._exit(1)


def gates():
    """A pair of sockets between the first process and the payload, whose own is above its other descriptors."""
    gate, low = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    inside = _socket.socket(fileno=fcntl.fcntl(low.fileno(), fcntl.F_DUPFD, HIGH))
    low.close()
    return gate, inside


def enter(group):
    """Moves this process into a control group, by the group's file of tasks."""
    os.write(group, b"0")
    os.close(group)


def give_up(control, error):
    """Ends the first process with a reason."""
    refuse(control, error)
    os._exit(1)


def become(mapped):
    """Waits until there is a user to be, and becomes that one. All rights in the new namespaces remain."""
    if os.read(mapped, 1) != b"1":
        raise OSError("no user for the run")
    os.close(mapped)
    try:
        os.setgroups([])
    except OSError:
        pass  # nobody can where an ordinary user began it
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    prctl("parent's death", PDEATHSIG, _signal.SIGKILL)
    prctl("dumpable", DUMPABLE, 0)


def read_settings(orders):
    """What comes before the files: a list of byte strings, each after its length."""
    fields = []
    for _ in range(int.from_bytes(orders.read(4), "little")):
        fields.append(orders.read(int.from_bytes(orders.read(4), "little")))
    names = ("environment", "directory", "scratch", "limits", "filter", "landlock", "readonly")
    return dict(zip(names, fields))


def strings(field):
    """The strings of a field, each ended by a zero byte."""
    return [os.fsdecode(s) for s in field.split(b"\0")[:-1]]


def build(settings, orders):
    """Mounts what a run has for itself, and unpacks its files."""
    checked(libc.unshare(NEWCGROUP), "unshare")  # from here on our control group is the root of all
    os.umask(0)
    # The top of the temporary file system lies where one of its parts will hide it, so that there is one way to each.
    mount("box", "/tmp", "tmpfs", NOSUID | NODEV, "mode=0755," + os.fsdecode(settings["scratch"]))
    parts = (("/box", 0o755), ("/var/tmp", 0o1777), ("/dev/shm", 0o1777), ("/judge", 0o755), ("/tmp", 0o1777))
    for number, (place, mode) in enumerate(parts):
        os.mkdir("/tmp/%d" % number, mode)
        mount("/tmp/%d" % number, place, None, BIND)
    os.umask(0o022)
    for place in ("/box/work", "/box/home"):
        os.mkdir(place)
    unpack(orders)
    readonly = strings(settings["readonly"])
    for place in readonly:
        os.makedirs(place, exist_ok=True)
    for place in readonly:
        mount(place, place, None, BIND)
        mount(None, place, None, BIND | REMOUNT | RDONLY | NOSUID | NODEV)
    mount("devpts", "/dev/pts", "devpts", NOSUID | NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
    mount("proc", "/proc", "proc", RDONLY | NOSUID | NODEV | NOEXEC, "hidepid=invisible,subset=pid")
    loopback_up()


def loopback_up():
    """Makes the run's own 127.0.0.1 answer."""
    s = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    up, running, set_flags = 1, 64, 0x8914
    request = b"lo".ljust(16, b"\0") + (up | running).to_bytes(2, sys.byteorder)
    fcntl.ioctl(s.fileno(), set_flags, request.ljust(40, b"\0"))
    s.close()


def unpack(orders):
    """Writes the files of a tar stream. Its names are relative and clean; its contents may be a stranger's."""
    made = set()
    for name, kind, mode, size in entries(orders):
        path = "/" + name.rstrip("/")
        directory = path if kind == b"5" else os.path.dirname(path)
        if directory not in made:
            os.makedirs(directory, 0o755, exist_ok=True)
            made.add(directory)
        if kind == b"5":
            continue
        if os.path.lexists(path):
            os.unlink(path)  # the later copy wins
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        while size > 0:
            block = orders.read(min(size, 1 << 20))
            if not block:
                raise EOFError("the files of the run end early")
            size -= os.write(fd, block)
        os.close(fd)


def entries(orders):
    """The headers of a tar stream as Go writes it: name, kind, mode, size. Who asks reads the content."""
    extended = {}
    while True:
        header = orders.read(512)
        if len(header) < 512:
            raise EOFError("the files of the run end early")
        if not any(header):
            return
        name, prefix, kind = field(header, 0, 100), field(header, 345, 155), header[156:157]
        size = int(field(header, 124, 12) or b"0", 8)
        if kind == b"x":
            extended = records(orders.read(size + -size % 512))
            continue
        name = extended.get(b"path", prefix + b"/" + name if prefix else name)
        size = int(extended.get(b"size", size))
        yield os.fsdecode(name), kind, int(field(header, 100, 8), 8) & 0o777, size
        orders.read(-size % 512)
        extended = {}


def field(header, start, length):
    """A text in a tar header, which a zero byte or space may end."""
    return header[start:start + length].split(b"\0")[0].rstrip(b" ")


def records(data):
    """The extended header of a tar stream: lines of "length key=value"."""
    found = {}
    while data[:1].isdigit():
        length, _, _ = data.partition(b" ")
        line, data = data[len(length) + 1:int(length) - 1], data[int(length):]
        key, _, value = line.partition(b"=")
        found[key] = value
    return found


def watch(control, gate, child, fds):
    """Lives as number 1: hands the filter's listener over, reaps, and reports how the payload ended."""
    try:
        for fd in fds:
            os.close(fd)
        take_listener(control, gate, child)
        while True:
            pid, status = os.wait()
            if pid == child:
                control.send(b"s%d %d %d %d %d" % (status, *used()))
                os._exit(0)
    except Exception as e:  # as above
        give_up(control, e)


def used():
    """What the payload took, at least: microseconds of processor time, bytes of memory, bytes of files; and whether no more fits."""
    usage = (ctypes.c_long * 36)()
    children = -1
    libc.getrusage(children, usage)
    files = os.statvfs("/box")
    cpu = (usage[0] + usage[2]) * 1000000 + usage[1] + usage[3]
    full = files.f_bavail == 0 or files.f_ffree == 0
    return cpu, usage[4] << 10, (files.f_blocks - files.f_bfree) * files.f_frsize, full


def take_listener(control, gate, child):
    """Takes the listener of the payload's filter out of the payload and sends it outside."""
    word = gate.recv(1001)
    if not word.isdigit():
        raise OSError(word.decode() or "the payload ended before it began")
    fd = int(word)
    if fd == 0:
        control.send(b"n")
    else:
        pidfd = syscall("pidfd_open", PIDFD_OPEN, child)
        listener = syscall("pidfd_getfd", PIDFD_GETFD, pidfd, fd)
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, listener.to_bytes(4, sys.byteorder))]
        control.sendmsg([b"l"], rights)
        os.close(listener)
        os.close(pidfd)
    gate.send(b"1")
    gate.close()


# The payload.


def surrender(settings, fds, gate):
    """Gives up all rights, in the order in which each step still has those that it needs."""
    os.setsid()
    os.chdir(os.fsdecode(settings["directory"]))
    descriptors(fds, gate.fileno())
    for pair in strings(settings["limits"]):
        resource, limit = pair.split("=")
        both = (ctypes.c_ulong * 2)(int(limit), int(limit))
        checked(libc.setrlimit(int(resource), both), "resource limit " + resource)
    environment(strings(settings["environment"]))
    drop_capabilities()
    prctl("dumpable", DUMPABLE, 1)  # as any program is to itself; our parent is not
    prctl("no new privileges", NO_NEW_PRIVS, 1)
    landlock(strings(settings["landlock"]))
    listener = install(settings["filter"])
    gate.send(b"%d" % listener)
    if gate.recv(1) != b"1":
        os._exit(1)
    gate.close()
    if listener:
        os.close(listener)


def descriptors(fds, gate):
    """Leaves 0, 1, 2, 3, with a channel 4, and the gate."""
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, HIGH) for fd in fds]
    for number, fd in enumerate(high):
        os.dup2(fd, number)
    syscall("close_range", CLOSE_RANGE, len(high), gate - 1)
    syscall("close_range", CLOSE_RANGE, gate + 1, 0x7fffffff)


def environment(pairs):
    """Replaces the environment, in the order given."""
    os.environ.clear()
    for pair in pairs:
        name, _, value = pair.partition("=")
        os.environ[name] = value


def drop_capabilities():
    """Empties every set, and the bounding set first, for which a capability is needed."""
    number = 0
    while libc.prctl(BOUNDING_DROP, number, 0, 0, 0) == 0:
        number += 1
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, ourselves
    nothing = (ctypes.c_uint32 * 6)()
    syscall("capset", CAPSET, ctypes.addressof(header), ctypes.addressof(nothing))


def landlock(rules):
    """Lets nothing be changed but below some places: what is handled, what is scoped, the size of both in the
    kernel's eyes, what a file and what a directory may have done to it, and then the places."""
    if not rules:
        return
    handled, scoped, size, file, directory = map(int, rules[:5])
    attributes = (ctypes.c_uint64 * 3)(handled, 0, scoped)
    ruleset = syscall("landlock", LANDLOCK_CREATE, ctypes.addressof(attributes), size)
    for place in rules[5:]:
        try:
            fd = os.open(place, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # what is not there needs no rule
        allowed = directory if stat.S_ISDIR(os.fstat(fd).st_mode) else file
        beneath = (ctypes.c_uint32 * 3)(allowed & 0xffffffff, allowed >> 32, fd)
        syscall("landlock " + place, LANDLOCK_ADD, ruleset, 1, ctypes.addressof(beneath))
        os.close(fd)
    syscall("landlock", LANDLOCK_RESTRICT, ruleset)
    os.close(ruleset)


def install(code):
    """Puts the system call filter in force and returns its listener's descriptor; 0 if there is no filter."""
    if not code:
        return 0
    program = ctypes.create_string_buffer(code, len(code))
    sock_fprog = (ctypes.c_uint64 * 2)(len(code) // 8, ctypes.addressof(program))
    set_mode_filter, new_listener, wait_killable = 1, 8, 32
    for flags in (new_listener | wait_killable, new_listener):
        fd = libc.syscall(SECCOMP, set_mode_filter, flags, ctypes.addressof(sock_fprog), 0, 0)
        if fd >= 0 or ctypes.get_errno() != errno.EINVAL:
            break  # before Linux 5.19 there was no waiting for signals that kill
    return checked(fd, "seccomp")


def forget():
    """Leaves the interpreter as it was before this text: no module more, and the source as a cold start has it."""
    for name in set(sys.modules) - present:
        del sys.modules[name]
    if hasattr(sys, "orig_argv"):
        setup, _, call, end = sys.orig_argv[-1].rsplit("\n", 3)
        sys.orig_argv[-1] = "\n".join((setup, "", call, end))


serve()
forget()
globals().clear()
