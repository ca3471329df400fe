#!/usr/bin/env python3
"""Checks the evidence of jobs, as docs/VERIFY.md describes it, with nothing but Python's own library.

    verify.py [--json] FILE...

Each FILE is an archive, a directory, or the receipt.json in one. It is the second of two programs that check the same,
and shares no code with the first: where the two differ, one of them, or the description, is wrong.
"""
import base64
import binascii
import datetime
import gzip
import hashlib
import hmac
import io
import json
import math
import os
import posixpath
import re
import stat
import struct
import sys
import tarfile
import unicodedata
import zipfile
import zlib


class Failed(Exception):
    """A check did not hold."""


class Absent(Exception):
    """There is nothing to check."""


def trunc(ms):
    """Milliseconds as whole seconds, towards zero."""
    return ms // 1000 if ms >= 0 else -(-ms // 1000)


def want(condition, message):
    if not condition:
        raise Failed(message)


def sha(b):
    return hashlib.sha256(b).digest()


def hashed(b):
    return "sha256:" + sha(b).hex()


# --- JSON: numbers keep their spelling, and what two readers could read differently is refused.

class Num(str):
    """A number as it is spelled."""


MAX_DEPTH = 127


def object_of(pairs):
    d = dict(pairs)
    if len(d) != len(pairs):
        raise Failed("duplicate name in an object")
    return d


def no_constant(name):
    raise Failed(name + " is not JSON")


def loads(b):
    """Reads one JSON value, from bytes or text."""
    try:
        text = b.decode("utf-8") if isinstance(b, bytes) else b
        v = json.loads(text, object_pairs_hook=object_of, parse_int=Num, parse_float=Num, parse_constant=no_constant)
    except (ValueError, RecursionError) as e:
        raise Failed("not JSON: %s" % e)
    return check_value(v, 0)


def check_value(v, depth):
    if isinstance(v, Num):
        spell(v)
    elif isinstance(v, str):
        try:
            v.encode("utf-8")
        except UnicodeEncodeError:
            raise Failed("a lone surrogate")
    elif isinstance(v, (dict, list)):
        want(depth < MAX_DEPTH, "nested too deep")
        for one in v if isinstance(v, list) else v.values():
            check_value(one, depth + 1)
        if isinstance(v, dict):
            for name in v:
                check_value(name, 0)
    return v


def spell(n):
    """A number as serde_json spells it."""
    if re.fullmatch(r"-?\d+", n) and n != "-0" and len(n) <= 20 and -2**63 <= int(n) < 2**64:
        return str(n)
    f = float(n)
    want(f - f == 0, "a number beyond the range of a double")
    m = re.fullmatch(r"(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?", repr(f))
    sign, digits, exponent = m[1], m[2] + (m[3] or ""), len(m[2]) + int(m[4] or 0)
    stripped = digits.lstrip("0")
    exponent -= len(digits) - len(stripped)
    digits = stripped.rstrip("0")
    if digits == "":
        return sign + "0.0"
    point = exponent  # digits before the decimal point
    if point > 16 or point <= -5:
        return sign + digits[0] + ("." + digits[1:] if len(digits) > 1 else "") + "e" + str(point - 1)
    if point <= 0:
        return sign + "0." + "0" * -point + digits
    if point < len(digits):
        return sign + digits[:point] + "." + digits[point:]
    return sign + digits + "0" * (point - len(digits)) + ".0"


def quote(s):
    return json.dumps(s, ensure_ascii=False)


def canonical(v):
    """The one form that hashes are taken of, as text."""
    if isinstance(v, Num):
        return spell(v)
    if isinstance(v, str):
        return quote(v)
    if isinstance(v, dict):
        return "{" + ",".join(quote(k) + ":" + canonical(v[k]) for k in sorted(v)) + "}"
    if isinstance(v, list):
        return "[" + ",".join(map(canonical, v)) + "]"
    return {None: "null", True: "true", False: "false"}[v]


def canonical_hash(v):
    return hashed(canonical(v).encode())


def is_int(v, low=-2**63, high=2**63 - 1):
    return isinstance(v, Num) and re.fullmatch(r"-?(0|[1-9]\d*)", v) and v != "-0" and len(v) <= 20 and low <= int(v) <= high


def shape(v, spec):
    """Reads the fields that a spec names, with the types that it gives them. What is absent or null is empty."""
    if isinstance(spec, tuple):  # may be absent
        return None if v is None else shape(v, spec[0])
    if spec is int:
        want(v is None or is_int(v), "not a whole number")
        return int(v or 0)
    if spec is float:
        want(v is None or isinstance(v, Num), "not a number")
        return float(v or 0)
    if spec is str:
        want(v is None or isinstance(v, str) and not isinstance(v, Num), "not a text")
        return v or ""
    if spec is bool:
        want(v is None or isinstance(v, bool), "not true or false")
        return bool(v)
    if isinstance(spec, list):
        want(v is None or isinstance(v, list), "not a list")
        want(len(v or []) <= 100_000, "a list that is too long")
        return [shape(one, spec[0]) for one in v or []]
    if isinstance(spec, dict):
        want(v is None or isinstance(v, dict), "not an object")
        return {name: shape((v or {}).get(name), inner) for name, inner in spec.items()}
    return v


# --- secp256k1

P = 2**256 - 2**32 - 977
N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
G = (0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
     0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8)


def lift_x(x, odd=False):
    if x >= P:
        return None
    c = (pow(x, 3, P) + 7) % P
    y = pow(c, (P + 1) // 4, P)
    if y * y % P != c:
        return None
    return (x, P - y if (y & 1) != odd else y)


def double(a):
    x, y, z = a
    if y == 0 or z == 0:
        return (0, 1, 0)
    yy = y * y % P
    s = 4 * x * yy % P
    m = 3 * x * x % P
    x3 = (m * m - 2 * s) % P
    return (x3, (m * (s - x3) - 8 * yy * yy) % P, 2 * y * z % P)


def plus(a, b):
    """Adds an affine point, or None for none, to one in Jacobian coordinates."""
    if b is None:
        return a
    x1, y1, z1 = a
    if z1 == 0:
        return (b[0], b[1], 1)
    zz = z1 * z1 % P
    u, s = b[0] * zz % P, b[1] * zz * z1 % P
    if u == x1:
        return double(a) if s == y1 else (0, 1, 0)
    h, r = (u - x1) % P, (s - y1) % P
    hh = h * h % P
    hhh, v = hh * h % P, x1 * hh % P
    x3 = (r * r - hhh - 2 * v) % P
    return (x3, (r * (v - x3) - y1 * hhh) % P, h * z1 % P)


def affine(a):
    if a[2] == 0:
        return None
    i = pow(a[2], P - 2, P)
    return (a[0] * i * i % P, a[1] * i * i * i % P)


def combine(k, a, l, b):
    """k·a + l·b, of affine points."""
    both = affine(plus((a[0], a[1], 1), b)) if b else None
    r = (0, 1, 0)
    for i in range(255, -1, -1):
        r = double(r)
        x, y = k >> i & 1, l >> i & 1
        if x and y:
            r = plus(r, both)
        elif x:
            r = plus(r, a)
        elif y:
            r = plus(r, b)
    return affine(r)


def neg(a):
    return None if a is None else (a[0], P - a[1])


def schnorr(key, message, signature):
    """Whether a BIP-340 signature holds."""
    point = lift_x(int.from_bytes(key, "big"))
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    if point is None or len(signature) != 64 or r >= P or s >= N:
        return False
    tag = sha(b"BIP0340/challenge")
    e = int.from_bytes(sha(tag + tag + signature[:32] + key + message), "big") % N
    got = combine(s, G, (N - e) % N, point)
    return got is not None and got[1] % 2 == 0 and got[0] == r


# --- NIP-01 and NIP-44

def is_hex(s, size):
    return isinstance(s, str) and re.fullmatch("[0-9a-f]{%d}" % (2 * size), s) is not None


ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def nip01(s):
    return '"' + "".join(ESCAPES.get(c, c) for c in s) + '"'


class Event:
    def __init__(self, b):
        e = loads(b)
        fields = {"id", "pubkey", "created_at", "kind", "tags", "content", "sig"}
        tags = e.get("tags") if isinstance(e, dict) else None
        text = lambda v: isinstance(v, str) and not isinstance(v, Num)
        want(isinstance(e, dict) and set(e) == fields and is_int(e["created_at"]) and is_int(e["kind"], 0, 65535) and
             text(e["content"]) and text(e["id"]) and is_hex(e["id"], 32) and text(e["pubkey"]) and is_hex(e["pubkey"], 32) and
             text(e["sig"]) and is_hex(e["sig"], 64) and isinstance(tags, list) and
             all(isinstance(t, list) and all(text(v) for v in t) for t in tags), "not exactly the fields of an event (NIP-01)")
        self.id, self.author, self.at, self.kind = e["id"], e["pubkey"], int(e["created_at"]), int(e["kind"])
        self.tags, self.content = tags, e["content"]
        said = '[0,"%s",%d,%d,[%s],%s]' % (self.author, self.at, self.kind,
                                          ",".join("[" + ",".join(map(nip01, t)) + "]" for t in tags), nip01(self.content))
        want(sha(said.encode()).hex() == self.id, "the id is not the hash of the event")
        want(schnorr(bytes.fromhex(self.author), bytes.fromhex(self.id), bytes.fromhex(e["sig"])), "the signature does not verify")

    def sealed(self):
        return any(t and t[0] == "encrypted" for t in self.tags)

    def arbiter(self):
        """The x coordinate of the key of the arbiter that a request names, or None."""
        t = next((t for t in self.tags if len(t) >= 2 and t[0] == "judge"), [])
        try:
            return point_of(t[2])[0] if len(t) >= 3 and any_hex(t[1], 32) and lift_x(int(t[1], 16)) else None
        except Failed:
            return None


def chacha20(key, nonce, data):
    """RFC 8439, from block 0."""
    out = bytearray()
    start = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574) + struct.unpack("<8I", key)
    tail = struct.unpack("<3I", nonce)
    for block in range((len(data) + 63) // 64):
        s = start + (block,) + tail
        a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3 = s
        for _ in range(10):
            for half in (0, 1):
                if half:
                    b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3 = b1, b2, b3, b0, c2, c3, c0, c1, d3, d0, d1, d2
                a0 = a0 + b0 & 0xFFFFFFFF; d0 ^= a0; d0 = (d0 << 16 | d0 >> 16) & 0xFFFFFFFF
                a1 = a1 + b1 & 0xFFFFFFFF; d1 ^= a1; d1 = (d1 << 16 | d1 >> 16) & 0xFFFFFFFF
                a2 = a2 + b2 & 0xFFFFFFFF; d2 ^= a2; d2 = (d2 << 16 | d2 >> 16) & 0xFFFFFFFF
                a3 = a3 + b3 & 0xFFFFFFFF; d3 ^= a3; d3 = (d3 << 16 | d3 >> 16) & 0xFFFFFFFF
                c0 = c0 + d0 & 0xFFFFFFFF; b0 ^= c0; b0 = (b0 << 12 | b0 >> 20) & 0xFFFFFFFF
                c1 = c1 + d1 & 0xFFFFFFFF; b1 ^= c1; b1 = (b1 << 12 | b1 >> 20) & 0xFFFFFFFF
                c2 = c2 + d2 & 0xFFFFFFFF; b2 ^= c2; b2 = (b2 << 12 | b2 >> 20) & 0xFFFFFFFF
                c3 = c3 + d3 & 0xFFFFFFFF; b3 ^= c3; b3 = (b3 << 12 | b3 >> 20) & 0xFFFFFFFF
                a0 = a0 + b0 & 0xFFFFFFFF; d0 ^= a0; d0 = (d0 << 8 | d0 >> 24) & 0xFFFFFFFF
                a1 = a1 + b1 & 0xFFFFFFFF; d1 ^= a1; d1 = (d1 << 8 | d1 >> 24) & 0xFFFFFFFF
                a2 = a2 + b2 & 0xFFFFFFFF; d2 ^= a2; d2 = (d2 << 8 | d2 >> 24) & 0xFFFFFFFF
                a3 = a3 + b3 & 0xFFFFFFFF; d3 ^= a3; d3 = (d3 << 8 | d3 >> 24) & 0xFFFFFFFF
                c0 = c0 + d0 & 0xFFFFFFFF; b0 ^= c0; b0 = (b0 << 7 | b0 >> 25) & 0xFFFFFFFF
                c1 = c1 + d1 & 0xFFFFFFFF; b1 ^= c1; b1 = (b1 << 7 | b1 >> 25) & 0xFFFFFFFF
                c2 = c2 + d2 & 0xFFFFFFFF; b2 ^= c2; b2 = (b2 << 7 | b2 >> 25) & 0xFFFFFFFF
                c3 = c3 + d3 & 0xFFFFFFFF; b3 ^= c3; b3 = (b3 << 7 | b3 >> 25) & 0xFFFFFFFF
                if half:
                    b1, b2, b3, b0, c2, c3, c0, c1, d3, d0, d1, d2 = b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3
        end = (a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3)
        out += struct.pack("<16I", *[x + y & 0xFFFFFFFF for x, y in zip(s, end)])
    n = len(data)
    return (int.from_bytes(out[:n], "big") ^ int.from_bytes(data, "big")).to_bytes(n, "big")


def padded_size(n):
    if n <= 32:
        return 32
    chunk = max(32, (1 << (n - 1).bit_length()) // 8)
    return chunk * ((n - 1) // chunk + 1)


def open_payload(file, payload):
    """Opens one payload of NIP-44 version 2 with its message keys."""
    want(re.fullmatch(rb"[0-9a-f]{152}", file), "an opening is 152 lower-case hex digits")
    keys = bytes.fromhex(file.decode())
    want(132 <= len(payload) <= 2 << 20, "no payload of NIP-44")
    try:
        b = base64.b64decode(payload.encode(), validate=True)
    except (ValueError, binascii.Error):
        raise Failed("the payload is not base64")
    want(base64.b64encode(b).decode() == payload and b[0] == 2 and len(b) >= 99, "no payload of NIP-44, version 2")
    nonce, text, mac = b[1:33], b[33:-32], b[-32:]
    want(hmac.compare_digest(hmac.new(keys[44:], nonce + text, hashlib.sha256).digest(), mac), "the key does not open it")
    padded = chacha20(keys[:32], keys[32:44], text)
    size, at = int.from_bytes(padded[:2], "big"), 2
    if size == 0:
        size, at = int.from_bytes(padded[2:6], "big"), 6
        want(size >= 1 << 16, "the padding is wrong")
    want(len(padded) - at == padded_size(size) and not padded[at + size:].strip(b"\0"), "the padding is wrong")
    try:
        return padded[at:at + size].decode("utf-8")
    except UnicodeDecodeError:
        raise Failed("the text is not UTF-8")


# --- NIP-90

MAX_TEXT = 1 << 20


def clean(s):
    return "".join(c for c in s if c in "\n\t" or unicodedata.category(c) != "Cc")


def any_hex(s, size):
    return re.fullmatch("[0-9a-fA-F]{%d}" % (2 * size), s) is not None


def parse_hash(s):
    """The 64 digits of a hash, or None."""
    digits = s[7:] if s.startswith("sha256:") else s
    return digits.lower() if any_hex(digits, 32) else None


def msat(s):
    want(s == "" or re.fullmatch(r"[0-9]+", s) and int(s[:30]) < 2**63 and len(s.lstrip("0")) < 20, "no amount")
    return int(s or 0)


def one_word(s):
    return not any(c.isspace() or unicodedata.category(c) == "Cc" or c == "\ufffd" for c in s)


def is_url(s, *schemes):
    return len(s.encode()) <= 2048 and s.startswith(schemes) and one_word(s)


def inner_tags(text):
    """The tags that were encrypted. Values that are no strings stand for their JSON."""
    try:
        raw = json.loads(text, parse_int=Num, parse_float=Num, parse_constant=no_constant)
    except (ValueError, RecursionError):
        raise Failed("the encrypted tags are not JSON")
    want(isinstance(raw, list) and all(t is None or isinstance(t, list) for t in raw), "the encrypted tags are no lists")
    want(len(raw) <= 1000, "too many tags")
    as_text = lambda v: str(v) if isinstance(v, str) else json.dumps(v, separators=(",", ":"))
    fix = lambda s: "".join("\ufffd" if 0xD800 <= ord(c) < 0xE000 else c for c in s)
    return [[fix(as_text(v)) for v in t] for t in raw if t]


def check_sizes(e):
    want(len(e.tags) <= 1000 and len(e.content.encode()) + sum(len(v.encode()) + 1 for t in e.tags for v in t) <= MAX_TEXT, "too big")


class Request:
    """A job request, as far as its plaintext, or None for a closed one, lets it be read."""

    def __init__(self, e, plaintext):
        check_sizes(e)
        for t in e.tags:
            want(not (len(t) > 1 and t[0] == "param" and t[1] in ("bundle_key", "vault")), "a key or a credential in clear")
        tags = list(e.tags)
        self.sealed = e.sealed()
        if self.sealed and plaintext is not None:
            want(len(plaintext.encode()) <= MAX_TEXT, "too big")
            tags += [t for t in inner_tags(plaintext) if not (len(t) >= 2 and t[0] == "content")]
        self.providers, self.job, self.inputs, self.params = [], "", [], []
        for t in tags:
            if len(t) < 2 or t[0] == "encrypted":
                continue
            if t[0] == "p":
                want(any_hex(t[1], 32), "invalid p tag")
                self.providers.append(t[1].lower() if not self.providers else t[1])
            elif t[0] == "d":
                self.job = self.job or t[1]
            elif t[0] == "i":
                self.inputs.append(self.input(t))
            elif t[0] == "param":
                self.params.append((t[1], t[2:]))
            elif t[0] == "bid":
                msat(t[1])

    @staticmethod
    def input(t):
        t = t + [""] * (5 - len(t))
        kind = t[2] if t[2] in ("url", "event", "job", "text") else "text"
        return t[1], kind, t[4] if is_url(t[3], "wss://", "ws://") else t[4] or t[3]

    def get(self, key):
        return next((v[0] for k, v in self.params if k == key and v), "")

    def payload(self):
        """The request of a typed job that travels in the event itself, else None."""
        if not TYPED.fullmatch(self.get("job_type")) or self.get("bundle_sha256") != "":
            return None
        text = next((data for data, kind, marker in self.inputs if kind == "text" and marker == ""), None)
        want(text is not None, "a typed job, and no payload")
        return canonical(loads(text.encode()))

    def job_hash(self):
        payload = self.payload()
        if payload is not None:
            return hashed(payload.encode())
        travel = {"job_type", "job_hash", "bundle_sha256", "bundle_size", "bundle_key", "vault", "vault_sha256", "deadline",
                  "idempotency_key", "solicitation"}
        params = [[clean(k)] + [clean(v) for v in values] for k, values in sorted(self.params, key=lambda p: p[0]) if k not in travel]
        return canonical_hash({"job_type": clean(self.get("job_type")), "bundle_sha256": self.get("bundle_sha256").lower(), "params": params})

    def bundle(self):
        """The hash of the bundle that the request carries, or "" if it carries none."""
        found = next((i for i in self.inputs if i[2] == "bundle"), None)
        if found is None:
            return ""
        digits = parse_hash(self.get("bundle_sha256"))
        want(digits, "no hash of the bundle")
        key = self.get("bundle_key")
        want(key == "" or any_hex(key, 32), "no key")
        data, kind, _ = found
        want(kind in ("url", "text"), "a bundle of another type")
        inline = None if kind == "url" else inline_bytes(data)
        size = self.get("bundle_size")
        if size == "":
            size = len(inline or b"")
        else:
            want(re.fullmatch(r"[+-]?[0-9]{1,18}", size), "no size")
            size = int(size)
        return check_parcel(digits, size, inline, data if kind == "url" else "", key)


TYPED = re.compile(r"(?=.{1,128}$)oa(\.[a-z0-9_-]+)+\.v[1-9][0-9]{0,8}")


def unpack(b):
    """The files of a bundle."""
    want(b[:4] == b"NUT\x01", "no bundle")
    if b[4:8] == b"\x28\xb5\x2f\xfd":
        raise Absent("it is packed with Zstandard, which is not read here")
    try:
        raw = b[4:]
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.GzipFile(fileobj=io.BytesIO(raw)).read(MAX_TOTAL + 1)
            want(len(raw) <= MAX_TOTAL, "a bundle that unpacks to too much")
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:") as t:
            return {m.name: t.extractfile(m).read() for m in t if m.isfile()}
    except (tarfile.TarError, OSError, EOFError, zlib.error) as e:
        raise Failed("no bundle: %s" % e)


def inline_bytes(text):
    want(len(text) <= 4 * ((32 << 10) + 2) // 3 + 2, "over the size limit")
    try:
        return base64.b64decode(text.replace("\r", "").replace("\n", "").encode(), validate=True)
    except (ValueError, binascii.Error):
        raise Failed("not base64")


def check_parcel(digits, size, inline, url, key):
    want(digits != "0" * 64 and size > 0, "no hash or no size")
    want(bool(inline) != (url != ""), "neither or both of bytes and URL")
    if url:
        want(is_url(url, "https://", "http://"), "no URL")
    else:
        want(key == "" and len(inline) <= 32 << 10 and len(inline) == size and sha(inline).hex() == digits, "the bytes do not match their hash and size")
    return "sha256:" + digits


def delivery(content, sealed):
    """The hash of the delivery that the content of a result carries, or "" if it carries none."""
    want(len(content.encode()) <= MAX_TEXT, "too big")
    stripped = content.strip()
    if not stripped.startswith("{"):
        return ""
    try:
        w = loads(stripped)
    except Failed:
        if b'"delivery_sha256"' in stripped.encode()[:512]:
            raise
        return ""
    if "delivery_sha256" not in w:
        return ""
    w = shape(w, {"v": int, "delivery_sha256": str, "size": int, "bundle": str, "url": str, "key": str})
    digits = parse_hash(w["delivery_sha256"])
    want(w["v"] == 1 and digits and (w["key"] == "" or any_hex(w["key"], 32)), "invalid delivery")
    want(w["key"] == "" or sealed, "a key in clear")
    return check_parcel(digits, w["size"], inline_bytes(w["bundle"]), w["url"], w["key"])


class Feedback:
    """A result or feedback: what it answers, and what it asks for. A plaintext is that of encrypted feedback."""

    def __init__(self, e, plaintext=None):
        check_sizes(e)
        self.request = self.customer = self.invoice = self.behaviour = self.trajectory = self.terms = ""
        self.amount, self.status, self.keys, self.held, self.bitcoin = 0, "", [], None, None
        for t in e.tags + feedback_tags(plaintext):
            if len(t) < 2 or t[0] == "encrypted":
                continue
            if t[0] == "e" and any_hex(t[1], 32) and t[1].strip("0") and not self.request:
                self.request = t[1].lower()
            elif t[0] == "p" and any_hex(t[1], 32) and t[1].strip("0") and not self.customer:
                self.customer = t[1].lower()
            elif t[0] == "amount":
                self.amount, self.invoice = msat(t[1]), t[2] if len(t) > 2 else ""
            elif t[0] == "status":
                word = lambda s: s.strip().lower().replace("_", "-")
                known = ("payment-required", "processing", "partial", "error", "success")
                text = t[2] if len(t) > 2 else ""
                self.status = word(t[1]) if word(t[1]) in known else word(text) if word(text) in known else "other"
            elif t[0] == "behaviour" and is_hash(t[1], None) and not self.behaviour:
                self.behaviour = t[1]
            elif t[0] == "trajectory_hash" and is_hash(t[1], None) and not self.trajectory:
                self.trajectory = t[1]
            elif t[0] == "cashu":
                self.terms = t[1]
            elif t[0] == "bitcoin" and self.bitcoin is None:
                self.bitcoin = t[1]
            elif t[0] == "metered":
                rates = [int(n) for n in t[1:] if re.fullmatch("0|[1-9][0-9]{0,15}", n)]
                want(len(t) == 4 and len(rates) == 3 and max(rates) < 2**53 and rates[1] + rates[2] > 0, "no rates")
            elif t[0] == "hold" and not self.held:
                self.held = parse_hash(t[1])
            elif t[0] == "param" and len(t) >= 3 and t[1] == "idempotency_key":
                self.keys.append(t[2])


def feedback_tags(plaintext):
    """The tags that encrypted feedback has inside. Any other text is its content."""
    if plaintext is None:
        return []
    want(len(plaintext.encode()) <= MAX_TEXT, "too big")
    try:
        tags = inner_tags(plaintext)
    except Failed:
        return []
    return [t for t in tags if t[0] != "content" or len(t) < 2] if any(t[0] in ("status", "content") for t in tags) else []


# --- the receipt

CHARSET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"


def polymod(prefix, data):
    c = 1
    for v in [ord(x) >> 5 for x in prefix] + [0] + [ord(x) & 31 for x in prefix] + data:
        top, c = c >> 25, (c & 0x1FFFFFF) << 5 ^ v
        for i, g in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            if top >> i & 1:
                c ^= g
    return c


def regroup(groups, size, to):
    held = bits = 0
    out = []
    for g in groups:
        held, bits = held << size | g, bits + size
        while bits >= to:
            bits -= to
            out.append(held >> bits & (1 << to) - 1)
        held &= (1 << bits) - 1
    return out + ([held << to - bits] if bits else [])


def npub(key):
    data = regroup(bytes.fromhex(key), 8, 5)
    check = polymod("npub", data + [0] * 6) ^ 1
    return "npub1" + "".join(CHARSET[v] for v in data + [check >> 5 * (5 - i) & 31 for i in range(6)])


def moment(s):
    """RFC 3339 as Unix seconds, or None."""
    m = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:[.,]\d+)?(Z|[+-]\d\d:\d\d)", s, re.ASCII)
    if not m:
        return None
    try:
        at = datetime.datetime.fromisoformat(m[1] + "T" + m[2] + (m[3] if m[3] != "Z" else "+00:00"))
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
        return (at - epoch).days * 86400 + (at - epoch).seconds
    except ValueError:
        return None


REQUIRED = {"receipt_id": str, "session_id": str, "trajectory_hash": "hash", "policy_bundle_id": str, "job_hash": "hash",
            "payment_proof": "proof", "rail": "text", "asset_id": "text", "amount_msats": int, "provider_id": str,
            "approval_rule_id": "text", "timestamp": str, "job": 16, "attempt": 32}
OPTIONAL = {"provider_pubkey": 32, "task": str, "request_event": 32, "result_event": 32, "bundle_hash": "hash", "delivery_hash": "hash",
            "outcome": str, "verdict_hash": "hash", "idempotency_key": str, "quote_event": 32, "bolt11": str, "supersedes": str,
            "score_micro": int, "strength": str, "strengths": "counts", "behaviour": "hash", "refund": "refund"}
COUNTS = {"strong", "mixed", "weak", "visible", "hidden", "drawn"}
RAILS = {"lightning": ("lightning_preimage", r"_LN$"), "cashu": ("cashu_proof", r"_CASHU\([^()\s]+\)$"), "onchain": ("onchain_txid", r""),
         "taproot_assets": ("taproot_assets_proof", r"")}


def is_text(v):
    return isinstance(v, str) and not isinstance(v, Num)


def is_hash(v, zero):
    return is_text(v) and (v == zero or re.fullmatch("sha256:[0-9a-f]{64}", v) is not None and v.strip("sha256:0") != "")


def has_type(v, kind, optional):
    if kind is str:
        return is_text(v) and (v != "" or not optional)
    if kind is int:
        return bool(is_int(v))
    if kind == "hash":
        return is_hash(v, None if optional else "")
    if kind == "text":
        return v is None or is_text(v)
    if kind == "counts":
        return isinstance(v, dict) and set(v) == COUNTS and all(map(is_int, v.values()))
    if kind == "proof":
        return v is None or isinstance(v, dict) and set(v) == {"type", "value"} and all(map(is_text, v.values()))
    if kind == "refund":
        return isinstance(v, dict) and set(v) == {"rail", "asset_id", "amount_msats", "proof"} and \
            all(bool(is_int(v[k])) if k == "amount_msats" else is_text(v[k]) for k in v)
    return is_text(v) and is_hex(v, kind) and (v.strip("0") != "" or not optional)


def read_receipt(b):
    """A receipt in its canonical form, with every field of its type."""
    r = loads(b)
    want(isinstance(r, dict) and len(b) <= 64 << 10 and canonical(r).encode() == b, "not a receipt in its canonical form")
    want(set(REQUIRED) <= set(r) and all(has_type(v, REQUIRED.get(k) or OPTIONAL[k], k in OPTIONAL)
                                         for k, v in r.items() if k in REQUIRED or k in OPTIONAL), "not a receipt in its canonical form")
    return r


def receipt_event(r):
    """The tags and the date of the event that says a receipt."""
    at = moment(r["timestamp"])
    want(at is not None, "invalid timestamp")
    tags = [["d", r["receipt_id"]], ["p", r.get("provider_pubkey", "0" * 64)], ["e", r.get("request_event", "0" * 64), "", "request"]]
    if "result_event" in r:
        tags.append(["e", r["result_event"], "", "result"])
    if "supersedes" in r:
        tags.append(["supersedes", r["supersedes"]])
    return at, tags


def check_form(r):
    for name in ("receipt_id", "session_id", "policy_bundle_id", "trajectory_hash", "job_hash", "provider_pubkey"):
        want(r.get(name), name + " is missing")
    want("idempotency_key" not in r or any_hex(r["idempotency_key"], 32), "idempotency_key is not 64 hex digits")
    want(moment(r["timestamp"]) is not None, "timestamp is not ISO 8601")
    want(r["provider_id"] == npub(r["provider_pubkey"]), "provider_id is not the npub of provider_pubkey")
    if "outcome" in r or "verdict_hash" in r:
        want(r.get("outcome") in ("SUCCESS", "PARTIAL", "FAILURE", "ERROR", "SECURITY_VIOLATION"), "invalid outcome")
        want("verdict_hash" in r and "result_event" in r, "an outcome without a verdict or a result")
    named = {"score_micro", "strength", "strengths"} & set(r)
    want(len(named) in (0, 3), "score_micro, strength and strengths are all there or none is")
    if named:
        want("outcome" in r and r["strength"] in STRENGTHS and 0 <= int(r["score_micro"]) <= ONE and
             all(int(n) >= 0 for n in r["strengths"].values()), "invalid score, strength or counts")
    paid, amount = r["payment_proof"] is not None, int(r["amount_msats"])
    want(amount >= 0 and paid == (amount > 0), "payment_proof and amount_msats do not fit")
    want(paid == (r["rail"] is not None) and paid == (r["asset_id"] is not None), "rail, asset_id and payment_proof are all null or none is")
    want(paid or "bolt11" not in r, "an invoice, and nothing was paid")
    want("refund" not in r or not paid and int(r["refund"]["amount_msats"]) > 0, "a refund and a payment, or of nothing")
    if paid:
        want(r["rail"] in RAILS, "invalid rail")
        kind, asset = RAILS[r["rail"]]
        want(re.search(asset, r["asset_id"]) and re.fullmatch(r"[A-Z0-9]+_[A-Z0-9_]+(\([^()\s]+\))?", r["asset_id"]), "no asset of the rail")
        proof = r["payment_proof"]
        want(proof["type"] == kind, "a proof of another rail")
        want("bolt11" not in r or r["rail"] == "lightning", "an invoice on another rail")
        want(any_hex(proof["value"], 32) if kind in ("lightning_preimage", "onchain_txid") else proof["value"], "a proof without a value")
    seed = '["%s","%s","%s"]' % (r["job"], r["attempt"], r.get("result_event", "0" * 64))
    if "supersedes" in r:
        seed += go_quote(r["supersedes"])
    want(r["receipt_id"] == "r-" + sha(seed.encode()).hex()[:16], "receipt_id does not follow from job, attempt, result and supersedes")
    want(r.get("request_event") == r["attempt"], "attempt and request_event are not the same")


def go_quote(s):
    """A text in quotes; what is not printable ASCII never stands in an id."""
    return '"' + s.replace("\\", "\\\\").replace('"', '\\"') + '"'


# --- the verdict (docs/JUDGE.md)

TEST = {"id": str, "state": str, "layer": str, "strength": str, "exposure": str, "blame": str}
STRENGTHS, EXPOSURES = ("strong", "mixed", "weak", "unverified"), ("visible", "hidden", "drawn")
BLAMES = ("delivery", "tests", "judge", "machine")
VERDICT = {"outcome": str, "cause": str, "score_micro": int, "strength": str, "strengths": ({name: int for name in COUNTS},),
           "hidden": [{"path": str, "hash": str}], "expected": int, "passed": int, "tests": [TEST],
           "dimensions": [{"name": str, "weight": int, "value_micro": int, "known": bool, "reason": str}],
           "standing": str, "speed": str, "annotations": [str],
           "quality": ({"pylint_milli": int, "linted": bool, "lines_micro": int, "branches_micro": int, "covered": bool,
                        "findings": [{"tool": str, "severity": str, "file": str, "line": int}]},),
           "ruling": ({},), "opinion": ({},), "box": ({"memory_bytes": int},), "violations": [{}],
           "usage": {"wall_ms": int, "waited_ms": int, "memory_peak_bytes": int}, "evidence": str}
ONE = 1_000_000


BESIDE = ("edge", "security", "performance")


def tally(tests):
    return sum(t["state"] == "passed" for t in tests), len(tests)


def excused(t):
    """Whether a test did not pass by no fault of the delivery."""
    return t["state"] != "passed" and t["blame"] not in ("", "delivery")


def tallies(v):
    tests = [t for t in v["tests"] if not excused(t)]
    of = lambda *layers: tally([t for t in tests if t["layer"] in layers])
    functional = tally([t for t in tests if t["layer"] not in BESIDE])
    if not functional[1] and not any(excused(t) and t["layer"] not in BESIDE for t in v["tests"]):
        functional = (v["passed"], v["expected"] - len(v["tests"]) + len(tests))
    return {"smoke": of("smoke"), "functional": functional, "side": of("edge", "security"), "performance": of("performance")}


def quality_of(v, side):
    q = v["quality"]
    linted = q is not None and q["linted"]
    if not linted and not side[1]:
        return 0, False
    value = ONE
    if linted:
        grade = min(max(q["pylint_milli"], 0), 10_000)
        value = grade * 100 if grade >= 7_000 else min(grade * 100, ONE // 2)
    worst = {}
    for n in q["findings"] if q else []:
        if n["tool"] in ("bandit", "pattern"):
            at, cost = (n["file"], n["line"]), {"high": 200_000, "medium": 100_000, "low": 20_000}.get(n["severity"], 0)
            worst[at] = max(worst.get(at, 0), cost)
    value = max(0, value - sum(worst.values()))
    return (value * side[0] // side[1] if side[0] < side[1] else value), True


def deciding(tests):
    return [t for t in tests if t["layer"] not in BESIDE] or tests


def check_strength(v):
    for t in v["tests"]:
        want(t["strength"] in STRENGTHS + ("",) and t["exposure"] in EXPOSURES + ("",) and t["blame"] in BLAMES + ("",), "invalid strength, exposure or blame")
        want(t["blame"] == "" if t["state"] == "passed" else t["strength"] == "", "a strength or a blame in the wrong place")
    if v["strengths"] is None:
        want(v["strength"] in ("strong", "weak"), "a strength without counts")
        return
    tests = deciding(v["tests"])
    passed = [t for t in tests if t["state"] == "passed"]
    n = {name: sum(name in (t["strength"], t["exposure"]) for t in passed) for name in COUNTS}
    want(n == v["strengths"], "the counts are not those of the tests")
    possible = {"strong": len(passed) == len(tests) and n["strong"] > 0, "mixed": n["strong"] + n["mixed"] > 0, "weak": True,
                "unverified": v["opinion"] is not None or n["strong"] + n["mixed"] + n["weak"] == 0}
    want(possible.get(v["strength"]) and (v["opinion"] is None or v["strength"] == "unverified"), "an impossible strength")


def strength_of(findings):
    """The strength of a verdict on findings."""
    tests = [t for f in findings for t in f["tests"]]
    if not any(f["runs"] or f["fault"] or f["violations"] or any(t["state"] == "failed" for t in f["tests"]) for f in findings):
        return "unverified"
    decide = deciding(tests)
    every = bool(decide) and decide[0]["layer"] in BESIDE
    strong, some = all(t["state"] == "passed" for t in decide), False
    for f in findings:
        own = [t for t in f["tests"] if every or t["layer"] not in BESIDE]
        if not own and f["tests"]:
            continue
        got = any(t["state"] == "passed" for t in own)
        strong = strong and got and f["strength"] == "strong"
        some = some or got and f["strength"] in ("strong", "mixed")
    return "strong" if strong else "mixed" if some else "weak"


def check_verdict(v):
    t = tallies(v)
    check_strength(v)
    want(0 <= v["passed"] <= v["expected"] <= 1 << 31, "impossible counts")
    want(not v["tests"] or tally(v["tests"]) == (v["passed"], v["expected"]), "it lists other tests than it counts")
    outcome, ruled = v["outcome"], v["ruling"] is not None or v["opinion"] is not None
    want((outcome == "SUCCESS") == (v["cause"] == ""), "a cause, and a success")
    want((outcome == "SECURITY_VIOLATION") == bool(v["violations"]), "violations, and another outcome")
    want(outcome in ("SUCCESS", "PARTIAL", "FAILURE", "ERROR", "SECURITY_VIOLATION"), "invalid outcome")
    if outcome in ("ERROR", "SECURITY_VIOLATION"):
        want(not ruled, "nobody can rule that")
    elif not ruled:
        passed, expected = t["functional"]
        if t["smoke"][0] < t["smoke"][1] or expected == 0 or passed * 100 < expected * 80:
            is_ = "FAILURE"
        else:
            is_ = "SUCCESS" if passed == expected else "FAILURE" if v["whole"] else "PARTIAL"
        want(outcome == is_, "the outcome is not that of the tests")
    check_score(v, t, ruled)
    check_praise(v, t)


def check_score(v, t, ruled):
    names = [("correctness", 50), ("performance", 25), ("resources", 15), ("quality", 10)]
    dims = v["dimensions"]
    want(len(dims) in (0, 1 if v["opinion"] is not None or v["whole"] else 4), "not the dimensions that there are")
    for d, (name, weight) in zip(dims, names):
        want(d["name"] == name and d["weight"] == weight and 0 <= d["value_micro"] <= ONE, "invalid dimension")
        value, known = d["value_micro"], d["known"]
        if name == "correctness":
            passed, expected = t["functional"]
            if v["ruling"] is not None and v["outcome"] == "PARTIAL" and not expected and value == ONE // 2:
                pass  # a part of what no test measured
            elif v["opinion"] is not None:
                value, known = v["score_micro"], True
            elif v["whole"] and v["outcome"] != "SUCCESS" and (v["ruling"] is None or v["outcome"] == "PARTIAL"):
                value, known = ONE if v["ruling"] is not None and v["passed"] == v["expected"] else 0, True
            elif v["ruling"] is None or v["outcome"] == "PARTIAL":
                value, known = passed * ONE // expected if expected else 0, v["ruling"] is not None or expected > 0
            else:
                value, known = ONE if v["outcome"] == "SUCCESS" else 0, True
        elif name == "resources":
            want(value == 0 or value == ONE and known, "impossible resources")
        elif name == "quality":
            value, known = quality_of(v, t["side"])
        want((value, known) == (d["value_micro"], d["known"]), name + " does not follow")
    score, violated = v["score_micro"], v["outcome"] == "SECURITY_VIOLATION"
    want(0 <= score <= ONE and not (violated and score), "an impossible score")
    want(dims or ruled or score == (t["functional"][0] * ONE // t["functional"][1] if t["functional"][1] else 0),
         "the score is not that of the tests")
    if dims and not violated:
        known = [d for d in dims if d["known"]]
        weights = sum(d["weight"] for d in known)
        want(score == (sum(d["weight"] * d["value_micro"] for d in known) // weights if weights else 0), "the score is not that of the dimensions")
    if not ruled and t["smoke"][0] < t["smoke"][1]:
        standing = "rejected"
    else:
        standing = "active" if score >= 800_000 and v["outcome"] == "SUCCESS" else "conditional" if score >= 600_000 else "rejected"
    want(v["standing"] == standing or v["standing"] == "" and not dims, "the standing does not follow")


def check_praise(v, t):
    want(v["speed"] in ("FAST", "STANDARD", "SLOW", ""), "invalid speed")
    if v["ruling"] is not None:
        return
    passed, expected = t["performance"]
    want((v["speed"] != "") == (v["outcome"] in ("SUCCESS", "PARTIAL") and expected > 0), "a speed without performance tests, or none with them")
    want(not (v["speed"] in ("FAST", "STANDARD") and passed * 100 < expected * 80 or v["speed"] == "FAST" and passed < expected), "too fast")
    success, q, box = v["outcome"] == "SUCCESS", v["quality"], v["box"]
    want(success or not v["annotations"], "annotations without a success")
    peak = v["usage"]["memory_peak_bytes"]
    efficient = success and box is not None and 0 < peak < box["memory_bytes"] // 10 * 8
    thorough = success and q is not None and q["covered"] and q["lines_micro"] > 900_000 and q["branches_micro"] > 900_000
    want(("efficient" in v["annotations"]) == efficient and ("thorough" in v["annotations"]) == thorough, "an annotation that does not follow")


TYPED_EVIDENCE = {"verdict": None, "request": {"payload": None}, "report": {"tests": [TEST], "strength": str}}
EVIDENCE = {"format": str, "verdict": None, "baseline": {"runs": int, "wall": {"median_ms": int}},
            "findings": [{"strength": str, "tests": [TEST], "violations": [{}], "runs": [{}], "fault": str}]}


def check_evidence(b, v, whole, request):
    """Compares evidence of the known form with the verdict; any other is covered by its hash alone."""
    try:
        raw = loads(b)
    except Failed:
        return "in a form of its own"
    form = raw.get("format") if isinstance(raw, dict) else None
    if form not in ("guild judge evidence 1", "guild typed evidence 1"):
        return "in a form of its own"
    typed = form == "guild typed evidence 1"
    e = shape(raw, TYPED_EVIDENCE if typed else EVIDENCE)
    want(isinstance(e["verdict"], dict), "there is no verdict in it")
    apart = {"evidence"}
    if v["ruling"] is not None:
        apart |= {"outcome", "cause", "score_micro", "dimensions", "standing", "ruling"}
    tests = v["tests"]
    if v["opinion"] is not None:
        tests = tests[:-1]
        apart |= {"outcome", "cause", "score_micro", "dimensions", "standing", "strength", "strengths", "tier", "expected", "passed", "tests", "warnings",
                  "speed", "annotations", "quality", "opinion"}
    rest = lambda d: canonical({k: x for k, x in d.items() if k not in apart})
    want(rest(whole) == rest(e["verdict"]), "its verdict is another one")
    if typed:
        want(e["report"]["tests"] == tests, "its tests are not those of the verdict")
        want(v["opinion"] is not None or e["report"]["strength"] == v["strength"], "its report is not as strong as the verdict")
        if isinstance(request, Request) and request.plain is not None:
            want("payload" in raw["request"] and canonical(raw["request"]["payload"]) == request.plain, "it is about another request")
        return "the same %d tests" % len(v["tests"])
    want([t for f in e["findings"] for t in f["tests"]] == tests, "its tests are not those of the verdict")
    want(sum(len(f["violations"]) for f in e["findings"]) == len(v["violations"]), "its violations are not those of the verdict")
    strong = e["findings"] and all(f["strength"] == "strong" for f in e["findings"])
    strength = strength_of(e["findings"]) if v["strengths"] is not None else "strong" if strong else "weak"
    want(v["opinion"] is not None or v["strength"] == strength, "its findings are not as strong as the verdict")
    for d in v["dimensions"]:
        if d["name"] == "performance" and d["known"]:
            base = e["baseline"]["wall"]["median_ms"]
            want(e["baseline"]["runs"] >= 5 and base >= 50, "a performance without a baseline")
            wall, waited = v["usage"]["wall_ms"], v["usage"]["waited_ms"]
            want(0 <= waited <= wall, "it waited longer for the machine than the run took")
            over = wall - waited - base
            pace = ONE if over <= 0 else 0 if over >= base - over else ONE - 2 * over * ONE // base
            want(d["value_micro"] == pace, "the performance does not follow from the baseline")
    return "the same %d tests" % len(v["tests"])


def read_hidden(b):
    """The tests of hidden.json, each of which opens the commitment to it."""
    raw = loads(b)
    form = {"format": str, "tests": [{"path": str, "hash": str, "salt": str, "content": str}]}
    e = shape(raw, form)
    want(canonical(raw).encode() == b and canonical(e).encode() == b and e["format"] == "guild hidden tests 1", "not in its canonical form")
    for t in e["tests"]:
        want(t["path"].startswith("tests/hidden/") and posixpath.normpath(t["path"]) == t["path"], "it is not below tests/hidden")
        want(is_hex(t["salt"], 32), "no salt")
        try:
            content = base64.b64decode(t["content"].encode(), validate=True)
        except (ValueError, binascii.Error):
            raise Failed("not base64")
        want(base64.b64encode(content).decode() == t["content"], "not base64 in its one form")
        want(t["hash"] == "sha256:" + sha(bytes.fromhex(t["salt"]) + content).hex(), "it is not what was committed to")
    return e["tests"]


# --- the trajectory and the journal

T = {"t": str}
EVENTS = {"ReplayHeader": {"replay_version": int, "producer": str, "created_at": str},
          "SessionStart": {"session_id": str, "issue_number": int, "policy_bundle_id": str, **T},
          "PlanStart": {"plan_hash": str, "step_count": int, **T},
          "ToolCall": {"id": str, "tool": str, "params_hash": str, "step_id": str, **T},
          "ToolResult": {"id": str, "output_hash": str, "output_preview": str, "exit_code": int, "step_utility": float, "latency_ms": int, **T},
          "StepComplete": {"step_id": str, "status": str, "iterations": int, **T},
          "Verification": {"commands": [str], "exit_codes": [int], "verification_delta": int, **T},
          "SessionEnd": {"status": str, "confidence": float, "total_tool_calls": int, "total_latency_ms": int, **T}}


MAX_MS = 100 * 366 * 24 * 3600 * 1000
STATUSES = ("success", "failed", "skipped", "maxiterationsreached", "cancelled", "timeout")


def status_of(s, *allowed):
    word = s.replace("_", "").lower()
    want(word in STATUSES and word in allowed, "a wrong status")
    return word


def check_event(name, e, f):
    """The values of one line."""
    full = lambda h: h.startswith("sha256:") and parse_hash(h) is not None
    if name == "ReplayHeader":
        want(moment(f["created_at"]) is not None, "a wrong time")
    elif name in EVENTS:
        want(moment(f["t"]) is not None, "a wrong time")
    if name == "PlanStart":
        want(full(f["plan_hash"]), "a wrong hash")
    if name == "ToolCall":
        want(full(f["params_hash"]), "a wrong hash")
        want("params" not in e or canonical_hash(e["params"]) == "sha256:" + parse_hash(f["params_hash"]), "params of another hash")
    if name == "ToolResult":
        want(full(f["output_hash"]) and abs(f["latency_ms"]) <= MAX_MS, "a wrong hash or latency")
    if name == "StepComplete":
        status_of(f["status"], "success", "failed", "skipped", "maxiterationsreached")
    if name == "Verification":
        want(len(f["commands"]) == len(f["exit_codes"]) and abs(f["verification_delta"]) <= 1 << 30, "a wrong verification")
    if name == "SessionEnd":
        status_of(f["status"], "success", "failed", "cancelled", "timeout")
        want(abs(f["total_latency_ms"]) <= MAX_MS, "a wrong latency")


def trajectory(b, customers=True):
    """The hash of a REPLAY.jsonl, the session and the policy that it is of, what judge.run named last if it is a customer's, and its end."""
    lines, session, policy, ended = [], "", "", False
    judged, calls, waiting, latest = None, 0, {}, 0
    for raw in b.split(b"\n"):
        want(len(raw) < 1 << 20, "a line is too long")
        if raw.strip() == b"":
            continue
        e = loads(raw)
        want(isinstance(e, dict), "a line is no object")
        name, n = shape(e, {"event": str})["event"], len(lines)
        want(name != "" and not ended and (n == 0) == (name == "ReplayHeader") and (n == 1) == (name == "SessionStart"), "out of order")
        fields = shape(e, EVENTS.get(name, {}))
        want(name != "ReplayHeader" or fields["replay_version"] == 1, "another version")
        if name == "SessionStart":
            session, policy = fields["session_id"], fields["policy_bundle_id"]
        ended = name == "SessionEnd"
        lines.append(canonical(e))
        check_event(name, e, fields)
        if name == "ToolCall":
            calls, waiting[fields["id"]] = calls + 1, waiting.get(fields["id"], 0) + 1
            if customers and fields["tool"] == "judge.run":
                judged = shape(e.get("params"), {"hash": str})["hash"]
        if name == "ToolResult":
            want(waiting.get(fields["id"], 0) > 0, "a result without its call")
            waiting[fields["id"]] -= 1
        if "t" in fields:
            want(latest <= moment(fields["t"]) + 3600, "it goes back in time")
            latest = max(latest, moment(fields["t"]))
    want(ended, "it ends without SessionEnd")
    want(fields["total_tool_calls"] == calls, "another number of calls at the end")
    return hashed(("[" + ",".join(lines) + "]").encode()), session, policy, judged, fields


def check_proof(leaf, proof, root):
    """RFC 6962, section 2.1.1, as RFC 9162 computes it."""
    index, size = int(proof["index"]), int(proof["size"])
    node, last = leaf, size - 1
    for h in proof["path"]:
        want(last > 0, "the path is too long")
        if index & 1 or index == last:
            node = sha(b"\1" + h + node)
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            node = sha(b"\1" + node + h)
        index, last = index >> 1, last >> 1
    want(last == 0 and node == root, "the proof does not lead to the root")


def read_proof(b):
    want(len(b) <= 8 << 10, "a proof that is too long")
    p = loads(b)
    want(isinstance(p, dict) and set(p) == {"index", "size", "path"} and is_int(p["size"], 1, 2**53) and
         is_int(p["index"], 0, int(p["size"]) - 1) and isinstance(p["path"], list) and len(p["path"]) <= 64 and
         all(map(is_text, p["path"])), "not exactly the fields of a proof")
    path = []
    for h in p["path"]:
        try:
            path.append(base64.b64decode(h.encode(), validate=True))
        except (ValueError, binascii.Error):
            raise Failed("a hash that is not base64")
        want(len(path[-1]) == 32 and base64.b64encode(path[-1]).decode() == h, "invalid hash")
    return {"index": p["index"], "size": p["size"], "path": path}


RECORDED = {name: str for name in ("type", "attempt", "receipt", "stored", "replay", "trajectory")}


# --- reviews

def cut(s, n):
    return s.encode()[:n].decode("utf-8", "ignore")


def decimal(s):
    """Millionths, or None."""
    m = re.fullmatch(r"([0-9]{1,4})(?:\.([0-9]{1,30}))?", s.strip())
    micro = int(m[1]) * ONE + int(((m[2] or "") + "000000")[:6]) if m else None
    return micro if m and micro <= 1000 * ONE else None


def check_review(e, r, customer):
    want(e.kind in (2020, 32020) and len(e.content.encode()) <= 16 << 10 and len(e.tags) <= 100 and
         all(len(t) <= 100 and all(len(v.encode()) <= 1024 for v in t) for t in e.tags), "not a review")
    value = lambda name: next((t[1] for t in e.tags if len(t) >= 2 and t[0] == name), "")
    subject = next((t[1] for t in e.tags if len(t) >= 2 and t[0] == "subject"), None)
    if subject is None:
        keys = {t[1] for t in e.tags if len(t) >= 2 and t[0] == "p"}
        want(len(keys) == 1, "no subject")
        subject = keys.pop()
    want(subject.lower() == r.get("provider_pubkey") or subject == r["provider_id"], "it is about somebody else")
    ratings = [t for t in e.tags if len(t) >= 2 and t[0] == "rating"]
    rating = next((t[1] for t in ratings if len(t) == 2 or t[2] == ""), value("rating"))
    given, of = decimal(rating), decimal(value("denom") or value("max_rating") or "5")
    want(given is not None and of and given <= of, "invalid rating")
    want(customer is None or e.author == customer, "it is by somebody else")
    named = lambda name: any(len(t) >= 2 and t[0] == name for t in e.tags)
    task = value("task") if named("task") else value("t")
    if not task and not named("task") and e.kind == 32020 and value("d").startswith(subject + ":"):
        task = value("d")[len(subject) + 1:]
    task, request = cut(clean(task), 200), value("e")
    want(task == "" or task == cut(clean(r.get("task", "")), 200), "it is about another task")
    want(len(request) != 64 or request.lower() == r.get("request_event"), "it is about another request")
    try:
        content = json.loads(e.content)
    except (ValueError, RecursionError):
        content = {}
    evidence = content.get("evidence") if isinstance(content, dict) else None
    said = lambda name: evidence.get(name) if isinstance(evidence, dict) and isinstance(evidence.get(name), str) else ""
    want(cut(clean(said("receipt")), 500) == r["receipt_id"], "it names another receipt")
    want(parse_hash(said("receipt_hash")) == sha(r["stated"]).hex(), "it names another hash of the receipt")
    want((parse_hash(said("verdict_hash")) or "0" * 64) == r.get("verdict_hash", "sha256:" + "0" * 64)[7:], "it names another verdict")


# --- payments

class Payment:
    def __init__(self, r, request, quoted, plaintext, transaction, inclusion):
        self.r, self.request, self.event, self.plaintext, self.transaction, self.inclusion = r, request, quoted, plaintext, transaction, inclusion
        self.proof, self.amount = r["payment_proof"], int(r["amount_msats"])

    def check(self):
        if self.proof is None and self.amount == 0 and "refund" in self.r:
            return self.refund(self.r["refund"])
        if self.proof is None and self.amount == 0:
            raise Absent("nothing was owed")
        want(self.proof is not None, "an amount, and no proof")
        want(self.amount > 0, "a proof, and no amount")
        bids = [t[1] for t in self.request.tags if len(t) >= 2 and t[0] == "bid"] if self.request else []
        if bids and re.fullmatch("[0-9]+", bids[-1]) and 0 < int(bids[-1]) < 2**63 and (self.r["asset_id"] or "").startswith("BTC_"):
            want(self.amount <= int(bids[-1]), "more than the request offered")
        return {"lightning_preimage": self.lightning, "cashu_proof": self.cashu, "onchain_txid": self.onchain,
                "taproot_assets_proof": self.taproot}.get(self.proof["type"], self.unknown)()

    def unknown(self):
        raise Failed("a proof of an unknown type")

    def taproot(self):
        raise Absent("a payment in Taproot Assets is not checked by this program")

    def quote(self):
        """The quote, which wants the amount of the receipt."""
        f = self.asked()
        want(f.amount == self.amount, "the quote asks for another amount")
        return f

    def asked(self):
        """The provider's answer to the request."""
        want(self.event.kind == 7000, "the quote is no feedback")
        want(self.event.author == self.r.get("provider_pubkey"), "the quote is not by the provider")
        if self.event.sealed() and self.plaintext is None:
            raise Absent("the quote is sealed, and no key to it is in the export")
        f = Feedback(self.event, self.plaintext)
        want(f.status == "payment-required", "the quote asks for no payment")
        want(f.request == self.r.get("request_event"), "the quote answers another request")
        want(not (self.request and f.customer) or f.customer == self.request.author, "the quote is for another customer")
        key = self.r.get("idempotency_key", "")
        want(key == "" or all(k == key for k in f.keys), "the quote has another idempotency key")
        return f

    def lightning(self):
        want(self.r["asset_id"] == "BTC_LN", "another asset")
        want(any_hex(self.proof["value"], 32), "a preimage is 64 hex digits")
        preimage = bytes.fromhex(self.proof["value"])
        quote = self.quote() if self.event else None
        invoice = quote.invoice if quote else self.r.get("bolt11", "")
        want(invoice or not self.event, "the quote has no invoice")
        if not invoice:
            raise Absent("the quote, which has the invoice, is not in the export")
        amount, digest = bolt11(invoice)
        want(amount == self.amount, "the invoice is over another amount")
        want(sha(preimage) == digest, "the preimage does not fit the invoice")
        want(self.r.get("bolt11", invoice) == invoice, "the receipt has another invoice than the quote")
        if not self.event:
            raise Absent("the preimage fits the receipt's own invoice, and there is no quote")
        named = [parse_hash(t[1]) for t in self.request.tags if len(t) >= 2 and t[0] == "hold"] if self.request else []
        if digest.hex() in [quote.held] + [h for h in named if h][:1]:
            raise Absent("the preimage fits the invoice, but the customer chose it: it shows what was released, and not that it was held and taken")
        return "%d msat over Lightning: the preimage fits the invoice that the provider quoted" % amount

    def onchain(self):
        script = self.address(self.quote().bitcoin) if self.event else None
        digits = self.transaction.strip()
        want(digits or self.inclusion is None, "payment/inclusion.json is there, and payment/transaction is not")
        if not digits:
            raise Absent("the transaction is not in the export")
        want(len(digits) <= 8_000_000 and re.fullmatch(rb"([0-9a-fA-F]{2})*", digits), "the transaction is not in hex")
        txid, outputs, size = transaction(bytes.fromhex(digits.decode()))
        want(txid == self.proof["value"], "the transaction is another one")
        shown = "no block shown"
        if self.inclusion is not None:
            shown = "confirmed by block %s as its header claims; whether that block is in the best chain needs the network" % block_of(
                self.inclusion, txid, size)
        if script is not None:
            paid = [(n, value) for n, (value, to) in enumerate(outputs) if to == script]
            want(len(paid) == 1 and paid[0][1] * 1000 == self.amount, "the transaction does not have exactly one output to the address in the "
                 "quote, of exactly the amount")
            raise Absent("%d msat on the chain: the output %s:%d pays the address in the provider's quote; %s" % (self.amount, txid, paid[0][0], shown))
        want(sum(value for value, _ in outputs) * 1000 >= self.amount, "the transaction moves less")
        raise Absent("the transaction is the one of the receipt and moves enough; whom it pays is not known here; " + shown)

    def address(self, uri):
        """The script of the address that the quote asks to pay, or None if it has none."""
        if not uri:
            return None
        m = re.fullmatch(r"bitcoin:([0-9a-z]{1,90})\?amount=(0|[1-9][0-9]{0,7})(?:\.([0-9]{1,8}))?(?:&confirmations=([1-9][0-9]?|100))?", uri)
        want(m, "the quote asks for its payment in another form than bitcoin:ADDRESS?amount=BITCOINS&confirmations=NUMBER")
        satoshis = int(m[2] + (m[3] or "").ljust(8, "0"))
        want(0 < satoshis <= MAX_SATOSHIS and satoshis * 1000 == self.amount, "the quote asks for another amount to its address")
        return script_of(m[1])

    def price(self, f, mint, unit, amount):
        """The lock that the quote asks for, if it asks for at least an amount, of a mint and in a unit: None if it asks for none.
        It has the key, the locktime, whether the key is the only condition, the price, and an arbiter's key or None."""
        if f.terms == "":
            if unit not in ("sat", "msat"):
                raise Absent("the quote has no price in the unit of the ecash")
            want(f.amount == amount, "the quote asks for another amount")
            return None
        r = payment_request(f.terms)
        want(r["i"] == self.r.get("request_event", "0" * 64), "the payment request is for another request")
        want(r["u"] == unit, "the quote asks for another unit")
        want(amount <= r["a"] * each(unit) < 2**63, "the quote asks for less")
        want(not r["m"] or mint in r["m"], "the quote does not take ecash of that mint")
        if r["nut10"] is None:
            return None
        lock = r["nut10"]
        want(lock["k"] == "P2PK", "the lock is not to a key")
        key, locktime = point_of(lock["d"])[0], 0
        for t in lock["t"]:
            if len(t) == 2 and t[0] == "locktime":
                locktime = unix_seconds(t[1])
        more, arbiter = [t[1:] for t in lock["t"] if t[:1] == ["pubkeys"]], None
        if more:
            want(len(more) == 1 and len(more[0]) == 1, "the quote asks for other keys than an arbiter's")
            arbiter = point_of(more[0][0])[0]
            want(arbiter != key, "the arbiter's key is the provider's")
            want([t for t in lock["t"] if t[:1] == ["n_sigs"]] == [["n_sigs", "2"]], "the quote does not ask for two of three keys")
        return key, locktime, all(t in (["n_sigs", "1"], ["sigflag", "SIG_INPUTS"]) for t in lock["t"]), r["a"] * each(unit), arbiter

    def cashu(self):
        f = self.asked() if self.event else None
        e = loads(self.proof["value"])
        sets = [{"id": str, "unit": str, "keys": None, "input_fee_ppk": int, "final_expiry": int}]
        e = shape(e, {"mint": str, "unit": str, "keysets": sets, "proofs": [
            {"amount": int, "id": str, "secret": str, "C": str, "witness": None, "dleq": ({"e": str, "s": str, "r": str},)}]})
        unit = e["unit"]
        check_asset(unit, e["mint"], self.r["asset_id"])
        terms = self.price(f, e["mint"], unit, self.amount) if f else None
        secrets, held, alone, signed = [c["secret"] for c in e["proofs"]], None, [], 0
        for i, coin in enumerate(e["proofs"]):
            want(coin["secret"] not in secrets[:i], "a coin is there twice")
            lock, by_mint = check_coin(coin, self.r.get("provider_pubkey"), e["keysets"], unit)
            signed += by_mint
            if lock and len(lock) == 1:
                alone.append(lock[0])
                want(lock[0] == alone[0], "a coin is locked to another key than those before it")
                if f:
                    want(terms and lock[0] == terms[0], "it is locked to another key than the one in the quote, or not signed for")
                    want(terms[2], "the quote asks for an escrow")
                    want(self.amount == terms[3], "the quote asks for another amount")
            elif lock:
                want(held in (None, lock[:3]), "a coin is locked to other keys than those before it")
                held = lock[:3]
                if f:
                    want(terms, "the quote asks for no lock")
                    want(not terms[2], "the quote asks for no second key")
                    want(lock[0] == terms[0], "it is locked to another key than the one in the quote")
                    want(lock[2] == terms[4], "it is not locked to the arbiter's key in the quote, or to one and the quote asks for none")
                    want(not lock[3] or lock[3] >= terms[1], "it is the customer's again too early")
                if lock[2] is not None and self.request and not self.request.sealed():
                    want(self.request.arbiter() == lock[2], "the request names another arbiter's key, or none")
        total = sum(c["amount"] for c in e["proofs"]) * each(unit)
        want(all(c["amount"] >= 0 for c in e["proofs"]) and total == self.amount, "the ecash is worth another amount")
        if not f:
            raise Absent("ecash that %s, and no quote of the amount" % (
                "one of %s keys released" % ("two" if held[2] is None else "three") if held else "is locked to one key" if alone else "the provider signed for"))
        if alone:
            want(len(alone) == len(secrets), "a part of the ecash is locked in another way")
            if signed < len(secrets):
                raise Absent("ecash that is locked to the key in the quote alone, and that is not shown to be the mint's")
            return "%s in ecash that is locked to the key in the provider's quote alone, as that asks for it; it is signed by the mint's keys as " \
                   "they were handed over; whether the provider has spent it, only the mint says" % worth(total, unit)
        if held and held[2] is not None:
            return "%s in ecash: two of the provider's, the customer's and an arbiter's key open it. The customer's has signed it over; the arbiter " \
                   "could have opened it too, with either of the two; whether it is spent, only the mint says" % worth(total, unit)
        if held:
            return "%s in ecash that was locked to the key in the provider's quote and to another one, which has signed it over; " \
                   "whether the provider has spent it, only the mint says" % worth(total, unit)
        return "%s in ecash that is locked to the provider, who signed for it" % worth(total, unit)

    def refund(self, r):
        if r["rail"] != "cashu":
            raise Absent("a refund on this rail is not checked by this program")
        f = self.asked() if self.event else None
        s = shape(loads(r["proof"]), {"mint": str, "unit": str, "amount": int, "spent": [str]})
        unit, amount = s["unit"], int(r["amount_msats"])
        check_asset(unit, s["mint"], r["asset_id"])
        want(s["amount"] >= 0 and s["amount"] * each(unit) == amount, "the refund is of another amount")
        points = [point_of(y) for y in s["spent"]]
        want(points and len(set(points)) == len(points), "the refund names no coins, or one twice")
        if f:
            terms = self.price(f, s["mint"], unit, amount)
            want(terms and not terms[2], "the quote asks for no lock, or for one that gives nothing back")
        raise Absent("nothing was paid: %s came back, by the customer's word; ask the mint for the state of the points (checkstate)" % worth(amount, unit))


def check_asset(unit, mint, stated):
    ticker = "BTC" if unit in ("sat", "msat") else unit.upper()
    want(ticker != "BTC" or unit in ("sat", "msat"), "no unit of ecash in bitcoin")
    want("%s_CASHU(%s)" % (ticker, mint) == stated, "the ecash is of another asset")


def each(unit):
    """What a unit is worth in a receipt: msat, and of what is not bitcoin thousandths."""
    return 1 if unit == "msat" else 1000


def worth(amount, unit):
    if unit in ("sat", "msat"):
        return "%d msat" % amount
    return "%d %s%s" % (amount // 1000, unit, " (play money, worth nothing)" if unit.lower() == "test" else "")


def unix_seconds(s):
    want(re.fullmatch("[1-9][0-9]{0,18}", s) and int(s) < 2**63, "not a time in Unix seconds")
    return int(s)


def payment_request(s):
    """A payment request of NUT-18: base64 of CBOR. Its fields have one letter each."""
    want(s.startswith("creqA") and len(s.encode()) <= 1 << 20, "no payment request")
    body = s[5:].rstrip("=").replace("+", "-").replace("/", "_")
    want(re.fullmatch("[A-Za-z0-9_-]*", body), "no base64")
    b = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)) if len(body) % 4 != 1 else b""
    want(b and base64.urlsafe_b64encode(b).decode().rstrip("=") == body, "no base64")
    c = Cbor(b)
    r = cbor_shape(c.value(0), {"i": str, "a": int, "u": str, "s": bool, "m": [str], "d": str, "t": [{"t": str, "a": str, "g": [[str]]}],
                                "nut10": ({"k": str, "d": str, "t": [[str]]},)})
    want(c.at == len(b), "something after the payment request")
    return r


class Cbor:
    """Plain CBOR (RFC 8949): of definite lengths, without tags, floats and numbers below 0, and with texts as keys."""

    def __init__(self, b):
        self.b, self.at = b, 0

    def take(self, n):
        want(n <= len(self.b) - self.at, "the payment request is cut off")
        self.at += n
        return self.b[self.at - n:self.at]

    def value(self, depth):
        head = self.take(1)[0]
        kind, n = head >> 5, head & 31
        if kind == 7:
            want(0xF4 <= head <= 0xF6, "no plain CBOR")
            return (False, True, None)[head - 0xF4]
        want(kind not in (1, 6) and n < 28, "no plain CBOR")
        if n >= 24:
            n = int.from_bytes(self.take(1 << n - 24), "big")
        if kind == 0:
            return n
        if kind in (2, 3):
            text = self.take(n)
            try:
                return text if kind == 2 else text.decode("utf-8")
            except UnicodeDecodeError:
                raise Failed("a text that is not UTF-8")
        want(depth < 6 and n <= (1000 if kind == 4 else 64), "too deep, or too long")
        if kind == 4:
            return [self.value(depth + 1) for _ in range(n)]
        out = {}
        for _ in range(n):
            key = self.value(depth + 1)
            want(isinstance(key, str) and key not in out, "a key that is no text, or a duplicate")
            out[key] = self.value(depth + 1)
        return out


def cbor_shape(v, spec):
    if isinstance(spec, tuple):
        return None if v is None else cbor_shape(v, spec[0])
    if isinstance(spec, dict):
        want(v is None or isinstance(v, dict), "a field of another type")
        return {k: cbor_shape((v or {}).get(k), inner) for k, inner in spec.items()}
    if isinstance(spec, list):
        want(v is None or isinstance(v, list), "a field of another type")
        return [cbor_shape(one, spec[0]) for one in v or []]
    want(v is None or type(v) is spec, "a field of another type")
    return spec() if v is None else v


def bolt11(s):
    """The amount in msat and the payment hash of an invoice whose signature holds."""
    want(len(s) <= 7089 and all("!" <= c <= "~" for c in s), "no invoice")
    lower = s.lower()
    want(s in (lower, s.upper()), "lower and upper case are mixed")
    prefix, one, data = lower.rpartition("1")
    want(one and prefix and len(data) >= 6 and all(c in CHARSET for c in data), "no invoice")
    groups = [CHARSET.index(c) for c in data]
    want(polymod(prefix, groups) == 1, "the checksum of the invoice does not fit")
    groups = groups[:-6]
    want(len(groups) >= 7 + 104, "the invoice is too short")
    m = re.fullmatch(r"ln(bcrt|bc|tbs|tb)(?:([1-9][0-9]*)([munp]?))?", prefix)
    want(m, "an invoice of another network, or amount")
    each = {"": 100_000_000_000, "m": 100_000_000, "u": 100_000, "n": 100, "p": 1}[m[3] or ""]
    digits = m[2] or "0"
    if m[3] == "p":
        want(digits.endswith("0"), "no number of msat")
        digits = digits[:-1]
    amount = int(digits) * each
    want(amount <= 21_000_000 * 100_000_000_000 and (m[2] is None or amount > 0), "an impossible amount")
    signed, signature = groups[:-104], groups[-104:]
    fields = invoice_fields(signed[7:])
    digest = int.from_bytes(sha(prefix.encode() + bytes(regroup(signed, 5, 8))), "big")
    b = bytes(regroup(signature, 5, 8))
    r, t = int.from_bytes(b[:32], "big"), int.from_bytes(b[32:64], "big")
    want(b[64] <= 3 and 0 < r < N and 0 < t < N, "invalid signature")
    if 19 in fields:
        key = fields[19]
        point = lift_x(int.from_bytes(key[1:], "big"), key[0] == 3) if key[0] in (2, 3) else None
        want(point and t <= N // 2, "no payee, or not the one form of a signature")
        w = pow(t, N - 2, N)
        got = combine(digest * w % N, G, r * w % N, point)
        want(got and got[0] % N == r, "the signature is not the payee's")
    else:
        x = r + (N if b[64] & 2 else 0)
        point = lift_x(x, bool(b[64] & 1)) if x < P else None
        inverse = pow(r, N - 2, N)
        want(point and combine(t * inverse % N, point, -digest * inverse % N, G), "no payee can be found by the signature")
    return amount, fields[1]


def invoice_fields(groups):
    fields, repeated = {}, (3, 9)
    exact = {1: 52, 16: 52, 23: 52, 19: 53}
    while groups:
        want(len(groups) >= 3, "a field without a length")
        kind, size = groups[0], groups[1] << 5 | groups[2]
        want(size <= len(groups) - 3, "a field that is longer than the invoice")
        field, groups = groups[3:3 + size], groups[3 + size:]
        if kind in exact and size != exact[kind] or kind == 9 and (not field or field[0] > 18) or kind not in (1, 3, 5, 6, 9, 13, 16, 19, 23, 24, 27):
            continue
        want(kind not in fields or kind in repeated, "duplicate field")
        if kind == 9:
            value = field
        elif kind in (6, 24):
            value = int("".join(format(g, "05b") for g in field) or "0", 2)
            want(value < 2**64 and (kind == 24 or 0 < value <= (2**63 - 1) // 10**9), "a number that is too big")
        elif kind == 5:
            value = features(field)
        else:
            b, rest = bytes(regroup(field, 5, 8)), len(field) * 5 % 8
            want(rest == 0 or rest < 5 and b[-1] == 0, "a field that does not end where its bytes do")
            value = b if rest == 0 else b[:-1]
            if kind == 13:
                try:
                    value.decode("utf-8")
                except UnicodeDecodeError:
                    raise Failed("a description that is not UTF-8")
            want(kind != 3 or value and len(value) % 51 == 0, "invalid route")
            want(kind != 19 or any(value), "invalid payee")
        fields[kind] = value
    want(1 in fields and 16 in fields and (13 in fields) != (23 in fields), "an invoice without what every invoice has")
    return fields


def features(field):
    needs = {8: 0, 14: 0, 16: 14, 24: 0, 36: 0, 48: 0}
    bits = {i for i in range(len(field) * 5) if field[len(field) - 1 - i // 5] >> i % 5 & 1}
    for bit in bits:
        need = needs.get(bit & ~1)
        want(need is not None or bit % 2, "a feature that is not known")
        want(not need or need in bits or need + 1 in bits, "a feature without the one that it requires")


class Bytes:
    def __init__(self, b):
        self.b, self.at = b, 0

    def take(self, n):
        want(n <= len(self.b) - self.at, "the transaction does not end where its parts do")
        self.at += n
        return self.b[self.at - n:self.at]

    def count(self):
        n = self.take(1)[0]
        if n >= 253:
            size = 2 << n - 253
            n, least = int.from_bytes(self.take(size), "little"), {2: 253, 4: 1 << 16, 8: 1 << 32}[size]
            want(n >= least, "a number in another form")
        want(n <= len(self.b) - self.at, "the transaction does not end where its parts do")
        return n


MAX_SATOSHIS = 21_000_000 * 100_000_000


def transaction(b):
    """The id of a transaction, its outputs, each a value in satoshis and a script, and its size without witnesses."""
    r = Bytes(b)
    version = r.take(4)
    witnessed = b[4:6] == b"\0\1"
    if witnessed:
        r.take(2)
    start = r.at
    inputs = r.count()
    for _ in range(inputs):
        r.take(36)
        r.take(r.count())
        r.take(4)
    outputs, satoshis = [], 0
    for _ in range(r.count()):
        value = int.from_bytes(r.take(8), "little")
        satoshis += value
        want(satoshis <= MAX_SATOSHIS, "more than there is")
        outputs.append((value, r.take(r.count())))
    body = b[start:r.at]
    found = not witnessed
    if witnessed:
        for _ in range(inputs):
            items = r.count()
            found = found or items > 0
            for _ in range(items):
                r.take(r.count())
    locktime = r.take(4)
    want(found and r.at == len(b) and inputs and outputs, "the transaction does not end where its parts do")
    plain = version + body + locktime
    return sha(sha(plain))[::-1].hex(), outputs, len(plain)


def script_of(address):
    """The script of an address of segregated witness (BIP 173 and 350)."""
    lower = address.lower()
    want(len(address) <= 90 and address in (lower, address.upper()), "no address")
    prefix, _, data = lower.rpartition("1")
    want(prefix in ("bc", "tb", "bcrt", "sb") and len(data) > 6 and all(c in CHARSET for c in data), "an address of no known network")
    groups = [CHARSET.index(c) for c in data]
    version, packed = groups[0], groups[1:-6]
    want(version <= 16 and polymod(prefix, groups) == (0x2BC830A3 if version else 1), "the checksum of the address does not fit")
    program, rest = regroup(packed, 5, 8), len(packed) * 5 % 8
    if rest:
        want(rest < 5 and program[-1] == 0, "an address that does not end where its bytes do")
        program = program[:-1]
    want(2 <= len(program) <= 40 and (version or len(program) in (20, 32)), "an address of another length")
    return bytes([version + 0x50 if version else 0, len(program)] + program)


def block_of(b, txid, size):
    """The hash of the block that an inclusion shows a transaction in."""
    p = loads(b)
    want(isinstance(p, dict) and set(p) == {"header", "index", "branch"} and is_text(p["header"]) and is_hex(p["header"], 80) and
         isinstance(p["branch"], list) and len(p["branch"]) <= 17 and all(is_text(h) and is_hex(h, 32) for h in p["branch"]),
         "not exactly the fields of an inclusion")
    want(is_int(p["index"], 0, (1 << len(p["branch"])) - 1), "the place does not fit the branch")
    want(size != 64, "a transaction of 64 bytes may be a part of the tree")
    at, root, twice = int(p["index"]), bytes.fromhex(txid)[::-1], lambda x: sha(sha(x))
    for h in p["branch"]:
        beside = bytes.fromhex(h)[::-1]
        want(at % 2 == 0 or beside != root, "the branch has a hash twice")
        root, at = twice(beside + root if at % 2 else root + beside), at // 2
    header = bytes.fromhex(p["header"])
    want(header[36:68] == root, "the branch does not lead to the root in the header")
    bits = int.from_bytes(header[72:76], "little")
    size, mantissa = bits >> 24, bits & 0x7FFFFF
    want(3 <= size <= 32 and mantissa and not bits & 0x800000, "a header with no target")
    target, found = mantissa << 8 * (size - 3), twice(header)[::-1]
    want(target < 2**256 and int.from_bytes(found, "big") <= target, "the header does not have the work that it claims")
    return found.hex()


def point_of(s):
    want(any_hex(s, 33), "not a compressed point")
    b = bytes.fromhex(s)
    point = lift_x(int.from_bytes(b[1:], "big"), b[0] == 3) if b[0] in (2, 3) else None
    want(point, "no point of the curve")
    return point


def check_coin(coin, owner, keysets, unit):
    """Checks a coin. Of one that is locked as an escrow it returns what escrow() does, of one that a key alone opens that key,
    if that is not the provider's or did not sign, else None. It also returns whether the mint's keys signed it."""
    if coin["id"][:2] not in ("00", "01"):
        raise Absent("ecash of this kind of keyset is not checked by this program")
    point_of(coin["C"])
    try:
        parts = loads(coin["secret"])
        kind, lock = parts
        lock = shape(lock, {"nonce": str, "data": str, "tags": [[str]]})
        want(isinstance(parts, list) and kind == "P2PK", "not locked")
    except (Failed, ValueError, TypeError):
        raise Failed("it is not locked to a key")
    held = None
    if any(t and t[0] == "pubkeys" for t in lock["tags"]):
        held = escrow(coin["secret"], lock)
        check_witness(coin, "%064x" % held[1], "customer")
    else:
        key = check_own(lock)
        if "%064x" % key == owner and coin["witness"] not in (None, ""):
            check_witness(coin, owner, "provider")
        else:
            held = (key,)
    keyset = next((k for k in keysets if k["id"] == coin["id"]), None)
    if coin["dleq"] is not None and keyset is not None:
        check_mint(coin, keyset, unit)
        return held, True
    return held, False


def check_own(lock):
    """The x coordinate of the key that alone opens the lock."""
    for tag in lock["tags"]:
        if tag and tag[0] == "sigflag":
            want(tag[1:] == ["SIG_INPUTS"], "signed together with what is not here")
        want(not tag or tag[0] not in ("pubkeys", "n_sigs", "locktime", "refund", "n_sigs_refund"), "others have a say in who spends it")
    return point_of(lock["data"])[0]


def escrow(secret, lock):
    """The keys of the provider, the customer and an arbiter, or None, by their x coordinates, of a lock that two of them open, and the
    second alone after the locktime, or 0."""
    want(len(secret.encode()) <= 4096 and len(lock["tags"]) <= 32, "a lock that is too long")
    tags = {}
    for t in lock["tags"]:
        want(t, "an empty tag")
        if t[0] in ("sigflag", "pubkeys", "refund", "n_sigs", "n_sigs_refund", "locktime"):
            want(t[0] not in tags, "duplicate tag")
            tags[t[0]] = t[1:]
    want(tags.get("sigflag", ["SIG_INPUTS"]) == ["SIG_INPUTS"], "signed together with what is not here")
    want(len(tags["pubkeys"]) in (1, 2) and re.fullmatch(r"\+?0*2", " ".join(tags.get("n_sigs", [""]))), "not two of two or three keys are needed")
    keys = [point_of(k)[0] for k in [lock["data"]] + tags["pubkeys"]]
    want(len(set(keys)) == len(keys), "two keys are one")
    first, second, third = (keys + [None])[:3]
    locktime, refund = 0, [point_of(k)[0] for k in tags.get("refund", [])]
    if "locktime" in tags:
        want(len(tags["locktime"]) == 1, "no time")
        locktime = unix_seconds(tags["locktime"][0])
    want(refund == ([second] if locktime else []), "after the locktime it is not the customer's alone")
    want("n_sigs_refund" not in tags or refund and re.fullmatch(r"\+?0*1", " ".join(tags["n_sigs_refund"])), "more signatures than keys")
    return first, second, third, locktime


def check_witness(coin, key, who):
    witness = coin["witness"]
    if witness is None or witness == "":
        raise Failed("the %s did not sign for it" % who)
    w = shape(loads(witness) if is_text(witness) else witness, {"signatures": [str]})
    digest = sha(coin["secret"].encode())
    want(any(any_hex(s, 64) and schnorr(bytes.fromhex(key), digest, bytes.fromhex(s)) for s in w["signatures"]), "not signed by the " + who)


def check_mint(coin, k, unit):
    """NUT-02 and NUT-12: the key of the keyset for the amount signed the coin."""
    keys = k["keys"] or {}
    want(isinstance(keys, dict) and all(re.fullmatch("0|[1-9][0-9]*", a) and int(a) < 2**64 and is_text(v) for a, v in keys.items()), "invalid keys")
    for v in keys.values():
        point_of(v)
    amounts = sorted(keys, key=int)
    if k["id"].startswith("00"):
        derived = "00" + sha(b"".join(bytes.fromhex(keys[a]) for a in amounts)).hex()[:14]
    else:
        text = ",".join(a + ":" + keys[a].lower() for a in amounts) + "|unit:" + k["unit"]
        text += "|input_fee_ppk:%d" % k["input_fee_ppk"] if k["input_fee_ppk"] > 0 else ""
        text += "|final_expiry:%d" % k["final_expiry"] if k["final_expiry"] > 0 else ""
        derived = "01" + sha(text.encode()).hex()
    want(derived == k["id"] and k["unit"] == unit and str(coin["amount"]) in keys, "the keyset is another one, or has no key for the amount")
    scalars = []
    for name in "esr":
        want(any_hex(coin["dleq"][name], 32) and 0 < int(coin["dleq"][name], 16) < N, "no scalar")
        scalars.append(int(coin["dleq"][name], 16))
    e, s, r = scalars
    a, c, y = point_of(keys[str(coin["amount"])]), point_of(coin["C"]), hash_to_curve(coin["secret"])
    signature, message = combine(1, c, r, a), combine(1, y, r, G)
    want(signature and message, "the mint did not sign it")
    points = [combine(s, G, e, neg(a)), combine(s, message, e, neg(signature)), a, signature]
    want(all(points), "the mint did not sign it")
    text = "".join("04%064x%064x" % p for p in points)
    want(sha(text.encode()).hex() == coin["dleq"]["e"].lower(), "the mint did not sign it")


def hash_to_curve(secret):
    inner = sha(b"Secp256k1_HashToCurve_Cashu_" + secret.encode())
    for counter in range(1 << 16):
        point = lift_x(int.from_bytes(sha(inner + struct.pack("<I", counter)), "big"))
        if point:
            return point
    raise Failed("the secret stands for no point")


# --- an export

MIB = 1 << 20
LIMITS = {"receipt.json": MIB >> 4, "receipt.event.json": 4 * MIB, "request.event.json": 4 * MIB, "request.key": MIB >> 2,
          "result.event.json": 4 * MIB, "result.key": MIB >> 2, "quote.event.json": 4 * MIB, "quote.key": MIB >> 2, "bundle.nut": 64 * MIB,
          "delivery.nut": 64 * MIB, "verdict.json": 16 * MIB, "evidence.json": 64 * MIB, "REPLAY.jsonl": 64 * MIB,
          "policy.json": MIB >> 2, "journal/entry": MIB, "journal/proof.json": MIB >> 2,
          "journal/checkpoint.event.json": 4 * MIB, "journal/witness.event.json": 4 * MIB, "payment/transaction": 16 * MIB,
          "payment/inclusion.json": MIB >> 2, "hidden.json": 64 * MIB,
          "worker/REPLAY.jsonl": 4 * MIB}
MAX_FILES, MAX_TOTAL, MAX_RATIO = 200, 256 * MIB, 200


def limit_of(name):
    if name in LIMITS:
        return LIMITS[name]
    want(re.fullmatch(r"reviews/[0-9a-f]{64}\.json", name), "%r is not a file of an export" % name[:100])
    return MIB >> 2


class Files:
    def __init__(self):
        self.files, self.faults, self.total = {}, [], 0

    def add(self, name, read, regular):
        try:
            most = limit_of(name)
            want(regular, "%s is not a regular file" % name)
            want(len(self.files) < MAX_FILES, "too many files")
            most = min(most, MAX_TOTAL - self.total)
            b = read(most + 1)
            want(len(b) <= most, "%s is over %d bytes" % (name, most))
            self.files[name] = b
            self.total += len(b)
        except Failed as e:
            self.faults.append(str(e))
        except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as e:
            self.faults.append("%s: %s" % (name, e))

    def directory(self, root):
        for at, dirs, names in os.walk(root):
            links = [d for d in dirs if os.path.islink(os.path.join(at, d))]
            for name in names + links:
                path = os.path.join(at, name)
                relative = os.path.relpath(path, root).replace(os.sep, "/")

                def read(n):
                    with open(path, "rb") as f:
                        return f.read(n)
                self.add(relative, read, stat.S_ISREG(os.lstat(path).st_mode))
        return self

    def layout(self, path, z):
        """What lies in the archive is what its directory says, entry behind entry from the first byte on."""
        with open(path, "rb") as file:
            b, at = file.read(), 0
        for f in sorted(z.infolist(), key=lambda f: f.header_offset):
            want(f.header_offset == at and b[at:at + 4] == b"PK\3\4", "%r does not begin where the one before it ends" % f.filename)
            flags, method = struct.unpack("<HH", b[at + 6:at + 10])
            name, extra = struct.unpack("<HH", b[at + 26:at + 30])
            want(b[at + 30:at + 30 + name].decode("utf-8", "replace") == f.filename, "another name where it lies")
            want(f.flag_bits & ~0x80E == 0 and flags == f.flag_bits and method == f.compress_type, "packed in another way")
            at += 30 + name + extra + f.compress_size
            if flags & 8:
                want(b[at:at + 4] == b"PK\7\10", "no descriptor behind it")
                at += 16
        want(b[at:at + 4] in (b"PK\1\2", b"PK\5\6"), "something between the last file and the directory")

    def archive(self, path):
        seen = set()
        with zipfile.ZipFile(path) as z:
            want(len(z.infolist()) <= 2 * MAX_FILES, "too many files")
            self.layout(path, z)
            for f in z.infolist():
                name = f.filename[:-1] if f.filename.endswith("/") else f.filename
                want("\\" not in name and all(p not in ("", ".", "..") for p in name.split("/")), "the name %r" % f.filename)
                want(name not in seen, "%r is in it twice" % name)
                seen.add(name)
                if f.filename.endswith("/") and f.file_size == 0:
                    continue

                def read(n):
                    want(f.file_size < n, "%s is too large" % f.filename)
                    want(f.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED), "%s is packed in another way" % f.filename)
                    with z.open(f) as part:
                        return part.read(n)
                kind = stat.S_IFMT(f.external_attr >> 16)
                self.add(f.filename, read, kind in (0, stat.S_IFREG) and not f.external_attr & 0x10)
                want(self.total <= MAX_RATIO * os.path.getsize(path), "its files are too much larger than it is")
        return self


class Export:
    """The checks, in their order. What several of them compare with is read first, and why it could not be."""

    def __init__(self, files):
        self.files, self.faults, self.total = files.files, files.faults, files.total
        self.receipt = self.signed = self.customer = None
        self.read_receipt()
        if self.receipt is None:
            return
        self.request = self.attempt(self.read_request)
        self.result = self.attempt(self.read_result)
        self.verdict = self.attempt(self.read_verdict)
        self.replay = self.attempt(self.read_replay)
        self.checkpoint = self.attempt(self.read_checkpoint)
        self.witness = self.attempt(self.read_witness)

    @staticmethod
    def attempt(read):
        try:
            return read()
        except (Failed, Absent) as e:
            return e

    def file(self, name):
        if name not in self.files:
            raise Absent(name + " is not there")
        return self.files[name]

    def event(self, name):
        return Event(self.file(name))

    def read_receipt(self):
        lying = self.loose = self.attempt(lambda: read_receipt(self.file("receipt.json")))
        self.unsigned = self.attempt(self.read_signed)
        if isinstance(self.unsigned, Event):
            self.signed, self.customer = self.unsigned, self.unsigned.author
            self.stated = self.signed.content.encode()
            self.receipt = read_receipt(self.stated)
        elif isinstance(lying, dict):
            self.receipt, self.stated = lying, self.files["receipt.json"]
        if self.receipt:
            self.receipt = dict(self.receipt, stated=self.stated)

    def read_signed(self):
        e = self.event("receipt.event.json")
        want(e.kind == 2021, "another kind than that of receipts")
        at, tags = receipt_event(read_receipt(e.content.encode()))
        want(e.at == at and e.tags == tags, "its date and tags are not those of the receipt in it")
        return e

    def plaintext(self, e, name):
        """What a sealed event says: its plaintext, or None if it stays closed."""
        if not e.sealed():
            want(name not in self.files, name + " is for a content that is not encrypted")
            return None
        return open_payload(self.files[name], e.content) if name in self.files else None

    def read_request(self):
        e, r = self.event("request.event.json"), self.receipt
        want(e.id == r.get("request_event", "0" * 64), "it is another event than the receipt names")
        want(5000 <= e.kind < 6000, "another kind than that of a request")
        self.customer = e.author
        plain = self.plaintext(e, "request.key")
        q = Request(e, plain)
        q.event, q.open, q.plain = e, not q.sealed or plain is not None, None
        want(not q.providers or r.get("provider_pubkey", "0" * 64) in q.providers, "it asks another provider")
        want(q.job == r["job"], "it is of another job")
        if q.open:
            want(q.get("job_type") == r.get("task", ""), "it is of another task")
            want(q.get("idempotency_key") == r.get("idempotency_key", ""), "it has another idempotency key")
            q.plain = q.payload()
        return q

    def read_result(self):
        r = self.receipt
        if "result_event" not in r:
            want("result.event.json" not in self.files, "it is there, and the receipt names no result")
            raise Absent("nothing came")
        e = self.event("result.event.json")
        want(e.id == r["result_event"], "it is another event than the receipt names")
        plain = self.plaintext(e, "result.key")
        want(6000 <= e.kind < 7000, "another kind than that of a result")
        f = Feedback(e)
        want(e.author == r.get("provider_pubkey"), "it is not by the provider")
        want(not isinstance(self.request, Request) or e.kind == self.request.event.kind + 1000, "it is of another kind")
        want(f.request == r.get("request_event", ""), "it answers another request")
        want(self.customer is None or f.customer == self.customer, "it is for another customer")
        asked = self.request.event.at if isinstance(self.request, Request) else None
        want(asked is None or e.at + 3600 >= asked, "it is older than the request")
        want(asked is not None and self.before(asked) or not self.before(e.at), "it is later than the receipt")
        want(r.get("behaviour", f.behaviour) == f.behaviour, "it is by another behaviour than the receipt says")
        if e.author == self.customer:
            raise Absent("the customer itself has signed it")
        f.sealed, f.open = e.sealed(), not e.sealed() or plain is not None
        f.content = e.content if not f.sealed else plain
        return f

    def read_verdict(self):
        named = self.receipt.get("verdict_hash")
        if named is None:
            want("verdict.json" not in self.files, "it is there, and the receipt names none")
            raise Absent("nothing was judged")
        whole = loads(self.file("verdict.json"))
        want(canonical_hash(whole) == named, "it is not the one that the receipt names")
        v = shape(whole, VERDICT)
        v["text"] = whole
        v["whole"] = v["opinion"] is None and len(v["dimensions"]) == 1 and TYPED.fullmatch(self.receipt.get("task", "")) is not None
        return v

    def read_replay(self):
        r = self.receipt
        digest, session, policy, judged, end = trajectory(self.file("REPLAY.jsonl"))
        want(digest == r["trajectory_hash"], "it is not the one that the receipt names")
        want(session == r["session_id"], "it is of another session")
        want(policy == r["policy_bundle_id"], "it is by another policy")
        want(judged is None or judged == r.get("verdict_hash"), "its last verdict is another")
        outcome, status = r.get("outcome", ""), status_of(end["status"], *STATUSES)
        want(status != "success" or outcome in ("SUCCESS", "PARTIAL"), "it ended well, and the outcome is another")
        want(status != "failed" or outcome != "SUCCESS", "it failed, and the outcome is SUCCESS")
        want(0 <= end["confidence"] <= 1, "a confidence that is not from 0 to 1")
        want("score_micro" not in r or math.floor(end["confidence"] * 1e6 + 0.5) == int(r["score_micro"]), "its confidence is another than the score")
        return digest

    def read_checkpoint(self):
        e = self.event("journal/checkpoint.event.json")
        want(e.kind == 2024, "another kind than that of checkpoints")
        c = loads(e.content.encode())
        want(isinstance(c, dict) and set(c) <= {"journal", "size", "root"} and len(e.content.encode()) <= 1024, "no checkpoint")
        c = shape(c, {"journal": str, "size": int, "root": str})
        want(re.fullmatch("[a-zA-Z0-9_-]{1,64}", c["journal"]) and 0 < c["size"] <= 2**53 and parse_hash(c["root"]) and
             parse_hash(c["root"]).strip("0"), "no checkpoint")
        want(self.customer is None or e.author == self.customer, "it is not signed by the customer")
        want(e.tags == [["d", c["journal"]], ["x", parse_hash(c["root"])]], "its tags are not those of what it says")
        want(not self.before(e.at, late=True), "it is older than the receipt")
        self.sealed_at, self.sealed_by = e.at, e.author
        return c

    def read_witness(self):
        e = self.event("journal/witness.event.json")
        if isinstance(self.checkpoint, Exception):
            raise Absent("there is no checkpoint that holds")
        c = self.checkpoint
        want(e.kind == 2026, "another kind than that of countersignatures")
        w = loads(e.content.encode())
        want(isinstance(w, dict) and set(w) == {"customer", "journal", "size", "root"} and len(e.content.encode()) <= 1024, "no countersignature")
        w = shape(w, {"customer": str, "journal": str, "size": int, "root": str})
        want(e.author == self.receipt.get("provider_pubkey"), "it is not signed by the provider")
        want(e.author != self.sealed_by, "the customer itself has signed it")
        want(w["customer"] == self.sealed_by and w["journal"] == c["journal"] and w["size"] == c["size"] and
             parse_hash(w["root"]) == parse_hash(c["root"]), "it is about another checkpoint")
        want(e.tags == [["p", self.sealed_by], ["d", c["journal"]], ["x", parse_hash(c["root"])]], "its tags are not those of what it says")
        want(e.at + 3600 >= self.sealed_at, "it is older than the checkpoint")
        return e

    def before(self, at, late=False):
        """Whether the receipt is older than what was there before it; late: whether something is older that came after it."""
        stamp = moment(self.receipt["timestamp"])
        return stamp is not None and (at + 3600 < stamp if late else stamp + 3600 < at)

    # The lines.

    def check_files(self):
        want(not self.faults, self.faults[0] if self.faults else "")
        want(self.files, "the export has no files")
        return "%d, of %d bytes" % (len(self.files), self.total)

    def check_receipt(self):
        want("receipt.json" in self.files, "receipt.json is not there")
        if isinstance(self.loose, Exception):
            raise Failed(str(self.loose))
        want(self.signed is None or self.files["receipt.json"] == self.stated, "it is not what was signed")
        check_form(self.receipt)
        want(self.receipt["session_id"] == self.receipt["job"], "session_id is not the job")
        want(set(self.receipt) - {"stated"} <= set(REQUIRED) | set(OPTIONAL), "it has another field")
        rule = self.receipt["approval_rule_id"]
        want(rule is None or re.fullmatch("[A-Za-z0-9][A-Za-z0-9._:-]{0,63}", rule), "no rule is called so")
        want(not isinstance(self.request, Request) or not self.before(self.request.event.at), "it is older than the request")
        return "%s, %s" % (self.receipt["receipt_id"], hashed(self.stated))

    def check_signature(self):
        want(self.signed is not None, str(self.unsigned))
        want(self.signed.author == self.customer, "it is signed by somebody else than the request")
        return "by " + self.customer

    def hold(self, v, event="", key=""):
        if isinstance(v, Exception):
            want(not key or key not in self.files or event in self.files, "%s is there, and %s is not" % (key, event))
            raise v
        return v

    def check_request(self):
        return "read" if self.hold(self.request, "request.event.json", "request.key").open else "only its envelope was read"

    def opened(self):
        if isinstance(self.request, Exception):
            raise Absent("there is no request that holds")
        if not self.request.open:
            raise Absent("the request is encrypted")
        return self.request

    def check_job_hash(self):
        q = self.opened()
        digest, said = q.job_hash(), q.get("job_hash")
        want(said == "" or parse_hash(said) == digest[7:], "the request says another one")
        want(digest == self.receipt["job_hash"], "the receipt says another one")
        return digest

    def check_result(self):
        return "read" if self.hold(self.result, "result.event.json", "result.key").open else "only its envelope was read"

    def check_bundle(self):
        q = self.attempt(self.opened)
        if not isinstance(q, Exception) and q.bundle() == "" and q.plain is not None:
            return self.unpacked("bundle.nut", "bundle_hash", self.same_payload)
        return self.parcel("bundle.nut", "bundle_hash", q, lambda q: q.bundle())

    def same_payload(self, files):
        e = loads(files.get("files/request.json", b""))
        want(isinstance(e, dict) and e.get("job_type") == self.receipt.get("task") and "payload" in e and
             canonical(e["payload"]) == self.request.plain, "it has another request than was sent")

    def same_content(self, files):
        artifacts = [b for name, b in files.items() if name.startswith("delivery/artifacts/")]
        want(len(artifacts) == 1 and artifacts[0] == self.result.content.encode(), "it has another result than was sent")

    def unpacked(self, name, field, same):
        """A bundle that the customer made of what an event says in plain."""
        stated = self.receipt.get(field, "")
        if stated == "":
            want(name not in self.files, name + " is there, and the receipt names none")
            raise Absent("the receipt names none")
        want(hashed(self.file(name)) == stated, "it is not the one that the receipt names")
        same(unpack(self.files[name]))
        return stated

    def check_delivery(self):
        def opened():
            if isinstance(self.result, Exception):
                raise Absent("there is no result that holds")
            if not self.result.open:
                raise Absent("the result is encrypted")
            return self.result
        f = self.attempt(opened)
        if not isinstance(f, Exception) and self.receipt.get("delivery_hash", "") != "" and f.content.strip() != "" and \
                delivery(f.content, f.sealed) == "":
            return self.unpacked("delivery.nut", "delivery_hash", self.same_content)
        return self.parcel("delivery.nut", "delivery_hash", f, lambda f: delivery(f.content, f.sealed))

    def parcel(self, name, field, carrier, carried):
        stated, readable = self.receipt.get(field, ""), not isinstance(carrier, Exception)
        if readable:
            want(carried(carrier) == stated, "the event that carried it says another hash")
        if stated == "":
            want(name not in self.files, name + " is there, and the receipt names none")
            raise Absent("the receipt names none")
        want(hashed(self.file(name)) == stated, "it is not the one that the receipt names")
        return stated

    def check_verdict(self):
        v = self.hold(self.verdict)
        want(v["outcome"] == self.receipt.get("outcome"), "its outcome is not that of the receipt")
        r = self.receipt
        want("strengths" not in r or v["strengths"] is not None and {k: int(n) for k, n in r["strengths"].items()} == v["strengths"] and
             r.get("strength") == v["strength"] and is_int(r.get("score_micro")) and int(r["score_micro"]) == v["score_micro"],
             "the receipt states another score or strength")
        check_verdict(v)
        return "%s, %d of %d tests" % (v["outcome"], v["passed"], v["expected"])

    def check_evidence(self):
        want("evidence.json" not in self.files or "verdict_hash" in self.receipt, "it is there, and the receipt names no verdict")
        b = self.file("evidence.json")
        if isinstance(self.verdict, Exception):
            raise Absent("there is no verdict that holds")
        want(parse_hash(self.verdict["evidence"]) == sha(b).hex(), "it is not the one that the verdict names")
        return check_evidence(b, self.verdict, self.verdict["text"], self.request)

    def check_hidden(self):
        want("hidden.json" not in self.files or "verdict_hash" in self.receipt, "it is there, and the receipt names no verdict")
        if isinstance(self.verdict, Exception):
            raise Absent("there is no verdict that holds")
        promised = self.verdict["hidden"]
        if not promised and "hidden.json" not in self.files:
            raise Absent("there are none")
        tests = read_hidden(self.file("hidden.json"))
        want([(t["path"], t["hash"]) for t in tests] == [(c["path"], c["hash"]) for c in promised], "the verdict names others")
        return "%d, as they were committed to" % len(tests)

    def check_trajectory(self):
        return self.hold(self.replay)

    def check_worker(self):
        there = "worker/REPLAY.jsonl" in self.files
        if "result_event" in self.receipt and isinstance(self.result, Exception):
            raise Absent("there is no result that holds")
        named = self.result.trajectory if isinstance(self.result, Feedback) else ""
        want(named or not there, "it is there, and no result names it")
        if not named:
            raise Absent("no result names one")
        want(trajectory(self.file("worker/REPLAY.jsonl"), False)[0] == named, "it is not the one that the result names")
        return named

    def check_policy(self):
        digest = canonical_hash(loads(self.file("policy.json")))
        want(digest == self.receipt["policy_bundle_id"], "it is not the one that the receipt names")
        want(shape(loads(self.file("policy.json")), {"name": str})["name"], "it has no name")
        return digest

    def check_payment(self):
        r, paid = self.receipt, self.receipt["payment_proof"] is not None
        event = self.event("quote.event.json") if "quote.event.json" in self.files else None
        named = r.get("quote_event")
        want(not event or named in (None, event.id), "the quote is another event than the receipt names")
        onchain = "payment/transaction" in self.files or "payment/inclusion.json" in self.files
        want(paid or not onchain and (not event or named), "nothing was paid, and there is something about a payment")
        want(not onchain or r["payment_proof"]["type"] == "onchain_txid", "a transaction of another kind of payment")
        want(event or "quote.key" not in self.files, "quote.key is there, and quote.event.json is not")
        request = self.request.event if isinstance(self.request, Request) else None
        return Payment(r, request, event, self.plaintext(event, "quote.key") if event else None, self.files.get("payment/transaction", b""),
                       self.files.get("payment/inclusion.json")).check()

    def check_entry(self):
        want("journal/entry" in self.files or "journal/proof.json" not in self.files, "a proof without an entry")
        entry, r = self.file("journal/entry"), self.receipt
        subject, newline, body = entry.partition(b"\n")
        want(newline, "it has no subject")
        decision = shape(loads(body), {"at": int, "facts": [None]})
        facts, at = decision["facts"], trunc(decision["at"])
        facts = [shape(f, RECORDED) for f in facts if shape(f, {"type": str})["type"] == "attempt.recorded"]
        found = [f for f in facts if f["receipt"] == r["receipt_id"]]
        want(len(found) == 1, "it does not record the receipt, once")
        f = found[0]
        want(subject.decode("utf-8", "replace") == "job." + r["job"], "it is about another job")
        want(not self.before(at, late=True), "it is older than the receipt")
        want(f["attempt"] == r["attempt"] and f["stored"] == hashed(self.stated) and f["trajectory"] == r["trajectory_hash"], "it records another receipt")
        want(isinstance(self.replay, Exception) or f["replay"] == hashed(self.files["REPLAY.jsonl"]), "it names another REPLAY.jsonl")
        p = read_proof(self.file("journal/proof.json"))
        if isinstance(self.checkpoint, Exception):
            raise Absent("there is no checkpoint that holds")
        want(self.sealed_at + 3600 >= at, "the checkpoint is older than it")
        want(int(p["size"]) == self.checkpoint["size"], "the proof is of another tree")
        check_proof(sha(b"\0" + entry), p, bytes.fromhex(parse_hash(self.checkpoint["root"])))
        return "entry %d of %s" % (int(p["index"]) + 1, p["size"])

    def check_checkpoint(self):
        return "%d entries" % self.hold(self.checkpoint)["size"]

    def check_witness(self):
        return "by " + self.hold(self.witness).author

    def check_reviews(self):
        names = sorted(n for n in self.files if n.startswith("reviews/"))
        if not names:
            raise Absent("there is no review")
        for name in names:
            e = self.event(name)
            want(name == "reviews/%s.json" % e.id, "it is another event")
            check_review(e, self.receipt, self.customer)
        return "%d" % len(names)

    def check_supersedes(self):
        earlier = self.receipt.get("supersedes")
        if earlier is None:
            raise Absent("it stands for no earlier receipt")
        want(earlier != self.receipt["receipt_id"], "it stands for itself")
        return "it stands for " + earlier

    LINES = [("files", check_files), ("receipt", check_receipt), ("receipt signature", check_signature), ("request", check_request),
             ("job hash", check_job_hash), ("result", check_result), ("bundle", check_bundle), ("delivery", check_delivery),
             ("verdict", check_verdict), ("evidence", check_evidence), ("hidden tests", check_hidden), ("trajectory", check_trajectory), ("worker trajectory", check_worker),
             ("policy", check_policy), ("payment", check_payment), ("journal entry", check_entry), ("checkpoint", check_checkpoint), ("witness", check_witness), ("reviews", check_reviews),
             ("supersedes", check_supersedes)]

    def report(self):
        checks = []
        for name, check in self.LINES:
            try:
                if self.receipt is None and name not in ("files", "receipt", "receipt signature"):
                    raise Absent("there is no receipt to hold it against")
                state, detail = "passed", check(self)
            except Absent as e:
                state, detail = "absent", str(e)
            except Failed as e:
                state, detail = "failed", str(e)
            checks.append({"name": name, "state": state, "detail": detail})
        return {"receipt": self.receipt["receipt_id"] if self.receipt else "", "grade": grade_of(checks), "checks": checks}


def grade_of(checks):
    """How much the checks prove."""
    state = {c["name"]: c["state"] for c in checks}
    if "failed" in state.values():
        return "nothing"
    grade = "nothing"
    for name, needs in (("claim", ("receipt", "receipt signature")), ("two-party", ("request", "result")), ("judged", ("verdict",)),
                        ("sealed", ("journal entry", "checkpoint")), ("witnessed", ("witness",))):
        if any(state.get(n) != "passed" for n in needs):
            break
        grade = name
    return grade


def verify(path):
    """The report on an archive, a directory, or the receipt.json in one."""
    if os.path.basename(path) == "receipt.json":
        path = os.path.dirname(path) or "."
    try:
        report = Export(Files().directory(path) if os.path.isdir(path) else Files().archive(path)).report()
    except (Failed, zipfile.BadZipFile) as e:
        report = {"receipt": "", "grade": "nothing", "checks": [{"name": "files", "state": "failed", "detail": "not an archive of an export: %s" % e}]}
    return dict(file=path, ok=all(c["state"] != "failed" for c in report["checks"]), **report)


def main(args):
    paths = [a for a in args if a != "--json"]
    if not paths or any(p.startswith("-") for p in paths):
        print("usage: python3 verify.py [--json] EXPORT...\n\nChecks exports of receipts (guild receipt export), as archives or directories.",
              file=sys.stdout if "--help" in paths else sys.stderr)
        return 0 if "--help" in paths else 2
    try:
        reports = [verify(path) for path in paths]
    except OSError as e:
        print("verify.py:", e, file=sys.stderr)
        return 2
    if "--json" in args:
        print(json.dumps(reports, indent=2, ensure_ascii=False))
    else:
        for r in reports:
            print(r["file"])
            for c in r["checks"]:
                print({"passed": "✓", "failed": "✗", "absent": "–"}[c["state"]], c["name"].ljust(17), c["detail"])
            print("grade:", r["grade"])
    return 0 if reports and all(r["ok"] for r in reports) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
