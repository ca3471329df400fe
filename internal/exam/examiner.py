"""Runs the customer's tests inside the sandbox and reports on descriptor 3.

Everything up to the import of pytest happens before any submitted code can run: the outline of the tests is
taken from their source text and sent first. The word that marks our records is read from standard input and
kept in local variables only. What comes later shares a process with the submission and can be forged by it;
the judge counts such a result as weak.
"""
import ast
import fcntl
import json
import os
import sys


def decorated(node):
    """How many tests a function is: the product of its literal parametrize lists, None if unknown."""
    count = 1
    for d in node.decorator_list:
        name = ast.unparse(d.func if isinstance(d, ast.Call) else d)
        if not name.endswith("parametrize"):
            if not name.startswith(("pytest.mark.", "mark.", "staticmethod", "mock.patch", "patch")):
                return None
            continue
        values = d.args[1] if len(d.args) > 1 else None
        if not isinstance(values, (ast.List, ast.Tuple)) or any(isinstance(v, ast.Starred) for v in values.elts):
            return None
        count *= len(values.elts)
    return count


def outline(text):
    """The tests of a module by name, each with its count (None: unknown), and whether that is all of them."""
    tests, certain = {}, True
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.parse(text).body:
        if isinstance(node, functions):
            if node.name.startswith("test"):
                tests[node.name] = decorated(node)
            elif node.name.startswith("pytest_") or any("params" in ast.unparse(d) for d in node.decorator_list):
                certain = False
        elif isinstance(node, ast.ClassDef):
            bases = [ast.unparse(b) for b in node.bases]
            plain = all(b in ("object", "unittest.TestCase", "TestCase") for b in bases)
            if not plain or node.keywords or node.decorator_list and node.name.startswith("Test"):
                certain = False
            elif bases and "object" not in bases or node.name.startswith("Test"):
                for item in node.body:
                    if isinstance(item, functions) and item.name.startswith("test"):
                        tests[node.name + "::" + item.name] = decorated(item)
                    elif not isinstance(item, functions + (ast.Assign, ast.AnnAssign, ast.Expr, ast.Pass)):
                        certain = False
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            certain &= not any((a.asname or a.name).startswith("test") for a in node.names)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            names = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
            certain &= not names.startswith(("test", "Test", "pytestmark", "pytest_"))
        elif not isinstance(node, ast.Expr):
            certain &= "test" not in ast.unparse(node).lower() or "__main__" in ast.unparse(node)
    return tests, certain and None not in tests.values()


def modules(script):
    """The test modules that pytest takes for a script, by its default naming."""
    if not os.path.isdir(script):
        return [script]
    found = []
    for directory, _, names in os.walk(script):
        found += [os.path.join(directory, n) for n in names
                  if n.endswith(".py") and (n.startswith("test_") or n.endswith("_test.py"))]
    return sorted(found)


def plan(root, script):
    """Test ids as pytest spells them, relative to root."""
    file, _, selected = script.partition("::")
    tests, certain = {}, True
    for directory, _, names in os.walk(os.path.join(root, "tests")):
        certain &= "conftest.py" not in names
    for path in modules(os.path.join(root, file)):
        with open(path, "rb") as f:
            found, complete = outline(f.read())
        certain &= complete
        for name, count in found.items():
            if not selected or name == selected or name.startswith(selected + "::"):
                tests[os.path.relpath(path, root) + "::" + name] = count or 0
    return tests, certain


def reporter(pytest, emit, numbers):
    """A pytest plugin that sends what happens to each test."""
    quiet = set()  # tests whose call raised nothing

    class Reporter:
        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_call(self, item):
            outcome = yield
            if outcome.excinfo is None:
                quiet.add(item.nodeid)

        def pytest_runtest_logreport(self, report):
            if report.when != "call" and report.outcome == "passed":
                return
            state = report.outcome
            if state == "passed" and (report.nodeid not in quiet or hasattr(report, "wasxfail")):
                state = "failed"
            numbers["reported"] += 1
            emit(kind="test", id=report.nodeid, state=state, when=report.when, message=explain(report))

        def pytest_collectreport(self, report):
            if report.outcome == "failed":
                emit(kind="broken", id=report.nodeid, message=explain(report))

        def pytest_collection_finish(self, session):
            if numbers["collect"]:
                for item in session.items:
                    emit(kind="item", id=item.nodeid)

    return Reporter()


def explain(report):
    """The last of what pytest has to say about a failure."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash else str(report.longrepr or ""))[-500:]


def main():
    order = json.loads(sys.stdin.buffer.read())
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    word, root, script = order["word"], order["root"], order["script"]
    out = fcntl.fcntl(3, fcntl.F_DUPFD_CLOEXEC, order["descriptor"])
    os.close(3)
    write, encode, leave = os.write, json.JSONEncoder().encode, os._exit

    def emit(**record):
        data = (encode({"word": word, **record}) + "\n").encode()
        while data:
            data = data[write(out, data):]

    tests, certain = plan(root, script)
    import pytest
    emit(kind="plan", tests=tests, certain=certain, python=sys.version.split()[0], pytest=pytest.__version__)
    sys.path += order["path"]
    sys.argv[:] = ["pytest"]
    numbers = {"reported": 0, "collect": order["collect"]}
    arguments = ["-c", os.devnull, "--rootdir", root, "--confcutdir", root, "-p", "no:cacheprovider",
                 "-p", "no:faulthandler", "--no-header", "--color=no", "-q", os.path.join(root, script)]
    if order["collect"]:
        arguments.append("--collect-only")
    del order
    code = int(pytest.main(arguments, plugins=[reporter(pytest, emit, numbers)]))
    emit(kind="end", code=code, reported=numbers["reported"])
    leave(code)


main()
