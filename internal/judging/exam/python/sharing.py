"""The examiner's side of shared files. A path that a test passes to the submission goes out, with what is below it.
The submission may change that, or make new files; all other files of the test are out of its reach."""

SECRET = ("criteria.json", "conftest.py")  # names below the tests that are never given away
HELD = 32 << 20  # bytes that the submission may have written here in all


class Shared(Mirror):
    """What the examiner shares of the temporary directory."""

    def __init__(self):
        super().__init__()
        self.held = self.entries = 0
        self.most = None

    def clear(self):
        super().clear()
        self.theirs = {}  # path → what it was like when the submission had made it
        self.awaited = set()  # paths that the submission knows to be meant, though there is nothing yet

    def mention(self, path):
        """Note a path that a test gives the submission."""
        if self.root(path):
            self.roots.add(self.place(path))

    def look(self):
        """Return the present state of shared paths, with the directories above, without what is beside them."""
        found = super().look()
        for root in self.roots:
            above = os.path.dirname(root)
            while self.root(above) and above not in found and os.path.isdir(above):
                found[above] = (True, 0, 0)
                above = os.path.dirname(above)
        return found

    def changes(self):
        told = super().changes()
        new = sorted(r for r in self.roots - self.awaited if r not in self.seen)
        self.awaited.update(new)
        return told + [[r, True] for r in new]

    def take(self, changes):
        """Make the submission's changes here, where that is allowed."""
        for path, content in _is(changes, list):
            root = self.root(_is(path, str))
            if root is None or self.place(path) != path or content is True:
                raise Malformed("a file in a wrong place")
            if self.allowed(path, root) and self.straight(path):
                self.charge(path, content)
                self._write(path, content)
                self.theirs[path] = self.like(path)
        self.seen = self.look()

    def allowed(self, path, root):
        """Report whether the submission may write a path: it was given it, has made it, or it is new and beside
        something that it was given or in a new place of its own."""
        if any(path == r or path.startswith(r + "/") for r in self.roots):
            return True
        if path in self.theirs:
            return self.theirs[path] == self.like(path)
        if os.path.lexists(path):
            return False
        if any(self.root(r) == root for r in self.roots):
            return True
        of_tests = root[len(self.temporary):].startswith("pytest-of-")
        return not of_tests and (root in self.theirs or not os.path.lexists(root))

    def like(self, path):
        try:
            s = os.lstat(path)
        except OSError:
            return None
        return s.st_mode, s.st_ino, s.st_size if stat.S_ISREG(s.st_mode) else 0, s.st_mtime_ns if stat.S_ISREG(s.st_mode) else 0

    def charge(self, path, content):
        """Count what is about to be written, so that the submission cannot fill the examiner's disk."""
        before = self.like(path)
        if content is not False:
            self.entries += before is None
            self.held += len(content) * 3 // 4 if type(content) is str else 0
        if before is not None:
            self.held -= before[2]
            self.entries -= content is False
        if self.most is None:
            disk = os.statvfs(self.temporary)
            self.most = min(HELD, disk.f_blocks * disk.f_frsize // 3)
        if self.held > self.most or self.entries > 2 * ENTRIES:
            raise Malformed("too many files, or too large ones")


class Given:
    """The customer's data files that tests pass to the submission. It gets each once, to read."""

    def __init__(self, tests):
        self.tests, self.known, self.meant = tests + "/", set(), []

    def below(self, path):
        return path.startswith(self.tests)

    def contents(self):
        """Return the new files that are used: [path, contents]."""
        found, size = [], 0
        for path in self.meant:
            if path in self.known or not self.is_data(path):
                continue
            size += os.path.getsize(path)
            if size > MIRRORED:
                raise Deep("the files are too large to be shared")
            with open(path, "rb") as f:
                found.append([path, binascii.b2a_base64(f.read(MIRRORED), newline=False).decode()])
            self.known.add(path)
        return found

    def is_data(self, path):
        """Report whether a path is a plain file that is neither a test nor hidden by the customer."""
        parts = path[len(self.tests):].split("/")
        secret = parts[0] == "hidden" or parts[-1] in SECRET or any(p.startswith(".") for p in parts)
        source = os.path.splitext(path)[1].startswith(".py")
        return not secret and not source and os.path.realpath(path) == path and os.path.isfile(path)
