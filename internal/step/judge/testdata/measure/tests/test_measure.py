import unittest

from helpers import *
from solution import *


def test_double():
    found = double(Length(3))
    assert isinstance(found, Length)
    assert found.metres == 6


def test_mean():
    assert abs(mean([1, 2, 6]) - 3) < 1e-6
    assert mean([4, 6]) % 5 == 0


def test_bounds():
    assert mean([4, 6]) >= 5
    assert mean([4, 6]) <= 5


def test_helpers():
    near(mean([1, 3]), 2)
    begins(name(7), "7")


class TestName(unittest.TestCase):
    def test_name(self):
        self.assertTrue(name(3).startswith("3"))
        self.assertFalse(name(3).isalpha())
