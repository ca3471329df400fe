"""Pylint with its own defaults, whatever a delivery says: no configuration, no plugins, no silencing comments."""
import gc
import importlib
import pkgutil
import tempfile

tempfile.tempdir = "/tmp"  # pylint asks while it is imported, which may be where nothing can be written yet

try:
    import pylint
    import pylint.checkers
    import pylint.extensions
    import pylint.lint
    import pylint.reporters

    for module in pkgutil.walk_packages(pylint.checkers.__path__, "pylint.checkers."):
        importlib.import_module(module.name)
except ImportError:
    pylint = None

# A grade is a share of the statements. So that a short file is not graded down for being short, a file counts as ten
# statements at least, and what says nothing of the code itself does not count.
GRADE = "max(0, 0 if fatal else 10 - 10 * (5 * error + warning + refactor + convention) / max(statement, 10))"
UNCOUNTED = "missing-module-docstring,missing-class-docstring,missing-function-docstring,missing-final-newline,trailing-newlines"
ARGUMENTS = ["--rcfile=" + os.devnull, "--load-plugins=", "--jobs=1", "--persistent=n", "--reports=n", "--score=y",
             "--evaluation=" + GRADE, "--disable=import-error,no-name-in-module," + UNCOUNTED, "--unsafe-load-any-extension=n"]
warm = []  # pylint's linter, once it knows its checkers and options


def ahead():
    """Makes a linter, so that a fork of this interpreter need not: to make one takes longer than to lint a short file."""
    if pylint is not None:
        warm.append(lint([pylint.extensions.__file__], pylint.reporters.CollectingReporter()))
        gc.collect()
        gc.freeze()


def lint(files, reporter):
    """The linter that has read the files, and told the reporter what it complains about."""
    if not warm:
        return pylint.lint.Run(ARGUMENTS + files, reporter=reporter, exit=False).linter
    linter = warm[0]
    linter.set_reporter(reporter)
    linter.check(files)
    linter.generate_reports()
    return linter


def unsilence(path):
    """Breaks the comments that would turn checks off, without moving anything."""
    with open(path, "rb") as f:
        text = f.read()
    if b"pylint:" in text:
        with open(path, "wb") as f:
            f.write(text.replace(b"pylint:", b"pylint;"))


def read(order):
    """The grade in thousandths, and what pylint complains about."""
    if pylint is None:
        return {"absent": True}
    for path in order["files"]:
        unsilence(path)
    os.environ["PYLINTHOME"] = "/tmp"
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")
    reporter = pylint.reporters.CollectingReporter()
    linter = lint(order["files"], reporter)
    weight = {"fatal": "medium", "error": "medium", "warning": "low"}
    found = [finding(m.msg_id, weight.get(m.category, "low"), m.path, m.line, m.msg) for m in reporter.messages]
    found.sort(key=lambda f: (("high", "medium", "low").index(f["severity"]), f["file"], f["line"]))
    return {"version": pylint.__version__, "count": len(found), "findings": found[:MOST],
            "statements": int(linter.stats.statement), "grade": round(1000 * float(linter.stats.global_note))}
