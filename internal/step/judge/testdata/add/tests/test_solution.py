import pytest

from solution import add


def test_add():
    assert add(1, 2) == 3


def test_zero():
    assert add(0, 0) == 0


@pytest.mark.parametrize("a, b, sum", [(1, 1, 2), (2, 3, 5)])
def test_many(a, b, sum):
    assert add(a, b) == sum


def test_negative():
    assert add(-1, -2) == -3
