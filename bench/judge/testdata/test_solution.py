import pytest

from solution import Stack, add, count, ratio, words


@pytest.mark.parametrize("a, b, total", [(1, 2, 3), (0, 0, 0), (-1, 1, 0), (10**20, 1, 10**20 + 1)])
def test_add(a, b, total):
    assert add(a, b) == total
    assert add(b, a) == total


def test_add_text():
    assert add("a", "b") == "ab"


@pytest.mark.parametrize("text, parts", [("a b", ["a", "b"]), ("", []), ("  x  ", ["x"])])
def test_words(text, parts):
    assert words(text) == parts


def test_count():
    assert count("abca") == {"a": 2, "b": 1, "c": 1}
    assert count([]) == {}
    assert count([1, 1, 2]) == {1: 2, 2: 1}


def test_ratio():
    assert ratio(1, 2) == 0.5
    assert ratio(-4, 2) == -2


def test_ratio_by_nothing():
    with pytest.raises(ValueError):
        ratio(1, 0)


def test_stack():
    s = Stack()
    assert s.push(1) == 1
    assert s.push("two") == 2
    assert len(s) == 2
    assert s.pop() == "two"
    assert s.pop() == 1


def test_empty_stack():
    with pytest.raises(IndexError):
        Stack().pop()


def test_stacks_are_apart():
    a, b = Stack(), Stack()
    a.push(1)
    assert len(a) == 1
    assert len(b) == 0


def test_many():
    s = Stack()
    for i in range(20):
        s.push(i)
    assert [s.pop() for _ in range(20)] == list(range(20))[::-1]
