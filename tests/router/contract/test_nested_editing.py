"""Edits within objects, held against the same edits of a plain dict: valid JSON, and all other bytes as they came."""

import copy
import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from router.contract.decide import Forward, Rejection, ServedIds, decide
from router.contract.jsonbytes import parsing
from router.contract.jsonbytes.members import find_members, grouped
from router.contract.jsonbytes.parsing import MAX_NESTED_MEMBERS, parse
from router.contract.jsonbytes.splice import JsonEdit, apply_edits, drop_all_repetitions, raw_at
from router.contract.schema.model import Contract
from router.contract.schema.sections import Field, Mode, ModeMatch

SERVED = ServedIds(("served",))
KEYS = st.sampled_from(["a", "b", "c", "\\u0061", "\\\\", "é"])
SPACES = st.sampled_from(["", "", " ", "\n\t"])
LEAVES = st.sampled_from(['"}"', "1e2", "-0", "null", "true", '"\\u0041"', "[1, {}]", "12345678901234567890123", "{}"])


@st.composite
def objects(draw, depth=2):
    """Return a written object, with spaces, escapes and repeated keys."""
    values = LEAVES if depth == 0 else LEAVES | objects(depth=depth - 1)
    members = draw(st.lists(st.tuples(SPACES, KEYS, SPACES, SPACES, values, SPACES), max_size=4))
    written = [f'{before}"{key}"{behind}:{space}{value}{end}' for before, key, behind, space, value, end in members]
    return "{" + (",".join(written) or draw(SPACES)) + "}"


STEPS = st.sampled_from(["a", "b", "c", "\\", "é"])
EDITS = st.lists(
    st.builds(
        JsonEdit,
        st.just("rule"),
        st.sampled_from(["set", "inject", "drop", "remove"]),
        st.lists(STEPS, min_size=1, max_size=3).map(tuple),
        st.sampled_from([b"7", b'"new"', b'{"a": 1.0}', b"{}", b"null"]),
    ),
    max_size=6,
)


def edited(value, path, edit):
    """Make one edit of a parsed object; an object that a drop empties goes too."""
    name, rest = path[0], path[1:]
    if edit.kind == "remove":
        return value
    if not rest:
        if edit.kind == "drop":
            value.pop(name, None)
        else:
            value[name] = json.loads(edit.value)
        return value
    inner = value.get(name)
    if not isinstance(inner, dict):
        if edit.kind != "drop":
            value[name] = edited({}, rest, edit)
        return value
    had = bool(inner)
    edited(inner, rest, edit)
    if had and not inner:
        del value[name]
    return value


def takes_back(edits):
    """Tell whether an edit drops from an object what one before it put there: whether the object stays is left open."""
    return any(
        later.kind == "drop" and len(later.path) > 1 and earlier.path[: len(later.path)] == later.path
        for place, later in enumerate(edits)
        for earlier in edits[:place]
        if earlier.kind in {"set", "inject"}
    )


@given(objects(), EDITS)
def test_edits_in_a_row_are_those_of_a_dict(text, edits):
    """The edited bytes are JSON and read as the object does after the same edits, made one after the other."""
    assume(not takes_back(edits))
    request = parse(text.encode())
    expected = copy.deepcopy(json.loads(text))
    for edit in edits:
        if edit.kind != "remove":
            expected = edited(expected, edit.path, edit)
    assert json.loads(apply_edits(request, edits)) == expected


@given(objects(), EDITS)
def test_members_that_no_edit_names_keep_their_bytes(text, edits):
    """Key, value and order of all other members stay, at the top and within objects."""
    body = text.encode()
    left = apply_edits(parse(body), edits)
    named = {edit.path[0] for edit in edits}
    assert untouched(left, (0, len(left)), named) == untouched(body, (0, len(body)), named)
    for name in named:
        paths = {edit.path for edit in edits if edit.path[0] == name}
        before, after = last_of(body, name), last_of(left, name)
        if all(len(path) > 1 for path in paths) and before and after and body[before.start] == left[after.start] == 123:
            inner = {path[1] for path in paths}
            old = untouched(body, (before.start, before.end), inner)
            assert untouched(left, (after.start, after.end), inner) == old


def untouched(body, span, named):
    return [
        (body[member.key_start : member.start].split(b":")[0].strip(), member.raw(body))
        for member in find_members(body, *span)
        if member.key not in named
    ]


def last_of(body, name):
    return next((member for member in reversed(find_members(body)) if member.key == name), None)


@given(objects(), st.lists(STEPS, min_size=1, max_size=3).map(tuple))
def test_of_repetitions_on_the_way_to_a_field_the_last_stay(text, path):
    """Nothing on the way to the field stands twice any more, and the request reads as before."""
    request = parse(text.encode())
    left = apply_edits(request, drop_all_repetitions(request, "rule", path))
    assert json.loads(left) == json.loads(text)
    span = (0, len(left))
    for step in path:
        standing = [member for member in find_members(left, *span) if member.key == step]
        assert len(standing) <= 1
        if not standing or left[standing[0].start] != ord("{"):
            break
        span = (standing[0].start, standing[0].end)


@given(objects(), st.lists(STEPS, min_size=1, max_size=3).map(tuple))
def test_the_bytes_at_a_path_are_those_of_the_value_that_is_read(text, path):
    """Of repeated keys the last is looked into, and what is no object holds nothing."""
    value = json.loads(text)
    for step in path:
        value = value.get(step, ...) if isinstance(value, dict) else ...
    raw = raw_at(parse(text.encode()), path)
    assert (... if raw is None else json.loads(raw)) == value


def edit(kind, path, value=b""):
    return JsonEdit("rule", kind, tuple(path.split(".")), value)


@pytest.mark.parametrize(
    ("before", "edits", "after"),
    [
        ("{}", [edit("inject", "a.b", b"1")], '{"a":{"b":1}}'),
        ('{"a":{}}', [edit("inject", "a.b", b"1")], '{"a":{"b":1}}'),
        ('{"a":7}', [edit("inject", "a.b", b"1")], '{"a":{"b":1}}'),
        ('{"a":7}', [edit("drop", "a.b")], '{"a":7}'),
        ('{"a":{}}', [edit("drop", "a.b")], '{"a":{}}'),
        ('{"a":{"b":1},"c":2}', [edit("drop", "a.b")], '{"c":2}'),
        ('{"a":{"b":1},"a":{"b":2}}', [edit("drop", "a.b")], "{}"),
        ('{"a":{"b":1},"c":2}', [edit("drop", "a"), edit("inject", "a.d", b"3")], '{"a":{"d":3},"c":2}'),
        ('{"a":1,"a":2}', [edit("drop", "a"), edit("set", "a", b"3")], '{"a":3}'),
        ('{"a":{"b":1}}', [edit("drop", "a"), edit("drop", "a.b")], "{}"),
        ('{"a":{"b":1}}', [edit("inject", "a.d", b"3"), edit("drop", "a")], "{}"),
        ("{}", [edit("set", "a", b'{"b":1}'), edit("drop", "a.b")], "{}"),
        ("{}", [edit("set", "a", b'{"b":1,"c":2}'), edit("drop", "a.b")], '{"a":{"c":2}}'),
        ("{}", [edit("set", "a", b'{"b": 1}'), edit("inject", "a.c", b"2")], '{"a":{"b": 1,"c":2}}'),
        ("{}", [edit("inject", "a.b.c", b"1"), edit("inject", "a.b.d", b"2")], '{"a":{"b":{"c":1,"d":2}}}'),
        ("{}", [edit("inject", "a.b", b"1"), edit("drop", "a.b")], "{}"),
        ('{"a":{"b":1,"b":2}}', [edit("remove", "a.b"), edit("inject", "a.c", b"3")], '{"a":{"b":2,"c":3}}'),
        ('{"a":7}', [edit("remove", "a.b")], '{"a":7}'),
        ('{"\\u0061":{"\\u0062":1}}', [edit("set", "a.b", b"2")], '{"\\u0061":{"\\u0062":2}}'),
    ],
)
def test_edits_that_meet(before, edits, after):
    """Edits of an object and of what is in it are made one after the other."""
    assert apply_edits(parse(before.encode()), edits).decode() == after


@pytest.mark.parametrize("key", ['"x%d"', '"x\\u0061"'], ids=["different", "repeated"])
@pytest.mark.parametrize("field", [Field(drop=True), Field(max=1), Field(default=1)], ids=["drop", "max", "default"])
def test_an_object_that_is_looked_into_has_only_so_many_members(key, field):
    """Beyond the bound a request is a 400 where a rule would look into it, and nobody's affair where none does."""
    contract = Contract(fields={"o.a": field, "o.b": field, "o.x1": Field(drop=True)})
    for count, status in ((MAX_NESTED_MEMBERS - 2, 200), (MAX_NESTED_MEMBERS + 1, 400)):
        body = sent(f'"o":{crowded(key, count)}')
        assert status_of(decide(body, contract, SERVED)) == status
        assert isinstance(decide(body, Contract(fields={"p.a": field}), SERVED), Forward)


def test_all_objects_that_are_looked_into_have_only_so_many_members_together():
    """What one object has counts for the next one too, be it within it or beside it."""
    contract = Contract(fields={"o.a": Field(drop=True), "p.a": Field(drop=True), "o.p.a": Field(drop=True)})
    half, less = crowded('"x%d"', MAX_NESTED_MEMBERS // 2), crowded('"x%d"', MAX_NESTED_MEMBERS // 2 - 4)
    for body, status in (
        (sent(f'"o":{less},"p":{less}'), 200),
        (sent(f'"o":{half},"p":{half}'), 400),
        (sent(f'"o":{half[:-1]},"p":{half}}}'), 400),
    ):
        decision = decide(body, contract, SERVED)
        assert status_of(decision) == status
        assert status == 200 or "more than 2000 members" in decision.error.message


@pytest.mark.parametrize("last", ['"a":{"b":1,"c":2}', '"a":{"b":1},"a":{"c":1}', '"\\u0061":{"c":1.0}', '"a":7'])
def test_each_object_is_looked_through_once(monkeypatch, last):
    """However many rules and conditions are about what is in an object, its members are found once for all of them."""
    walked = []

    def walk(body, start, *arguments):
        walked.append((body, start))
        return grouped(body, start, *arguments)

    monkeypatch.setattr(parsing, "grouped", walk)
    paths = ("o.a.b", "o.a.c", "o.a.d", "o.b", "o.c", "o.d")
    contract = Contract(
        mode=Mode(match=tuple(ModeMatch(mode=str(at), when={path: (9,)}) for at, path in enumerate(paths))),
        fields={
            **{path: Field(max=9, default=1) for path in paths[:3]},
            **{path: Field(drop=True) for path in paths[3:]},
            "q": Field(sources=("o.taken",)),
            **{f"q.{step}": Field(default=1) for step in "bcd"},
        },
    )
    body = sent(f'"o":{{"b":1,"b":1,"taken":{{"\\u0062":5,"e":[]}},{last}}}')
    decision = decide(body, contract, SERVED)
    assert isinstance(decision, Forward)
    assert json.loads(decision.body)["q"] == {"b": 5, "e": [], "c": 1, "d": 1}
    assert len(walked) == len(set(walked)) > 1


def crowded(key, count):
    """Return an object of so many members with such keys, and two more, one of them in disguise."""
    members = ",".join(f"{key % place if '%' in key else key}:1" for place in range(count))
    return f'{{{members},"\\u0061":1,"a":1}}'


def sent(members):
    return f'{{"model":"served",{members}}}'.encode()


def status_of(decision):
    return decision.error.status if isinstance(decision, Rejection) else 200
