"""Mypy without a configuration or plugins.

Most of what it does is to read the library's types, which are the same each time. An interpreter that is kept warm
reads them once, before it forks. For one that is not, mypy is run once without any delivery, and what it has learnt
is kept: a line that says which mypy and which Python it is of, and mypy's own cache, compressed. It is used where both
are still the same.
"""
import gc
import re
import zlib

try:
    import mypy.api
    import mypy.dmypy_server
    import mypy.errors
    import mypy.find_sources
    import mypy.main
    import mypy.modulefinder
    from mypy.version import __version__ as mypy_version
except ImportError:
    mypy = None

CACHE = "/tmp/mypy"
CACHING = ["--cache-dir=" + CACHE, "--sqlite-cache"]
ARGUMENTS = ["--config-file=", "--ignore-missing-imports", "--local-partial-types", "--show-absolute-path",
             "--explicit-package-bases", "--namespace-packages", "--no-error-summary", "--hide-error-context",
             "--no-color-output", "--no-pretty", "--show-error-codes", "--follow-imports=silent",
             "--no-site-packages"]  # to read the types of a package that is imported, such as pytest, takes many seconds
LINE = re.compile(r"^(.+?):(\d+): (error|note): (.*?)(?:  \[([\w-]+)\])?$")
COMMON = "import collections, dataclasses, datetime, enum, functools, itertools, json, math, os, pathlib, random, re, " \
         "string, sys, threading, time, typing"
warm = []  # mypy's server and its options, once the library's types are read


def ahead():
    """Reads the library's types, so that a fork of this interpreter need not. What it uses of mypy is not meant for
    others; if a version has something else there, each fork reads the types."""
    if mypy is None:
        return
    try:
        _, options = mypy.main.process_options(ARGUMENTS + ["--cache-dir=" + os.devnull, "-c", COMMON], server_options=True)
        server = mypy.dmypy_server.Server(options, os.devnull)
        server.check([mypy.modulefinder.BuildSource(None, None, COMMON)], False, False, 80)
        server.previous_sources = []  # so that it does not look for the file of that text
    except Exception:
        return
    warm[:] = server, options
    gc.collect()
    gc.freeze()


def check(files):
    """What mypy says of the files, what went wrong, and its exit code."""
    if not warm:
        return mypy.api.run(ARGUMENTS + CACHING + files)
    server, options = warm
    said = server.check(mypy.find_sources.create_source_list(files, options), False, False, 80)
    return said.get("out", ""), said.get("error") or said.get("err", ""), said.get("status", 2)


def database():
    """Where mypy keeps its cache."""
    return os.path.join(CACHE, "%d.%d" % sys.version_info[:2], "cache.db")


def stamp():
    """What a kept cache is of."""
    return ("mypy %s, Python %s" % (mypy_version, sys.version)).replace("\n", " ").encode()


def learn():
    """Reads the library's types and tells what is to be kept of that."""
    mypy.api.run(ARGUMENTS + CACHING + ["-c", COMMON])
    with open(database(), "rb") as f:
        return stamp() + b"\n" + zlib.compress(f.read(), 1)


def recall(kept):
    """Puts a kept cache in its place, if it is still of any use."""
    try:
        with open(kept, "rb") as f:
            if f.readline() != stamp() + b"\n":
                return False
            text = zlib.decompress(f.read())
        os.makedirs(os.path.dirname(database()), exist_ok=True)
        with open(database(), "wb") as f:
            f.write(text)
    except (OSError, zlib.error):
        return False
    return True


def nameable(path):
    """Whether mypy can make a module of a file: every part of its name must be an identifier."""
    parts = os.path.relpath(path, WORKSPACE)[:-len(".py")].split(os.sep)
    return all(part.isidentifier() for part in parts)


def read(order):
    """The errors that mypy finds in what can be imported."""
    if mypy is None:
        return {"absent": True}
    if order.get("learn"):
        return learn()
    stale = "kept" in order and not recall(order["kept"])
    files = [path for path in order["files"] if nameable(path)]
    if not files:
        return {"version": mypy_version, "failed": "no file has a module's name"}
    try:
        out, err, code = check(files)
    except (SystemExit, mypy.errors.CompileError, mypy.find_sources.InvalidSourceList) as e:
        return {"version": mypy_version, "failed": str(e)[-LONGEST:]}
    found = []
    for line in (out + err).splitlines():  # of a file that does not parse, mypy says so among its own errors
        match = LINE.match(line)
        if match and match[3] == "error":
            found.append(finding(match[5] or "error", "low", match[1], match[2], match[4]))
    if code not in (0, 1) and not found:
        return {"version": mypy_version, "failed": (err or out)[-LONGEST:]}
    return {"version": mypy_version, "count": len(found), "findings": found[:MOST], "stale": stale}
