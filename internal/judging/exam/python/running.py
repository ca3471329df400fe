"""Watches that no code of the submission runs here. A test may run text of it: an expression, a module written while
the tests ran, a pickle. The origin of a text is unknown, so only what was here before counts as the customer's. What
runs here can change anything, so it is reported before it runs."""
import time

PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")
MAKING = {"/collections/__init__.py", "/dataclasses.py", "/unittest/mock.py"}  # make functions by names that they check


class Running:
    """An audit hook. It keeps copies of the functions that it needs, because tests replace functions of the
    library."""

    def __init__(self, link, report):
        """report is called once, with what is about to run."""
        self.link, self.report = link, report
        self.began = time.time_ns()
        self.tests, self.library = os.path.dirname(link.tests) + "/", os.path.dirname(os.__file__)
        self.libraries = tuple(p + "/" for p in sys.path if p and not (p + "/").startswith(self.tests))
        self.stat, self.frame = os.stat, sys._getframe
        self.watched = {"exec": self.executes, "compile": self.compiles, "open": self.opens, "import": self.imports,
                        "marshal.loads": self.unmarshals, "pickle.find_class": self.unpickles,
                        "ctypes.dlopen": self.loads, **dict.fromkeys(PROGRAMS, self.starts)}

    def __call__(self, event, args):
        watch = self.watched.get(event)
        what = watch and watch(args, self.frame(1))
        if what:
            self.link.decided += 1
            report, self.report = self.report, None
            if report:
                report("%s in %.200s" % (what, self.place(self.frame(1))))

    def place(self, frame):
        """Return the test file in which it happens."""
        while frame is not None and not frame.f_code.co_filename.startswith(self.tests):
            frame = frame.f_back
        return inside(frame.f_code.co_filename) if frame is not None else "pytest"

    def is_new(self, path, missing=False):
        """Report whether a file has changed since the tests began, by a time that a program cannot set."""
        try:
            return self.stat(path).st_ctime_ns > self.began
        except (OSError, ValueError, TypeError):
            return missing

    def of_library(self, frame):
        """Report whether this is a library module that runs something of its own while it is imported."""
        while frame is not None and frame.f_code.co_filename.startswith(self.libraries + ("<",)):
            if frame.f_code.co_filename.startswith("<frozen importlib"):
                return True
            frame = frame.f_back
        return False

    def executes(self, args, frame):
        caller, code = frame.f_code.co_filename, args[0].co_filename
        if caller.startswith("<frozen importlib") or caller.endswith("/_pytest/assertion/rewrite.py"):
            return "a new module ran" if not code.startswith("<frozen ") and self.is_new(code, True) else None
        making = caller.startswith(self.library) and caller[len(self.library):] in MAKING
        return None if making or self.of_library(frame) else "a text ran"

    def compiles(self, args, frame):
        return "a text was compiled, and perhaps ran," if frame.f_code.co_filename.startswith(self.tests) else None

    def opens(self, args, frame):
        importing = frame.f_code.co_filename.startswith(("<frozen importlib", "<frozen zipimport"))
        return "a new module ran" if importing and self.is_new(args[0]) else None

    def imports(self, args, frame):
        return "a new module ran" if args[1] is not None and self.is_new(args[1]) else None

    def loads(self, args, frame):
        return "a new library ran" if args[0] is not None and self.is_new(args[0]) else None

    def unmarshals(self, args, frame):
        return None if frame.f_code.co_filename.startswith("<frozen ") else "a code was read, and perhaps ran,"

    def unpickles(self, args, frame):
        return None if self.of_library(frame) else "a pickle ran"

    def starts(self, args, frame):
        return "a program ran"
