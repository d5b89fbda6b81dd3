"""Request bodies that readers may disagree about: made by hand, and mixed with a fixed seed."""

import random
from collections.abc import Iterator
from itertools import product

import orjson

from router.contract.schema.fields import BUDGET_FIELDS, OTHER_SPELLINGS, SAMPLING_FIELDS
from tests.router.contract.tables import CASES

SEED = 8259
MIXED = 2000

FIELDS = (*SAMPLING_FIELDS, *BUDGET_FIELDS, *OTHER_SPELLINGS, "min_tokens")
ALWAYS_READ = ("model", "stream", "messages")

_WRITTEN = tuple(
    line
    for line in (CASES / "values.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("# ")
)
_UNPRINTABLE = ('"\t"', '"\x00"', "1\x00", "1\x0c", "\xa01", "1\u2028", "\ufeff1", "\ud8001")
_LONG = (
    *("9" * 308, "9" * 309, "1" + "0" * 999, "1" + "0" * 1000, "-" + "9" * 5000),
    *("0." + "0" * 998 + "1", "0." + "0" * 1000 + "1"),
    *("[" * depth + "]" * depth for depth in (100, 199, 200, 201, 254, 255, 256, 999, 1022, 1023, 1024, 1025, 9999)),
    *('{"a":' * depth + "1" + "}" * depth for depth in (199, 200, 500, 1022, 1023, 1024)),
)
VALUES = (*_WRITTEN, *_UNPRINTABLE, *_LONG)
_TWICE = ("1", "0.95", "100", "5000", "0", "null", '"1"', "true", "1.5", "4294967297")
_MILD = (*_TWICE, "1.0", '"0.95"', "1000", "50", "-0.0", "0.6", "1.05", "101")
_AROUND = (
    *(b"", b" ", b"\n\t\r ", b"\xef\xbb\xbf", b"\x00", b"\x0c", b"\xc2\xa0", b"\xe2\x80\xa8", b"\xff", b"\x1e"),
    *(b"//x\n", b"/**/", b"#x\n", b",", b"{}", b"[]", b'{"max_tokens":5000}'),
)


def keys_like(field: str) -> list[str]:
    """Return keys, as they are written between quotes, that a reader may or may not take for a field's."""
    return [
        field,
        "".join(f"\\u{ord(character):04x}" for character in field),
        f"\\u{ord(field[0]):04X}{field[1:]}",
        field.replace("_", "\\u005f") if "_" in field else field[:-1] + f"\\u00{ord(field[-1]):x}",
        field.upper(),
        field.title(),
        field.replace("_", ""),
        field.replace("_", "-"),
        f" {field}",
        f"{field} ",
        f"{field}\\u0000",
        f"\\u0000{field}",
        f"{field}\\ud800",
        f"\\ufeff{field}",
        f"{field}\u200b",
        field.replace("e", "\u0435"),
        field.replace("_", "\uff3f"),
        f"{field}\u0301",
        f"extra.{field}",
        "\\/" + field,
    ]


def request_of(members: list[tuple[str, str]], before: str = '"model":"served","messages":[]') -> bytes:
    """Return a request that carries members, written as they are given, behind those that every request has."""
    return ("{" + ",".join([before, *(f'"{key}":{value}' for key, value in members)]) + "}").encode(
        "utf-8", "surrogatepass"
    )


def bodies() -> list[bytes]:
    """Return all bodies, without repetitions, always the same and in the same order."""
    return list(dict.fromkeys((*_one_value(), *_twice(), *_keys(), *_framed(), *_mixed())))


def _one_value() -> Iterator[bytes]:
    for field, value in product(FIELDS, VALUES):
        yield request_of([(field, value)])
    for field, value in product(ALWAYS_READ, (*VALUES, '"served"', '"vendor-latest"', '"ser\\u0076ed"', '"Served"')):
        others = {"model": '"served"', "messages": "[]"}
        others.pop(field, None)
        yield request_of([(field, value)], ",".join(f'"{key}":{other}' for key, other in others.items()))


def _twice() -> Iterator[bytes]:
    for field in (*FIELDS, "stream"):
        plain, *escaped = keys_like(field)[:4]
        for first, last in product(_TWICE, repeat=2):
            yield request_of([(plain, first), (plain, last)])
        for key, other, (first, last) in product(
            escaped[:2], (True, False), (("1", "5000"), ("5000", "1"), ("1", "null"))
        ):
            yield request_of([(key, first), (plain, last)] if other else [(plain, first), (key, last)])
    for first, last in product(_TWICE, repeat=2):
        yield request_of([("min_tokens", first), ("max_tokens", "5000"), ("min_tokens", last)])
    for value, again in product(('"served"', '"other"', "null"), repeat=2):
        yield request_of([("model", again)], f'"messages":[],"model":{value}')
        yield request_of([("mod\\u0065l", again)], f'"messages":[],"model":{value}')


def _keys() -> Iterator[bytes]:
    for field in (*FIELDS, *ALWAYS_READ):
        for key, value in product(keys_like(field), ("1", "5000", "null")):
            yield request_of([(key, value)])
            yield request_of([(key, value), (field, "1")])


def _framed() -> Iterator[bytes]:
    good = request_of([("max_tokens", "5"), ("temperature", "0.6")])
    for before, behind in product(_AROUND, repeat=2):
        yield before + good + behind
    text = good.decode()
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-7", "utf-8-sig"):
        yield text.encode(encoding)
    yield from (good[:cut] for cut in range(len(good)))
    yield from (good[:at] + junk + good[at:] for at in range(len(good)) for junk in (b"\x00", b"\xff", b","))
    yield from (b"[" + good + b"]", b'"' + good + b'"', good.replace(b'"', b"'"), good.replace(b":", b"="))


def _mixed() -> Iterator[bytes]:
    chance = random.Random(SEED)
    readable = [value for value in _WRITTEN if _is_json(value)]
    for _ in range(MIXED):
        members = []
        for _ in range(chance.randint(1, 5)):
            field = chance.choice((*FIELDS, *FIELDS, "stream", "seed", "extra"))
            key = chance.choice(keys_like(field)) if chance.random() < 0.2 else field
            members.append((key, chance.choice(readable if chance.random() < 0.2 else _MILD)))
        yield request_of(members)


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
