"""Runs the submission and answers the examiner's requests on descriptor 4.

This process belongs to the submission, which may change anything here. It has no tests, no expected values and no way
to report a result, and the examiner takes everything that it sends as data.
"""
import importlib
import importlib.util
import io
import types
import warnings

WORKSPACE = ["/box/work", "/box/work/src"]
IMMUTABLE = {  # how the plain value below a derived one is read, whatever the derived class says
    int: lambda v: int.__add__(v, 0), float: float.__pos__, complex: complex.__pos__, str: str.__str__,
    bytes: lambda v: bytes.__getitem__(v, slice(None)), tuple: lambda v: tuple.__getitem__(v, slice(None)),
    frozenset: lambda v: frozenset(frozenset.__iter__(v)),
}
ROUTINES = (types.FunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, staticmethod, classmethod,
            types.ClassMethodDescriptorType)
TOLD = 1 << 20  # bytes of output that are passed on
WARNED = 1000  # warnings that are passed on


class Told(io.RawIOBase):
    """Standard output or error: what is written goes to the test that asked, as if it had printed it."""

    def __init__(self, descriptor, told):
        self._descriptor, self._told, self._left, self._pid = descriptor, told, TOLD, os.getpid()

    def writable(self):
        return True

    def fileno(self):
        return self._descriptor

    def write(self, data):
        data = bytes(data)
        if os.getpid() != self._pid:
            return os.write(self._descriptor, data)
        if self._left >= len(data):
            self._left -= len(data)
            self._told.append([self._descriptor, data.decode("utf-8", "replace")])
        return len(data)


class Asked(io.TextIOBase):
    """Standard input: the test has it, if it has one."""

    def __init__(self, ask):
        self._ask = ask

    def readable(self):
        return True

    def read(self, size=-1):
        return self._ask("stdin", ["read", size])

    def readline(self, size=-1):
        return self._ask("stdin", ["readline", size])

    def __next__(self):
        line = self.readline()
        if not line:
            raise StopIteration
        return line


class LentClass(type):
    """The metaclass of what stands here for the test's own classes: an instance is made by the test's side."""

    def __new__(meta, name, bases, members, subject=None):
        if subject is None:
            raise TypeError("a class of the test cannot be derived from here")
        cls = super().__new__(meta, name, bases, members)
        type.__setattr__(cls, "_subject", subject)
        return cls

    def __init__(cls, name, bases, members, subject=None):
        super().__init__(name, bases, members)

    def __call__(cls, *a, **k):
        return cls._subject.ask("call", [cls, a, tuple(k.items())])

    def __getattr__(cls, name):
        return _lent(cls, "_subject").ask("get", [cls, name])


def _lent(cls, name):
    return type.__getattribute__(cls, name)


class Lent:
    """Something of the test's own. Whatever is asked of it is asked of the test."""

    def __getattr__(self, name):
        return _lent(type(self), "_subject").ask("get", [self, name])

    def __setattr__(self, name, value):
        _lent(type(self), "_subject").ask("set", [self, name, value])

    def __delattr__(self, name):
        _lent(type(self), "_subject").ask("del", [self, name])


def _lent_operation(subject, name):
    return lambda self, *a: subject.ask("op", [name, self, *a])


class Subject(Codec):
    """The submission's side of the examination."""

    def __init__(self):
        super().__init__(0)
        self.told = []
        self.warned, self.warnings = [], 0
        self.here = threading.local()
        self.channel = Channel(4, self.serve, self.stray, 1 << 62)
        self.originals = {}  # (number, attribute) → what a test has put something else in place of
        self.patches = {}
        self.opaque = {}  # class → the number that its instances have when they go as handles
        self.loop = None
        self.files = Mirror()
        self.named = {}  # id of something of the library's that a test has named → its number
        self.decoders.update(x=self.borrow, X=self.borrow_exception, a=self.bound, n=self.library)
        self.pid = os.getpid()

    # Being asked.

    def stray(self, frame):
        """A request of a thread of the examiner's that has no counterpart here yet."""
        thread = frame[2]
        self.channel.join(thread)

        def work():
            self.here.thread = thread
            self.serve(frame)
            self.channel.wait(0, thread)
        threading.Thread(target=_until_gone, args=(work,), daemon=True).start()

    def serve(self, frame):
        """Answers one request."""
        _, number, _, op, args, extra = frame
        try:
            self.prepare(extra)
            answer = getattr(self, "do_" + op)(*args)
        except Gone:
            raise
        except BaseException as e:
            self.answer(RAISED, number, e)
        else:
            self.answer(ANSWER, number, answer)

    def prepare(self, extra):
        """Takes over what has changed on the other side."""
        for number, payload in extra.get("u", ()):
            self.refill(number, payload)
        self.forget(extra.get("r", ()))
        if "e" in extra:
            for name, value in extra["e"].items():
                os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
        if "a" in extra:
            sys.argv[:] = self.decode(extra["a"])
        if "p" in extra:
            self.patch(extra["p"])
        if "seed" in extra:
            import random
            random.seed(*self.decode(extra["seed"]))
        if "n" in extra:
            self.files.clear()
        for path, content in extra.get("g", ()):
            _keep_given(path, binascii.a2b_base64(content))
        if "f" in extra:
            self.files.take(extra["f"])
        if "d" in extra:
            os.chdir(extra["d"])

    def patch(self, patches):
        """Puts the test's replacements of functions of the library in their places, or the originals back."""
        for module, name, value in patches:
            m = importlib.import_module(module)
            key = module, name
            self.patches.setdefault(key, getattr(m, name))
            setattr(m, name, self.patches[key] if value is None else self.decode(value))

    def answer(self, kind, number, value):
        """Sends what came of a request. What is too deep or too long to go by value goes as a handle."""
        with self.channel.sending:
            extra, before = self.extra(), self.last
            try:
                self.channel.send([kind, number, self.encode(value), self.with_files(extra)])
            except (Deep, RecursionError):
                self.forget(range(before + 2, self.last + 1, 2))
                if kind == RAISED:
                    value = RuntimeError("an exception that is too large")
                    self.channel.send([kind, number, self.encode(value), extra])
                else:
                    self.channel.send([kind, number, self.handle(value, 1, False, True), extra])

    def extra(self):
        """What goes with every frame."""
        extra = {}
        changes = self.changes()
        if changes:
            extra["u"] = changes
        if self.told:
            extra["w"], self.told[:] = list(self.told), []
        if self.warned:
            told, self.warned = self.warned, []
            extra["W"] = [self.encode(w) for w in told]
        if threading.active_count() > 1:
            extra["t"] = 1
        return extra

    def with_files(self, extra):
        """Adds the files that were changed, once it is known which are meant, or that they are too large."""
        try:
            files = self.files.changes() if self.files.roots else None
        except Deep:
            return dict(extra, large=1)
        if files:
            extra["f"] = files
        return extra

    def warn(self, message, category, filename, lineno, file=None, line=None):
        """Keeps a warning for the test that asked, which sees it as if it had been given there."""
        if self.warnings < WARNED:
            self.warnings += 1
            self.warned.append(message)

    # Asking.

    def ask(self, op, args):
        """Asks the test's side, in the name of the thread that asked us."""
        if os.getpid() != self.pid:
            raise RuntimeError("the test's functions cannot be called from another process")
        thread = getattr(self.here, "thread", NOBODY)
        if thread == NOBODY:
            self.read_along()
        number = self.channel.number()
        with self.channel.sending:
            extra = self.extra()
            args = [self.encode(a) for a in args]
            self.channel.send([REQUEST, number, thread, op, args, self.with_files(extra)])
        frame = self.channel.wait(number, thread if thread != NOBODY else None)
        self.prepare(frame[3])
        value = self.decode(frame[2])
        if frame[0] == RAISED:
            raise value
        return value

    def read_along(self):
        """Starts a reader, for from now on threads may ask that nobody waits with."""
        with self.channel.sending:
            if not getattr(self, "reader", None):
                self.reader = threading.Thread(target=self.channel.pump, daemon=True)
                self.reader.start()

    # What can be asked.

    def do_import(self, name, again):
        """Imports a module of the workspace: itself, whether it is a package, its public names, text and file."""
        try:
            spec = importlib.util.find_spec(name)
        except (ValueError, AttributeError):
            spec = None
        except ModuleNotFoundError:
            return None
        if name not in sys.modules and (spec is None or not _ours(spec)):
            return None
        known = name in sys.modules
        module = importlib.import_module(name)
        if again and known:
            module = importlib.reload(module)
        names = getattr(module, "__all__", None)
        if names is None:
            names = [n for n in vars(module) if not n.startswith("_")]
        return (Opaque(module), hasattr(module, "__path__"), list(names), module.__doc__, getattr(module, "__file__", None))

    def do_get(self, o, name):
        return getattr(self.decode(o), name)

    def do_set(self, o, name, value):
        o = self.decode(o)
        key = id(o), name
        if isinstance(o, (type, types.ModuleType)) and key not in self.originals:
            self.originals[key] = (o, vars(o).get(name, NotImplemented))
        setattr(o, name, self.decode(value))

    def do_del(self, o, name):
        """Deletes an attribute; one that a test has put there gives way to what was there before."""
        o = self.decode(o)
        _, original = self.originals.pop((id(o), name), (o, NotImplemented))
        if original is NotImplemented:
            delattr(o, name)
        else:
            setattr(o, name, original)

    def do_call(self, f, args, kwargs):
        f = self.decode(f)
        return f(*[self.decode(a) for a in args], **{k: self.decode(v) for k, v in kwargs.items()})

    def do_method(self, o, name, args, kwargs):
        f = getattr(self.decode(o), name)
        return f(*[self.decode(a) for a in args], **{k: self.decode(v) for k, v in kwargs.items()})

    def do_op(self, name, *args):
        return OPERATIONS[name](*[self.decode(a) for a in args])

    def do_lib(self, module, name, args, kwargs):
        """A function of the library that looks inside an object, of copy, dataclasses or inspect."""
        f = getattr(importlib.import_module(module), name)
        return f(*[self.decode(a) for a in args], **{k: self.decode(v) for k, v in kwargs.items()})

    def do_await(self, o):
        """Runs a coroutine to its end, in one loop for all; another where the test asks while that one runs."""
        import asyncio
        outer, o = asyncio._get_running_loop(), self.decode(o)
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        loop = asyncio.new_event_loop() if self.loop.is_running() else self.loop

        async def wait():
            return await o
        asyncio._set_running_loop(None)
        try:
            return loop.run_until_complete(wait())
        finally:
            asyncio._set_running_loop(outer)

    def do_signature(self, f):
        """The parameters of a function: name, kind, default and annotation, NotImplemented where there is none."""
        import inspect
        f = self.decode(f)
        empty = inspect.Parameter.empty
        return [(p.name, int(p.kind), *[NotImplemented if x is empty else x for x in (p.default, p.annotation)])
                for p in inspect.signature(f).parameters.values()]

    def do_threads(self):
        self.read_along()

    # Values out.

    def mention(self, path):
        self.files.mention(path)

    def other(self, v, depth, key):
        if id(v) in self.named:
            return {"k": self.named[id(v)]}
        if isinstance(v, type):
            return self.class_(v, depth)
        if isinstance(v, BaseException):
            return self.exception(v, depth)
        return self.handle(v, depth, key)

    def handle(self, v, depth, key, opaque=False):
        """An object of the submission's. Derived data goes with the plain value below it."""
        if type(v) is Opaque:
            v = v.value
        number = self.numbers.get(id(v))
        if number is not None:
            return {"k": number}
        number = self.new_number(v)
        cls = self.class_(type(v), depth, opaque)
        more = {}
        if key and type(v).__hash__ is not object.__hash__:
            more["h"] = hash(v)
        base = None if opaque else _data(type(v))
        if base in IMMUTABLE:
            more["d"] = self.encode(IMMUTABLE[base](v), depth)
        elif base is not None:
            kind = KIND[base]
            contents = kind.contents(v)
            self.shared[number] = [v, kind, contents]
            more["c"] = self._contents(kind, contents, depth)
        return {"h": [number, cls, more]}

    def exception(self, e, depth):
        """An exception. Its parts are encoded in the order in which they are read."""
        number, cls = self.new_number(e), self.class_(type(e), depth)
        try:
            named = isinstance(e, OSError) and type(e) in NAMED and e.filename is not None
            args = self.items((e.errno, e.strerror, e.filename) if named else e.args, depth)
        except (Deep, RecursionError):
            args = []
        own = {"name": e.name} if isinstance(e, ImportError) else {}
        if type(e) in NAMED or _library(type(e)):
            own.update((n, v) for n, v in vars(e).items() if type(v) in _ATOMS or type(v) in (bytes, list, tuple))
        try:
            own = self.encode(own, depth)
        except (Deep, RecursionError):
            own = self.encode({}, depth)
        try:
            text = self.text(str(e)[:TOLD])
        except Exception:
            text = ""
        cause, context = [self.encode(x, depth) if x is not None and depth < 20 else None
                          for x in (e.__cause__, e.__context__)]
        return {"E": [number, cls, args, text, cause, context, own]}

    def class_(self, cls, depth, opaque=False):
        """A class: its name, what it is derived from, and what can be asked of its instances. An opaque one is
        not derived from data, whatever it is."""
        if opaque:
            number = self.opaque.get(cls)
        else:
            number = self.numbers.get(id(cls))
        if number is not None:
            return {"k": number}
        if cls in NAMED and issubclass(cls, BaseException):
            return {"g": NAMED[cls]}
        base = None
        if opaque:
            number = self.opaque[cls] = self.new_number(Opaque(cls))
        else:
            number, base = self.new_number(cls), _data(cls)
        own = [c for c in cls.__mro__ if c is not object and c is not base and (base is None or c not in NAMED)]
        names = {n: vars(c)[n] for c in reversed(own) for n in vars(c)}
        operations = [n for n in names if n in OPERATIONS and names[n] is not None]
        if "__call__" in names:
            operations.append("__call__")
        if "__hash__" in names and names["__hash__"] is None:
            operations.append("unhashable")
        methods = [n for n, v in names.items() if isinstance(v, ROUTINES) and not n.startswith("__")]
        doc = cls.__doc__ if type(cls.__doc__) is str else None
        meta = [n for c in type(cls).__mro__ if c not in (type, object) for n in vars(c) if n in OPERATIONS]
        return {"C": [number, cls.__name__, cls.__module__ if type(cls.__module__) is str else "",
                      cls.__qualname__, [] if opaque else [self.class_(b, depth) for b in _bases(cls)],
                      NAMED[base] if base else None, operations, methods, self.encode(doc), meta, _library_bases(cls)]}

    # Values in.

    def bound(self, payload, depth):
        o, name = payload
        return getattr(self.decode(o, depth), name)

    def library(self, payload, depth):
        """A class or function of the standard library, of which there is one here, too."""
        number, module, name = payload
        v = _found(module, name)
        self.objects[number], self.named[id(v)] = v, number
        return v

    def borrow(self, payload, depth):
        """Something of the test's: a function, a class or an object."""
        number, kind, name, more = payload
        if kind == "f":
            v = self.borrowed_function(number, name, more, depth)
        elif kind == "c":
            members = {n: _lent_operation(self, n) for n in more if n in OPERATIONS and n != "__hash__"}
            if "__call__" in more:
                members["__call__"] = lambda o, *a, **k: self.ask("call", [o, a, tuple(k.items())])
            if "__eq__" in members:
                members["__hash__"] = object.__hash__
            v = LentClass(name, (Lent,), members, subject=self)
        else:
            v = object.__new__(self.decode(more, depth))
        self.keep(number, v)
        return v

    def borrowed_function(self, number, name, more, depth):
        def function(*a, **k):
            return self.ask("call", [function, a, tuple(k.items())])
        doc, parameters = more
        function.__name__ = function.__qualname__ = name
        function.__doc__, function.__module__ = doc, "test"
        if parameters is not None:
            import inspect
            P = inspect.Parameter
            made = []
            for p_name, p_kind, default, annotation in parameters:
                made.append(P(p_name, getattr(P, p_kind), default=P.empty if default is None else self.decode(default[0]),
                              annotation=P.empty if annotation is None else self.decode(annotation[0])))
                if annotation is not None and p_name != "return":
                    function.__annotations__[p_name] = made[-1].annotation
            function.__signature__ = inspect.Signature(made)
        return function

    def borrow_exception(self, payload, depth):
        """An exception of the test's own class, which is one of the library's here."""
        number, name, base, args = payload
        base = BY_NAME.get(base, Exception) if type(base) is str else _found(*base)
        cls = base if base.__name__ == name else type(name, (base,), {"__module__": "test"})
        args = self.values(args, depth)
        try:
            e = cls(*args)
        except TypeError:  # its arguments are not what it was made of
            e = cls.__new__(cls)
            e.args = tuple(args)
        self.keep(number, e)
        return e


class Opaque:
    """Marks a value that goes as a handle, whatever it is."""

    def __init__(self, value):
        self.value = value


def _ours(spec):
    """Whether a module is of the workspace."""
    places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or ())
    return any(os.path.realpath(p).startswith(WORKSPACE[0] + "/") for p in places if p)


def _data(cls):
    """The plain type that a class is derived from, if it is."""
    for base in cls.__mro__:
        if base in IMMUTABLE or base in KIND:
            return base
    return None


def _bases(cls):
    """The classes above one that mean something on the other side: the submission's, and exceptions."""
    found = []
    for b in cls.__bases__:
        if b is object:
            continue
        if issubclass(b, BaseException) or not _library(b):
            found.append(b)
        elif b not in NAMED:
            found += [x for x in _bases(b) if x not in found]
    return found


def _library_bases(cls):
    """The library's classes that one is derived from, by module and name; exceptions are known anyway."""
    return [[c.__module__, c.__qualname__] for c in cls.__mro__ if c is not object and c not in NAMED
            and not issubclass(c, BaseException) and _library(c) and type(c.__module__) is str]


def _library(cls):
    spec = getattr(sys.modules.get(cls.__module__), "__spec__", None)
    return spec is None or not _ours(spec)


def _found(module, name):
    """A class or function of the standard library."""
    v = importlib.import_module(module)
    for part in name.split("."):
        v = getattr(v, part)
    return v


def _keep_given(path, content):
    """Puts a file of the tests where they have it, if that place can be had."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "xb") as f:
            f.write(content)
        os.chmod(path, 0o444)
    except OSError:
        pass


def _until_gone(f):
    try:
        f()
    except Gone:
        pass


def main():
    sys.path += [p for p in WORKSPACE if p not in sys.path]
    sys.argv[:] = ["pytest"]
    os.set_inheritable(4, False)
    subject = Subject()
    subject.here.thread = 0
    subject.channel.join(0)
    # The names that sys has for the originals go to the same place, as they do below pytest.
    sys.stdout = io.TextIOWrapper(Told(1, subject.told), "utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(Told(2, subject.told), "utf-8", "backslashreplace", write_through=True)
    sys.stdin = Asked(subject.ask)
    warnings.simplefilter("always")  # the test's own filters decide
    warnings.showwarning = subject.warn
    _until_gone(lambda: subject.channel.wait(0, 0))
    os._exit(0)
