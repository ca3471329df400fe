"""Says which types besides the built-in ones are sent by value, and which operations an object may have."""


def _lazily(module, name):
    def get():
        m = sys.modules.get(module)
        return getattr(m, name, None) if m else None
    return get


def _zone(v):
    """A time zone with a fixed offset as days, seconds, microseconds and perhaps a name."""
    offset, name = (v.__getinitargs__() + (None,))[:2]
    return (offset.days, offset.seconds, offset.microseconds, name)


def _zoned(v, *parts):
    """The parts of a time with those of its zone; None if the zone is a table without a key."""
    if v.tzinfo is None:
        return parts + (None,)
    parts_of = {"datetime": _zone, "zoneinfo": lambda z: z.key}.get(type(v.tzinfo).__module__)
    zone = parts_of and parts_of(v.tzinfo)
    return parts + (zone,) if zone else None


def _make_zone(v):
    import datetime
    if v is None:
        return None
    if type(v) is str:
        return _named_zone(v)
    offset = datetime.timedelta(*v[:3])
    return datetime.timezone(offset) if v[3] is None else datetime.timezone(offset, v[3])


def _named_zone(key):
    """The zone of a key, which zoneinfo looks for in its own directories."""
    import zoneinfo
    if not 0 < len(key) < 65 or not all(c.isalnum() or c in "/_+-" for c in key):
        raise ValueError("no zone")
    return zoneinfo.ZoneInfo(key)


def _date_class(name, make=None):
    def build(*a):
        import datetime
        return make(datetime, *a) if make else getattr(datetime, name)(*a)
    return build


def _made(module, name):
    def build(*a):
        return getattr(__import__(module, fromlist=["x"]), name)(*a)
    return build


# Types of the standard library that travel by value: how to find the type, take a value apart, put it together.
SPECIALS = {
    "decimal.Decimal": (_lazily("decimal", "Decimal"), lambda v: (str(v),), _made("decimal", "Decimal")),
    "fractions.Fraction": (_lazily("fractions", "Fraction"), lambda v: (v.numerator, v.denominator),
                           _made("fractions", "Fraction")),
    "uuid.UUID": (_lazily("uuid", "UUID"), lambda v: (v.hex,), _made("uuid", "UUID")),
    "pathlib.PosixPath": (_lazily("pathlib", "PosixPath"), lambda v: (str(v),), _made("pathlib", "PosixPath")),
    "pathlib.PurePosixPath": (_lazily("pathlib", "PurePosixPath"), lambda v: (str(v),),
                              _made("pathlib", "PurePosixPath")),
    "re.Pattern": (_lazily("re", "Pattern"), lambda v: (v.pattern, v.flags) if type(v.pattern) is str else None,
                   lambda text, flags: __import__("re").compile(text, flags & ~128)),  # 128 prints it
    "datetime.timedelta": (_lazily("datetime", "timedelta"), lambda v: (v.days, v.seconds, v.microseconds),
                           _date_class("timedelta")),
    "datetime.timezone": (_lazily("datetime", "timezone"), _zone, _date_class("", lambda m, *a: _make_zone(a))),
    "zoneinfo.ZoneInfo": (_lazily("zoneinfo", "ZoneInfo"), lambda v: v.key and (v.key,), _named_zone),
    "datetime.date": (_lazily("datetime", "date"), lambda v: (v.year, v.month, v.day), _date_class("date")),
    "datetime.time": (_lazily("datetime", "time"),
                      lambda v: _zoned(v, v.hour, v.minute, v.second, v.microsecond, v.fold),
                      _date_class("", lambda m, h, i, s, u, f, z: m.time(h, i, s, u, _make_zone(z), fold=f))),
    "datetime.datetime": (_lazily("datetime", "datetime"),
                          lambda v: _zoned(v, v.year, v.month, v.day, v.hour, v.minute, v.second, v.microsecond,
                                           v.fold),
                          _date_class("", lambda m, y, o, d, h, i, s, u, f, z:
                                      m.datetime(y, o, d, h, i, s, u, _make_zone(z), fold=f))),
}
_SPECIAL_TYPES = {
    "decimal.Decimal": (str,), "fractions.Fraction": (int, int), "uuid.UUID": (str,), "pathlib.PosixPath": (str,),
    "pathlib.PurePosixPath": (str,), "zoneinfo.ZoneInfo": (str,), "re.Pattern": (str, int), "datetime.timedelta": (int,) * 3, "datetime.date": (int,) * 3,
}
for _name in "IPv4Address IPv6Address IPv4Network IPv6Network IPv4Interface IPv6Interface".split():
    SPECIALS["ipaddress." + _name] = _lazily("ipaddress", _name), lambda v: (str(v),), _made("ipaddress", _name)
    _SPECIAL_TYPES["ipaddress." + _name] = (str,)


def _take_special(payload, depth):
    """A value of a listed type. Its parts are plain: nothing in them can be a handle."""
    name, parts = _is(payload, list)
    parts = [_plain_part(p) for p in _is(parts, list)]
    want = _SPECIAL_TYPES.get(_is(name, str))
    if want and tuple(map(type, parts)) != want:
        raise Malformed("not a " + name)
    return SPECIALS[name][2](*parts)


def _plain_part(v):
    if type(v) in _ATOMS:
        return v
    (tag, payload), = _is(v, dict).items()
    if tag == "t":
        return tuple(_plain_part(p) for p in _is(payload, list))
    if tag == "i":
        return _integer(payload, 0)
    return _text({"s": payload}[tag])


def _enter(name):
    return lambda o, *a: getattr(type(o), name)(o, *a)


# What can be asked of an object beside its attributes: the name of the method that makes it possible, and what
# asks for it.
OPERATIONS = {
    "__str__": str, "__repr__": repr, "__format__": format, "__bytes__": bytes, "__int__": int, "__float__": float,
    "__complex__": complex, "__index__": operator.index, "__bool__": bool, "__len__": len, "__hash__": hash,
    "__abs__": abs, "__neg__": operator.neg, "__pos__": operator.pos, "__invert__": operator.invert,
    "__round__": round, "__trunc__": math.trunc, "__floor__": math.floor, "__ceil__": math.ceil, "__iter__": iter,
    "__next__": next, "__reversed__": reversed, "__getitem__": operator.getitem, "__setitem__": operator.setitem,
    "__delitem__": operator.delitem, "__contains__": operator.contains, "__fspath__": os.fspath,
    "__length_hint__": operator.length_hint,
}
for _name in ("__enter__", "__exit__", "__aenter__", "__aexit__", "__aiter__", "__anext__", "__await__"):
    OPERATIONS[_name] = _enter(_name)
COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
for _name in COMPARISONS:
    OPERATIONS[_name] = getattr(operator, _name)
ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "or", "xor", "matmul")
for _name in ARITHMETIC:
    OPERATIONS["__%s__" % _name] = getattr(operator, "__%s__" % _name)
    OPERATIONS["__i%s__" % _name] = getattr(operator, "__i%s__" % _name)
    OPERATIONS["__r%s__" % _name] = (lambda f: lambda o, other: f(other, o))(getattr(operator, "__%s__" % _name))
OPERATIONS["__missing__"] = _enter("__missing__")
OPERATIONS["__divmod__"] = divmod
OPERATIONS["__rdivmod__"] = lambda o, other: divmod(other, o)
