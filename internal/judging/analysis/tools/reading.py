"""What every tool that reads delivered code has around it.

A tool's own source follows this one. It tries to import the tool, and defines read(order), which returns a
dictionary (or bytes, which stay as they are). The order comes on standard input, the answer leaves on descriptor 3, both as JSON. The delivered
files are never imported by the tool, and nothing in them configures it.
"""
import importlib.machinery
import json
import os
import sys

RESULTS = 3
WORKSPACE = "/box/work"
MOST = 200  # findings in an answer
LONGEST = 300  # characters of a text


class Shut(importlib.machinery.PathFinder):
    """Finds modules as usual, but none of the delivered ones: a delivered json.py is no module of pylint's."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        """The spec of a module outside the workspace."""
        places = [p for p in (sys.path if path is None else path) if not delivered(p)]
        return super().find_spec(fullname, places, target)


def delivered(place):
    """Whether a place on the import path is in the workspace, or is the current directory."""
    place = os.path.abspath(place or ".")
    return place == WORKSPACE or place.startswith(WORKSPACE + "/")


def finding(code, severity, path, line, text):
    """One finding, cut to a size that is worth reading."""
    path = os.path.relpath(os.path.join(WORKSPACE, path), WORKSPACE)
    return {"code": str(code)[:40], "severity": severity, "file": path, "line": int(line or 0),
            "text": " ".join(str(text).split())[:LONGEST]}


def take():
    """The order, from standard input."""
    parts = []
    while True:
        part = os.read(0, 1 << 16)
        if not part:
            return json.loads(b"".join(parts))
        parts.append(part)


def tell(answer):
    """Writes the answer, all of it."""
    data = answer if isinstance(answer, bytes) else json.dumps(answer).encode("utf-8", "replace")
    while data:
        data = data[os.write(RESULTS, data):]


def main():
    """Reads the order, lets the tool read the files, and answers."""
    order = take()
    os.chdir(WORKSPACE)
    sys.meta_path[:] = [Shut if f is importlib.machinery.PathFinder else f for f in sys.meta_path]
    tell(read(order))
    os._exit(0)  # to tidy up a linter's memory takes longer than to lint
