"""Keeps an interpreter warm: forks it into a fresh sandbox for each request.

The interpreter has executed the first part of a program (its imports and the definition of main) and then executes
this program instead of calling main(). It is trusted: it never runs submitted code and never reads the content of a
request. A request is a user id and one descriptor, a socket to the new run.

    template        forks once for each request
    first process   process 1 of the run's own namespaces: mounts, unpacks, starts the payload, reaps, reports
    payload         drops all privileges, returns from this program, and calls main()

No run leaves anything to the next: each is a fork of the template, which has no contact with any run. The payload
keeps no frame or descriptor of this program, and no reference to anything that it defined.
"""
import sys
present = set(sys.modules)  # imported by the program itself

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

USER = 1000  # the user id of a run inside
SERVER = 3  # the socket on which requests arrive
SOURCE = 4  # this program
HIGH = 64  # above all descriptors of a payload
MOST = 16  # descriptors that come with one message


def checked(result, what):
    """Returns the result of a libc call, or raises its error."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, what + ": " + os.strerror(number))
    return result


def syscall(what, number, *arguments):
    """Makes a system call that has no libc function."""
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
    """Receives a message of up to four bytes with up to count descriptors."""
    data, extra, _, _ = sock.recvmsg(4, _socket.CMSG_SPACE(4 * count), _socket.MSG_CMSG_CLOEXEC)
    fds = []
    for _, _, raw in extra:
        fds += [int.from_bytes(raw[i:i + 4], sys.byteorder) for i in range(0, len(raw), 4)]
    return data, fds


def serve():
    """Forks for each request. It returns only in a payload, with the environment of the run."""
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
            os._exit(0)  # our parent has ended
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
    """Forks into new namespaces. Returns the child, or 0 in it, and both ends of a pipe that tells it its user id."""
    mapped, release = os.pipe()
    try:
        new = NEWUSER | NEWNS | NEWPID | NEWNET | NEWIPC | NEWUTS
        return syscall("clone", CLONE, new | _signal.SIGCHLD), mapped, release
    except OSError:
        os.close(mapped)
        os.close(release)
        raise


def refuse(control, error):
    """Reports why there is no run. It is then started cold."""
    try:
        control.send(b"e" + str(error).encode()[:1000])
    except OSError:
        pass  # the other side has closed the socket
    control.close()


def identify(child, user, release):
    """Maps one of our user ids to the user of the run, and tells the child. The child ends if the pipe is closed."""
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
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # process 1 ignores signals without a handler
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        become(mapped)
        control.send(b"hello")  # the kernel adds our process id
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
    except Exception as e:  # any error is reported
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
    """Makes the sockets between the first process and the payload. The payload's is above its other descriptors."""
    gate, low = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    inside = _socket.socket(fileno=fcntl.fcntl(low.fileno(), fcntl.F_DUPFD, HIGH))
    low.close()
    return gate, inside


def enter(group):
    """Moves this process into a control group, by the group's file of tasks."""
    os.write(group, b"0")
    os.close(group)


def give_up(control, error):
    """Reports an error and ends the first process."""
    refuse(control, error)
    os._exit(1)


def become(mapped):
    """Waits for its user id and changes to it. All capabilities in the new namespaces remain."""
    if os.read(mapped, 1) != b"1":
        raise OSError("no user for the run")
    os.close(mapped)
    try:
        os.setgroups([])
    except OSError:
        pass  # not permitted if an ordinary user started guild
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    prctl("parent's death", PDEATHSIG, _signal.SIGKILL)
    prctl("dumpable", DUMPABLE, 0)


def read_settings(orders):
    """Reads the settings, which come before the files: a list of byte strings, each after its length."""
    fields = []
    for _ in range(int.from_bytes(orders.read(4), "little")):
        fields.append(orders.read(int.from_bytes(orders.read(4), "little")))
    names = ("environment", "directory", "scratch", "limits", "filter", "landlock", "readonly")
    return dict(zip(names, fields))


def strings(field):
    """Returns the strings of a field, each followed by a zero byte."""
    return [os.fsdecode(s) for s in field.split(b"\0")[:-1]]


def build(settings, orders):
    """Mounts the run's own file systems and unpacks its files."""
    checked(libc.unshare(NEWCGROUP), "unshare")  # so that our control group appears as the root
    os.umask(0)
    # One of its parts will hide the top of the temporary file system, so that each part has only one path.
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
    """Starts the loopback of the run."""
    s = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    up, running, set_flags = 1, 64, 0x8914
    request = b"lo".ljust(16, b"\0") + (up | running).to_bytes(2, sys.byteorder)
    fcntl.ioctl(s.fileno(), set_flags, request.ljust(40, b"\0"))
    s.close()


def unpack(orders):
    """Writes the files of a tar stream. The names are relative and clean; the contents may be hostile."""
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
    """Yields name, kind, mode and size of each entry of a tar stream as Go writes it. The caller reads the content."""
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
    """Returns the text of a field of a tar header, which a zero byte or a space ends."""
    return header[start:start + length].split(b"\0")[0].rstrip(b" ")


def records(data):
    """Reads an extended header of a tar stream: lines of "length key=value"."""
    found = {}
    while data[:1].isdigit():
        length, _, _ = data.partition(b" ")
        line, data = data[len(length) + 1:int(length) - 1], data[int(length):]
        key, _, value = line.partition(b"=")
        found[key] = value
    return found


def watch(control, gate, child, fds):
    """Acts as process 1: hands the filter's listener over, reaps, and reports how the payload ended."""
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
    """Returns what the payload used: microseconds of processor time, bytes of memory, bytes of files; and whether the disk is full."""
    usage = (ctypes.c_long * 36)()
    children = -1
    libc.getrusage(children, usage)
    files = os.statvfs("/box")
    cpu = (usage[0] + usage[2]) * 1000000 + usage[1] + usage[3]
    full = files.f_bavail == 0 or files.f_ffree == 0
    return cpu, usage[4] << 10, (files.f_blocks - files.f_bfree) * files.f_frsize, full


def take_listener(control, gate, child):
    """Copies the listener of the filter from the payload and sends it to guild."""
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
    """Drops all privileges, in an order in which each step still has those that it needs."""
    os.setsid()
    os.chdir(os.fsdecode(settings["directory"]))
    descriptors(fds, gate.fileno())
    for pair in strings(settings["limits"]):
        resource, limit = pair.split("=")
        both = (ctypes.c_ulong * 2)(int(limit), int(limit))
        checked(libc.setrlimit(int(resource), both), "resource limit " + resource)
    environment(strings(settings["environment"]))
    drop_capabilities()
    prctl("dumpable", DUMPABLE, 1)  # as usual for a program; our parent is not dumpable
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
    """Closes all descriptors but 0 to 3, 4 if there is a channel, and the gate."""
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
    """Clears all capability sets, the bounding set first because that needs a capability."""
    number = 0
    while libc.prctl(BOUNDING_DROP, number, 0, 0, 0) == 0:
        number += 1
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this process
    nothing = (ctypes.c_uint32 * 6)()
    syscall("capset", CAPSET, ctypes.addressof(header), ctypes.addressof(nothing))


def landlock(rules):
    """Restricts changes to some paths. The rules are: handled accesses, scopes, the size of the kernel's struct for
    both, accesses that a file and that a directory may have, and then the paths."""
    if not rules:
        return
    handled, scoped, size, file, directory = map(int, rules[:5])
    attributes = (ctypes.c_uint64 * 3)(handled, 0, scoped)
    ruleset = syscall("landlock", LANDLOCK_CREATE, ctypes.addressof(attributes), size)
    for place in rules[5:]:
        try:
            fd = os.open(place, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # a missing path needs no rule
        allowed = directory if stat.S_ISDIR(os.fstat(fd).st_mode) else file
        beneath = (ctypes.c_uint32 * 3)(allowed & 0xffffffff, allowed >> 32, fd)
        syscall("landlock " + place, LANDLOCK_ADD, ruleset, 1, ctypes.addressof(beneath))
        os.close(fd)
    syscall("landlock", LANDLOCK_RESTRICT, ruleset)
    os.close(ruleset)


def install(code):
    """Installs the system call filter and returns its listener's descriptor; 0 if there is no filter."""
    if not code:
        return 0
    program = ctypes.create_string_buffer(code, len(code))
    sock_fprog = (ctypes.c_uint64 * 2)(len(code) // 8, ctypes.addressof(program))
    set_mode_filter, new_listener, wait_killable = 1, 8, 32
    for flags in (new_listener | wait_killable, new_listener):
        fd = libc.syscall(SECCOMP, set_mode_filter, flags, ctypes.addressof(sock_fprog), 0, 0)
        if fd >= 0 or ctypes.get_errno() != errno.EINVAL:
            break  # Linux before 5.19 does not have this flag
    return checked(fd, "seccomp")


def forget():
    """Removes what this program added to the interpreter: modules, and the traces in its source. What it defined stays
    in memory for ever: to free it, each run would copy a megabyte that it otherwise shares."""
    for thing in list(globals().values()):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    for name in set(sys.modules) - present:
        del sys.modules[name]
    if hasattr(sys, "orig_argv"):
        setup, _, call, end = sys.orig_argv[-1].rsplit("\n", 3)
        sys.orig_argv[-1] = "\n".join((setup, "", call, end))


forget()
serve()
globals().clear()
