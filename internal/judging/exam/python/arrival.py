"""Reads what the subject sends. Every value is checked before anything is made of it."""
import warnings


def warn(messages):
    """Give warnings of the submission's in the test's name. No file is named, for pytest would read it."""
    for message in messages:
        warnings.warn_explicit(message, type(message), "<submission>", 1)


def _warning(v):
    if not isinstance(v, Warning):
        raise Malformed("no warning")
    return v


class Arrival(Codec):
    """The part of the link that makes proxies of what the subject sends."""

    def take_class(self, payload, depth):
        """Read a class of the submission."""
        number, name, module, qualname, bases, base, operations, methods, doc, meta, derives = _is(payload, list)
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
        if any(method.startswith("__") for method in _words(methods)):
            raise Malformed("a method with a special name")  # what the interpreter asks for is among the operations
        name = name.encode("utf-8", "replace").decode()
        about = Description(number, _words(operations), methods, base, _words(meta))
        cls = self.make_class(name, module, above, about)
        cls_doc = self.decode(doc) if doc is not None else None
        if "__doc__" not in vars(cls) or vars(cls)["__doc__"] is None:
            type.__setattr__(cls, "__doc__", cls_doc if type(cls_doc) is str else None)
        type.__setattr__(cls, "__qualname__", qualname.encode("utf-8", "replace").decode())
        self.about[cls], about.name = about, module + "." + qualname
        self.keep(number, cls)
        for abstract in ("Mapping", "Sequence", "Set", "MutableMapping", "Generator", "Coroutine"):
            if abstract in about.abstract(name, module):
                ABSTRACT[abstract].register(cls)
        told = _library_classes(derives)
        for abstract in told:
            if isinstance(abstract, abc.ABCMeta):
                abstract.register(cls)
        about.derives = told  # from here on, who asks for them is counted
        return cls

    def make_class(self, name, module, above, about):
        """Make a class with the name, the bases and the operations of a class of the submission. The operations ask
        the subject."""
        failing = [b for b in above if issubclass(b, BaseException)]
        members = {"__module__": module}
        for operation in about.operations:
            members[operation] = MEMBERS[operation]
        if "__len__" in members:
            members.setdefault("__bool__", _bool)  # a length that decides is counted, as one that is compared is not
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
            members.update({n: _derived(n, base, False) for n in COMPARISONS})
            members.update({n: _derived(n, base, True) for n in about.operations if n in COMPARED})
            for method in about.methods:
                if hasattr(base, method):
                    members[method] = _overridden(method)
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
        """Read an object of the submission."""
        number, cls, more = _is(payload, list)
        cls = self.decode(cls, depth)
        if not _is_class(cls) or cls not in self.about or issubclass(cls, BaseException):
            raise Malformed("an object of no class")
        self.accept(number)
        if number in self.released:
            self.released.remove(number)
        self.classes[number] = cls
        return self.twins.arrived(self.thing(number, cls, _is(more, dict), depth))

    def thing(self, number, cls, more=None, depth=0):
        """Make the proxy of an object."""
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
        """Read an exception: of the library, or of a class of the submission."""
        number, cls, args, text, cause, context, own = _is(payload, list)
        self.accept(number)
        cls, args, own = self.decode(cls, depth), tuple(self.values(args, depth)), _is(self.decode(own, depth), dict)
        text = self.decode(text)
        if not _is_class(cls) or not issubclass(cls, BaseException):
            raise Malformed("invalid exception")
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
        """Make an exception of the library, with its arguments and its plain attributes."""
        if cls in (FileNotFoundError, PermissionError) and len(args) == 3 and type(args[2]) is str:
            place = args[2] if self.given.below(args[2]) else self.files.place(args[2])
            if place and os.path.lexists(place):
                self.note("the submission looked for %.200s, which the test did not pass to it: needs mode inproc, or "
                          "the directory to be passed" % place)
        try:
            e = cls(*args) if cls in NAMED else cls.__new__(cls, *args)
        except Exception:
            e = cls.__new__(cls)
            e.args = args
        for name, value in own.items():
            notes = name == "__notes__" and type(value) is list and set(map(type, value)) <= {str}
            if notes or type(name) is str and not name.startswith("_") and not hasattr(BaseException, name):
                setattr(e, name, value)
        return e

    def failure(self, number):
        """Make the proxy of an exception of the submission's own class."""
        cls, (args, text) = self.classes[number], self.failures[number]
        try:
            e = cls.__new__(cls, *args)
        except Exception:
            e = cls.__new__(cls)
        if isinstance(e, StopIteration):
            StopIteration.__init__(e, *args)  # the interpreter reads its value without looking
        e.args = args
        e.__dict__.update(_remote=number, _text=text if type(text) is str else "")
        self.alive[number] = e
        return e

    def factory(self, payload, depth):
        factory = self.decode(payload, depth)
        return factory if factory is None or callable(factory) else None
