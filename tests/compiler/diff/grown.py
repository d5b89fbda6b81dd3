"""Hypothesis strategies: pairs of contracts of fields, checks and cases; and the requests around their edges."""

import itertools

import msgspec
from hypothesis import strategies as st

from router.contract.schema.model import Case, Contract, Sections, When
from router.contract.schema.named_checks import (
    FirstRole,
    PromptContains,
    RequiredRole,
    Roles,
    StringContent,
    SystemMessages,
)
from router.contract.schema.sections import (
    Alias,
    Errors,
    Field,
    Mode,
    Models,
    ModeMatch,
    Response,
    Stream,
    UnknownFields,
)
from router.contract.schema.types import ErrorText
from tests.compiler.constraint_values import member_values
from tests.compiler.diff.contracts import SERVED

PATHS = ("max_tokens", "o.y", "temperature", "x")
VALUES = (None, -1, 0, 0.5, 1, 1.5, 2, "a", "aa", "b", True, [], ["a"], ["a", "aa", "b"], {"y": 1})

_CONDITIONS = st.dictionaries(st.sampled_from(["q", "x"]), st.sampled_from([(), (1,), (1, 2)]), max_size=2)
_NUMBERS = st.sampled_from([0, 0.5, 1, 1.0])
_WORDS = st.builds(ErrorText, message=st.sampled_from(["no", "never"]))


def _sometimes(strategy, nothing=None):
    return st.just(nothing) | st.just(nothing) | st.just(nothing) | strategy


_ONCE = ("above", "below")
"""Bounds that no rule states beside another."""

_FIELDS = st.builds(
    Field,
    **{
        member: _sometimes(st.sampled_from(values), getattr(Field(), member))
        for member, values in member_values().items()
        if member not in _ONCE
    }
    | {
        "type": _sometimes(
            st.sampled_from([("number",), ("integer",), ("string", "array"), ("integer", "string")]), ()
        ),
        "allowed": _sometimes(st.lists(st.sampled_from([0, 1, 0.5, "a", True]), unique_by=repr, min_size=1).map(tuple)),
        "min": _sometimes(_NUMBERS),
        "max": _sometimes(_NUMBERS),
        "pattern": _sometimes(st.sampled_from(["a+", "a", "b"])),
        "requires": _sometimes(_CONDITIONS, {}),
        "excludes": _sometimes(_CONDITIONS, {}),
        "sources": _sometimes(st.just(("q",)), ()),
        "floor": st.none(),
        "force": _sometimes(_NUMBERS),
        "default": _sometimes(_NUMBERS),
    },
    error=_sometimes(_WORDS),
    source=_sometimes(st.just("a page")),
) | st.builds(Field, above=_sometimes(_NUMBERS), below=_sometimes(_NUMBERS))

_ROLES = st.lists(st.sampled_from(["system", "user", "tool"]), unique=True, min_size=1).map(tuple)
_CHECKS = st.fixed_dictionaries(
    {},
    optional={
        "roles": st.builds(Roles, allowed=_ROLES),
        "system_messages": st.builds(SystemMessages, max=st.integers(0, 2)),
        "first_role": st.builds(FirstRole, allowed=_ROLES),
        "required_role": st.builds(RequiredRole, any_of=_ROLES),
        "string_content": st.builds(StringContent, roles=_ROLES, source=_sometimes(st.just("a page"))),
        "prompt_contains": st.builds(PromptContains, word=st.sampled_from(["hi", "ho"]), when=_CONDITIONS),
    },
)
_KNOWN = st.lists(st.sampled_from(["o", "q", "x"]), unique=True).map(tuple)


def _with_budgets(known):
    """The budget stays known: whether a budget that is dropped counts as lowered is a matter of taste."""
    return (*known, "max_tokens")


_POLICIES = st.builds(UnknownFields, policy=st.sampled_from(["drop", "reject"]), known=_KNOWN.map(_with_budgets))


def _sections(kind):
    return st.builds(
        kind,
        fields=st.dictionaries(st.sampled_from(PATHS), _FIELDS, max_size=2),
        checks=_sometimes(_CHECKS, {}),
        unknown_fields=_sometimes(_POLICIES, UnknownFields()),
        response=_sometimes(st.just(Response(Stream(usage="end_frame"))), Response()),
        errors=_sometimes(st.builds(Errors, omit_null=st.booleans(), engine_400=_sometimes(_WORDS)), Errors()),
    )


_WHENS = st.builds(When, mode=st.sampled_from([(), ("deep",)]), fields=st.just({"q": (1,)}))
_CASES = st.lists(
    st.builds(Case, name=st.sampled_from(["one", "two"]), when=_WHENS, sections=_sections(Sections)),
    unique_by=lambda case: case.name,
    max_size=2,
).map(tuple)
_ALIASES = st.dictionaries(
    st.just("alias-a"), st.builds(Alias, implies=_sometimes(st.sampled_from([{"x": 1}, {"q": 1}]), {}))
)

contracts = st.builds(
    lambda base, cases, aliases, read: msgspec.structs.replace(
        base,
        cases=cases,
        models=Models(aliases=aliases),
        mode=Mode("plain", (ModeMatch("deep", when={"x": (1,)}),) if read else ()),
    ),
    _sections(Contract),
    _CASES,
    _ALIASES,
    st.booleans(),
)


@st.composite
def pairs(draw):
    """Two contracts of which the second takes some sections, fields, checks and cases from elsewhere."""
    before, other = draw(contracts), draw(contracts)
    after = before
    for name in Contract.__struct_fields__:
        mine, others = getattr(before, name), getattr(other, name)
        if name == "fields":
            mixed = {path: draw(st.sampled_from([mine.get(path), others.get(path)])) for path in PATHS}
            value = {path: field for path, field in mixed.items() if field is not None}
        else:
            value = draw(st.sampled_from([mine, mine, others]))
        after = msgspec.structs.replace(after, **{name: value})
    return before, after


def requests():
    """Bodies for everything that one of these contracts may look at."""
    for value, other in itertools.product(VALUES, (None, 1, 2)):
        for name in ("x", "temperature", "max_tokens", "o"):
            yield body({name: value, "q": other})
    for roles in itertools.product(["system", "user", "assistant"], repeat=2):
        for content in ("hi", [{"type": "text", "text": "ho"}]):
            yield body({"messages": [{"role": role, "content": content} for role in roles], "q": 1})
    for stranger in ("o", "x", "z"):
        yield body({stranger: {}, "stream": True})
    yield body({"model": "alias-a"})


def body(fields):
    values = {"model": SERVED, "messages": [{"role": "user", "content": "hi"}], **fields}
    return msgspec.json.encode({name: value for name, value in values.items() if value is not None})
