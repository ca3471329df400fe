"""Runs the customer's tests beside the submission, in one process, and reports on descriptor 3.

The list of tests is taken from their source text and sent before any submitted code can run. The word that marks our
records is read from standard input and kept in local variables only. Later records come from a process that the
submission shares and can be forged by it; the judge counts such a result as weak.
"""
import fcntl

import pytest


def reporter(emit, numbers):
    """A pytest plugin that sends what happens to each test."""
    quiet = set()  # tests whose call raised nothing
    causes = {}  # module of tests → why it cannot be imported

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

        def pytest_exception_interact(self, node, call, report):
            if isinstance(node, pytest.Collector):
                causes[report.nodeid] = cause(call.excinfo.value, report.nodeid)

        def pytest_collectreport(self, report):
            if report.outcome != "passed":
                message = causes.get(report.nodeid) or explain(report)
                emit(kind="broken", id=report.nodeid, message=message)

        def pytest_collection_finish(self, session):
            if numbers["collect"]:
                for item in session.items:
                    emit(kind="item", id=item.nodeid)

    return Reporter()


def main():
    order = json.loads(sys.stdin.buffer.read())
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    path = os.environ.pop("GUILD_PLACES").split(":")
    word, root, script = order["word"], path[1], order["script"]
    out = fcntl.fcntl(3, fcntl.F_DUPFD_CLOEXEC, order["descriptor"])
    os.close(3)
    write, encode, leave = os.write, json.JSONEncoder().encode, os._exit

    def emit(**record):
        data = (encode({"word": word, **record}) + "\n").encode()
        while data:
            data = data[write(out, data):]

    tests, certain = plan(root, script)
    emit(kind="plan", tests=tests, certain=certain, python=sys.version.split()[0], pytest=pytest.__version__)
    sys.path += path
    sys.argv[:] = ["pytest"]
    numbers = {"reported": 0, "collect": order["collect"]}
    arguments = ["-c", os.devnull, "--rootdir", root, "--confcutdir", root, "-p", "no:cacheprovider",
                 "-p", "no:faulthandler", "--no-header", "--color=no", "-q", os.path.join(root, script)]
    if order["collect"]:
        arguments.append("--collect-only")
    plugins = [reporter(emit, numbers)]
    if order["absent"] is not None:
        plugins.append(stand_in(emit, order["absent"]))
    del order
    code = int(pytest.main(arguments, plugins=plugins))
    emit(kind="end", code=code, reported=numbers["reported"])
    leave(code)

