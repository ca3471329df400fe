"""Runs the smoke tests first."""
import pytest


class Smoke:
    """A pytest plugin that runs nothing else if a smoke test did not pass. What is not run is not reported."""

    def __init__(self):
        self.failed = False

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        items.sort(key=lambda item: layer(item) != "smoke")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item):
        return True if self.failed and layer(item) != "smoke" else None

    def pytest_runtest_logreport(self, report):
        if report.layer == "smoke" and (report.outcome != "passed" or hasattr(report, "wasxfail")):
            self.failed = True
