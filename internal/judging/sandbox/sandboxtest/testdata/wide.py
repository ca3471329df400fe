"""An honest program that uses much of what Python offers. It says "fine" when all of it works."""
import asyncio
import concurrent.futures
import ctypes
import fcntl
import mmap
import multiprocessing
import os
import pwd
import resource
import selectors
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time


def square(n):
    return n * n


def threads():
    done = []
    ts = [threading.Thread(target=done.append, args=(i,)) for i in range(8)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    assert sorted(done) == list(range(8))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(square, range(4))) == [0, 1, 4, 9]


def processes():
    assert subprocess.run(["sh", "-c", "echo hi | tr h j"], capture_output=True, text=True).stdout == "ji\n"
    assert subprocess.run([sys.executable, "-I", "-c", "print(1)"], capture_output=True).stdout == b"1\n"
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        assert pool.map(square, range(5)) == [0, 1, 4, 9, 16]
    queue = context.Queue()
    p = context.Process(target=queue.put, args=("x",))
    p.start()
    assert queue.get(timeout=60) == "x"
    p.join()
    pid = os.posix_spawn("/bin/true", ["true"], {})
    assert os.waitpid(pid, 0)[1] == 0


def asynchronous():
    async def main():
        async def echo(reader, writer):
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"
        writer.close()
        server.close()
        p = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
        out, _ = await p.communicate(b"cat")
        assert out == b"cat"
        await asyncio.gather(*(asyncio.sleep(0.01) for _ in range(20)))

    asyncio.run(main())


def databases():
    for name in (":memory:", "a.sqlite"):
        db = sqlite3.connect(name)
        db.execute("pragma journal_mode=wal")
        db.execute("create table t (n)")
        db.executemany("insert into t values (?)", [(i,) for i in range(100)])
        db.commit()
        assert db.execute("select sum(n) from t").fetchone() == (4950,)
        db.close()


def sockets():
    for family, kind, address in (
        (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        (socket.AF_UNIX, socket.SOCK_STREAM, "a.socket"),
    ):
        server = socket.socket(family, kind)
        server.bind(address)
        client = socket.socket(family, kind)
        if kind == socket.SOCK_STREAM:
            server.listen()
        client.connect(server.getsockname())
        client.sendall(b"hello")
        other = server.accept()[0] if kind == socket.SOCK_STREAM else server
        assert other.recv(5) == b"hello"
    a, b = socket.socketpair()
    with selectors.DefaultSelector() as s:
        s.register(a, selectors.EVENT_READ)
        b.send(b"x")
        assert s.select(1)
    socket.getaddrinfo("localhost", 80)


def signals():
    seen = []
    signal.signal(signal.SIGALRM, lambda *_: seen.append("alarm"))
    signal.signal(signal.SIGUSR1, lambda *_: seen.append("user"))
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(0.1)
    assert sorted(seen) == ["alarm", "user"]


def files():
    with tempfile.TemporaryDirectory() as d, open(os.path.join(d, "größe-数"), "wb+") as f:
        f.write(bytes(4096))
        f.flush()
        fcntl.flock(f, fcntl.LOCK_EX)
        m = mmap.mmap(f.fileno(), 4096)
        m[:2] = b"hi"
        m.flush()
        os.chmod(f.name, 0o600)
        os.utime(f.name)
        os.link(f.name, f.name + "2")
        os.symlink(f.name, f.name + "3")
        assert open(f.name + "3", "rb").read(2) == b"hi"
    assert len(os.urandom(16)) == 16


def questions():
    resource.getrlimit(resource.RLIMIT_NOFILE)
    pwd.getpwuid(os.getuid())
    os.uname(), os.getloadavg, os.cpu_count(), os.sched_getaffinity(0), os.getpgid(0), os.nice(0)
    ctypes.CDLL(None).prctl(15, b"wide", 0, 0, 0)


for part in (threads, processes, asynchronous, databases, sockets, signals, files, questions):
    try:
        part()
    except BaseException as e:
        print(f"{part.__name__}: {e!r}")
        raise
print("fine")
