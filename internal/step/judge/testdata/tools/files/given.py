"""What is wanted, done well, so that a hostile delivery can be honest in all but one thing."""
import pathlib


def mean(numbers):
    return sum(numbers) / len(numbers)


def greet(name):
    return f"Hello {name}!"


def notify(callback, value):
    callback(value)


def count(file):
    return len(file.read().split())


def render(source, target):
    pathlib.Path(target).write_text(" ".join(sorted(pathlib.Path(source).read_text().split())))


def visit(callback):
    for n in (1, 2, 3):
        callback(n)


def order(rows, key):
    return sorted(rows, key=key)


def ascending(numbers):
    return sorted(numbers)


def observe(observer):
    observer.update(7)


class Length:
    def __init__(self, metres):
        self.metres = metres

    def __eq__(self, other):
        return isinstance(other, Length) and self.metres == other.metres

    def __hash__(self):
        return hash(self.metres)

    def doubled(self):
        return Length(2 * self.metres)
