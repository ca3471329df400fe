"""Proxies of the submission in the examiner: modules, classes and objects that pass on what a test does.

Everything that arrives is checked before it is used. A class of the submission becomes a class here with its name and
its bases, but none of its code. Derived data (a namedtuple, an IntEnum, a list with methods) has its plain value here
and is compared by it. What only the submission can decide, such as whether two of its objects are equal, is counted.
"""
import abc
import builtins
import collections.abc
import enum
import importlib.abc
import importlib.machinery
import re
import types
import weakref

MOST = 512 << 20  # bytes that the subject may send in all
LENT = 100_000  # things that may be known at one time
THREADS = 64
PRINTED = 4 << 20  # characters that the subject may print; it is honest about fewer
NATIVE = {int, float, complex, str, bytes, tuple, frozenset}
ANSWERED = {  # the special attributes that are asked for; all others an object of the submission does not have
    "__name__", "__qualname__", "__doc__", "__dict__", "__annotations__", "__wrapped__", "__defaults__", "__all__",
    "__kwdefaults__", "__version__", "__author__", "__members__", "__match_args__", "__slots__", "__func__",
    "__file__", "__abstractmethods__", "__mro_entries__", "__self__", "__module__", "__license__", "__date__",
}
WATCHED = (  # functions of the library that tests like to replace, and that the submission may call
    ("builtins", ("input", "print", "open")),
    ("time", ("time", "sleep", "monotonic", "perf_counter", "time_ns", "strftime")),
    ("random", ("random", "randint", "choice", "choices", "shuffle", "uniform", "sample", "randrange", "gauss")),
    ("os", ("getcwd", "system", "listdir")),
    ("uuid", ("uuid4", "uuid1")), ("secrets", ("token_hex", "choice", "token_urlsafe", "randbelow")),
    ("subprocess", ("run", "check_output", "Popen", "call")),
    ("urllib.request", ("urlopen",)),
)
ONE_STEP = "needs mode inproc: a coroutine of the delivery runs to its end before anything else of the test goes on"


class Unsupported(BaseException):
    """The test does something that split examination cannot; the criterion needs mode inproc."""


class Remote:
    """The base of all proxies."""

    __slots__ = ()


class RemoteClass(type):
    """The metaclass of the proxies of classes."""

    def __new__(meta, name, bases, members, link=None, **more):
        if link is None:
            raise LINK[0].unsupported("the class %s of a test is derived from one of the submission's" % name)
        return super().__new__(meta, name, bases, members)

    def __init__(cls, name, bases, members, link=None, **more):
        super().__init__(name, bases, members)

    def __call__(cls, *a, **k):
        return LINK[0].call(cls, a, k)

    def __getattr__(cls, name):
        return LINK[0].attribute(cls, name)

    def __setattr__(cls, name, value):
        if name == "__abstractmethods__":
            return type.__setattr__(cls, name, value)
        LINK[0].assign(cls, name, value)

    def __delattr__(cls, name):
        LINK[0].delete(cls, name)

    def __bool__(cls):
        return True

    def __iter__(cls):
        return LINK[0].operate("__iter__", cls)

    def __len__(cls):
        return LINK[0].operate("__len__", cls)

    def __contains__(cls, value):
        return LINK[0].operate("__contains__", cls, value)

    def __getitem__(cls, key):
        return LINK[0].operate("__getitem__", cls, key)

    def __dir__(cls):
        return LINK[0].lib("builtins", "dir", cls)


LINK = []  # the one link to the subject


class Thing(Remote, metaclass=RemoteClass, link=True):
    """The proxy of an object."""

    __slots__ = ("_remote", "__weakref__")

    def __eq__(self, other):
        """Ask the submission: only it knows which of its objects are the same."""
        if isinstance(other, Remote):
            LINK[0].decided += 1
        return True if self is other else NotImplemented

    __hash__ = object.__hash__

    def __getattr__(self, name):
        return LINK[0].attribute(self, name)

    def __setattr__(self, name, value):
        LINK[0].set(self, name, value)

    def __delattr__(self, name):
        LINK[0].delete(self, name)

    def __repr__(self):
        return "<%s.%s object of the submission>" % (type(self).__module__, type(self).__qualname__)

    def __dir__(self):
        return LINK[0].lib("builtins", "dir", self)

    def __copy__(self):
        return LINK[0].lib("copy", "copy", self)

    def __deepcopy__(self, memo):
        return LINK[0].lib("copy", "deepcopy", self)

    def __reduce_ex__(self, protocol):
        raise LINK[0].unsupported("a test pickles an object of the submission's")

    def __del__(self):
        LINK[0].release(self)


class Data(Remote):
    """Derived data: the plain value is here, the rest is the submission's."""

    __slots__ = ()
    __getattr__, __setattr__, __delattr__ = Thing.__getattr__, Thing.__setattr__, Thing.__delattr__
    __copy__, __deepcopy__, __reduce_ex__ = Thing.__copy__, Thing.__deepcopy__, Thing.__reduce_ex__
    __dir__ = Thing.__dir__


class Failure(Remote):
    """An exception of the submission's own class."""

    __getattr__, __setattr__, __dir__ = Thing.__getattr__, Thing.__setattr__, Thing.__dir__
    __eq__, __hash__ = Thing.__eq__, object.__hash__

    __del__ = Thing.__del__

    def __str__(self):
        return self.__dict__.get("_text", "")


# What the interpreter itself sets on an exception is the examiner's own.
OWN = {"__traceback__", "__cause__", "__context__", "__suppress_context__", "__notes__", "args", "_remote"}


class Method:
    """A method of an object of the submission, which is looked up when it is called."""

    __slots__ = ("_owner", "__name__")

    def __init__(self, owner, name):
        self._owner, self.__name__ = owner, name

    @property
    def __self__(self):
        return self._owner

    @property
    def __doc__(self):
        return LINK[0].attribute(LINK[0].attribute(self._owner, self.__name__, True), "__doc__")

    @property
    def __wrapped__(self):
        return LINK[0].attribute(LINK[0].attribute(self._owner, self.__name__, True), "__wrapped__")

    @property
    def __signature__(self):
        return LINK[0].signature(LINK[0].attribute(self._owner, self.__name__, True))

    def __getattr__(self, name):
        return LINK[0].attribute(LINK[0].attribute(self._owner, self.__name__, True), name)

    def __call__(self, *a, **k):
        return LINK[0].method(self._owner, self.__name__, a, k)

    def __eq__(self, other):
        return type(other) is Method and other._owner is self._owner and other.__name__ == self.__name__

    def __hash__(self):
        return hash((id(self._owner), self.__name__))


def _operation(name):
    def operation(self, *a):
        return LINK[0].operate(name, self, *a)
    return operation


def _call(self, *a, **k):
    return LINK[0].call(self, a, k)


def _binary(name):
    """Make an operator."""
    def operation(self, other):
        return LINK[0].binary(name, self, other)
    return operation


def _run_coroutine(o):
    """Have the submission run a coroutine to its end. The loop of the test stands still meanwhile. A test in which
    something else should have gone on may fail or wait for ever because of that."""
    link = LINK[0]
    link.twins.join(o)
    asyncio = sys.modules.get("asyncio")
    loop = asyncio._get_running_loop() if asyncio else None
    ready = bool(getattr(loop, "_ready", ()))
    timers = [t for t in getattr(loop, "_scheduled", ()) if not t.cancelled()]
    try:
        return link.ask("await", lambda: [link.encode(o)])
    finally:
        if ready or any(t.when() <= loop.time() for t in timers):
            link.hint = link.hint or ONE_STEP


def _await(self):
    return _run_coroutine(self)
    yield


def _hash(self):
    return LINK[0].hash(self)


def _bool(self):
    return LINK[0].operate("__bool__", self)


def _len(self):
    return LINK[0].operate("__len__", self)  # a number, which is compared here


def _iter(self):
    return LINK[0].operate("__iter__", self)


def _coroutine_send(self, value):
    raise StopIteration(_run_coroutine(self))


def _coroutine_close(self):
    LINK[0].method(self, "close", (), {})


def _coroutine_throw(self, *a):
    raise a[0] if isinstance(a[0], BaseException) else a[0]()


MEMBERS = {name: _operation(name) for name in OPERATIONS}
MEMBERS.update({"__call__": _call, "__hash__": _hash, "__bool__": _bool, "__len__": _len,
                "__await__": _await, "__iter__": _iter})
for _name in COMPARISONS + tuple("__%s__" % n for n in ARITHMETIC + ("divmod",)) + tuple(
        "__r%s__" % n for n in ARITHMETIC + ("divmod",)):
    MEMBERS[_name] = _binary(_name)
# Operators and predicates: what the submission says to them is counted, whatever it is.
DECIDING = set(COMPARISONS) | {"__%s%s__" % (side, n) for side in ("", "i", "r") for n in ARITHMETIC + ("divmod",)} | set(
    "__bool__ __contains__ __exit__ __aexit__ __abs__ __neg__ __pos__ __invert__ __round__ __trunc__ __floor__ __ceil__ __int__ "
    "__float__ __complex__ __index__ __fspath__".split())
CLASSES = {  # types of the library that an object may say it is, for inspect and isinstance
    ("builtins", "generator"): types.GeneratorType, ("builtins", "function"): types.FunctionType,
    ("builtins", "coroutine"): types.CoroutineType, ("builtins", "async_generator"): types.AsyncGeneratorType,
}
ABSTRACT = {name: getattr(collections.abc, name) for name in collections.abc.__all__}


class Description:
    """The subject's description of a class."""

    def __init__(self, number, operations, methods, base, meta):
        self.number, self.methods, self.base = number, frozenset(methods), base
        self.all, self.meta, self.hashes = frozenset(operations), meta, {}
        self.name = ""  # with its module
        self.derives = ()  # classes of the library's that it says it is derived from
        self.operations = [n for n in operations if n in MEMBERS]

    def abstract(self, name, module):
        """Return the abstract classes that an object of this class is an instance of."""
        found = {("builtins", "generator"): ["Generator"], ("builtins", "coroutine"): ["Coroutine"]}
        if {"__getitem__", "__iter__", "__len__"} <= self.all and {"keys", "items", "values"} <= self.methods:
            return ["Mapping", "MutableMapping"] if "__setitem__" in self.all else ["Mapping"]
        return found.get((module, name), [])


DERIVED = {  # what derived data leaves to the submission even so
    "__str__", "__repr__", "__format__", "__enter__", "__exit__", "__call__", "__missing__",
}
COMPARED = set(COMPARISONS) | {"__%s__" % n for n in ARITHMETIC} | {
    "__getitem__", "__setitem__", "__delitem__", "__contains__", "__len__", "__iter__", "__bool__"} | {
    "__i%s__" % n for n in ARITHMETIC} | {"__neg__", "__abs__", "__pos__", "__invert__", "__round__"}


def _derived(name, base, own):
    """An operation of a class of derived data. The submission is asked where the class has one of its own or both sides
    are the submission's, but never whether its data equals plain data."""
    native = getattr(base, name, None)

    def operation(self, *a):
        remote = bool(a) and isinstance(a[0], Remote)
        if remote and name in COMPARISONS or own and name not in ("__eq__", "__ne__"):
            return LINK[0].operate(name, self, *a)
        return native(self, *a) if native else NotImplemented
    return operation


def _overridden(name):
    """A method that a class of derived data has in place of the plain one."""
    return property(lambda self: Method(self, name))


def _inside(module, name, original):
    def look(o, *a, **k):
        if isinstance(o, Method):
            o = LINK[0].attribute(o._owner, o.__name__, True)
        if isinstance(o, (Remote, RemoteClass)):
            return LINK[0].lib(module, name, o, *a, **k)
        return original(o, *a, **k)
    return look


def _library_exception(module, qualname):
    """Return an exception of the library that this process has imported already."""
    top = module.partition(".")[0]
    if top in ("builtins", "unittest") or top not in STANDARD:
        return None
    found = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, name, None) if found is not None else None
    return found if _is_class(found) and issubclass(found, BaseException) else None


FOUNDATIONS = ("collections.abc", "numbers", "contextlib", "enum", "os", "io")  # where a submission finds its bases


def _library_classes(names):
    """Return the abstract classes and enumerations among the bases that a class claims."""
    found = []
    for module, name in [_words(pair) for pair in _is(names, list)[:50]]:
        cls = getattr(importlib.import_module(module), name, None) if module in FOUNDATIONS else None
        if isinstance(cls, (abc.ABCMeta, enum.EnumMeta)):
            found.append(cls)
    return tuple(found)


def watch_enums(link):
    """Let isinstance and issubclass find the library's enumerations above a class of the submission, and count where
    only the submission says so."""
    def told(cls, kind):
        about = link.about.get(cls) if type(cls) is RemoteClass else None
        if about is None or kind not in about.derives:
            return False
        link.decided += 1
        return True

    plain, plain_sub = abc.ABCMeta.__instancecheck__, abc.ABCMeta.__subclasscheck__
    enum.EnumMeta.__instancecheck__ = lambda kind, o: type.__instancecheck__(kind, o) or told(type(o), kind)
    enum.EnumMeta.__subclasscheck__ = lambda kind, cls: type.__subclasscheck__(kind, cls) or told(cls, kind)

    def instance(kind, o):
        return plain(kind, o) and (told(type(o), kind) or True)

    def subclass(kind, cls):
        return plain_sub(kind, cls) and (told(cls, kind) or True)
    abc.ABCMeta.__instancecheck__, abc.ABCMeta.__subclasscheck__ = instance, subclass


STANDARD = getattr(sys, "stdlib_module_names", None) or set(sys.builtin_module_names) | {
    "os", "posixpath", "math", "random", "io", "string", "collections", "functools", "itertools", "operator", "datetime",
    "types", "enum", "typing", "unittest", "threading", "pathlib", "uuid", "tempfile", "contextlib", "logging", "heapq", "bisect",
    "array", "abc", "numbers", "textwrap", "hashlib", "base64",
    "json", "decimal", "fractions", "sqlite3", "subprocess", "queue", "struct", "zlib", "argparse", "dataclasses",
    "configparser", "csv", "socket", "ssl", "shutil", "tarfile", "zipfile", "xml", "urllib", "http", "email", "asyncio",
    "concurrent", "copy", "pickle", "statistics", "binascii", "calendar", "optparse", "getopt", "locale", "re", "sre_constants",
}


def _data_base(cls):
    if not issubclass(cls, Data):
        return None
    return next(b for b in cls.__mro__ if b in NATIVE or b in KIND)


def _is_class(v):
    return isinstance(v, type)


def _words(v):
    if type(v) is not list or set(map(type, v)) - {str}:
        raise Malformed("no list of names")
    return v


def _public(name):
    if type(name) is not str or name.startswith(("_", "gi_", "cr_", "ag_", "f_", "co_", "tb_")):
        raise AttributeError(name)
    return name


def _lendable(cls, tests):
    """Report whether the submission may be given an object: one that the tests have made, or of a few harmless
    classes."""
    if cls.__module__ in ("unittest.mock", "_io", "io", "functools", "builtins", "itertools", "operator", "enum",
                          "types", "collections", "re", "string", "datetime", "zoneinfo", "queue", "threading",
                          "_thread", "_random", "random", "array", "pathlib", "weakref"):
        return True
    return _of_tests(cls, tests)


def _of_tests(cls, tests):
    """Report whether a class is the customer's: of the tests, or of the bundle's files beside them."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None) or ""
    return type(cls) is not RemoteClass and file.startswith(os.path.dirname(tests) + "/")
