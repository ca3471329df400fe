"""Twins: objects of the submission's classes of values, which a test has made and which the submission has not seen.

A class of values is one whose objects have what they were made with under its own name: a dataclass, a NamedTuple, an
enumeration. When a test compares such an object with one of the submission's, the examiner asks that one for its fields
and compares them itself with what the test has written. So the submission neither decides whether the two are equal nor
is it shown what is expected. The tests run once without twins, which decides whether they pass, and once more with
them, which shows more of what they prove.
"""


class Twins:
    """The classes of values that are known, and the twins of their objects."""

    def __init__(self, link, known):
        """known has, by the name of a class, its fields in order, or None for an enumeration."""
        self.link, self.known = link, known
        self.first = {}  # class → what a test first made an object of it with
        self.preset = {}  # class → its defaults
        self.compared = set()  # classes whose equality the submission decided
        self.named = {}  # class → names of its members that the tests use
        self.apart = {}  # id of a twin → the twin, its fields, and how to have the submission make it
        self.members = {}  # class and name → the twin of a member

    def fields(self, cls):
        """Return the fields of a class of values, None for any other."""
        return self.known.get(self.name(cls)) if self.known else None

    def enumerates(self, cls):
        return bool(self.known) and self.known.get(self.name(cls), ()) is None

    def name(self, cls):
        """Return what a class of the submission is called, with its module."""
        about = self.link.about.get(cls) if type(cls) is RemoteClass else None
        return about.name if about else ""

    def make(self, cls, args, kwargs):
        """Return the twin of an object that a test makes, None if there can be none."""
        if type(cls) is RemoteClass:
            self.first.setdefault(cls, (args, kwargs))
        names = self.fields(cls)
        values = dict(zip(names or (), args))
        if not names or values.keys() & kwargs.keys() or len(args) > len(names):
            return None
        values.update(kwargs)
        for name, value in self.defaults(cls).items():
            if name in names:
                values.setdefault(name, value)
        if set(names) != values.keys():
            return None
        if issubclass(cls, tuple):
            twin = tuple.__new__(cls, [values[n] for n in names])
        elif issubclass(cls, Thing):
            twin = object.__new__(cls)
        else:
            return None
        return self.keep(twin, values, lambda: self.link.call_now(cls, args, kwargs))

    def defaults(self, cls):
        """Return the plain values for what an object is not made with."""
        if cls not in self.preset:
            self.preset[cls] = {p.name: p.default for p in self.link.signature(cls).parameters.values()
                                if type(p.default) in _ATOMS}
        return self.preset[cls]

    def keep(self, twin, values, make):
        object.__setattr__(twin, "_remote", None)
        self.apart[id(twin)] = twin, values, make
        return twin

    def holds(self, v):
        """Report whether something is a twin that the submission has not seen."""
        return id(v) in self.apart and self.apart[id(v)][0] is v

    def member(self, cls, name):
        """Return the twin of a member of an enumeration, by the name that a test uses or an object has."""
        twin = self.members.get((cls, name))
        if twin is None:
            twin = self.members[cls, name] = self.keep(
                object.__new__(cls), {"name": name}, lambda: self.link.ask("get", lambda: [self.link.encode(cls), name]))
        return twin

    def arrived(self, found):
        """Return the twin of a member that the submission answers with, by the name that it has."""
        if not self.enumerates(type(found)) or self.holds(found):
            return found
        name = self.link.ask("get", lambda: [self.link.encode(found), "name"])
        if type(name) is not str:
            return found
        twin = self.members.setdefault((type(found), name), found)
        if self.holds(twin):
            self.bind(twin, found)
        return twin

    def bind(self, twin, made):
        """Let a twin stand for an object of the submission's."""
        del self.apart[id(twin)]
        number = made._remote
        object.__setattr__(made, "_remote", None)
        object.__setattr__(twin, "_remote", number)
        self.link.alive[number] = twin
        self.link.numbers.pop(id(made), None)
        if number in self.link.objects:
            self.link.keep(number, twin)

    def join(self, v, depth=0):
        """Have the submission make the twins in a value, because it is going to see them."""
        if self.holds(v):
            made = self.apart[id(v)][2]()
            if type(made) is not type(v):
                raise self.link.unsupported("a class makes an object of another")
            if made is not v:
                self.bind(v, made)
        elif depth < 20 and type(v) in (list, tuple, set, frozenset, dict, collections.deque):
            for item in list(v.items() if type(v) is dict else v):
                self.join(item, depth + 1)

    def equal(self, o, other):
        """Report whether two objects have equal fields, None where the submission must say."""
        names = self.fields(type(o))
        if names is None or type(o) is not type(other) or not (self.holds(o) or self.holds(other)):
            if type(o) in self.first or type(other) in self.first:
                self.compared.add(type(o) if type(o) in self.first else type(other))
            return None
        return all(self.value(o, n) == self.value(other, n) for n in names)

    def value(self, o, name):
        return self.apart[id(o)][1][name] if self.holds(o) else self.link.ask("get", lambda: [self.link.encode(o), name])

    def found(self):
        """Return the classes of values among those that the tests have used, as known has them. Each is tried: an
        object is made once more, and must have all that it is made with under its name."""
        found, classes = {}, list(self.compared)
        for cls in classes:  # with those of their fields
            args, kwargs = self.first[cls]
            classes += {type(v) for v in (*args, *kwargs.values())} & self.first.keys() - set(classes)
            names = self.try_class(cls)
            if names:
                found[self.name(cls)] = names
        for cls, names in self.named.items():
            if all(self.link.attribute(self.link.attribute(cls, n), "name") == n for n in names):
                found[self.name(cls)] = None
        return found

    def try_class(self, cls):
        import inspect
        args, kwargs = self.first[cls]
        P = inspect.Parameter
        parameters = self.link.signature(cls).parameters.values()
        names = [p.name for p in parameters if p.kind in (P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD, P.KEYWORD_ONLY)]
        given = dict(zip(names, args), **kwargs)
        for name, value in self.defaults(cls).items():
            given.setdefault(name, value)
        o = self.link.call_now(cls, args, kwargs)
        for name, value in given.items():
            kept = self.link.attribute(o, name)
            if not isinstance(value, Remote) and (type(kept) is not type(value) or kept != value):
                return None
        return [n for n in names if n in given]

