"""Tests of the protocol: plain values come back exactly, and no frame, however hostile, does anything but raise
Malformed. Run by TestWire."""
import decimal
import functools
import json
import operator
import os
import pathlib
import random
import tempfile
import unittest
from unittest import mock

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python")


def load(*names):
    """The programs as they run, in a namespace of their own and without being started."""
    space = {"__name__": "program"}
    source = "".join(open(os.path.join(HERE, n + ".py"), encoding="utf-8").read() for n in names)
    exec(compile(source, "program", "exec"), space)
    return space


EXAMINER = load("plan", "wire", "values", "mirror", "sharing", "proxies", "lending", "arrival", "twins", "link", "modules")
SUBJECT = load("wire", "values", "mirror", "subject")
ALLOWED = (int, str, float, bool, type(None), list, dict, tuple, set, frozenset, bytes, bytearray, complex, range, slice,
           type(Ellipsis), type(NotImplemented), type, BaseException)


def link():
    return EXAMINER["Link"]("/judge/tests", {})


def through(value):
    """A value as the examiner has it when the subject has sent it."""
    text = json.dumps(SUBJECT["Subject"]().encode(value), allow_nan=False)
    return link().take(json.loads(text))


class Values(unittest.TestCase):
    def same(self, a, b):
        self.assertIs(type(a), type(b))
        if isinstance(a, (list, tuple)):
            self.assertEqual(len(a), len(b))
            for x, y in zip(a, b):
                self.same(x, y)
        elif isinstance(a, dict):
            self.same(list(a.items()), list(b.items()))
        elif isinstance(a, (set, frozenset)):
            self.same(sorted(a, key=repr), sorted(b, key=repr))
        else:
            self.assertEqual(repr(a), repr(b))

    def random_value(self, r, depth=0):
        kind = r.randrange(16 if depth < 4 else 9)
        leaf = [None, True, r.randrange(-2**70, 2**70), r.random() * 10**r.randrange(-300, 300), "".join(
            chr(r.choice([r.randrange(128), r.randrange(0x110000)])) for _ in range(r.randrange(6))),
            bytes(r.randrange(256) for _ in range(r.randrange(5))), r.choice([float("nan"), float("inf"), -0.0]),
            complex(r.random(), -0.0), r.choice([..., range(3), slice(1, 2), int])]
        if kind < 9:
            return leaf[kind]
        many = [self.random_value(r, depth + 1) for _ in range(r.choice([0, 1, 3, 12]))]
        keys = [k for k in many if isinstance(k, (int, str, bytes, type(None)))]
        return [many, tuple(many), {k: self.random_value(r, depth + 1) for k in keys}, set(keys), frozenset(keys),
                [r.randrange(100) for _ in range(20)], [str(x) for x in range(12)]][kind - 9]

    def test_they_come_back_exactly(self):
        r = random.Random(1)
        for _ in range(3000):
            value = self.random_value(r)
            self.same(through(value), value)

    def test_derived_data_is_not_plain(self):
        class Liar(int):
            def __eq__(self, o):
                return True
            __hash__ = int.__hash__
        found = through(Liar(3))
        self.assertFalse(found == 4)
        self.assertTrue(found == 3)
        self.assertIsNot(type(found), int)

    def test_depth_is_bounded(self):
        value = []
        for _ in range(1000):
            value = [value]
        with self.assertRaises(SUBJECT["Deep"]):
            SUBJECT["Subject"]().encode(value)


class Hostile(unittest.TestCase):
    SEEDS = [
        5, "x", {"L": [2, [1, 2]]}, {"D": [2, ["a", 1]]}, {"S": [2, [1]]}, {"t": [1, {"L": [4, []]}]}, {"i": "0x5"},
        {"k": 2}, {"f": "nan"}, {"b": "eA=="}, {"s": "eda080"}, {"c": [1.0, 2.0]}, {"r": [1, 2, 3]}, {"e": 0},
        {"g": "builtins.int"}, {"v": ["datetime.date", [2024, 1, 1]]}, {"v": ["decimal.Decimal", ["1"]]},
        {"Q": [2, [1], 3]}, {"X": [2, ["a", 1], {"g": "builtins.list"}]}, {"N": [2, ["a", 1]]}, {"Y": [2, "00"]},
        {"C": [2, "A", "solution", "A", [], None, ["__eq__", "__call__"], ["m"], None, [], []]},
        {"C": [2, "A", "m", "A", [], None, [], [], None, [], [["enum", "Enum"], ["numbers", "Number"], ["os", "x"]]]},
        {"h": [4, {"C": [2, "A", "m", "A", [], "builtins.int", ["__add__"], [], "doc", [], []]}, {"d": 5}]},
        {"h": [4, {"C": [2, "A", "m", "A", [], "builtins.list", [], [], None, [], []]}, {"c": [1]}]},
        {"E": [4, {"C": [2, "E", "m", "E", [{"g": "builtins.ValueError"}], None, [], [], None, [], []]}, ["x"], "x", None,
               None, {"D": [6, []]}]},
        {"E": [2, {"g": "builtins.KeyError"}, [1], "x", {"k": 2}, None, {"D": [4, []]}]},
        {"l": [1, None, 2]}, {"z": [1]}, {"M": 2}, {"v": ["datetime.datetime", [2024, 1, 1, 0, 0, 0, 0, 0, None]]},
    ]
    ODD = [None, True, -1, 0, 1, 2, 3, 4, 10**30, 1e308, "", "k", "\ud800", "__class__", "builtins.type", [], {}, [[]],
           {"k": 1}, {"k": 0}, {"L": [2, []]}, {"g": "builtins.object"}, {"g": "builtins.BaseException"},
           {"v": ["pathlib.PosixPath", ["\0"]]}, {"i": "0x" + "f" * 5000}, {"f": "1e5"}, ["__slots__", "__class__", "__del__"],
           "builtins.dict", "builtins.tuple", "builtins.function", {"d": True}, {"d": [1]}]

    def mutate(self, r, value):
        if r.random() < 0.15:
            return r.choice(self.ODD)
        if isinstance(value, list):
            value = [self.mutate(r, v) for v in value]
            if value and r.random() < 0.1:
                value.pop(r.randrange(len(value)))
            if r.random() < 0.1:
                value.insert(r.randrange(len(value) + 1), r.choice(self.ODD + self.SEEDS))
            return value
        if isinstance(value, dict):
            return {(r.choice("kLDShECgvX") if r.random() < 0.05 else k): self.mutate(r, v) for k, v in value.items()}
        return value

    def test_values_do_nothing_but_fail(self):
        r = random.Random(2)
        failed = 0
        for n in range(6000):
            side = link()
            for _ in range(r.randrange(1, 4)):
                try:
                    found = side.take(self.mutate(r, r.choice(self.SEEDS)))
                except (EXAMINER["Malformed"], EXAMINER["Gone"]):
                    failed += 1
                    continue
                known = isinstance(found, ALLOWED + (EXAMINER["Remote"],)) or type(found).__module__.partition(".")[0] in (
                    "datetime", "decimal", "collections", "pathlib", "fractions", "uuid")
                self.assertTrue(known, type(found))
        self.assertGreater(failed, 1000)

    def test_changes_do_nothing_but_fail(self):
        r = random.Random(3)
        for n in range(5000):
            side = link()
            side.encode([1, {"a": [2]}, {3}])
            seed = {"u": [[1, [5]], [3, ["a", 1]], [5, [1]]], "w": [[1, "text"]], "f": [],
                    "W": [{"E": [2, {"g": "builtins.UserWarning"}, ["old"], "old", None, None, {"D": [4, []]}]}]}
            try:
                side.receive({k: self.mutate(r, v) for k, v in seed.items() if k != "w"})
            except (EXAMINER["Malformed"], EXAMINER["Gone"]):
                pass

    def test_only_warnings_are_given(self):
        error = {"E": [2, {"g": "builtins.ValueError"}, [], "", None, None, {"D": [4, []]}]}
        for wrong in ({}, 5, ["old"], [{"g": "builtins.UserWarning"}], [error]):
            self.assertRaises(EXAMINER["Malformed"], link().receive, {"W": wrong})
        seen = link().receive({"W": [{"E": [2, {"g": "builtins.UserWarning"}, ["old"], "old", None, None, {"D": [4, []]}]}]})
        self.assertEqual([repr(w) for w in seen], ["UserWarning('old')"])

    def test_frames_do_nothing_but_fail(self):
        r = random.Random(4)
        seeds = [b"[0,1,0,\"call\",[],{}]", b"[1,1,5,{}]", b"[2,1,{\"k\":1},{}]", b"[" * 5000, b"{" * 100, b"NaN", b"1e999",
                 b"[1,1,Infinity,{}]", b"\xff\xfe", b"[1,1," + b"9" * 5000 + b",{}]", b"", b"null", b'[1,true,2,{}]', b'[1,1,2,[]]']
        good = 0
        for n in range(6000):
            data = bytearray(r.choice(seeds))
            for _ in range(r.randrange(3)):
                if data:
                    data[r.randrange(len(data))] = r.randrange(256)
            try:
                frame = EXAMINER["parse"](bytes(data))
            except EXAMINER["Malformed"]:
                continue
            good += 1
            self.assertIn(frame[0], (0, 1, 2))
            self.assertIs(type(frame[-1]), dict)
        self.assertGreater(good, 10)

    def test_a_class_cannot_bring_names_of_its_own(self):
        for name in ("__del__", "__class__", "__getattribute__", "__init_subclass__", "__reduce__", "__new__", "__slots__"):
            cls = link().take({"C": [2, "A", "m", "A", [], None, [name], [], None, [name], []]})
            self.assertNotIn("submission", repr(vars(cls).get(name)))
            self.assertIsNot(vars(cls).get(name), name)

    def test_no_method_has_a_special_name(self):
        for name in ("__eq__", "__hash__", "__class__", "__private"):
            for base in (None, "builtins.int", "builtins.list"):
                with self.assertRaises(EXAMINER["Malformed"]):
                    link().take({"C": [2, "A", "m", "A", [], base, [], [name], None, [], []]})

    def test_an_end_of_iteration_has_a_value(self):
        cls = {"C": [2, "End", "m", "End", [{"g": "builtins.StopIteration"}], None, [], [], None, [], []]}
        e = link().take({"E": [4, cls, [], "", None, None, {"D": [6, []]}]})
        self.assertIsInstance(e, StopIteration)
        self.assertIsNone(e.value)

    def test_requests_are_answered_only_for_what_was_lent(self):
        side = link()
        secret = [1]
        side.encode(secret)
        for op, args in (("serve_call", (len, (), ())), ("serve_get", (secret, "append")), ("serve_get", (os, "system")),
                         ("serve_op", ("__len__", secret)), ("serve_set", (secret, "x", 1)), ("serve_get", (test_function, "__globals__"))):
            with self.assertRaises((TypeError, AttributeError)):
                getattr(side, op)(*args)
        side.encode(test_function)
        for name in ("__globals__", "__code__", "__class__", "_x", "gi_frame", 5):
            with self.assertRaises(AttributeError):
                side.serve_get(test_function, name)

    def test_files_stay_in_their_place(self):
        mirror = EXAMINER["Shared"]()
        for path in ("/etc/x", "/tmp/../etc/x", "/tmp", "/judge/tests/x", "/tmp//x", "/tmp/a/../b", "x", "/tmp/\0", 5):
            with self.assertRaises(EXAMINER["Malformed"]):
                mirror.take([[path, "eA=="]])

    def test_only_what_was_passed_is_shared(self):
        with tempfile.TemporaryDirectory() as own:
            mirror = EXAMINER["Shared"]()
            given, wanted, new = [os.path.join(os.path.realpath(own), n) for n in ("given", "wanted", "new")]
            for path in (given, wanted):
                with open(path, "w") as f:
                    f.write("before")
            mirror.mention(given)
            self.assertEqual([p for p, content in mirror.changes() if type(content) is str], [given])
            mirror.take([[p, "eA=="] for p in (given, wanted, new)] + [[wanted, False]])
            self.assertEqual([pathlib.Path(p).read_text() for p in (given, wanted, new)], ["x", "before", "x"])
            with open(new, "w") as f:
                f.write("the test's")
            mirror.take([[new, "eA=="]])
            self.assertEqual(pathlib.Path(new).read_text(), "the test's")
            with self.assertRaises(EXAMINER["Malformed"]):
                mirror.take([[new + str(n), "eHh4" * (1 << 20)] for n in range(12)])

    def test_what_is_lent_keeps_what_lies_behind_it(self):
        side = link()
        file, callback, getter, part = open(os.devnull), mock.Mock(), operator.attrgetter("x"), functools.partial(len, [])
        for given, names in ((file, ("buffer", "raw", "detach", "reconfigure")), (getter, ("x", "__class__")), (part, ("func", "args")),
                             (callback, ("assert_called_once_with", "called", "call_args", "method_calls", "return_value", "attach_mock"))):
            encoded = side.encode(given)
            shape = encoded["x"][3]["x"][0]
            with self.assertRaises(TypeError):
                side.serve_call(side.objects[shape], ("/etc/passwd",), ())
            for name in names:
                with self.assertRaises(AttributeError):
                    side.serve_get(given, name)
                with self.assertRaises(AttributeError):
                    side.serve_set(given, name, 3)
        read = side.serve_get(file, "read")
        side.encode(read)
        self.assertEqual(side.serve_call(read, (), ()), "")
        side.serve_set(callback, "child", 3)
        self.assertEqual(callback.child, 3)
        file.close()

    def test_what_is_of_the_library_goes_by_name(self):
        for thing in (len, open, os.path.join, str.upper, json.loads, decimal.Decimal, mock.Mock):
            side = link()
            self.assertIn("n", side.encode(thing), thing)
            self.assertFalse(side.lent)


def test_function():
    pass


if __name__ == "__main__":
    unittest.main()
