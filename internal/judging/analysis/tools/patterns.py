"""Patterns of our own: what a delivery may need, but a reader wants to know of."""
import ast

CALLS = {
    "eval": ("P101", "medium"), "exec": ("P101", "medium"), "compile": ("P101", "medium"),
    "__import__": ("P101", "medium"),
    "os.system": ("P102", "medium"), "os.popen": ("P102", "medium"), "pty.spawn": ("P102", "medium"),
    "os.posix_spawn": ("P102", "medium"), "os.fork": ("P102", "low"), "os.forkpty": ("P102", "medium"),
    "sys._getframe": ("P107", "high"), "sys._current_frames": ("P107", "high"),
    "gc.get_objects": ("P107", "high"), "gc.get_referrers": ("P107", "high"), "gc.get_referents": ("P107", "high"),
    "inspect.stack": ("P107", "medium"), "inspect.currentframe": ("P107", "medium"),
    "sys.settrace": ("P107", "high"), "sys.setprofile": ("P107", "high"),
    "os._exit": ("P108", "medium"), "os.abort": ("P108", "medium"), "os.kill": ("P108", "medium"),
    "os.killpg": ("P108", "medium"),
}
FAMILIES = (("os.exec", "P102", "medium"), ("os.spawn", "P102", "medium"))
IMPORTS = {
    "subprocess": ("P103", "low"), "ctypes": ("P104", "high"), "_ctypes": ("P104", "high"), "cffi": ("P104", "high"),
    "pickle": ("P105", "low"), "_pickle": ("P105", "low"), "marshal": ("P105", "medium"), "shelve": ("P105", "low"),
    "dill": ("P105", "low"),
    "socket": ("P106", "low"), "_socket": ("P106", "medium"), "ssl": ("P106", "low"), "ftplib": ("P106", "low"),
    "smtplib": ("P106", "low"), "telnetlib": ("P106", "low"), "http.client": ("P106", "low"),
    "urllib.request": ("P106", "low"), "requests": ("P106", "low"), "aiohttp": ("P106", "low"), "httpx": ("P106", "low"),
    "_pytest": ("P110", "high"), "pytest": ("P110", "medium"), "builtins": ("P111", "medium"),
}
ATTRIBUTES = {"__globals__", "__subclasses__", "__code__", "__builtins__", "f_back", "f_locals", "f_globals",
              "tb_frame", "gi_frame", "cr_frame", "ag_frame"}
PLACES = ("/proc/", "/judge", "/dev/fd", "/sys/", "/root", "/etc/shadow")
STARTERS = {"conftest.py", "sitecustomize.py", "usercustomize.py"}
VERSION = "1"


def names(tree):
    """What each name that an import binds stands for, as a dotted path."""
    bound = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for a in node.names:
                bound[a.asname or a.name.partition(".")[0]] = a.name if a.asname else a.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for a in node.names:
                bound[a.asname or a.name] = node.module + "." + a.name
    return bound


def dotted(node, bound):
    """The dotted path of an expression such as o.system, empty if it is none."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([bound.get(node.id, node.id)] + parts[::-1])


def imported(node):
    """The modules that an import statement names."""
    if isinstance(node, ast.Import):
        return [a.name for a in node.names]
    if node.level or not node.module:
        return []
    return [node.module] + [node.module + "." + a.name for a in node.names]


def known(module):
    """The entry of a module or of a package that it is in."""
    while module:
        if module in IMPORTS:
            return module, IMPORTS[module]
        module = module.rpartition(".")[0]
    return None


def called(path):
    """The code and severity of a call, None if it is an ordinary one."""
    path = path[len("builtins."):] if path.startswith("builtins.") else path
    for family, code, severity in FAMILIES:
        if path.startswith(family):
            return code, severity
    return CALLS.get(path)


def look(node, bound):
    """What is to be said about one node: code, severity and text, or None."""
    if isinstance(node, ast.Call):
        path = dotted(node.func, bound)
        entry = called(path)
        return entry and entry + ("call of " + path,)
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for module in imported(node):
            entry = known(module)
            if entry:
                return entry[1] + ("import of " + entry[0],)
    if isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
        return "P109", "medium", "use of " + node.attr
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(PLACES):
        return "P112", "medium", "names " + node.value[:80]
    return None


def examine(path):
    """The findings in one file."""
    base = os.path.basename(path)
    found = []
    if base in STARTERS:
        found.append(finding("P113", "medium", path, 1, base + " runs by itself"))
    try:
        with open(path, "rb") as f:
            tree = ast.parse(f.read())
        bound = names(tree)
        nodes = list(ast.walk(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        return found + [finding("P100", "low", path, getattr(e, "lineno", 0), "does not parse: %s" % e)]
    own = base.startswith("test_") or base.endswith("_test.py") or base == "conftest.py"
    for node in nodes:
        said = look(node, bound)
        if said and not (own and said[0] == "P110"):
            found.append(finding(said[0], said[1], path, getattr(node, "lineno", 0), said[2]))
    return found


def read(order):
    """The findings in all files, the worst first."""
    found = [f for path in order["files"] for f in examine(path)]
    found.sort(key=lambda f: (("high", "medium", "low").index(f["severity"]), f["file"], f["line"]))
    return {"version": VERSION, "count": len(found), "findings": found[:MOST]}
