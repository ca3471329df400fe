"""Amounts of money: whole cents, written with a point and two digits."""
import re


def read(text):
    """The cents in a text such as "12.30", "-0.05" or "7"; ValueError for anything else."""
    found = re.fullmatch(r"(-?)(\d+)(?:\.(\d\d))?", text.strip())
    if not found:
        raise ValueError(f"not an amount: {text!r}")
    sign, whole, cents = found.groups()
    total = int(whole) * 100 + int(cents or 0)
    return -total if sign else total


def show(cents):
    """The text that read reads."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02}"
