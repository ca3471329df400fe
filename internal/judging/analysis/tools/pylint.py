"""Pylint with its own defaults, whatever a delivery says: no configuration, no plugins, no silencing comments."""
import importlib
import pkgutil
import tempfile

tempfile.tempdir = "/tmp"  # pylint asks while it is imported, which may be where nothing can be written yet

try:
    import pylint
    import pylint.checkers
    import pylint.lint
    import pylint.reporters

    for module in pkgutil.walk_packages(pylint.checkers.__path__, "pylint.checkers."):
        importlib.import_module(module.name)
except ImportError:
    pylint = None

ARGUMENTS = ["--rcfile=" + os.devnull, "--load-plugins=", "--jobs=1", "--persistent=n", "--reports=n", "--score=y",
             "--disable=import-error,no-name-in-module", "--unsafe-load-any-extension=n"]


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
    linter = pylint.lint.Run(ARGUMENTS + order["files"], reporter=reporter, exit=False).linter
    weight = {"fatal": "medium", "error": "medium", "warning": "low"}
    found = [finding(m.msg_id, weight.get(m.category, "low"), m.path, m.line, m.msg) for m in reporter.messages]
    found.sort(key=lambda f: (("high", "medium", "low").index(f["severity"]), f["file"], f["line"]))
    return {"version": pylint.__version__, "count": len(found), "findings": found[:MOST],
            "statements": int(linter.stats.statement), "grade": round(1000 * float(linter.stats.global_note))}
