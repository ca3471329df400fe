"""What is wanted, done well, so that a hostile delivery can be honest in all but one thing."""
import pickle


def as_text(values):
    return repr(values)


def as_pickle(values):
    return pickle.dumps(values)


def as_module(values):
    return "".join(f"{name} = {value!r}\n" for name, value in values.items())


def total(numbers):
    return sum(numbers)
