"""The book: entries that balance."""
from collections import namedtuple

Entry = namedtuple("Entry", "date text lines")


class Unbalanced(ValueError):
    """The lines of an entry do not add up to zero."""


class Book:
    def post(self, date, text, lines):
        raise NotImplementedError

    def entries(self):
        raise NotImplementedError

    def balance(self, account, until=None):
        raise NotImplementedError

    def accounts(self):
        raise NotImplementedError
