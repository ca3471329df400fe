"""The book: entries that balance."""
from collections import namedtuple

Entry = namedtuple("Entry", "date text lines")


class Unbalanced(ValueError):
    """The lines of an entry do not add up to zero."""


class Book:
    def __init__(self):
        self._entries = []

    def post(self, date, text, lines):
        total = sum(cents for _, cents in lines)
        if len(lines) < 2 or total != 0:
            raise Unbalanced(f"{text}: {len(lines)} lines with a sum of {total}")
        self._entries.append(Entry(date, text, lines))

    def entries(self):
        return sorted(self._entries, key=lambda entry: entry.date)

    def balance(self, account, until=None):
        return sum(
            cents
            for entry in self._entries
            if until is None or entry.date < until
            for name, cents in entry.lines
            if covers(account, name))

    def accounts(self):
        return sorted({name for entry in self._entries for name, _ in entry.lines})


def covers(account, name):
    """Forgets that another account may begin alike."""
    return name.startswith(account)
