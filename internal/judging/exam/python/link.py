"""The examiner's side of the conversation: it sends what tests do, and answers what the submission asks."""


class Link(Arrival):
    """The examiner's side of the examination."""

    def __init__(self, tests, twins):
        """twins has the classes of values that are known, as class Twins takes them."""
        super().__init__(-1)
        self.tests, self.twins = tests, Twins(self, twins)
        self.here = threading.local()
        self.channel = Channel(4, self.serve, self.stray, MOST)
        self.alive = weakref.WeakValueDictionary()  # number → what stands for it
        self.classes = {}  # number of an object → its class here
        self.about = {}  # class → Description
        self.failures = {}  # number of an exception → its arguments and text
        self.passing = {}  # exceptions of the library that came with the last message
        self.library = set()  # exceptions of the library, beside the built-in ones
        self.released = []
        self.lent = set()  # numbers of what the submission may ask of
        self.shapes = {}  # class of the library's → the number that describes it
        self.decided = 0
        self.printed = 0  # characters that it has printed
        self.calls = 0
        self.refused = None  # why the running test cannot be believed
        self.notes = []  # what split examination could not do
        self.told = {"threads": False}  # the environment and the like, as last told
        self.watched = []
        self.seeds = []
        self.steered = False  # the running test seeded its random numbers itself, or the submission made it draw some
        self.fresh = True
        self.files, self.given = Shared(), Given(tests)
        self.hint = None  # what the running test did that may be why it fails
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
                self.given.meant.clear()
                args = build()
                given = self.given.contents() if self.given.meant and op in GIVING else None
                if given:
                    extra["g"] = given
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
        self.shapes = {cls: n for cls, n in self.shapes.items() if n not in numbers}

    def result(self, frame):
        """The value of an answer. Whatever is malformed in it ends the conversation."""
        try:
            warned = self.receive(frame[3])
            value = self.take(frame[2])
            if frame[0] == RAISED and not isinstance(value, BaseException):
                raise Malformed("invalid exception")
        except Malformed as e:
            self.channel.close("the protocol was broken: %s" % e)
            raise Gone(self.channel.closed)
        warn(warned)
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
        """Takes over what happened there, and returns the warnings that were given. Whatever is wrong with it is
        Malformed."""
        try:
            for number, payload in _is(extra.get("u", []), list):
                if number in self.shared:
                    self.refill(number, payload)
                elif type(number) is not int or number in self.objects or number in self.classes:
                    raise Malformed("a change of what is not shared")
            warned = [_warning(self.decode(w)) for w in _is(extra.get("W", []), list)]
            if "f" in extra:
                self.files.take(extra["f"])
            told = [(stream == 2, _is(text, str).encode("utf-8", "replace").decode())
                    for stream, text in _is(extra.get("w", []), list)]
            self.printed += sum(len(text) for _, text in told)
            if self.printed > PRINTED:
                raise Malformed("too much text")
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, RecursionError, OverflowError) as e:
            raise Malformed("what does not fit: %s" % type(e).__name__)
        if "large" in extra:
            self.hint = self.hint or LARGE
        for error, text in told:
            (sys.stderr if error else sys.stdout).write(text)
        if extra.get("t") and self.lent and self.reader is None:
            self.reader = threading.Thread(target=self.channel.pump, daemon=True)
            self.start_thread(self.reader)
        return warned

    def surroundings(self, extra):
        """The environment, arguments, directory and replaced functions, where they have changed."""
        environment = os.environ._data
        if environment != self.told.get("e"):
            now = dict(os.environ)
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
            LINK[0].steered = True
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

    # What a test does.

    def note(self, text):
        """Keeps something that the judge should say."""
        if text not in self.notes and len(self.notes) < 50:
            self.notes.append(text)

    def unsupported(self, what):
        self.refused = INPROC + what
        self.note(self.refused)
        return Unsupported(self.refused)

    def attribute(self, o, name, whole=False):
        """An attribute of an object, class or module of the submission's."""
        if name.startswith("__") and name not in ANSWERED or name.startswith(("_pytest", "pytest")):
            raise AttributeError("%r object has no attribute %r" % (type(o).__name__, name))
        if not isinstance(o, (Remote, RemoteClass, RemoteModule, Method)):
            return getattr(o, name)  # the test's own, which it has put in a place of the submission's
        if not whole and isinstance(o, Remote) and not isinstance(o, type):
            about = self.about.get(type(o))
            if about and name in about.methods:
                return Method(o, name)
        if self.twins.holds(o):
            values = self.twins.apart[id(o)][1]
            if name in values:
                return values[name]
            if name.startswith("__"):
                raise AttributeError(name)
        self.twins.join(o)
        if type(o) is RemoteClass and self.twins.enumerates(o) and name.isupper():
            return self.twins.member(o, name)
        value = self.ask("get", lambda: [self.encode(o), name])
        if type(o) is RemoteClass and type(value) is o:
            self.twins.named.setdefault(o, set()).add(name)
        return value

    def set(self, o, name, value):
        if name in OWN and isinstance(o, BaseException):
            return BaseException.__setattr__(o, name, value)
        self.assign(o, name, value)

    def assign(self, o, name, value):
        self.twins.join([o, value])
        self.ask("set", lambda: [self.encode(o), name, self.encode(value)])

    def delete(self, o, name):
        self.ask("del", lambda: [self.encode(o), name])

    def call(self, f, args, kwargs):
        self.calls += 1
        return self.twins.make(f, args, kwargs) or self.call_now(f, args, kwargs)

    def call_now(self, f, args, kwargs):
        self.twins.join([f, args, kwargs])
        return self.ask("call", lambda: [self.encode(f), *self.arguments(args, kwargs)])

    def method(self, o, name, args, kwargs):
        self.calls += 1
        self.twins.join([o, args, kwargs])
        return self.ask("method", lambda: [self.encode(o), name, *self.arguments(args, kwargs)])

    def arguments(self, args, kwargs):
        return [self.encode(a) for a in args], {k: self.encode(v) for k, v in kwargs.items()}

    def operate(self, name, *args):
        """Asks for an operation of an object's, and counts one by which the submission decides."""
        if name in ("__eq__", "__ne__"):
            equal = self.twins.equal(*args)
            if equal is not None:
                return equal is (name == "__eq__")
        if name in ("__str__", "__format__") and self.twins.holds(args[0]) and self.twins.enumerates(type(args[0])):
            return "%s.%s" % (type(args[0]).__name__, self.twins.value(args[0], "name"))  # as pytest names tests
        self.twins.join(args)
        self.decided += name in DECIDING
        return self.ask("op", lambda: [name] + [self.encode(a) for a in args])

    def mark(self, op, *args):
        """Tells the judge about a test, and returns its answer. The submission never sees this."""
        if self.channel.closed:
            raise Gone(self.channel.closed)
        number, thread = self.channel.number(), self.thread()
        self.channel.send([REQUEST, number, thread, op, list(args), {}])
        return self.channel.wait(number, thread)[2]

    def lib(self, library, function, *args, **kwargs):
        self.twins.join([args, kwargs])
        return self.ask("lib", lambda: [library, function, *self.arguments(args, kwargs)])

    def binary(self, name, o, other):
        """An operator of an object. It never learns by `==` which plain value the test expects."""
        ours = isinstance(other, Remote) or _is_class(other) and other in self.about
        if name in ("__eq__", "__ne__") and not ours:
            if other is not None:
                self.note("%s was compared with plain data, and not asked whether it is equal" % type(o).__name__)
            return NotImplemented
        return self.operate(name, o, other)

    def hash(self, o):
        """The hash of an object, by which a set or dict may find that two are not equal."""
        names = self.twins.fields(type(o))
        if names is not None:
            return hash(tuple(self.twins.value(o, n) for n in names))
        self.decided += 1
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
        if not self.given.below(path):
            return self.files.mention(path)
        self.given.meant.append(path)
        if os.path.isdir(path):
            self.note("the submission does not see what is in %.200s, a directory of the tests: needs mode inproc" % path)

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
        known = library_name(v) if isinstance(v, (type,) + _ROUTINES) else None
        if known:
            return {"n": [self.new_number(v)] + known}
        if isinstance(v, type):
            if not _of_tests(v, self.tests):
                raise self.unsupported("a test gives the submission the class %s" % v.__name__)
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
        cls = self.lend_class(type(v)) if _of_tests(type(v), self.tests) else self.describe(type(v))
        return {"x": [number, "o", type(v).__name__, cls]}

    def lend(self, v):
        number = self.new_number(v)
        self.lent.add(number)
        if len(self.lent) > LENT:
            raise self.unsupported("a test gives the submission more than %d things" % LENT)
        return number

    def lend_class(self, cls):
        """A class of the tests', which the submission may call."""
        number = self.numbers.get(id(cls))
        if number is not None:
            return {"k": number}
        return {"x": [self.lend(cls), "c", cls.__name__, self.operations(cls)]}

    def describe(self, cls):
        """A class of the library's, of which the submission only learns what can be asked of the object that it is
        given."""
        if cls in self.shapes:
            return {"k": self.shapes[cls]}
        number = self.shapes[cls] = self.new_number(Shape())
        return {"x": [number, "c", cls.__name__, self.operations(cls)]}

    def operations(self, cls):
        """What can be asked of the instances of a class."""
        operations = [n for n in [*OPERATIONS, "__call__"] if n not in ("__str__", "__repr__", "__format__", "__hash__")
                      and hasattr(cls, n) and getattr(cls, n) is not getattr(object, n, None)]
        return operations + [n for n in ("__str__", "__repr__") if getattr(cls, n) is not getattr(object, n)]

    def lend_exception(self, e, depth):
        base = next(NAMED.get(c) or library_name(c) for c in type(e).__mro__ if c in NAMED or library_name(c))
        number = self.new_number(e)
        try:
            args = [] if is_outcome(e) else self.items(e.args, depth)
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
            warned = self.receive(extra)
            args = [self.decode(a) for a in args]
            work = SERVED[op]
        except Gone:
            raise
        except Exception as e:
            self.channel.close("the protocol was broken: %s" % e)
            raise Gone(self.channel.closed)
        drawn = random_state()
        try:
            warn(warned)
            kind, value = ANSWER, work(self, *args)
        except (Gone, Unsupported):
            raise
        except BaseException as e:
            self.overhear(e)
            kind, value = RAISED, e
        self.steered = self.steered or random_state() != drawn
        with self.channel.sending:
            extra = self.extra()
            self.channel.send([kind, number, self.encode(value), extra])

    def overhear(self, e):
        """Keeps what a test's own function has found, for the submission may catch it. What the submission itself
        has raised is not that."""
        if is_outcome(e) and not any(e is p for p in self.passing.values()) and self.refused is None:
            text = str(e).partition("\n")[0]
            self.refused = "in what the test gave the submission: %s: %s" % (type(e).__name__, text)

    def owned(self, o):
        number = self.numbers.get(id(o))
        if number not in self.lent:
            raise TypeError("this is not the submission's to ask")
        return o

    def serve_call(self, f, args, kwargs):
        return self.owned(f)(*args, **dict(kwargs))

    def serve_get(self, o, name):
        if type(o) is Shape:
            raise AttributeError(name)
        if not may_get(self.owned(o), _public(name), self.tests):
            self.not_given("asked for", o, name)
        value = getattr(o, name)
        if isinstance(value, (types.ModuleType, types.FrameType, types.CodeType)):
            raise AttributeError(name)
        return value

    def serve_set(self, o, name, value):
        if not may_set(self.owned(o), _public(name), value, self.tests):
            self.not_given("tried to replace", o, name)
        setattr(o, name, value)

    def serve_del(self, o, name):
        if not may_set(self.owned(o), _public(name), NotImplemented, self.tests):
            self.not_given("tried to delete", o, name)
        delattr(o, name)

    def not_given(self, what, o, name):
        """Refuses what does not belong to what the submission was given."""
        kind = (o if isinstance(o, type) else type(o)).__name__
        self.note("the submission %s %.50s of a %s of the test's: needs mode inproc, if it is meant to" % (what, name, kind))
        raise AttributeError("%r object has no attribute %r" % (kind, name))

    def serve_op(self, name, o, *args):
        return OPERATIONS[name](self.owned(o), *args)

    def serve_stdin(self, name, size):
        return {"read": sys.stdin.read, "readline": sys.stdin.readline}[name](_is(size, int))


def random_state():
    """Return the state of the random numbers that tests draw."""
    return sys.modules["random"]._inst.getstate()


PLAIN = frozenset(dir(str)) | {n for t in _VALUES for n in dir(t) if n.startswith("is")}  # methods of plain data
LARGE = "needs mode inproc: the delivery wrote files of more than %d bytes" % MIRRORED
INPROC = "needs mode inproc: "  # before what only a test in one process with the submission can do
GIVING = ("call", "method", "set")  # requests whose arguments the submission is meant to use
SERVED = {"call": Link.serve_call, "get": Link.serve_get, "set": Link.serve_set, "del": Link.serve_del,
          "op": Link.serve_op, "stdin": Link.serve_stdin}
