def add(a, b):
    return a + b


def words(text):
    return text.split()


def count(items):
    found = {}
    for item in items:
        found[item] = found.get(item, 0) + 1
    return found


def ratio(a, b):
    if b == 0:
        raise ValueError("nothing to divide by")
    return a / b


class Stack:
    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)
        return len(self.items)

    def pop(self):
        if not self.items:
            raise IndexError("empty")
        return self.items.pop()

    def __len__(self):
        return len(self.items)
