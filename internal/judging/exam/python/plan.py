"""Finds the tests in their source text alone, before anything runs."""
import ast
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
            plain = all(b == "object" or b.rpartition(".")[2] in ("TestCase", "IsolatedAsyncioTestCase") for b in bases)
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


def explain(report):
    """The last of what pytest has to say about a failure."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash else str(report.longrepr or ""))[-500:]


def cause(e, module):
    """Why a module of tests cannot be imported, in one line."""
    while type(e).__name__ == "CollectError" and e.__cause__ is not None:
        e = e.__cause__
    if type(e).__name__ == "CollectError":
        return None
    name, text = type(e).__name__, str(e)
    if isinstance(e, SyntaxError) and type(e.filename) is str:
        name, text = "%s in %s line %s" % (name, inside(e.filename), e.lineno), str(e.msg)
    elif isinstance(e, ImportError):
        text = text.partition(" (/")[0]
    return ("%s: %s, when %s was imported" % (name, text.partition("\n")[0], module))[:500]


def inside(file):
    """The name of a file below the workspace or the tests."""
    for place in ("/box/work/", "/judge/"):
        head, found, rest = file.rpartition(place)
        if found:
            return rest
    return file
