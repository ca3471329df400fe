"""Watches which of the tests' assert statements rest on the submission's word alone."""


class Marker(ast.NodeTransformer):
    """Puts a note before and after each assert statement of a test module. One that is true if all of its parts
    are is taken as a statement for each part, which is the same to the test."""

    def visit_Assert(self, node):
        marked = []
        for test in _parts(node.test):
            part = ast.copy_location(ast.Assert(test, node.msg), node)
            marked += [_note(node, "@asserting"), part, _note(node, "@passed", ast.Constant(_repeats(test)))]
        return marked


def _parts(test):
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [part for value in test.values for part in _parts(value)]
    return [test]


def _note(node, name, *args):
    """A call of a function of ours; no program can spell its name."""
    call = ast.Expr(ast.Call(ast.Name(name, ast.Load()), list(args), []))
    return ast.fix_missing_locations(ast.copy_location(call, node))


def _repeats(test):
    """Whether an expression uses something twice: as an argument and, perhaps, for what is expected."""
    functions = {id(n.func) for n in ast.walk(test) if isinstance(n, ast.Call)}
    inner = {id(n.value) for n in ast.walk(test) if isinstance(n, ast.Attribute)}
    used = [ast.dump(n) for n in ast.walk(test) if isinstance(n, (ast.Name, ast.Attribute))
            and id(n) not in functions and id(n) not in inner]
    return len(used) > len(set(used))


class Asserts:
    """How many assert statements the running test has passed, and how many of them the submission decided: it was
    asked for something that only it could say since the one before, or it changed, while the assertion was
    evaluated, what was used twice in it."""

    def __init__(self, link):
        self.link = link
        self.begin()

    def begin(self):
        """Begins a new test."""
        self.passed = self.left = 0
        self.decided, self.mutated = self.link.decided, self.link.mutated

    def install(self, rewrite):
        """Marks the modules that pytest rewrites."""
        original = rewrite.rewrite_asserts

        def marked(tree, *a, **k):
            return original(Marker().visit(tree), *a, **k)
        rewrite.rewrite_asserts = marked
        vars(builtins).update({"@asserting": self.note_begin, "@passed": self.note_passed})

    def note_begin(self):
        self.mutated = self.link.mutated

    def note_passed(self, repeats):
        if repeats and self.link.mutated > self.mutated:
            self.link.decided += 1
        self.passed += 1
        self.left += self.link.decided > self.decided
        self.decided = self.link.decided
