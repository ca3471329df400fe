"""The submission's modules as the tests import them."""


class RemoteModule(types.ModuleType):
    """A module of the submission."""

    def __getattr__(self, name):
        if name == "__all__":
            return self._finder.exported(self._names)
        return LINK[0].attribute(self, name)

    def __setattr__(self, name, value):
        if name.startswith("__") or name == "_remote" or type(value) is RemoteModule:
            return super().__setattr__(name, value)
        LINK[0].assign(self, name, value)

    def __delattr__(self, name):
        LINK[0].delete(self, name)

    def __dir__(self):
        return LINK[0].lib("builtins", "dir", self)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the submission's modules, for the tests alone and after every other place."""

    ASKING = ("/_pytest/outcomes.py", "/_pytest/monkeypatch.py", "/unittest/mock.py", "/pkgutil.py",
              "/importlib/__init__.py")

    def __init__(self, link):
        self.link, self.outcome, self.modules, self.used = link, {}, set(), None

    def find_spec(self, name, path=None, target=None):
        if not self.for_test():
            return None
        try:
            found = self.link.ask("import", lambda: [name, name in self.modules])
        except (Exception, KeyboardInterrupt) as e:
            if isinstance(e, KeyboardInterrupt):
                e = ImportError("KeyboardInterrupt in " + name)
            if isinstance(e, ModuleNotFoundError) and e.name == name:
                return None
            self.outcome[name] = e
            return importlib.machinery.ModuleSpec(name, self)
        if found is None:
            return None
        self.outcome[name] = found
        return importlib.machinery.ModuleSpec(name, self, is_package=found[1] is True)

    def for_test(self):
        """Report whether a test imports, by itself or through pytest or mock."""
        frame = sys._getframe(2)
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(self.link.tests + "/"):
                return True
            if not file.startswith("<frozen importlib") and not file.endswith(self.ASKING):
                return False
            frame = frame.f_back
        return False

    def create_module(self, spec):
        return RemoteModule(spec.name)

    def exec_module(self, module):
        outcome = self.outcome.pop(module.__name__)
        if isinstance(outcome, BaseException):
            raise outcome
        handle, _, names, doc, file = outcome
        self.modules.add(module.__name__)
        vars(module).update(_remote=handle._remote, _handle=handle, _names=names, _finder=self)
        vars(module).update(__doc__=doc if type(doc) is str else None, __file__=file if type(file) is str else None)

    def exported(self, names):
        """Return the names that `import *` brings: none that the test defines itself, or that means something to the
        interpreter or to pytest."""
        if type(names) is not list:
            return []
        file = self.importer()
        if self.used is None:
            self.used = words_of(self.link.tests)
        own, used = bound_names(file, self.link.tests), self.used
        return [n for n in names if type(n) is str and n in used and not hasattr(builtins, n)
                and n not in own and not n.startswith(("__", "test", "Test", "pytest", "_pytest"))]

    def importer(self):
        frame = sys._getframe(2)
        while frame is not None:
            if frame.f_code.co_filename.startswith(self.link.tests + "/"):
                return frame.f_code.co_filename
            frame = frame.f_back
        return None


def absent(args, directory):
    """Return the program, file or module that a command line names and that is missing here; None if there is
    none."""
    words = args.split() if type(args) is str else [str(w) for w in args] if isinstance(args, (list, tuple)) else []
    for n, word in enumerate(words[:4]):
        if word == "-m" and n + 1 < len(words):
            name = words[n + 1].partition(".")[0]
            return None if importlib.machinery.PathFinder.find_spec(name) else words[n + 1]
        if word == "-c":
            return None
        file = "/" in word or word.endswith((".py", ".sh", ".js"))
        if file and word[:1] != "-" and not os.path.lexists(os.path.join(directory or os.getcwd(), word)):
            return word
    return None


def watch_programs(link):
    """Begin to notice when a test starts a program that only the submission has."""
    import subprocess
    begin = subprocess.Popen.__init__

    def noticed(popen, args, *a, **k):
        name = absent(args, k.get("cwd"))
        if name:
            link.hint = ("the test starts %.100s, which is not where the tests run: needs mode inproc, or a criterion "
                         "of type io" % name)
        begin(popen, args, *a, **k)
    subprocess.Popen.__init__ = noticed


def words_of(tests):
    """Return all names that the tests use."""
    words = set()
    for directory, _, files in os.walk(tests):
        for name in files:
            if name.endswith(".py"):
                with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as f:
                    words |= set(re.findall(r"[^\W\d]\w*", f.read()))
    return words


def bound_names(file, tests):
    """Return the names that a source file binds at its top, or imports from a module of the tests."""
    names = set()
    if file is None:
        return names
    with open(file, "rb") as f:
        tree = ast.parse(f.read())
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for top in tree.body:
        for node in [top] if isinstance(top, definitions) else ast.walk(top):
            if isinstance(node, definitions):
                names.add(node.name)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                names |= {(a.asname or a.name).partition(".")[0] for a in node.names}
                if node.names[0].name == "*":
                    names |= all_names(node.module, tests)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
    return names


def all_names(name, tests):
    """Return the names that `import *` takes from a module of the tests, if it is one and is imported."""
    for full, module in list(sys.modules.items()):
        file = vars(module).get("__file__") if type(module) is types.ModuleType else None
        if full.rpartition(".")[2] == (name or "").rpartition(".")[2] and type(file) is str and file.startswith(tests + "/"):
            return {n for n in vars(module) if not n.startswith("_")}
    return set()
