"""How the examiner and the subject of a split examination talk: frames on a socket, and values in JSON.

A frame is a length of four bytes and a JSON array: a request, or the answer to one. Either side may ask while it
is being asked, so that a test's own function can be called back. Plain data travels by value and by its exact
type. Lists, dicts and the like are shared: each has a number, both sides keep one, and a frame carries what was
changed in them since the last. All else is a handle, a number that only its owner can follow. Nothing that
arrives is ever executed, unpickled or looked up by name outside a fixed list.
"""
import binascii
import collections
import itertools
import json
import math
import operator
import os
import sys
import threading

FRAME = 16 << 20  # bytes of one frame
DEPTH = 120  # how deeply values may be nested
REQUEST, ANSWER, RAISED, OVER = 0, 1, 2, 3
APART = 1 << 40
STOPPED = "this run is over"  # why a conversation is closed that the judge has ended
NOBODY = -1  # the thread of a request that no thread of the other side waits for
_SMALL = 1 << 62
_ATOMS = {int, str, float, bool, type(None)}


class Gone(BaseException):
    """The other side has ended, or broke the protocol. Nothing in a test may swallow it by accident."""


class Malformed(Exception):
    """A frame that the protocol does not allow."""


class Deep(Exception):
    """A value that is nested too deeply to travel."""


class Channel:
    """One end of the socket. Any number of threads may ask; whoever waits also reads for the others."""

    def __init__(self, descriptor, serve, stray, most):
        """serve answers a request in the thread it is for, stray one whose thread is not known here, and most
        is how many bytes may arrive in all."""
        self._descriptor, self._serve, self._stray, self._left = descriptor, serve, stray, most
        self._changed = threading.Condition(threading.Lock())
        self.sending = threading.RLock()
        self._buffer = b""
        self._reading = False
        self._last = 0
        self._asked = set()
        self._answers = {}
        self._requests = {}  # thread → deque of requests for it
        self.closed = None  # why nothing can be asked any more

    def join(self, thread):
        """Says that requests for a thread are fetched by it from now on."""
        with self._changed:
            self._requests.setdefault(thread, collections.deque())

    def number(self):
        """The number of a new request."""
        with self._changed:
            self._last += 1
            self._asked.add(self._last)
            return self._last

    def part(self):
        """Lets this process, which another has forked, number its requests apart from the other's."""
        self._last += APART

    def drain(self, frame):
        """Sends a request, and waits for its answer past those that another process was to read and has not."""
        self.send(frame)
        while self._receive()[1] != frame[1]:
            pass

    def send(self, frame):
        """Writes one frame."""
        data = json.dumps(frame, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        if len(data) > FRAME:
            raise Deep("%d bytes are too much for one message" % len(data))
        data = len(data).to_bytes(4, "big") + data
        with self.sending:
            try:
                while data:
                    data = data[os.write(self._descriptor, data):]
            except OSError:
                self.close("the connection was closed")
                raise Gone(self.closed)

    def wait(self, number, thread):
        """The answer to a request. Requests for this thread that arrive before it are served; number 0 serves
        for ever."""
        while True:
            frame = self._next(number, thread)
            if frame[0] != REQUEST:
                return frame
            self._serve(frame)

    def _next(self, number, thread):
        """The next frame that is for this waiter."""
        while True:
            with self._changed:
                while True:
                    if number in self._answers:
                        return self._answers.pop(number)
                    if self._requests.get(thread):
                        return self._requests[thread].popleft()
                    if self.closed:
                        raise Gone(self.closed)
                    if not self._reading:
                        break
                    self._changed.wait()
                self._reading = True
            self._read()

    def pump(self):
        """Reads for the others until the end."""
        try:
            self._next(0, None)
        except Gone:
            pass

    def _read(self):
        """Reads one frame and puts it where its waiter finds it."""
        frame, why = None, None
        try:
            frame = self._receive()
        except (Malformed, OSError) as e:
            why = str(e)
        stray = False
        with self._changed:
            self._reading = False
            if frame is None or frame[0] == OVER:
                self.closed = self.closed or why or STOPPED
            elif frame[0] == REQUEST:
                stray = frame[2] not in self._requests
                if not stray:
                    self._requests[frame[2]].append(frame)
            elif frame[1] in self._asked:
                self._asked.discard(frame[1])
                self._answers[frame[1]] = frame
            else:
                self.closed = "an answer to nothing that was asked"
            self._changed.notify_all()
        if stray:
            self._stray(frame)

    def _receive(self):
        size = int.from_bytes(self._take(4), "big")
        if size > FRAME:
            raise Malformed("a message of %d bytes" % size)
        self._left -= size
        if self._left < 0:
            raise Malformed("the messages are too much altogether")
        return parse(self._take(size))

    def _take(self, size):
        if len(self._buffer) < size:
            parts, have = [self._buffer], len(self._buffer)
            while have < size:
                part = os.read(self._descriptor, max(65536, min(size - have, 1 << 20)))
                if not part:
                    raise Malformed("the connection was closed")
                parts.append(part)
                have += len(part)
            self._buffer = b"".join(parts)
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def close(self, why):
        """Lets every waiter know that there is nothing more to wait for."""
        with self._changed:
            self.closed = self.closed or why
            self._changed.notify_all()


def parse(data):
    """A frame from its bytes, with the form that every frame has: a list of its kind, number and so on."""
    try:
        frame = json.loads(data.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError, MemoryError):
        raise Malformed("a message that is not JSON")
    if type(frame) is not list or not frame or type(frame[0]) is not int:
        raise Malformed("a message of no known kind")
    shape = [int, int, int, str, list, dict] if frame[0] == REQUEST else [int, int, object, dict]
    if frame[0] not in (REQUEST, ANSWER, RAISED, OVER) or len(frame) != len(shape):
        raise Malformed("a message of no known kind")
    for part, want in zip(frame, shape):
        if want is not object and type(part) is not want:
            raise Malformed("a message of the wrong form")
    return frame


def _refuse(text):
    raise ValueError(text)


class Kind:
    """How one type of shared container is taken apart and filled again, by its own methods and not by those
    that a class derived from it may have put in their place."""

    def __init__(self, base, tag, contents, fill):
        self.base, self.tag, self.contents, self.fill = base, tag, contents, fill


def _pairs(base):
    return lambda o: list(itertools.chain.from_iterable(base.items(o)))


def _fill_dict(base):
    def fill(o, values):
        base.clear(o)
        for k, v in zip(values[::2], values[1::2]):
            base.__setitem__(o, k, v)
    return fill


def _fill_list(o, values):
    list.__setitem__(o, slice(None), values)


def _fill_set(o, values):
    set.clear(o)
    set.update(o, values)


def _fill_deque(o, values):
    collections.deque.clear(o)
    collections.deque.extend(o, values)


KINDS = [
    Kind(list, "L", lambda o: list(list.__iter__(o)), _fill_list),
    Kind(collections.OrderedDict, "O", _pairs(collections.OrderedDict), _fill_dict(collections.OrderedDict)),
    Kind(collections.defaultdict, "X", _pairs(dict), _fill_dict(dict)),
    Kind(collections.Counter, "N", _pairs(dict), _fill_dict(dict)),
    Kind(dict, "D", _pairs(dict), _fill_dict(dict)),
    Kind(set, "S", lambda o: list(set.__iter__(o)), _fill_set),
    Kind(collections.deque, "Q", lambda o: list(collections.deque.__iter__(o)), _fill_deque),
]
KIND = {k.base: k for k in KINDS}
BY_TAG = {k.tag: k for k in KINDS}

# Classes and functions that are the same on both sides, and so travel by name. The examiner takes no others.
NAMED = {}


def _name_classes():
    import builtins
    for name, value in vars(builtins).items():
        if isinstance(value, type) and not name.startswith("_"):
            NAMED[value] = "builtins." + name
    for value in (collections.OrderedDict, collections.defaultdict, collections.Counter, collections.deque):
        NAMED[value] = "collections." + value.__name__
    NAMED[type(None)] = "NoneType"


_name_classes()
BY_NAME = {name: value for value, name in NAMED.items()}


def flat(values):
    """Whether a list can be written as it stands: all of one plain type, and none of them special."""
    types = set(map(type, values))
    if types == {int}:
        return -_SMALL < min(values) and max(values) < _SMALL
    if types == {str}:
        return all(map(str.isascii, values))
    if types == {float}:
        return all(map(math.isfinite, values))
    return types <= {bool, type(None)}


class Codec:
    """Turns values into JSON and back, and keeps what both sides have. What belongs to one side alone is added
    by its own class."""

    def __init__(self, first):
        """Numbers of ours are odd or even, as the first is."""
        self.last = first
        self.objects = {}  # number → object
        self.numbers = {}  # id(object) → number
        self.shared = {}  # number → [object, kind, contents when last told]
        self.encoders = {
            bytes: lambda v, d: {"b": binascii.b2a_base64(v, newline=False).decode()},
            bytearray: self._bytearray,
            tuple: lambda v, d: {"t": self.items(v, d)},
            frozenset: lambda v, d: {"z": self.items(v, d, True)},
            complex: lambda v, d: {"c": [self.encode(v.real), self.encode(v.imag)]},
            range: lambda v, d: {"r": self.items((v.start, v.stop, v.step), d)},
            slice: lambda v, d: {"l": self.items((v.start, v.stop, v.step), d)},
            type(Ellipsis): lambda v, d: {"e": 0},
            type(NotImplemented): lambda v, d: {"e": 1},
        }
        for base in KIND:
            self.encoders[base] = self._container
        self.decoders = {
            "s": lambda v, d: _text(v), "i": _integer, "f": lambda v, d: float(_one_of(v, _FLOATS)),
            "b": lambda v, d: binascii.a2b_base64(_is(v, str)), "Y": self._take_bytearray,
            "t": lambda v, d: tuple(self.values(v, d)), "z": lambda v, d: frozenset(self.values(v, d)),
            "c": lambda v, d: complex(*[_is(x, float) for x in self.values(v, d)]),
            "r": lambda v, d: range(*[_is(x, int) for x in self.values(v, d)]),
            "l": lambda v, d: slice(*self.values(v, d)), "e": lambda v, d: (Ellipsis, NotImplemented)[_bit(v)],
            "k": self._known, "g": lambda v, d: BY_NAME[_is(v, str)], "v": _take_special,
        }
        for tag in BY_TAG:
            self.decoders[tag] = self._take_container(tag)

    # Values out.

    def encode(self, v, depth=0, key=False):
        """A value as JSON."""
        t = type(v)
        if v is None or t is bool:
            return v
        if t is int:
            return v if -_SMALL < v < _SMALL else {"i": hex(v)}
        if t is str:
            return self.text(v)
        if t is float:
            return v if math.isfinite(v) else {"f": repr(v)}
        if depth > DEPTH:
            raise Deep("a value is nested too deeply")
        number = self.numbers.get(id(v))
        if number is not None:
            return {"k": number}
        encoder = self.encoders.get(t)
        if encoder:
            return encoder(v, depth + 1)
        name = t.__module__.partition("._")[0] + "." + t.__name__
        if name in SPECIALS and SPECIALS[name][0]() is t:
            parts = SPECIALS[name][1](v)
            if parts is not None:
                return {"v": [name, self.items(parts, depth + 1)]}
        if isinstance(v, type) and v in NAMED:
            return {"g": NAMED[v]}
        return self.other(v, depth + 1, key)

    def text(self, v):
        """A string; one with lone surrogates is no valid UTF-8 and is spelled out."""
        if not v.isascii():
            try:
                v.encode()
            except UnicodeEncodeError:
                return {"s": v.encode("utf-8", "surrogatepass").hex()}
        if v[:1] == "/" and ("/tmp/" in v[:10] or v.startswith("/judge/")):
            self.mention(v)
        return v

    def mention(self, path):
        """Notes a path that goes to the other side."""

    def items(self, values, depth=0, key=False):
        """A sequence of values as a JSON array."""
        if len(values) > FRAME // 2:
            raise Deep("%d values are too much for one message" % len(values))
        if len(values) > 8 and flat(values):
            return list(values)
        return [self.encode(v, depth, key) for v in values]

    def other(self, v, depth, key):
        """A value that is not plain."""
        raise NotImplementedError

    def new_number(self, v):
        """Gives an object its number, and keeps it from now on."""
        self.last += 2
        self.objects[self.last] = v
        self.numbers[id(v)] = self.last
        return self.last

    def _container(self, v, depth):
        kind = KIND[type(v)]
        number = self.new_number(v)
        contents = kind.contents(v)
        self.shared[number] = [v, kind, contents]
        return {kind.tag: [number, self._contents(kind, contents, depth)] + self._extra(v, depth)}

    def _extra(self, v, depth):
        if type(v) is collections.deque:
            return [v.maxlen]
        if type(v) is collections.defaultdict:
            return [self.encode(v.default_factory, depth)]
        return []

    def _contents(self, kind, contents, depth):
        if kind.base is set:
            return self.items(contents, depth, True)
        if issubclass(kind.base, dict):
            return [self.encode(x, depth, i % 2 == 0) for i, x in enumerate(contents)]
        return self.items(contents, depth)

    def _bytearray(self, v, depth):
        number = self.new_number(v)
        self.shared[number] = [v, None, bytes(v)]
        return {"Y": [number, v.hex()]}

    def changes(self):
        """What was changed in the shared containers since the other side was last told."""
        told = []
        for number, entry in list(self.shared.items()):
            o, kind, before = entry
            if kind is None:
                now = bytes(o)
                if now != before:
                    entry[2] = now
                    told.append([number, now.hex()])
                continue
            now = kind.contents(o)
            if len(now) != len(before) or not all(map(operator.is_, now, before)):
                entry[2] = now
                told.append([number, self._contents(kind, now, 1)])
        return told

    # Values in.

    def decode(self, v, depth=0):
        """A value from JSON. Whatever is wrong with it is Malformed."""
        if type(v) in _ATOMS:
            return v
        if depth > 2 * DEPTH or type(v) is not dict or len(v) != 1:
            raise Malformed("a value of no known form")
        (tag, payload), = v.items()
        decoder = self.decoders.get(tag)
        if decoder is None:
            raise Malformed("a value of no known kind")
        return decoder(payload, depth + 1)

    def values(self, payload, depth=0):
        """A list of values."""
        if type(payload) is not list:
            raise Malformed("no list")
        if set(map(type, payload)) <= _ATOMS:
            return payload
        return [self.decode(v, depth) for v in payload]

    def take(self, v):
        """decode, with every way to fail turned into Malformed."""
        try:
            return self.decode(v)
        except Malformed:
            raise
        except Exception as e:
            raise Malformed("a value that does not fit: %s" % type(e).__name__)

    def accept(self, number):
        """Checks the number that the other side gave something new."""
        if type(number) is not int or number < 1 or number % 2 == self.last % 2 or number in self.objects:
            raise Malformed("a wrong number")
        return number

    def keep(self, number, v):
        """Keeps what the other side has numbered."""
        self.objects[number] = v
        self.numbers[id(v)] = number

    def forget(self, numbers):
        """Lets go of what the other side no longer needs."""
        for number in numbers:
            v = self.objects.pop(number, None)
            self.shared.pop(number, None)
            if v is not None and self.numbers.get(id(v)) == number:
                del self.numbers[id(v)]

    def _known(self, number, depth):
        if type(number) is not int or number not in self.objects:
            raise Malformed("a number of nothing")
        return self.objects[number]

    def _take_container(self, tag):
        kind = BY_TAG[tag]

        def take(payload, depth):
            number = self.accept(_is(payload, list)[0])
            if kind.base is collections.deque:
                v = collections.deque(maxlen=payload[2])
            elif kind.base is collections.defaultdict:
                v = collections.defaultdict(self.factory(payload[2], depth))
            else:
                v = kind.base()
            self.keep(number, v)
            self.shared[number] = [v, kind, []]
            self.refill(number, payload[1], depth)
            return v
        return take

    def factory(self, payload, depth):
        """The default factory of a defaultdict."""
        return self.decode(payload, depth)

    def refill(self, number, payload, depth=1):
        """Puts the other side's contents into a shared container."""
        entry = self.shared.get(number)
        if entry is None:
            return  # let go of meanwhile
        o, kind, _ = entry
        if kind is None:
            o[:] = bytes.fromhex(payload)
            entry[2] = bytes(o)
            return
        kind.fill(o, self.values(payload, depth))
        entry[2] = kind.contents(o)

    def _take_bytearray(self, payload, depth):
        number = self.accept(_is(payload, list)[0])
        v = bytearray.fromhex(payload[1])
        self.keep(number, v)
        self.shared[number] = [v, None, bytes(v)]
        return v


_FLOATS = ("nan", "inf", "-inf")


def _is(v, t):
    if type(v) is not t:
        raise Malformed("not a " + t.__name__)
    return v


def _one_of(v, allowed):
    if v not in allowed:
        raise Malformed("not one of a few")
    return v


def _bit(v):
    return _one_of(_is(v, int), (0, 1))


def _text(v):
    return bytes.fromhex(_is(v, str)).decode("utf-8", "surrogatepass")


def _integer(v, depth):
    return int(_is(v, str), 16)  # linear, as decimal digits are not
