"""Runs the tests of every DIR/problem/variant and prints how many passed, as a JSON list."""
import json
import pathlib
import signal
import sys

PATIENCE = 2  # seconds of CPU for one test; all of them need far less
NO_PATIENCE = 0.01  # for the variant of which every test takes for ever


class OutOfTime(BaseException):
    pass


def stop(*_):
    raise OutOfTime


def passes(test, patience):
    signal.setitimer(signal.ITIMER_VIRTUAL, patience)
    try:
        test()
        return True
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def tally(folder):
    sys.modules.pop("solution", None)
    sys.path[0] = str(folder)
    scope = {}
    exec((folder / "test_solution.py").read_text(), scope)
    tests = [value for name, value in scope.items() if name.startswith("test_")]
    patience = NO_PATIENCE if folder.name == "endless loop" else PATIENCE
    passed = 0
    for test in tests:
        try:
            passed += passes(test, patience)
        except OutOfTime:
            break
        except Exception:
            continue
    return {"problem": folder.parent.name, "variant": folder.name, "passed": passed, "tests": len(tests)}


sys.dont_write_bytecode = True
signal.signal(signal.SIGVTALRM, stop)
json.dump([tally(folder) for folder in sorted(pathlib.Path(sys.argv[1]).glob("*/*"))], sys.stdout)
