"""Watches the assertions of the tests where only their source text shows that the submission decides."""
import functools


class Marker(ast.NodeTransformer):
    """Adds a call before and after each assertion of a test module, and around values that are used as yes or no,
    looked for, or compared by identity. An assert of several parts joined by "and" becomes one statement for each
    part, which means the same."""

    def visit_Assert(self, node):
        marked = []
        for test in _parts(node.test):
            repeats = _repeats(test)
            part = ast.copy_location(ast.Assert(_truth(self.visit(test)), node.msg), node)
            marked += _noted(part, repeats)
        return marked

    def visit_Expr(self, node):
        """Mark an assertion in the style of unittest."""
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
    """Return a call of a function of ours; its name cannot be spelled in a program."""
    call = ast.Expr(ast.Call(ast.Name(name, ast.Load()), list(args), []))
    return ast.fix_missing_locations(ast.copy_location(call, node))


def _told(node, name="@told"):
    """Return a value that is looked at when it is computed."""
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Await, ast.IfExp, ast.NamedExpr)):
        return node
    return ast.copy_location(ast.Call(ast.copy_location(ast.Name(name, ast.Load()), node), [node], []), node)


def _truth(node):
    """Return a value that is looked at when it is used as yes or no."""
    if isinstance(node, ast.BoolOp):
        node.values = [_truth(v) for v in node.values]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node.operand = _truth(node.operand)
    return _told(node, "@truth")


def without_notes(message):
    """Return pytest's text about a failure without the parts about our functions."""
    return "\n".join(line for line in message.split("\n") if " = @told(" not in line and " = @truth(" not in line)


def _look_at_items(node):
    """Look at the items of a list or the like, because Python takes two items that are the same object for equal."""
    if isinstance(node, ast.Dict):
        node.values = [_told(v) for v in node.values]
    elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        node.elts = [_told(item) for item in node.elts]
        for item in node.elts:
            _look_at_items(item)


def _repeats(test):
    """Report whether an expression uses something twice, such as an argument that is also in the expected value."""
    functions = {id(n.func) for n in ast.walk(test) if isinstance(n, ast.Call)}
    inner = {id(n.value) for n in ast.walk(test) if isinstance(n, ast.Attribute)}
    used = [ast.dump(n) for n in ast.walk(test) if isinstance(n, (ast.Name, ast.Attribute))
            and id(n) not in functions and id(n) not in inner]
    return len(used) > len(set(used))


class Asserts:
    """Counts as decisions of the submission what it was not asked about directly: it changed something that an
    assertion uses twice, or the assertion compared its objects by identity."""

    YES = ("assertTrue", "assertFalse")
    SAME = ("assertIs", "assertIsNot", "assertIn", "assertNotIn")  # what unittest has for what Marker looks at

    def __init__(self, link):
        self.link, self.mutated, self.answers = link, link.mutated, link.answers

    def install(self, rewrite):
        """Mark the modules that pytest rewrites, which are all of the tests, and watch unittest."""
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
        """Begin a new test."""
        self.answers = self.link.answers

    def note_begin(self):
        self.mutated = self.link.mutated

    def note_passed(self, repeats):
        if repeats and self.link.mutated > self.mutated:
            self.link.decided += 1

    def truth(self, value):
        """Look at a value that is used as yes or no but is neither: a method may have returned it instead. An object
        with a truth of its own is asked for it, and that is counted then."""
        kind = type(value)
        asked = isinstance(value, Thing) and any("__bool__" in vars(c) for c in kind.__mro__)
        travels = kind in _ATOMS or kind in self.link.encoders or isinstance(value, Remote)
        if travels and kind is not bool and not asked and self.link.answers > self.answers:
            self.link.decided += 1
        return value

    def told(self, value):
        self.link.decided += isinstance(value, Remote) and not isinstance(value, type)
        return value
