"""Keeps files below the temporary directory that a test and the submission share the same on both sides: what one
side writes is written on the other before it looks. Only plain files and directories below the temporary directory
are shared."""
import stat

MIRRORED = 8 << 20  # bytes that travel with one message
ENTRIES = 1000


class Mirror:
    """What one side knows of the shared files."""

    def __init__(self):
        self.temporary = os.path.realpath("/tmp") + "/"
        self.ever = set()  # roots that were shared in any test
        self.clear()

    def clear(self):
        """Forget everything: a new test begins."""
        self.roots = set()
        self.seen = {}  # path → what it was like when last told

    def place(self, path):
        """Return a path as both sides spell it; None if it is outside."""
        if path.startswith("/tmp/"):
            path = self.temporary + path[5:]
        path = os.path.normpath(path)
        if not path.startswith(self.temporary) or len(path) > 1000 or "\0" in path:
            return None
        return path

    def root(self, path):
        """Return the directory that a path is shared with: a test's own, or one in the temporary directory; None if
        the path is outside."""
        path = self.place(path)
        if path is None:
            return None
        parts = path[len(self.temporary):].split("/")
        depth = 3 if parts[0].startswith("pytest-of-") else 1
        return self.temporary + "/".join(parts[:depth]) if len(parts) >= depth else None

    def mention(self, path):
        """Note a path that both sides use."""
        root = self.root(path)
        if root:
            self.roots.add(root)

    def look(self):
        """Return the present state: path → (is a directory, size, time)."""
        found = {}
        for root in self.roots:
            stack = [root]
            while stack and len(found) < ENTRIES:
                path = stack.pop()
                try:
                    s = os.lstat(path)
                    if stat.S_ISDIR(s.st_mode):
                        found[path] = (True, 0, 0)
                        stack += [os.path.join(path, n) for n in os.listdir(path)]
                    elif stat.S_ISREG(s.st_mode):
                        found[path] = (False, s.st_size, s.st_mtime_ns)
                except (OSError, ValueError):
                    pass
        return found

    def changes(self):
        """Return what is new, changed or gone since the other side was last told: [path, bytes in hex, directory,
        gone]."""
        now, told, size = self.look(), [], 0
        for path in sorted(now):
            if self.seen.get(path) == now[path]:
                continue
            if now[path][0]:
                told.append([path, None])
                continue
            size += now[path][1]
            if size > MIRRORED:
                raise Deep("the files are too large to be shared")
            try:
                with open(path, "rb") as f:
                    told.append([path, binascii.b2a_base64(f.read(MIRRORED), newline=False).decode()])
            except OSError:
                pass
        told += [[path, False] for path in sorted(self.seen, reverse=True) if path not in now]
        self.seen = now
        return told

    def take(self, changes):
        """Make the other side's changes here. Files that it does not mention stay as they are. True in place of
        contents means that a path is used at which there is nothing yet."""
        for path, content in changes:
            root = self.root(path)
            if root not in self.ever and os.path.lexists(root):
                continue
            self.roots.add(root)
            self.ever.add(root)
            if content is not True and self.straight(path):
                self._write(path, content)
        self.seen = self.look()

    def straight(self, path):
        """Report whether no link leads elsewhere on the way to a path."""
        return os.path.realpath(os.path.dirname(path)) == os.path.dirname(path) and not os.path.islink(path)

    def _write(self, path, content):
        try:
            if content is None:
                os.makedirs(path, exist_ok=True)
            elif content is False:
                os.rmdir(path) if os.path.isdir(path) else os.unlink(path)
            else:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as f:
                    f.write(binascii.a2b_base64(_is(content, str)))
        except OSError:
            pass
