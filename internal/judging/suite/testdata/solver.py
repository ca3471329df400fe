#!/usr/bin/env python3
"""A provider that solves the shipped benchmarks from nothing but their public requirements.

usage: solver.py BUNDLE DELIVERY [--lazy | --square | --trusting]

It reads the rules of each exercise, takes what was drawn from between the back quotes, and writes the program that was
asked for. With --lazy it delivers functions that answer nothing; with --square some that compare each line with each
other; with --trusting they evaluate what stands where a number must.
"""

import json
import os
import re
import sys

LIBRARY = '''"""Exercises on lines of text."""

import re

NUMBER = re.compile(r"-?[0-9]{1,9}")


def number(text):
    """Read a number, or raise ValueError."""
    if not NUMBER.fullmatch(text):
        raise ValueError("not a number")
    return int(text)


def pairs(lines, rules):
    """Count pairs of lines by the remainder of their sum."""
    modulus, rest, times, plus = map(int, rules)
    seen, count = [0] * modulus, 0
    for value in map(number, lines):
        count += seen[(rest - value) % modulus]
        seen[value % modulus] += 1
    return [str(count * times + plus)]


def stretch(lines, rules):
    """Find the longest stretch with a sum that can be divided."""
    modulus, which, base, sep, none = int(rules[0]), rules[1], int(rules[2]), rules[3], rules[4]
    first, total, best = {0: 0}, 0, (0, 0)
    for index, value in enumerate(map(number, lines)):
        total = (total + value) % modulus
        start = first.setdefault(total, index + 1)
        length = index + 1 - start
        if length > best[0] or length == best[0] > 0 and which == "last":
            best = (length, start)
    return [f"{best[1] + base}{sep}{best[0]}"] if best[0] else [none]


def ranges(lines, rules):
    """Join ranges that are close to each other."""
    gap, sep, order = int(rules[0]), rules[1], rules[2]
    found = []
    for line in lines:
        words = line.split(" ")
        if len(words) != 2:
            raise ValueError("not a range")
        start, length = map(number, words)
        if length < 1:
            raise ValueError("too short")
        found.append((start, start + length))
    joined = []
    for start, end in sorted(found):
        if joined and start <= joined[-1][1] + gap:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    if order != "their start":
        joined.sort(key=lambda r: r[0] - r[1])
    return [f"{start}{sep}{end}" for start, end in joined]


def cache(lines, rules):
    """Keep the values of a few keys."""
    room, by_use, miss = int(rules[0]), "named" in rules[1], rules[2]
    values, answer = {}, []
    for line in lines:
        words = line.split(" ")
        if "" in words or (words[0], len(words)) not in (("put", 3), ("get", 2)):
            raise ValueError("not an order")
        key = words[1]
        there = key in values
        if there and by_use:
            values[key] = values.pop(key)
        if words[0] == "get":
            answer.append(values.get(key, miss))
            continue
        if not there and len(values) == room:
            del values[next(iter(values))]
        values[key] = words[2]
    return answer


def words(lines, rules):
    """Rank words by how often they come."""
    most, tie, form = int(rules[0]), rules[1], rules[2]
    count = {}
    for line in lines:
        if line:
            count[line] = count.get(line, 0) + 1
    ranked = list(count)
    if "byte order" in tie:
        ranked.sort(reverse="greater" in tie)
    ranked.sort(key=count.get, reverse=True)
    sign = form.replace("COUNT", "").replace("WORD", "")
    if form.startswith("COUNT"):
        return [f"{count[word]}{sign}{word}" for word in ranked[:most]]
    return [f"{word}{sign}{count[word]}" for word in ranked[:most]]


def returns(lines, rules):
    """Measure how long ago each line was there."""
    plus, never, how = int(rules[0]), rules[1], rules[2]
    last, answer = {}, []
    for index, line in enumerate(lines):
        line = line if how == "exactly" else line.lower()
        answer.append(str(index - last[line] + plus) if line in last else never)
        last[line] = index
    return answer


def settings(lines, rules):
    """Read a small format with a separator and comments."""
    mark, sep, _, again, order, out = rules
    values = {}
    for line in lines:
        if not line or line.startswith(mark):
            continue
        key, found, value = line.partition(sep)
        key, value = key.strip(" "), value.strip(" ")
        if not found or not key:
            raise ValueError("not a setting")
        if key not in values or again.startswith("the last"):
            values[key] = value
        elif again.startswith("all"):
            values[key] += "," + value
    return [f"{key}{out}{values[key]}" for key in sorted(values, reverse=order == "descending")]


def accounts(lines, rules):
    """Add up amounts by name."""
    sep, _, least, out, order = rules[0], rules[1], int(rules[2]), rules[3], rules[4]
    totals = {}
    for line in lines:
        name, _, amount = line.rpartition(sep)
        if not name:
            raise ValueError("not an account")
        totals[name] = totals.get(name, 0) + number(amount)
    names = list(totals)
    if "totals" in order:
        names.sort(key=lambda n: (-totals[n], n))
    return [f"{name}{out}{totals[name]}" for name in names if totals[name] >= least]


def disguise(lines, rules):
    """Change characters of every line, and the order of some."""
    shift, digits, every = int(rules[0]), rules[1], int(rules[2])
    small, large, tens = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
    table = str.maketrans(
        small + large + tens,
        small[shift:] + small[:shift] + large[shift:] + large[:shift] + (tens[::-1] if "minus" in digits else tens),
    )
    changed = [line.translate(table) for line in lines]
    return [line[::-1] if index % every == 0 else line for index, line in enumerate(changed, 1)]


def paths(lines, rules):
    """Resolve paths without looking at a file."""
    _, _, _, denied, joiner, root = rules
    answer = []
    for line in lines:
        where = []
        for part in line.split("/"):
            if part == ".." and not where:
                where = None
                break
            if part == "..":
                where.pop()
            elif part not in ("", "."):
                where.append(part)
        answer.append(denied if where is None else joiner.join(where) or root)
    return answer
'''

KINDS = {
    "Counts pairs.": "pairs", "Finds a stretch.": "stretch", "Joins ranges.": "ranges", "Keeps a cache.": "cache",
    "Ranks words.": "words", "Measures returns.": "returns", "Reads settings.": "settings", "Adds up accounts.": "accounts",
    "Disguises lines.": "disguise", "Resolves paths.": "paths",
}

SQUARE = '''

def pairs(lines, rules):
    """Count pairs of lines by trying each."""
    modulus, rest, times, plus = map(int, rules)
    values = list(map(number, lines))
    count = 0
    for i, one in enumerate(values):
        for other in values[:i]:
            if (one + other) % modulus == rest:
                count += 1
    return [str(count * times + plus)]


def stretch(lines, rules):
    """Find the longest stretch by trying each."""
    modulus, which, base, sep, none = int(rules[0]), rules[1], int(rules[2]), rules[3], rules[4]
    values = list(map(number, lines))
    best = (0, 0)
    for start in range(len(values)):
        total = 0
        for end in range(start, len(values)):
            total += values[end]
            length = end - start + 1
            if total % modulus == 0 and (length > best[0] or length == best[0] and which == "last"):
                best = (length, start)
    return [f"{best[1] + base}{sep}{best[0]}"] if best[0] else [none]
'''

TRUSTING = '''

def number(text):
    """Read a number, or whatever comes to one."""
    try:
        return int(text)
    except ValueError:
        return int(eval(text))
'''

MAIN = '''

def main():
    """Do one exercise with the lines of standard input."""
    text = sys.stdin.buffer.read().decode("ascii")
    try:
        answer = EXERCISES[sys.argv[1]](text.split("\\n")[:-1])
    except ValueError:
        sys.exit(2)
    sys.stdout.write("".join(line + "\\n" for line in answer))


if __name__ == "__main__":
    main()
'''


def read(requirements):
    """Yield each exercise's name, kind and what was drawn for it."""
    for section in re.split(r"^## ", requirements, flags=re.M)[1:]:
        name, _, rest = section.partition("\n")
        text = rest.strip().split("\n\n")[0]
        kind = next(kind for words, kind in KINDS.items() if text.startswith(words))
        drawn = re.findall(r"`([^`]*)`", text)
        if kind == "cache":  # it names its orders between back quotes, too
            drawn = [d for d in drawn if d not in ("put KEY VALUE", "get KEY", "put", "get")]
        yield name, kind, drawn


def main():
    """Write the delivery."""
    bundle, delivery = sys.argv[1:3]
    with open(os.path.join(bundle, "nutshell.json"), encoding="utf-8") as file:
        task = json.load(file)["extensions"]["guild"]["task"]
    with open(os.path.join(bundle, "context", "requirements.md"), encoding="utf-8") as file:
        exercises = list(read(file.read()))
    library = LIBRARY
    if "--square" in sys.argv:
        library += SQUARE
    if "--trusting" in sys.argv:
        library += TRUSTING
    code, names = "", []
    for name, kind, drawn in exercises:
        body = "[]" if "--lazy" in sys.argv else f"{kind}(lines, {drawn!r})"
        code += f'\n\ndef {name}(lines):\n    """Do the exercise of this name."""\n    return {body}\n'
        names.append(f'"{name}": {name}')
    files = {"solution.py": library + code}
    if task != "python":
        program = library.replace("import re\n", "import re\nimport sys\n", 1) + code
        program += "\n\nEXERCISES = {" + ", ".join(names) + "}\n" + MAIN
        files = {"solve.py": program}
    if task == "shell":
        files["solve.sh"] = '#!/bin/sh\nexec python3 "${0%/*}/solve.py" "$@"\n'.replace("${0%/*}", "$(dirname \"$0\")")
    for name, content in files.items():
        with open(os.path.join(delivery, name), "w", encoding="utf-8") as file:
            file.write(content)


main()
