"""What stands for the submission in the examiner: modules, classes and objects that pass on what a test does.

Whatever arrives is checked before it is used. A class of the submission becomes a class here that has its name and
its place in the hierarchy, but none of its code; derived data (a namedtuple, an IntEnum, a list with methods)
carries its plain value, and is compared by that. What only the submission could decide, such as whether two of
its objects are equal, is counted.
"""
import builtins
import collections.abc
import importlib.abc
import importlib.machinery
import re
import types
import weakref

MOST = 512 << 20  # bytes that the subject may send in all
LENT = 100_000  # things that may be known at one time
THREADS = 64
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


class Unsupported(BaseException):
    """The test does what split examination cannot; the criterion needs mode inproc."""


class Remote:
    """What all that stands for something of the submission's has in common."""

    __slots__ = ()


class RemoteClass(type):
    """The metaclass of the classes that stand for the submission's."""

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
    """An object of the submission's."""

    __slots__ = ("_remote", "__weakref__")

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

    __del__ = Thing.__del__

    def __str__(self):
        return self.__dict__.get("_text", "")


# What the interpreter itself sets on an exception is the examiner's own.
OWN = {"__traceback__", "__cause__", "__context__", "__suppress_context__", "__notes__", "args", "_remote"}


class Method:
    """A method of an object of the submission's, which is asked for when it is called."""

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
    """An operator. The other operand is shown to the submission only if it is the submission's own, or if the
    test knows the class: a result that nobody expects must not learn what it is compared with."""
    def operation(self, other):
        return LINK[0].binary(name, self, other)
    return operation


def _await(self):
    return LINK[0].ask_back("await", self)
    yield


def _hash(self):
    return LINK[0].hash(self)


def _bool(self):
    return LINK[0].decide("__bool__", self)


def _len(self):
    return LINK[0].decide("__len__", self)


def _contains(self, value):
    return LINK[0].contains(self, value)


def _iter(self):
    return LINK[0].operate("__iter__", self)


def _coroutine_send(self, value):
    raise StopIteration(LINK[0].ask_back("await", self))


def _coroutine_close(self):
    LINK[0].method(self, "close", (), {})


def _coroutine_throw(self, *a):
    raise a[0] if isinstance(a[0], BaseException) else a[0]()


MEMBERS = {name: _operation(name) for name in OPERATIONS}
MEMBERS.update({"__call__": _call, "__hash__": _hash, "__bool__": _bool, "__len__": _len,
                "__contains__": _contains, "__await__": _await, "__iter__": _iter})
for _name in COMPARISONS + tuple("__%s__" % n for n in ARITHMETIC + ("divmod",)) + tuple(
        "__r%s__" % n for n in ARITHMETIC + ("divmod",)):
    MEMBERS[_name] = _binary(_name)
CLASSES = {  # types of the library that an object may say it is, for inspect and isinstance
    ("builtins", "generator"): types.GeneratorType, ("builtins", "function"): types.FunctionType,
    ("builtins", "coroutine"): types.CoroutineType, ("builtins", "async_generator"): types.AsyncGeneratorType,
}
ABSTRACT = {name: getattr(collections.abc, name) for name in collections.abc.__all__}


class Link(Codec):
    """The examiner's side of the examination."""

    def __init__(self, tests):
        super().__init__(-1)
        self.tests = tests
        self.here = threading.local()
        self.channel = Channel(4, self.serve, self.stray, MOST)
        self.alive = weakref.WeakValueDictionary()  # number → what stands for it
        self.classes = {}  # number of an object → its class here
        self.about = {}  # class → Description
        self.failures = {}  # number of an exception → its arguments and text
        self.passing = {}  # exceptions of the library that came with the last message
        self.library = set()  # exceptions of the library, beside the built-in ones
        self.released = []
        self.named = set()  # classes that the tests name
        self.lent = set()  # numbers of what the submission may ask of
        self.decided = 0
        self.calls = 0
        self.refused = None  # why the running test cannot be believed
        self.notes = []  # what split examination could not do
        self.told = {"threads": False}  # the environment and the like, as last told
        self.watched = []
        self.seeds = []
        self.fresh = True
        self.files = Mirror()
        self.threads = 0
        self.reader = None
        self.decoders.update(h=self.take_handle, C=self.take_class, E=self.take_exception, M=self._known)
        self.measure()
        LINK[:] = [self]

    # Asking.

    def ask(self, op, build):
        """Asks the subject, and returns what it answers or raises what it raised. The arguments are built while
        nobody else sends, for what is told once must be told first."""
        thread = self.thread()
        with self.channel.sending:
            before = self.last
            try:
                extra = self.extra()
                args = build()
                files = self.files.changes() if self.files.roots else None
                if files:
                    extra["f"] = files
                number = self.channel.number()
                self.channel.send([REQUEST, number, thread, op, args, extra])
            except Deep as e:
                self.take_back(before)
                raise self.unsupported(str(e))
            except Unsupported:
                self.take_back(before)
                raise
        return self.result(self.channel.wait(number, thread))

    def take_back(self, before):
        """Forgets what was numbered for a message that was not sent."""
        numbers = range(before + 2, self.last + 1, 2)
        self.forget(numbers)
        self.lent.difference_update(numbers)

    def result(self, frame):
        """The value of an answer. Whatever is malformed in it ends the conversation."""
        try:
            self.receive(frame[3])
            value = self.take(frame[2])
            if frame[0] == RAISED and not isinstance(value, BaseException):
                raise Malformed("an exception that is none")
        except Malformed as e:
            self.channel.close("the protocol was broken: %s" % e)
            raise Gone(self.channel.closed)
        if frame[0] == RAISED:
            raise value
        return value

    def thread(self):
        """The number of this thread, by which the subject knows who asks."""
        thread = getattr(self.here, "thread", None)
        if thread is None:
            with self.channel.sending:
                thread = self.here.thread = self.threads
                self.threads += 1
            self.channel.join(thread)
        return thread

    def extra(self):
        """What goes with every frame: what the other side should know of what happened here."""
        extra = {}
        changes = self.changes()
        if changes:
            extra["u"] = changes
        self.let_go()
        if self.released and self.alone():
            extra["r"], self.released = self.released, []
            self.passing.clear()
            for n in extra["r"]:
                self.classes.pop(n, None)
                self.failures.pop(n, None)
        if self.fresh:
            extra["n"], self.fresh = 1, False
        self.surroundings(extra)
        return extra

    def receive(self, extra):
        """Takes over what happened there. Whatever is wrong with it is Malformed."""
        try:
            for number, payload in _is(extra.get("u", []), list):
                if number in self.shared:
                    self.refill(number, payload)
                elif type(number) is not int or number in self.objects or number in self.classes:
                    raise Malformed("a change of what is not shared")
            if "f" in extra:
                self.files.take(extra["f"])
            told = [(stream == 2, _is(text, str).encode("utf-8", "replace").decode())
                    for stream, text in _is(extra.get("w", []), list)]
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, RecursionError, OverflowError) as e:
            raise Malformed("what does not fit: %s" % type(e).__name__)
        for error, text in told:
            (sys.stderr if error else sys.stdout).write(text)
        if extra.get("t") and self.lent and self.reader is None:
            self.reader = threading.Thread(target=self.channel.pump, daemon=True)
            self.start_thread(self.reader)

    def surroundings(self, extra):
        """The environment, arguments, directory and replaced functions, where they have changed."""
        environment = os.environ._data
        if environment != self.told.get("e"):
            now = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
            before = self.told.get("environment", now)
            diff = {k: now.get(k) for k in now.keys() | before.keys() if now.get(k) != before.get(k)}
            self.told["e"], self.told["environment"] = dict(environment), now
            if diff:
                extra["e"] = diff
        if sys.argv != self.told.get("argv", sys.argv) or "argv" not in self.told:
            if "argv" in self.told:
                extra["a"] = {"t": [str(a) for a in sys.argv]}
            self.told["argv"] = list(sys.argv)
        directory = os.getcwd()
        if directory != self.told.setdefault("d", directory):
            self.told["d"] = extra["d"] = directory
            self.files.mention(directory)
        if self.seeds:
            extra["seed"], self.seeds = self.encode(self.seeds[-1]), []
        patches = []
        for entry in self.watched:
            now = getattr(entry[0], entry[1])
            if now is not entry[3]:
                entry[3] = now
                patches.append([entry[0].__name__, entry[1], None if now is entry[2] else self.encode(now)])
        if patches:
            extra["p"] = patches

    def watch(self):
        """Begins to notice when a test replaces a function of the library or seeds the random numbers."""
        import random
        for module, names in WATCHED:
            m = sys.modules.get(module)
            for name in names if m else ():
                original = getattr(m, name)
                self.watched.append([m, name, original, original])
        seed, seeds = random.seed, self.seeds

        def noticed(*a, **k):
            seed(*a, **k)
            LINK[0].seeds.append(a)
        random.seed = noticed
        start = threading.Thread.start
        self.start_thread = start

        def started(thread):
            LINK[0].announce()
            start(thread)
        threading.Thread.start = started

    def look_inside(self):
        """Lets the functions of the library that look inside an object ask the subject instead."""
        import dataclasses
        import inspect
        for module, names in ((dataclasses, ("asdict", "astuple", "fields", "is_dataclass", "replace")),
                              (inspect, ("iscoroutinefunction", "isgeneratorfunction", "isasyncgenfunction",
                                         "getsource", "getdoc", "isabstract", "getfullargspec"))):
            for name in names:
                setattr(module, name, _inside(module.__name__, name, getattr(module, name)))

    def announce(self):
        """Tells the subject that requests will come from several threads."""
        if not self.told["threads"] and self.lent | self.classes.keys():
            self.told["threads"] = True
            self.ask("threads", list)

    # Keeping and letting go.

    def measure(self):
        """Finds how many references something has that only this table holds."""
        entry = [[], None, None]
        self.shared[0] = entry
        self.objects[0] = entry[0]
        self.unused = 0
        del entry
        self.unused = self.references(0)
        del self.shared[0], self.objects[0]

    def references(self, number):
        return sys.getrefcount(self.shared[number][0])

    def alone(self):
        """Whether only one thread talks, so that nothing is under way when it sends."""
        return self.threads == 1 and self.reader is None

    def let_go(self):
        """Forgets the shared containers that nobody here has any more."""
        if not self.alone() or not self.shared:
            return
        gone = [n for n in self.shared if self.references(n) <= self.unused]
        if gone:
            self.forget(gone)
            self.released += gone
        if len(self.objects) > LENT:
            raise Gone("too many objects are shared")

    def release(self, thing):
        """Notes that an object of the submission's is no longer used."""
        number = getattr(thing, "_remote", None)
        if number is not None and number in self.classes:
            self.released.append(number)

    def find(self, number):
        """What stands for a number."""
        for table in (self.alive, self.objects, self.passing):
            found = table.get(number)
            if found is not None:
                return found
        return None

    def _known(self, number, depth):
        if type(number) is not int:
            raise Malformed("a number of nothing")
        found = self.find(number)
        if found is None:
            if number not in self.classes:
                raise Malformed("a number of nothing")
            if number in self.released:
                self.released.remove(number)
            cls = self.classes[number]
            found = self.failure(number) if issubclass(cls, Failure) else self.thing(number, cls)
        return found

    def accept(self, number):
        super().accept(number)
        if number in self.classes and number not in self.released or number % 2 or len(self.objects) > LENT:
            raise Malformed("a wrong number")
        return number

    # What arrives.

    def take_class(self, payload, depth):
        """A class of the submission's."""
        number, name, module, qualname, bases, base, operations, methods, doc, meta = _is(payload, list)
        self.accept(number)
        for text in (name, module, qualname):
            if not 0 < len(_is(text, str)) < 500 or "\0" in text:
                raise Malformed("a wrong name")
        above = [b for b in self.values(bases, depth) if _is_class(b)]
        real = _library_exception(module, qualname)
        if real:
            self.library.add(real)
            self.keep(number, real)
            return real
        name = name.encode("utf-8", "replace").decode()
        about = Description(number, _words(operations), _words(methods), base, _words(meta))
        cls = self.make_class(name, module, above, about)
        cls_doc = self.decode(doc) if doc is not None else None
        if "__doc__" not in vars(cls) or vars(cls)["__doc__"] is None:
            type.__setattr__(cls, "__doc__", cls_doc if type(cls_doc) is str else None)
        type.__setattr__(cls, "__qualname__", qualname.encode("utf-8", "replace").decode())
        self.about[cls] = about
        self.keep(number, cls)
        if any(b in self.named for b in above):
            self.named.add(cls)
        for abstract in ("Mapping", "Sequence", "Set", "MutableMapping", "Generator", "Coroutine"):
            if abstract in about.abstract(name, module):
                ABSTRACT[abstract].register(cls)
        return cls

    def make_class(self, name, module, above, about):
        """A class that has a name, a place in the hierarchy and operations that ask."""
        failing = [b for b in above if issubclass(b, BaseException)]
        members = {"__module__": module}
        for operation in about.operations:
            members[operation] = MEMBERS[operation]
        if "unhashable" in about.all:
            members["__hash__"] = None
        elif "__eq__" in members and "__hash__" not in members:
            members["__hash__"] = _hash
        base = BY_NAME.get(about.base) if type(about.base) is str else None
        if failing:
            bases = tuple(b for b in above if issubclass(b, (BaseException, Failure)))
            bases = bases if any(issubclass(b, Failure) for b in bases) else (Failure,) + bases
            members.pop("__str__", None)
            members.pop("__repr__", None)
        elif base in NATIVE or base in KIND:
            bases = tuple(b for b in above if issubclass(b, Data) and issubclass(b, base)) or (Data, base)
            members = {n: v for n, v in members.items() if n in ("__module__",) or n in DERIVED}
            members.update({n: _derived(n, base) for n in about.operations if n in COMPARED})
            for method in about.methods:
                if hasattr(base, method):
                    members[method] = _overridden(method, base)
            if base not in KIND:
                members["__hash__"] = base.__hash__
        else:
            members["__slots__"] = ()
            bases = tuple(b for b in above if issubclass(b, Thing)) or (Thing,)
            own = CLASSES.get((module, name))
            if own:
                members["__class__"] = property(lambda self: own)
            if own is types.CoroutineType:
                members.update(send=_coroutine_send, close=_coroutine_close, throw=_coroutine_throw)
            if own is types.FunctionType:
                members["__doc__"] = property(lambda self: LINK[0].attribute(self, "__doc__"))
                members["__signature__"] = property(lambda self: LINK[0].signature(self))
                members["__module__"] = property(lambda self: LINK[0].attribute(self, "__module__"))
        try:
            return RemoteClass(name, bases, members, link=self)
        except TypeError:
            raise Malformed("a class that cannot be")

    def take_handle(self, payload, depth):
        """An object of the submission's."""
        number, cls, more = _is(payload, list)
        cls = self.decode(cls, depth)
        if not _is_class(cls) or cls not in self.about or issubclass(cls, BaseException):
            raise Malformed("an object of no class")
        self.accept(number)
        if number in self.released:
            self.released.remove(number)
        self.classes[number] = cls
        return self.thing(number, cls, _is(more, dict), depth)

    def thing(self, number, cls, more=None, depth=0):
        """Makes what stands for an object."""
        base = _data_base(cls)
        more = more or {}
        if base in NATIVE:
            if "d" not in more:
                raise Malformed("no value")
            v = base.__new__(cls, *([_is(self.decode(more["d"], depth), base)]))
            object.__setattr__(v, "_remote", number)
            self.keep(number, v)
            return v
        if base is not None:
            v = base.__new__(cls)
            object.__setattr__(v, "_remote", number)
            self.keep(number, v)
            self.shared[number] = [v, KIND[base], []]
            self.refill(number, more.get("c", []), depth)
            return v
        v = object.__new__(cls)
        object.__setattr__(v, "_remote", number)
        self.alive[number] = v
        if "h" in more:
            self.about[cls].hashes[number] = _is(more["h"], int)
        return v

    def take_exception(self, payload, depth):
        """An exception: one of the library's, or of a class of the submission's."""
        number, cls, args, text, cause, context, own = _is(payload, list)
        self.accept(number)
        cls, args, own = self.decode(cls, depth), tuple(self.values(args, depth)), _is(self.decode(own, depth), dict)
        text = self.decode(text)
        if not _is_class(cls) or not issubclass(cls, BaseException):
            raise Malformed("an exception that is none")
        if cls in NAMED or cls in self.library:
            e = self.passing[number] = self.library_exception(cls, args, own)
            self.released.append(number)
        elif issubclass(cls, Failure):
            self.classes[number], self.failures[number] = cls, (args, text)
            e = self.failure(number)
        else:
            raise Malformed("an exception of no known class")
        for name, inner in (("__cause__", cause), ("__context__", context)):
            inner = self.decode(inner, depth)
            if isinstance(inner, BaseException):
                BaseException.__setattr__(e, name, inner)
        return e

    def library_exception(self, cls, args, own):
        """An exception of the library's, with its arguments and its plain attributes."""
        try:
            e = cls(*args) if cls in NAMED else cls.__new__(cls, *args)
        except Exception:
            e = cls.__new__(cls)
            e.args = args
        for name, value in own.items():
            if type(name) is str and not name.startswith("_"):
                setattr(e, name, value)
        return e

    def failure(self, number):
        """What stands for an exception of the submission's own class."""
        cls, (args, text) = self.classes[number], self.failures[number]
        try:
            e = cls.__new__(cls, *args)
        except Exception:
            e = cls.__new__(cls)
        e.args = args
        e.__dict__.update(_remote=number, _text=text if type(text) is str else "")
        self.alive[number] = e
        return e

    def factory(self, payload, depth):
        factory = self.decode(payload, depth)
        return factory if factory is None or callable(factory) else None

    # What a test does.

    def note(self, text):
        """Keeps something that the judge should say."""
        if text not in self.notes and len(self.notes) < 50:
            self.notes.append(text)

    def unsupported(self, what):
        self.refused = "needs mode inproc: " + what
        self.note(self.refused)
        return Unsupported(self.refused)

    def attribute(self, o, name, whole=False):
        """An attribute of an object, class or module of the submission's."""
        if name.startswith("__") and name not in ANSWERED or name.startswith(("_pytest", "pytest")):
            raise AttributeError("%r object has no attribute %r" % (type(o).__name__, name))
        if not whole and isinstance(o, Remote) and not isinstance(o, type):
            about = self.about.get(type(o))
            if about and name in about.methods:
                return Method(o, name)
        value = self.ask("get", lambda: [self.encode(o), name])
        if _is_class(value) and value in self.about and name.lstrip("_")[:1].isupper():
            self.named.add(value)
        return value

    def known(self, o):
        """Whether the tests know an object's class, or one above it: they have asked for it by a name that is
        spelled like a class's. A class in the place of a function is not what they expect."""
        return any(c in self.named for c in (o.__mro__ if isinstance(o, type) else type(o).__mro__))

    def set(self, o, name, value):
        if name in OWN and isinstance(o, BaseException):
            return BaseException.__setattr__(o, name, value)
        self.assign(o, name, value)

    def assign(self, o, name, value):
        self.ask("set", lambda: [self.encode(o), name, self.encode(value)])

    def delete(self, o, name):
        self.ask("del", lambda: [self.encode(o), name])

    def call(self, f, args, kwargs):
        self.calls += 1
        return self.ask("call", lambda: [self.encode(f), *self.arguments(args, kwargs)])

    def method(self, o, name, args, kwargs):
        self.calls += 1
        value = self.ask("method", lambda: [self.encode(o), name, *self.arguments(args, kwargs)])
        if (value is True or value is False) and (args or kwargs) and not self.known(o):
            self.decided += 1
        return value

    def arguments(self, args, kwargs):
        return [self.encode(a) for a in args], {k: self.encode(v) for k, v in kwargs.items()}

    def operate(self, name, *args):
        return self.ask("op", lambda: [name] + [self.encode(a) for a in args])

    def lib(self, library, function, *args, **kwargs):
        return self.ask("lib", lambda: [library, function, *self.arguments(args, kwargs)])

    def ask_back(self, op, o):
        return self.ask(op, lambda: [self.encode(o)])

    def decide(self, name, *args):
        """Asks for what only the submission can say, and counts it."""
        self.decided += 1
        return self.operate(name, *args)

    def binary(self, name, o, other):
        ours = isinstance(other, Remote) or _is_class(other) and other in self.about
        if name in ("__eq__", "__ne__"):
            if ours:
                return self.decide(name, o, other)
            if self.known(o) and other is not None:
                self.note("%s was compared with plain data, and not asked whether it is equal" % type(o).__name__)
            return NotImplemented
        if not ours and not self.known(o):
            self.note("an object of class %s, which the tests do not name, was not asked to compute" % type(o).__name__)
            return NotImplemented
        if name in COMPARISONS:
            return self.decide(name, o, other)
        value = self.operate(name, o, other)
        if not ours and not isinstance(value, Remote):
            self.decided += 1
        return value

    def contains(self, o, value):
        """Whether something is in an object. One that the tests do not know is gone through here."""
        if self.known(o) or isinstance(value, Remote):
            return self.decide("__contains__", o, value)
        for n, found in enumerate(o):
            if found is value or found == value:
                return True
            if n > 100_000:
                raise self.unsupported("a test looks into an endless object")
        return False

    def hash(self, o):
        hashes = self.about[type(o)].hashes
        if o._remote not in hashes:
            hashes[o._remote] = _is(self.operate("__hash__", o), int)
        return hashes[o._remote]

    def signature(self, f):
        """The signature of a function, its defaults included."""
        import inspect
        P = inspect.Parameter
        kinds = [P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD, P.VAR_POSITIONAL, P.KEYWORD_ONLY, P.VAR_KEYWORD]
        parameters = self.ask("signature", lambda: [self.encode(f)])
        return inspect.Signature([P(n, kinds[k], default=P.empty if d is NotImplemented else d,
                                    annotation=P.empty if a is NotImplemented else a)
                                  for n, k, d, a in parameters])

    # What goes out.

    def mention(self, path):
        self.files.mention(path)

    def encode(self, v, depth=0, key=False):
        t = type(v)
        if issubclass(t, Remote) and not isinstance(v, type):
            number = getattr(v, "_remote", None)
            if number is None:
                raise self.unsupported("a test makes an object without the submission's knowledge")
            return {"k": number}
        if t is types.TracebackType:
            return None
        if t is Method:
            return {"a": [self.encode(v._owner), v.__name__]}
        if t is RemoteModule:
            return {"k": v._remote}
        return super().encode(v, depth, key)

    def other(self, v, depth, key):
        """Something of the test's own that the submission is given."""
        if isinstance(v, BaseException):
            return self.lend_exception(v, depth)
        if isinstance(v, type):
            return self.lend_class(v)
        if isinstance(v, (types.FunctionType, types.MethodType)):
            number = self.lend(v)
            return {"x": [number, "f", v.__name__, [v.__doc__ if type(v.__doc__) is str else None, self.parameters(v)]]}
        if isinstance(v, types.ModuleType):
            raise self.unsupported("a test gives the submission a module")
        if isinstance(v, (types.BuiltinFunctionType, types.BuiltinMethodType)):
            return {"x": [self.lend(v), "f", v.__name__, [None, None]]}
        if not _lendable(type(v), self.tests):
            raise self.unsupported("a test gives the submission a %s" % type(v).__name__)
        number = self.lend(v)
        return {"x": [number, "o", type(v).__name__, self.lend_class(type(v))]}

    def lend(self, v):
        number = self.new_number(v)
        self.lent.add(number)
        if len(self.lent) > LENT:
            raise self.unsupported("a test gives the submission more than %d things" % LENT)
        return number

    def lend_class(self, cls):
        number = self.numbers.get(id(cls))
        if number is not None:
            return {"k": number}
        operations = [n for n in [*OPERATIONS, "__call__"] if n not in ("__str__", "__repr__", "__format__", "__hash__")
                      and hasattr(cls, n) and getattr(cls, n) is not getattr(object, n, None)]
        operations += [n for n in ("__str__", "__repr__") if getattr(cls, n) is not getattr(object, n)]
        return {"x": [self.lend(cls), "c", cls.__name__, operations]}

    def lend_exception(self, e, depth):
        base = next((NAMED[c] for c in type(e).__mro__ if c in NAMED), "builtins.Exception")
        number = self.new_number(e)
        try:
            args = self.items(e.args, depth)
        except (Unsupported, Deep):
            args = []
        return {"X": [number, type(e).__name__, base, args]}

    def parameters(self, f):
        """The parameters of a test's function, for who looks at its signature."""
        import inspect
        try:
            found = inspect.signature(f).parameters.values()
        except (ValueError, TypeError):
            return None
        return [[p.name, p.kind.name, self.if_plain(p.default, p.empty), self.if_plain(p.annotation, p.empty)]
                for p in found]

    def if_plain(self, v, empty):
        if v is empty:
            return None
        if type(v) in _ATOMS or isinstance(v, type) and v in NAMED:
            return [self.encode(v)]
        return None

    # Being asked.

    def stray(self, frame):
        """A request of a thread of the submission's own."""
        self.strays = getattr(self, "strays", 0) + 1
        if self.strays > THREADS:
            self.channel.close("too many threads ask at once")
            return

        def work():
            try:
                self.serve(frame)
            except Gone:
                pass
            finally:
                self.strays -= 1
        self.start_thread(threading.Thread(target=work, daemon=True))

    def serve(self, frame):
        """Answers a request of the submission's: it may only ask what a test has given it."""
        _, number, _, op, args, extra = frame
        try:
            self.receive(extra)
            args = [self.decode(a) for a in args]
            work = SERVED[op]
        except Gone:
            raise
        except Exception as e:
            self.channel.close("the protocol was broken: %s" % e)
            raise Gone(self.channel.closed)
        try:
            kind, value = ANSWER, work(self, *args)
        except (Gone, Unsupported):
            raise
        except BaseException as e:
            kind, value = RAISED, e
        with self.channel.sending:
            extra = self.extra()
            self.channel.send([kind, number, self.encode(value), extra])

    def owned(self, o):
        number = self.numbers.get(id(o))
        if number not in self.lent:
            raise TypeError("this is not the submission's to ask")
        return o

    def serve_call(self, f, args, kwargs):
        return self.owned(f)(*args, **dict(kwargs))

    def serve_get(self, o, name):
        value = getattr(self.owned(o), _public(name))
        if isinstance(value, (types.ModuleType, types.FrameType, types.CodeType)):
            raise AttributeError(name)
        return value

    def serve_set(self, o, name, value):
        setattr(self.owned(o), _public(name), value)

    def serve_del(self, o, name):
        delattr(self.owned(o), _public(name))

    def serve_op(self, name, o, *args):
        return OPERATIONS[name](self.owned(o), *args)

    def serve_stdin(self, name, size):
        return {"read": sys.stdin.read, "readline": sys.stdin.readline}[name](_is(size, int))


SERVED = {"call": Link.serve_call, "get": Link.serve_get, "set": Link.serve_set, "del": Link.serve_del,
          "op": Link.serve_op, "stdin": Link.serve_stdin}


class Description:
    """What the subject says of a class."""

    def __init__(self, number, operations, methods, base, meta):
        self.number, self.methods, self.base = number, frozenset(methods), base
        self.all, self.meta, self.hashes = frozenset(operations), meta, {}
        self.operations = [n for n in operations if n in MEMBERS]

    def abstract(self, name, module):
        """The abstract classes that an object of this class is an instance of."""
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


def _derived(name, base):
    """An operation that a class of derived data has of its own: the submission is asked between two of its
    objects, and with plain data only where the tests know the class; equality with that is the plain value's."""
    native = getattr(base, name, None)

    def operation(self, *a):
        link = LINK[0]
        remote = bool(a) and isinstance(a[0], Remote)
        if name in COMPARISONS and remote:
            return link.decide(name, self, *a)
        if name not in ("__eq__", "__ne__") and (remote or link.known(self)):
            if name in COMPARISONS or name in ("__contains__", "__bool__", "__len__"):
                return link.decide(name, self, *a)
            return link.operate(name, self, *a)
        return native(self, *a) if native else NotImplemented
    return operation


def _overridden(name, base):
    """A method that a class of derived data has in place of the plain one. It is the submission's where the tests
    know the class."""
    native = getattr(base, name)

    def method(self):
        return Method(self, name) if LINK[0].known(self) else native.__get__(self)
    return property(method)


def _inside(module, name, original):
    def look(o, *a, **k):
        if isinstance(o, Method):
            o = LINK[0].attribute(o._owner, o.__name__, True)
        if isinstance(o, (Remote, RemoteClass)):
            return LINK[0].lib(module, name, o, *a, **k)
        return original(o, *a, **k)
    return look


def _library_exception(module, qualname):
    """An exception of the standard library that this process has imported already."""
    top = module.partition(".")[0]
    if top in ("builtins", "unittest") or top not in STANDARD:
        return None
    found = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, name, None) if found is not None else None
    return found if _is_class(found) and issubclass(found, BaseException) else None


STANDARD = getattr(sys, "stdlib_module_names", None) or {
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
    """Whether the submission may be given an object: one that the tests have made, or of a few harmless classes."""
    if cls.__module__ in ("unittest.mock", "_io", "io", "functools", "builtins", "itertools", "operator", "enum",
                          "types", "collections", "re", "string", "datetime", "zoneinfo", "queue", "threading",
                          "_thread", "_random", "random", "array", "pathlib", "weakref"):
        return True
    return _of_tests(cls, tests)


def _of_tests(cls, tests):
    file = getattr(sys.modules.get(cls.__module__), "__file__", None) or ""
    return file.startswith(tests + "/")


class RemoteModule(types.ModuleType):
    """A module of the submission's."""

    def __getattr__(self, name):
        if name == "__all__":
            return self._finder.exported(self._names)
        return LINK[0].attribute(self, name)

    def __setattr__(self, name, value):
        if name.startswith("__") or name == "_remote" or type(value) is RemoteModule:
            return super().__setattr__(name, value)
        LINK[0].assign(self, name, value)

    def __delattr__(self, name):
        LINK[0].delete(self, name)

    def __dir__(self):
        return LINK[0].lib("builtins", "dir", self)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of the submission's, for the tests alone and after every other place."""

    ASKING = ("/_pytest/outcomes.py", "/_pytest/monkeypatch.py", "/unittest/mock.py", "/pkgutil.py",
              "/importlib/__init__.py")

    def __init__(self, link):
        self.link, self.outcome, self.modules, self.used = link, {}, set(), None

    def find_spec(self, name, path=None, target=None):
        if not self.for_test():
            return None
        try:
            found = self.link.ask("import", lambda: [name, name in self.modules])
        except Exception as e:
            if isinstance(e, ModuleNotFoundError) and e.name == name:
                return None
            self.outcome[name] = e
            return importlib.machinery.ModuleSpec(name, self)
        if found is None:
            return None
        self.outcome[name] = found
        return importlib.machinery.ModuleSpec(name, self, is_package=found[1] is True)

    def for_test(self):
        """Whether it is a test that imports, by itself or through pytest or mock."""
        frame = sys._getframe(2)
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(self.link.tests + "/"):
                return True
            if not file.startswith("<frozen importlib") and not file.endswith(self.ASKING):
                return False
            frame = frame.f_back
        return False

    def create_module(self, spec):
        return RemoteModule(spec.name)

    def exec_module(self, module):
        outcome = self.outcome.pop(module.__name__)
        if isinstance(outcome, BaseException):
            raise outcome
        handle, _, names, doc, file = outcome
        self.modules.add(module.__name__)
        vars(module).update(_remote=handle._remote, _handle=handle, _names=names, _finder=self)
        vars(module).update(__doc__=doc if type(doc) is str else None, __file__=file if type(file) is str else None)

    def exported(self, names):
        """The names that `import *` brings: none that the test has of its own, or that means something to the
        interpreter or to pytest."""
        if type(names) is not list:
            return []
        file = self.importer()
        if self.used is None:
            self.used = words_of(self.link.tests)
        own, used = bound_names(file), self.used
        return [n for n in names if type(n) is str and n in used and not hasattr(builtins, n)
                and n not in own and not n.startswith(("test", "Test", "pytest", "_pytest"))]

    def importer(self):
        frame = sys._getframe(2)
        while frame is not None:
            if frame.f_code.co_filename.startswith(self.link.tests + "/"):
                return frame.f_code.co_filename
            frame = frame.f_back
        return None


def words_of(tests):
    """All names that the tests use."""
    words = set()
    for directory, _, files in os.walk(tests):
        for name in files:
            if name.endswith(".py"):
                with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as f:
                    words |= set(re.findall(r"[^\W\d]\w*", f.read()))
    return words


def bound_names(file):
    """The names that a source file binds by itself at its top."""
    names = set()
    if file is None:
        return names
    with open(file, "rb") as f:
        tree = ast.parse(f.read())
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(a.asname or a.name).partition(".")[0] for a in node.names}
        else:
            names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return names
