"""What is wanted, done well, so that a hostile delivery can be honest in all but one thing."""


class Length:
    def __init__(self, metres):
        self.metres = metres


def double(length):
    return Length(2 * length.metres)


def mean(numbers):
    return sum(numbers) / len(numbers)


def name(metres):
    return f"{metres} m"
