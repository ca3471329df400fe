from operator import attrgetter, itemgetter
from pathlib import Path
from unittest import TestCase
from unittest.mock import Mock

from solution import *

WORDS = Path(__file__).with_name("words.txt")


def test_mean():
    assert abs(mean([1, 2, 6]) - 3) < 1e-9
    assert mean([4, 6]) > 4.5


def test_greet():
    assert greet("Bob").startswith("Hello")
    assert greet("Bob").endswith("Bob!")


def test_notify():
    callback = Mock()
    notify(callback, 3)
    callback.assert_called_once_with(3)


def test_count():
    with open(WORDS) as file:
        assert count(file) == len(WORDS.read_text().split())


def test_render(tmp_path):
    (tmp_path / "in.txt").write_text("c a b")
    (tmp_path / "want.txt").write_text("a b c")
    render(tmp_path / "in.txt", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text() == (tmp_path / "want.txt").read_text()


def test_visit():
    seen = []

    def check(n):
        seen.append(n)
        assert n == len(seen)

    visit(check)
    assert len(seen) == 3


def test_order():
    assert order([("b", 1), ("a", 2)], key=itemgetter(1)) == [("b", 1), ("a", 2)]
    assert order([2j, 1j], key=attrgetter("imag")) == [1j, 2j]


def test_ascending():
    numbers = [3, 1, 2]
    assert ascending(numbers) == sorted(numbers)


class TestObserver(TestCase):
    def update(self, value):
        self.value = value

    def test_observe(self):
        observe(self)
        self.assertEqual(self.value, 7)


def test_length():
    assert Length(3).doubled() == Length(6)
