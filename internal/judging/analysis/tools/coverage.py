"""Runs the customer's tests once more, beside the delivery and under coverage.

What runs here can change what is measured: the numbers are the delivery's own word. No test's outcome leaves
this program.
"""
try:
    import coverage
    import pytest
except ImportError:
    coverage = None

ARGUMENTS = ["-c", os.devnull, "-p", "no:cacheprovider", "-p", "no:faulthandler", "--no-header", "--color=no", "-q"]


def totals(measured):
    """Statements and branches, and how many of them ran."""
    report = "/tmp/coverage.json"
    measured.json_report(outfile=report)
    with open(report, encoding="utf-8") as f:
        t = json.load(f)["totals"]
    return {"statements": t["num_statements"], "covered": t["covered_lines"], "branches": t.get("num_branches", 0),
            "taken": t.get("covered_branches", 0)}


def read(order):
    """What the tests reached."""
    if coverage is None:
        return {"absent": True}
    measured = coverage.Coverage(data_file=None, branch=True, config_file=False, include=order["files"])
    sys.meta_path[:] = [importlib.machinery.PathFinder if f is Shut else f for f in sys.meta_path]
    sys.path += order["path"]
    sys.argv[:] = ["pytest"]
    measured.start()
    pytest.main(ARGUMENTS + ["--rootdir", order["root"], "--confcutdir", order["root"]] + order["scripts"])
    measured.stop()
    return dict(totals(measured), version=coverage.__version__)
