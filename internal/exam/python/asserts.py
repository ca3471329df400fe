"""Watches what the tests assert, where only their own text tells that the submission decided it."""
import functools


class Marker(ast.NodeTransformer):
    """Puts a note before and after each assertion of a module of the tests', and around what is used as a yes or no,
    looked for, or held to be the same object. An assert statement that is true if all of its parts are is taken as a
    statement for each part, which is the same to the test."""

    def visit_Assert(self, node):
        marked = []
        for test in _parts(node.test):
            repeats = _repeats(test)
            part = ast.copy_location(ast.Assert(_truth(self.visit(test)), node.msg), node)
            marked += _noted(part, repeats)
        return marked

    def visit_Expr(self, node):
        """An assertion in the manner of unittest."""
        name = _last(node.value.func) if isinstance(node.value, ast.Call) else None
        if name is None or not name.startswith("assert"):
            return self.generic_visit(node)
        repeats = _repeats(node.value)
        return _noted(self.generic_visit(node), repeats)

    def visit_If(self, node):
        self.generic_visit(node)
        node.test = _truth(node.test)
        return node

    visit_While = visit_IfExp = visit_If

    def visit_Call(self, node):
        self.generic_visit(node)
        for n, arg in enumerate(node.args if _last(node.func) in ("all", "any", "bool") else ()):
            if isinstance(arg, (ast.GeneratorExp, ast.ListComp, ast.SetComp)):
                arg.elt = _truth(arg.elt)
            elif _last(node.func) == "bool":
                node.args[n] = _truth(arg)
        return node

    def visit_Compare(self, node):
        operands = [node.left, *node.comparators]
        for n, operator_ in enumerate(node.ops):
            left, right = operands[n:n + 2]
            if isinstance(operator_, (ast.Is, ast.IsNot)):
                if not isinstance(left, ast.Constant) and not isinstance(right, ast.Constant):
                    operands[n] = _told(left)
            elif isinstance(operator_, (ast.In, ast.NotIn)):
                operands[n] = _told(left)
            else:
                _look_at_items(left)
                _look_at_items(right)
        node.left, *node.comparators = operands
        return self.generic_visit(node)


def _parts(test):
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [part for value in test.values for part in _parts(value)]
    return [test]


def _noted(node, repeats):
    return [_note(node, "@asserting"), node, _note(node, "@passed", ast.Constant(repeats))]


def _note(node, name, *args):
    """A call of a function of ours; no program can spell its name."""
    call = ast.Expr(ast.Call(ast.Name(name, ast.Load()), list(args), []))
    return ast.fix_missing_locations(ast.copy_location(call, node))


def _told(node, name="@told"):
    """A value that is looked at on its way."""
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Await, ast.IfExp, ast.NamedExpr)):
        return node
    return ast.copy_location(ast.Call(ast.copy_location(ast.Name(name, ast.Load()), node), [node], []), node)


def _truth(node):
    """A value that is looked at when it is used as a yes or no."""
    if isinstance(node, ast.BoolOp):
        node.values = [_truth(v) for v in node.values]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node.operand = _truth(node.operand)
    return _told(node, "@truth")


def without_notes(message):
    """What pytest says of a failure, without what it says of our functions."""
    return "\n".join(line for line in message.split("\n") if " = @told(" not in line and " = @truth(" not in line)


def _look_at_items(node):
    """Looks at what stands in a list or the like: Python takes two items that are the same object for equal."""
    if isinstance(node, ast.Dict):
        node.values = [_told(v) for v in node.values]
    elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        node.elts = [_told(item) for item in node.elts]
        for item in node.elts:
            _look_at_items(item)


def _repeats(test):
    """Whether an expression uses something twice: as an argument and, perhaps, for what is expected."""
    functions = {id(n.func) for n in ast.walk(test) if isinstance(n, ast.Call)}
    inner = {id(n.value) for n in ast.walk(test) if isinstance(n, ast.Attribute)}
    used = [ast.dump(n) for n in ast.walk(test) if isinstance(n, (ast.Name, ast.Attribute))
            and id(n) not in functions and id(n) not in inner]
    return len(used) > len(set(used))


class Asserts:
    """Counts as the submission's decisions what it has not been asked for as such: it has changed, while an assertion
    was evaluated, what was used twice in it, or the assertion was about which of its objects are one."""

    YES = ("assertTrue", "assertFalse")
    SAME = ("assertIs", "assertIsNot", "assertIn", "assertNotIn")  # what unittest has for what Marker looks at

    def __init__(self, link):
        self.link, self.mutated, self.answers = link, link.mutated, link.answers

    def install(self, rewrite):
        """Marks the modules that pytest rewrites, which are all of the tests', and watches unittest."""
        import unittest
        original, tests = rewrite.rewrite_asserts, self.link.tests
        own = {os.path.basename(tests)} | {
            n.partition(".")[0] for _, directories, files in os.walk(tests) for n in directories + files} - STANDARD

        def marked(tree, *a, **k):
            return original(Marker().visit(tree), *a, **k)
        rewrite.rewrite_asserts = marked
        rewrite.AssertionRewritingHook._is_marked_for_rewrite = lambda hook, name, state: name.partition(".")[0] in own
        vars(builtins).update({"@asserting": self.note_begin, "@passed": self.note_passed, "@told": self.told, "@truth": self.truth})
        for names, look in ((self.SAME, self.told), (self.YES, self.truth)):
            for name in names:
                setattr(unittest.TestCase, name, self.noted(getattr(unittest.TestCase, name), look))

    def noted(self, method, look):
        @functools.wraps(method)
        def noted(case, first, *a, **k):
            return method(case, look(first), *a, **k)
        return noted

    def begin(self):
        """Begins a new test."""
        self.answers = self.link.answers

    def note_begin(self):
        self.mutated = self.link.mutated

    def note_passed(self, repeats):
        if repeats and self.link.mutated > self.mutated:
            self.link.decided += 1

    def truth(self, value):
        """Looks at a value that is used as a yes or no and is neither: a method may have said it in its place. An
        object that has a truth of its own will be asked for it, which is counted then."""
        kind = type(value)
        asked = isinstance(value, Thing) and any("__bool__" in vars(c) for c in kind.__mro__)
        travels = kind in _ATOMS or kind in self.link.encoders or isinstance(value, Remote)
        if travels and kind is not bool and not asked and self.link.answers > self.answers:
            self.link.decided += 1
        return value

    def told(self, value):
        self.link.decided += isinstance(value, Remote) and not isinstance(value, type)
        return value
