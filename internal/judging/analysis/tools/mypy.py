"""Mypy without a configuration or plugins.

Most of what it does is to read the library's types, which are the same each time. So it is run once without any
delivery, and what it has learnt is kept: a line that says which mypy and which Python it is of, and mypy's own
cache, compressed. It is used where both are still the same.
"""
import re
import zlib

try:
    import mypy.api
    import mypy.main
    from mypy.version import __version__ as mypy_version
except ImportError:
    mypy = None

CACHE = "/tmp/mypy"
ARGUMENTS = ["--config-file=", "--cache-dir=" + CACHE, "--sqlite-cache", "--ignore-missing-imports",
             "--explicit-package-bases", "--namespace-packages", "--no-error-summary", "--hide-error-context",
             "--no-color-output", "--no-pretty", "--show-error-codes", "--follow-imports=silent",
             "--python-executable=" + sys.executable]
LINE = re.compile(r"^(.+?):(\d+): (error|note): (.*?)(?:  \[([\w-]+)\])?$")
COMMON = "import collections, dataclasses, datetime, enum, functools, itertools, json, math, os, pathlib, random, re, " \
         "string, sys, threading, time, typing"


def database():
    """Where mypy keeps its cache."""
    return os.path.join(CACHE, "%d.%d" % sys.version_info[:2], "cache.db")


def stamp():
    """What a kept cache is of."""
    return ("mypy %s, Python %s" % (mypy_version, sys.version)).replace("\n", " ").encode()


def learn():
    """Reads the library's types and tells what is to be kept of that."""
    mypy.api.run(ARGUMENTS + ["-c", COMMON])
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
    out, err, code = mypy.api.run(ARGUMENTS + files)
    if code not in (0, 1):
        return {"version": mypy_version, "failed": (err or out)[-LONGEST:]}
    found = []
    for line in out.splitlines():
        match = LINE.match(line)
        if match and match[3] == "error":
            found.append(finding(match[5] or "error", "low", match[1], match[2], match[4]))
    return {"version": mypy_version, "count": len(found), "findings": found[:MOST], "stale": stale}
