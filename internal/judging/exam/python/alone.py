"""Puts stand-ins in the place of the submission, and reports which tests used one. A test that fails without using one
fails whatever the submission is."""
import importlib.abc
import importlib.machinery
import types


class Touched(BaseException):
    """A test used the submission, which is absent."""


class Watch:
    """What happened since the last look."""
    touched = running = False

    def touch(self, *_, **__):
        self.touched = True
        raise Touched("the test uses the submission")


WATCH = Watch()
LETTING = ("__class__", "__dict__", "__doc__", "__module__", "__name__", "__qualname__", "__wrapped__", "__test__")
OPERATORS = """__abs__ __add__ __and__ __bool__ __bytes__ __call__ __ceil__ __complex__ __contains__ __delattr__
__delitem__ __dir__ __divmod__ __enter__ __eq__ __exit__ __float__ __floor__ __floordiv__ __format__ __ge__ __getitem__
__gt__ __hash__ __iadd__ __iand__ __imul__ __index__ __int__ __invert__ __ior__ __isub__ __iter__ __le__ __len__
__lshift__ __lt__ __matmul__ __mod__ __mro_entries__ __mul__ __ne__ __neg__ __next__ __or__ __pos__ __pow__ __radd__
__rand__ __repr__ __reversed__ __rfloordiv__ __rlshift__ __rmatmul__ __rmod__ __rmul__ __ror__ __round__ __rpow__
__rrshift__ __rshift__ __rsub__ __rtruediv__ __rxor__ __setattr__ __setitem__ __str__ __sub__ __truediv__ __trunc__
__xor__""".split()


def _stand_in(name):
    """Return what a name of the submission is while the tests are collected, or end the test that asks for it."""
    if WATCH.running:
        WATCH.touch()
    if name.startswith("__") or name.startswith(("_pytest", "pytest")):
        raise AttributeError(name)
    return StandIn()


class StandIn:
    """Stands for something of the submission. Collecting tests may hold it and name its parts; all else is use."""

    def __getattribute__(self, name):
        if name in LETTING and not WATCH.running:
            return object.__getattribute__(self, name)
        return _stand_in(name)


for _name in OPERATORS:
    setattr(StandIn, _name, WATCH.touch)


class AbsentModule(types.ModuleType):
    """Stands for a module of the submission."""

    def __getattr__(self, name):
        if name in ("__file__", "__warningregistry__"):
            raise AttributeError(name)  # asked for by the library
        if name == "__all__":
            WATCH.touch()
        return _stand_in(name)


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds stand-ins for the submission's modules, after all other places."""

    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in self.names:
            return None
        if WATCH.running:
            WATCH.touch()
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return AbsentModule(spec.name)

    def exec_module(self, module):
        pass


def stand_in(emit, names):
    """Put stand-ins for the named modules in place, and return a pytest plugin that says what used them."""
    import pytest
    sys.meta_path.append(Absent(frozenset(names)))

    class Users:
        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_make_collect_report(self, collector):
            yield from self.watched(collector)

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_protocol(self, item):
            WATCH.running = True
            yield from self.watched(item)

        def watched(self, node):
            before, WATCH.touched = WATCH.touched, False
            yield
            if WATCH.touched:
                emit(kind="touched", id=node.nodeid)
            WATCH.touched = before

    return Users()
