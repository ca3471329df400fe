"""Runs the customer's tests with the submission in another sandbox, and reports on descriptor 3.

No code of the submission runs in this process, so pytest's results here are those of the tests.
"""
import random
import signal
import tempfile
import time
import unittest.case
from pathlib import Path

import pytest
from _pytest import runner
from _pytest.assertion import rewrite, util as assertion
from _pytest.config import get_config
from _pytest.pathlib import rm_rf
from _pytest.runner import runtestprotocol

LAYERS = ("smoke", "correctness", "edge", "performance", "security")
LOGS = "needs mode inproc: the test reads the log of the delivery, which is in another process"
ARGUMENTS = ["-c", os.devnull, "-p", "no:cacheprovider", "-p", "no:faulthandler", "--no-header", "--color=no", "-q"]


class Beside:
    """A test that comes after another, so that only what is set up for the other is torn down."""

    def __init__(self, item):
        self.above = [node for node in item.listchain()[:-1] if node in item.session._setupstate.stack]

    def listchain(self):
        return self.above + [self]


class Reporter:
    """A pytest plugin that sends what happens to each test."""

    def __init__(self, link, emit, order):
        self.link, self.emit, self.seed, self.reported, self.decided = link, emit, order["seed"], 0, 0
        self.without = set(order["without"])
        self.quiet = set()  # tests whose call raised nothing
        self.micros = {}
        self.drew = set()  # tests that drew random numbers
        self.causes = {}  # module of tests → why it cannot be imported
        self.places = {}  # test → its number among all tests

    @pytest.fixture
    def tmp_path(self, request, tmp_path_factory):
        """An empty directory that is the same in each run of a test. pytest would name it after the test and its
        parameters, which are none of the submission's business."""
        path = tmp_path_factory.getbasetemp() / ("tmp_path-%d" % self.places[request.node.nodeid])
        remove(path)
        path.mkdir(mode=0o700)
        return path

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        """Count for the running test what the subject decided, and what could not be asked. The judge is told which
        test it is, and may have it run in processes of its own before."""
        self.link.fresh = True
        self.link.files.clear()
        self.link.refused, self.link.hint = None, LOGS if "caplog" in getattr(item, "fixturenames", ()) else None
        self.decided = self.link.decided
        self.link.mark("test", item.nodeid)
        self.draw(item)
        places = [self.link.files.temporary, item.config._tmp_path_factory.getbasetemp()]
        while threading.active_count() == 1 and (patience := self.link.mark("again", item.nodeid)):
            before = [set(os.listdir(p)) for p in places]
            pid = os.fork()
            if pid == 0:
                self.run_apart(item, patience)
            late = os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGALRM
            for place, names in zip(places, before):
                for name in set(os.listdir(place)) - names:
                    remove(Path(place, name))
            self.link.channel.drain([REQUEST, self.link.channel.number(), 0, "died", [item.nodeid, late], {}])
        yield

    def draw(self, item):
        """Let a test draw the same random numbers and names of files whenever it runs. Nobody else knows the seed."""
        random._inst.seed(self.seed + item.nodeid)
        names = random.Random(self.seed + item.nodeid)
        tempfile._name_sequence = iter(lambda: "%08x" % names.getrandbits(32), None)

    def run_apart(self, item, patience):
        """Run a test in this process alone as often as the judge likes, and tell it each time whether the test passed,
        and whether it came to its end. The judge's patience with a run is in milliseconds."""
        # Nobody reads why a test fails, and to say it takes longer than the test and asks the submission.
        item.repr_failure = lambda *a, **k: ""
        assertion._reprcompare = None
        rewrite._saferepr = rewrite._format_assertmsg = unittest.case.safe_repr = lambda *a, **k: ""
        channel = self.link.channel
        channel.part()
        beside = Beside(item)
        try:
            while patience:
                signal.setitimer(signal.ITIMER_REAL, patience / 1000)
                self.quiet.discard(item.nodeid)
                self.link.refused = None
                self.link.files.clear()
                self.draw(item)
                reports = runtestprotocol(item, log=False, nextitem=beside)
                passed = all(r.outcome == "passed" and not hasattr(r, "wasxfail") for r in reports)
                clean = channel.closed is None and self.link.refused is None
                if channel.closed == STOPPED:
                    channel.closed = None
                self.link.mark("done", item.nodeid, passed and item.nodeid in self.quiet, clean)
                patience = self.link.mark("more", item.nodeid)
        finally:
            os._exit(0)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_setup(self, item):
        self.before, self.link.steered = random_state(), False
        fail_only((yield))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_teardown(self, item):
        fail_only((yield))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item):
        start = time.perf_counter()
        outcome = yield
        fail_only(outcome)
        if random_state() != self.before and not self.link.steered:
            self.drew.add(item.nodeid)
        self.micros[item.nodeid] = int((time.perf_counter() - start) * 1e6)
        if outcome.excinfo is None:
            self.quiet.add(item.nodeid)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        outcome = yield
        outcome.get_result().layer = layer(item)

    def pytest_runtest_logreport(self, report):
        if report.when != "call" and report.outcome == "passed":
            return
        state, message = report.outcome, explain(report)
        if state == "passed" and (report.nodeid not in self.quiet or hasattr(report, "wasxfail")):
            state = "failed"
        if self.link.refused and state == "passed":
            state, message = "failed", self.link.refused
        if self.link.hint == LOGS and self.link.channel.closed:
            self.link.hint = None  # to read the log is not what ended it
        if self.link.hint and state == "failed":
            self.link.note(self.link.hint)
            message = self.link.hint + "\n" + message
        self.reported += 1
        self.emit(kind="test", id=report.nodeid, state=state, when=report.when, message=message, layer=report.layer,
                  drawn=report.nodeid in self.drew, us=self.micros.get(report.nodeid, 0), decided=self.link.decided - self.decided,
                  judge=beyond(self.link) if state == "failed" else "")

    def pytest_exception_interact(self, node, call, report):
        if isinstance(node, pytest.Collector):
            self.causes[report.nodeid] = cause(call.excinfo.value, report.nodeid)

    def pytest_collectreport(self, report):
        if report.outcome != "passed":
            message = self.causes.get(report.nodeid) or explain(report)
            self.emit(kind="broken", id=report.nodeid, message=message, judge=beyond(self.link))
        self.link.refused = None

    def pytest_collection_modifyitems(self, items):
        self.places.update((item.nodeid, n) for n, item in enumerate(items))
        items[:] = [item for item in items if item.nodeid not in self.without]

    def pytest_collection_finish(self, session):
        for item in session.items:
            self.emit(kind="item", id=item.nodeid)
        if self.link.calls:
            self.link.note("the delivery was asked %d times while the tests were listed" % self.link.calls)


def beyond(link):
    """Return what a test needs that split examination cannot do, or no text."""
    if link.refused and link.refused.startswith(INPROC):
        return link.refused
    return link.hint or ""


def fail_only(outcome):
    """Make an interrupt, which would end the session, the failure of one test: nobody is at a keyboard."""
    if outcome.excinfo is None or not isinstance(outcome.excinfo[1], KeyboardInterrupt):
        return
    failure = RuntimeError("KeyboardInterrupt")
    if hasattr(outcome, "force_exception"):
        outcome.force_exception(failure)
    else:
        outcome._excinfo = (RuntimeError, failure, outcome.excinfo[2])


def remove(path):
    """Remove a file or a directory, if it is there."""
    if path.is_dir() and not path.is_symlink():
        rm_rf(path)
    else:
        path.unlink(missing_ok=True)


def rewrite_all(rewrite, tests):
    """Have pytest rewrite all modules of the tests, so that the helpers' assertions say why they fail, too."""
    own = {os.path.basename(tests)} | {
        n.partition(".")[0] for _, directories, files in os.walk(tests) for n in directories + files} - STANDARD
    rewrite.AssertionRewritingHook._is_marked_for_rewrite = lambda hook, name, state: name.partition(".")[0] in own


def watch_logs(link):
    """Notice when a test reads the log, which the submission writes elsewhere."""
    assert_logs = unittest.TestCase.assertLogs

    def noticed(*a, **k):
        link.hint = LOGS
        return assert_logs(*a, **k)
    unittest.TestCase.assertLogs = noticed


def layer(item):
    """Return the layer of a test, by its marker or else by its directory below tests/."""
    for mark in item.iter_markers():
        if mark.name in LAYERS:
            return mark.name
    parts = item.nodeid.split("::")[0].split("/")
    return next((p for p in parts[1:-1] if p in LAYERS), "")


def main():
    order = json.loads(sys.stdin.buffer.read())
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor in (3, 4):
        os.set_inheritable(descriptor, False)

    def emit(**record):
        data = (json.dumps({"word": order["word"], **record}) + "\n").encode()
        while data:
            data = data[os.write(3, data):]

    path = os.environ.pop("GUILD_PLACES").split(":")
    root, script = path[1], order["script"]
    tests, certain = plan(root, script)
    emit(kind="plan", tests=tests, certain=certain, python=sys.version.split()[0], pytest=pytest.__version__)
    sys.path += path
    sys.argv[:] = ["pytest"]
    link = Link(os.path.join(root, "tests"), order["twins"])
    sys.meta_path.append(Finder(link))
    link.watch()
    link.look_inside()
    watch_programs(link)
    watch_enums(link)
    watch_logs(link)
    reporter = Reporter(link, emit, order)
    rewrite_all(rewrite, link.tests)
    runner._update_current_test_var = lambda item, when: None  # it would put the test's name into the environment
    sys.addaudithook(Running(link, lambda what: emit(kind="ran", message=what)))
    random._inst.seed(order["seed"])
    code = int(pytest.main(ARGUMENTS + ["--rootdir", root, "--confcutdir", root, os.path.join(root, script)],
                           plugins=[reporter, Smoke()]))
    twins = {}
    if order["first"] and not link.channel.closed:
        try:
            link.mark("test", "")
            twins = link.twins.found()
        except (Exception, Gone):
            pass  # a class that cannot be tried is no class of values; why there is nobody to ask is told below
    emit(kind="end", code=code, reported=reporter.reported, decided=link.decided, notes=link.notes,
         closed=link.channel.closed or "", twins=twins)
    os._exit(code)


get_config()  # imports what pytest would otherwise import when it starts
