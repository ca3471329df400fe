"""Says what the submission may do with an object that a test gave it: call it, compute with it, and use attributes
that are known to be harmless. What is behind the object stays hidden: its class, the parts of a function, what a mock
remembers."""

_FILE = frozenset(
    "read read1 readline readlines readinto write writelines seek tell truncate close closed flush readable writable "
    "seekable isatty fileno name mode encoding errors newlines getvalue".split())
_QUEUE = frozenset("put get put_nowait get_nowait task_done join qsize empty full".split())
_THREAD = frozenset("acquire release locked set clear is_set wait wait_for notify notify_all start join is_alive name "
                    "daemon run cancel abort reset parties n_waiting broken".split())
_PATH = frozenset("parts name stem suffix suffixes parent anchor drive root as_posix joinpath".split())
ALL = None
HARMLESS = {  # module of a class of the library → what may be asked of what has it from that class
    "_io": _FILE, "io": _FILE, "queue": _QUEUE, "_queue": _QUEUE, "threading": _THREAD, "_thread": _THREAD,
    "pathlib": _PATH, "pathlib._local": _PATH, "functools": frozenset(["cache_info", "cache_clear", "cache_parameters"]),
    "enum": frozenset(["name", "value"]), "string": frozenset(["substitute", "safe_substitute", "template"]),
    "logging": frozenset("handle emit format setLevel setFormatter acquire release createLock filter addFilter flush "
                         "close level name formatter".split()),
    "json.encoder": frozenset(["encode", "iterencode", "default"]), "json.decoder": frozenset(["decode", "raw_decode"]),
    "ast": frozenset(["visit", "generic_visit"]),
    "weakref": frozenset("add discard get items keys values pop remove".split()),
    "re": ALL, "random": ALL, "_random": ALL, "array": ALL, "collections": ALL, "collections.abc": ALL, "typing": ALL,
    "datetime": ALL, "zoneinfo": ALL, "decimal": ALL, "fractions": ALL, "numbers": ALL, "uuid": ALL,
}
_VALUES = (int, float, complex, str, bytes, bytearray, list, dict, set, frozenset, tuple, range, slice, memoryview,
           types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, types.MappingProxyType)
_FORMATS = ("format", "format_map")  # reach any attribute of what they print
_ROUTINES = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.MethodDescriptorType,
             types.WrapperDescriptorType)


class Shape:
    """A number that only describes the class of a lent object. Nothing can be done with it."""


def library_name(v):
    """Return the module and name under which the submission finds its own copy of a class or function of the
    library."""
    owner = getattr(v, "__objclass__", v)
    module, name = getattr(owner, "__module__", None), getattr(v, "__qualname__", None)
    if type(module) is not str or type(name) is not str or module.partition(".")[0] not in STANDARD:
        return None
    found = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None) if found is not None else None
    return [module, name] if found is v else None


def is_mock(o):
    mock = sys.modules.get("unittest.mock")
    return mock is not None and isinstance(o, mock.NonCallableMock)


def _mocks_own(name):
    """Report whether a mock uses a name for itself, to remember calls and to be asked about them."""
    mock = sys.modules["unittest.mock"]
    return name in ("method_calls", "mock") or name.startswith("assert") or hasattr(mock.AsyncMock, name)


def _definer(cls, name):
    """Return the class that an object has an attribute from."""
    return next((c for c in cls.__mro__ if name in vars(c)), None)


def _own(o):
    """Return the attributes of an object that are not those of its class."""
    try:
        return object.__getattribute__(o, "__dict__")
    except AttributeError:
        return {}


def may_get(o, name, tests):
    """Report whether the submission may read an attribute of a lent object."""
    if isinstance(o, _ROUTINES):
        own = getattr(o, "__dict__", {})
        return name in own and "mock" not in own
    if is_mock(o):
        return not _mocks_own(name)
    cls = o if isinstance(o, type) else type(o)
    definer = _definer(cls, name)
    if definer is None:
        if isinstance(o, type):
            return name in getattr(o, "_member_map_", ())
        dynamic = _definer(cls, "__getattr__")
        return name in _own(o) or dynamic is not None and _of_tests(dynamic, tests)
    if _of_tests(definer, tests):
        return True
    if name in _FORMATS:
        return False
    if definer in _VALUES:
        return True
    allowed = HARMLESS.get(definer.__module__, ())
    return allowed is ALL or name in allowed


def _acts(v):
    """Report whether an attribute is there to be called. One that the submission has set is not the test's."""
    return not isinstance(v, (Remote, RemoteClass, Method)) and (callable(v) or is_mock(v) or hasattr(type(v), "__get__"))


def may_set(o, name, value, tests):
    """Report whether the submission may replace an attribute of a lent object, by value or, if that is
    NotImplemented, delete it. Methods, callbacks and mocks of the test stay as they are."""
    if is_mock(o):
        theirs = isinstance(value, (Remote, RemoteClass, Method)) or callable(value)
        return not _mocks_own(name) and not theirs and value is not NotImplemented
    if isinstance(o, types.FunctionType):
        return "mock" not in vars(o) and not _acts(vars(o).get(name))
    cls = o if isinstance(o, type) else type(o)
    if isinstance(o, _ROUTINES) or not _of_tests(cls, tests) and cls is not types.SimpleNamespace:
        return False
    definer = _definer(cls, name)
    if definer is None:
        return isinstance(o, type) or not _acts(_own(o).get(name))
    if not _of_tests(definer, tests):
        return False
    there = vars(definer)[name]
    if isinstance(there, types.MemberDescriptorType) and not isinstance(o, type):
        return not _acts(getattr(o, name, None))
    if hasattr(type(there), "__set__"):
        return not isinstance(o, type)
    return not _acts(there) and not _acts(_own(o).get(name))


def is_outcome(e):
    """Report whether an exception is the result of a test."""
    return isinstance(e, AssertionError) or any(
        c.__module__ == "_pytest.outcomes" or (c.__module__, c.__name__) == ("unittest.case", "SkipTest")
        for c in type(e).__mro__)
