# SPDX-License-Identifier: MIT
"""BEAST2 in Python, by the specification and by nothing else, so that it can judge the server's.

Values are what the JSON form has: a Struct is a dict, an Array a list, a Dict a dict, an Option a value or None, a Variant
its bare case name when that carries Null and {"case": payload} otherwise. A Blob is bytes.
"""
import base64
import zlib

MAGIC = bytes.fromhex("89456173740d0a05")


class Malformed(Exception):
    pass


# --- Types: (kind, ...) ---

NULL, STRING, INTEGER, BOOLEAN, DATETIME, BLOB = (("null",), ("string",), ("integer",), ("boolean",), ("datetime",),
                                                  ("blob",))
_TAGS = {"null": 0, "string": 1, "integer": 2, "float": 3, "boolean": 4, "datetime": 5, "blob": 6}


def array(element):
    return ("array", element)


def dict_of(key, value):
    return ("dict", key, value)


def struct(**fields):
    return ("struct", tuple(fields.items()))


def variant(**cases):
    return ("variant", tuple(sorted(cases.items(), key=lambda case: case[0].encode())))


def option(of):
    return variant(none=NULL, some=of)


def is_option(kind):
    return kind[0] == "variant" and [name for name, _ in kind[1]] == ["none", "some"] and kind[1][0][1] == NULL


# --- Numbers ---

def uvarint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def svarint(n):
    if not -2 ** 63 <= n < 2 ** 63:
        raise OverflowError(n)
    return uvarint(2 * n if n >= 0 else -2 * n - 1)


# --- Writing ---

def type_section(kind):
    entries = []

    def visit(kind):
        name = kind[0]
        if name in _TAGS:
            entry = bytes([_TAGS[name]])
        elif name in ("variant", "struct"):
            parts = [uvarint(len(n.encode())) + n.encode() + uvarint(visit(k)) for n, k in kind[1]]
            entry = bytes([8 if name == "variant" else 9]) + uvarint(len(parts)) + b"".join(parts)
        elif name == "array":
            entry = b"\x0a" + uvarint(visit(kind[1]))
        else:
            entry = b"\x0b" + uvarint(visit(kind[1])) + uvarint(visit(kind[2]))
        if entry not in entries:
            entries.append(entry)
        return entries.index(entry)

    root = visit(kind)
    table = uvarint(root) + uvarint(len(entries)) + b"".join(entries)
    return b"\0" + uvarint(len(table)) + table


def _value(kind, value):
    name = kind[0]
    if name == "null":
        return b""
    if name == "boolean":
        return b"\1" if value else b"\0"
    if name in ("integer", "datetime"):
        return svarint(int(value))
    if name in ("string", "blob"):
        data = value.encode() if name == "string" else value
        return uvarint(len(data)) + data
    if name == "struct":
        return b"".join(_value(k, value.get(n)) for n, k in kind[1])
    if name == "variant":
        if is_option(kind):
            return b"\0" if value is None else b"\1" + _value(kind[1][1][1], value)
        case, payload = (value, None) if isinstance(value, str) else next(iter(value.items()))
        number = [n for n, _ in kind[1]].index(case)
        return uvarint(number) + _value(kind[1][number][1], payload)
    if name == "array":
        body = b"".join(_value(kind[1], item) for item in value)
    else:
        body = b"".join(_value(kind[1], k) + _value(kind[2], value[k])
                        for k in sorted(value, key=lambda key: key.encode()))
    return b"\0" + (uvarint(len(value)) + body if value else b"") + b"\0"


def encode(kind, value):
    """Any reader takes it; it is not the one encoding, since it never deflates."""
    logical = _value(kind, value)
    return MAGIC + type_section(kind) + b"\1\0" + frame(logical)


def frame(logical, codec=0, payload=None):
    payload = logical if payload is None else payload
    return uvarint(codec) + uvarint(len(logical)) + uvarint(len(payload)) + payload


# --- Reading ---

class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        if self.at + n > len(self.data):
            raise Malformed("too short")
        self.at += n
        return self.data[self.at - n:self.at]

    def uvarint(self):
        n = shift = 0
        while True:
            byte = self.take(1)[0]
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n

    def svarint(self):
        n = self.uvarint()
        return n >> 1 if n & 1 == 0 else -(n >> 1) - 1

    def value(self, kind):
        name = kind[0]
        if name == "null":
            return None
        if name == "boolean":
            return {0: False, 1: True}[self.take(1)[0]]
        if name in ("integer", "datetime"):
            return self.svarint()
        if name in ("string", "blob"):
            data = self.take(self.uvarint())
            return data.decode() if name == "string" else data
        if name == "struct":
            return {n: self.value(k) for n, k in kind[1]}
        if name == "variant":
            case, payload = kind[1][self.uvarint()]
            if is_option(kind):
                return None if case == "none" else self.value(payload)
            return case if payload == NULL else {case: self.value(payload)}
        return self.container(kind)

    def container(self, kind):
        if self.take(1) != b"\0":
            raise Malformed("no server writes REF")
        n = self.uvarint()
        items = []
        if n:
            items = [(self.value(kind[1]), self.value(kind[2])) if kind[0] == "dict" else self.value(kind[1])
                     for _ in range(n)]
            if self.uvarint() != 0:
                raise Malformed("no server writes two segments")
        return dict(items) if kind[0] == "dict" else items


def decode(kind, data):
    head = MAGIC + type_section(kind) + b"\1\0"
    if not data.startswith(head):
        raise Malformed("another type: " + data[:len(head)].hex())
    reader = _Reader(data[len(head):])
    codec, logical, n = reader.uvarint(), reader.uvarint(), reader.uvarint()
    payload = reader.take(n)
    if reader.at != len(reader.data):
        raise Malformed("something behind the frame")
    if codec == 1:
        payload = zlib.decompressobj(-15).decompress(payload)
    if len(payload) != logical:
        raise Malformed("another length than it says")
    inner = _Reader(payload)
    value = inner.value(kind)
    if inner.at != logical:
        raise Malformed("something behind the value")
    return value


# --- The JSON form ---

def to_json(kind, value):
    """What json.dumps may have; blobs become base64. Members that the type does not know stay as they are."""
    name = kind[0]
    if value is None:
        return None
    if name == "blob":
        return base64.b64encode(value).decode()
    if name == "struct":
        known = dict(kind[1])
        return {n: to_json(known[n], v) if n in known else v for n, v in value.items()}
    if name == "array":
        return [to_json(kind[1], item) for item in value]
    if name == "variant":
        if is_option(kind):
            return to_json(kind[1][1][1], value)
        if isinstance(value, dict):
            case, payload = next(iter(value.items()))
            return {case: to_json(dict(kind[1])[case], payload)}
    return value


def from_json(kind, value):
    """The reverse."""
    name = kind[0]
    if value is None:
        return None
    if name == "blob":
        return base64.b64decode(value, validate=True)
    if name == "struct":
        known = dict(kind[1])
        return {n: from_json(known[n], v) if n in known else v for n, v in value.items()}
    if name == "array":
        return [from_json(kind[1], item) for item in value]
    if name == "variant":
        if is_option(kind):
            return from_json(kind[1][1][1], value)
        if isinstance(value, dict):
            case, payload = next(iter(value.items()))
            return {case: from_json(dict(kind[1])[case], payload)}
    return value
