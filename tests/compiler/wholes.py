"""Hypothesis strategies: contracts that say all that the profile language can, as far as single sections go."""

from hypothesis import strategies as st

from router.contract.schema import named_checks as named
from router.contract.schema.fields import SAMPLING_FIELDS
from router.contract.schema.model import Case, Contract, Sections, When
from router.contract.schema.rule_list import PART_LIMITS
from router.contract.schema.sections import (
    Alias,
    Errors,
    Field,
    Interval,
    Limits,
    MaxTokens,
    Mode,
    Models,
    ModeMatch,
    Output,
    Response,
    Sampling,
    Stream,
    UnknownFields,
    UnknownMembers,
)
from router.contract.schema.types import ErrorText
from tests.compiler.constraint_values import member_values

_TEXTS = st.sampled_from(["a", "yes", "1", "a: b", "{value}", "é\u2028"])
_LISTS = st.lists(_TEXTS, unique=True, min_size=1, max_size=2).map(tuple)
_NUMBERS = st.sampled_from([0, 1, 1.0, 0.5, -2])
_SCALARS = _TEXTS | _NUMBERS | st.booleans()
_SIZES = st.sampled_from([1, 1000, 1024, 20 * 2**20])
_PATHS = st.sampled_from(["x", "x.y", "temperature", "yes"])
_CONDITIONS = st.dictionaries(_PATHS, st.lists(_SCALARS, unique_by=repr, min_size=1, max_size=2).map(tuple), max_size=2)
_OTHERS = _CONDITIONS | st.dictionaries(_PATHS, st.just(()), max_size=2)


def _maybe(strategy):
    return st.none() | strategy


def _some(kind, **members):
    return st.fixed_dictionaries({}, optional=members).map(lambda values: kind(**values))


_BODIES = st.sampled_from([{"error": {"message": "{message}"}}, {"detail": [{"input": None, "msg": "{message}"}]}, {}])
_WORDS = _some(
    ErrorText, status=st.just(422), code=st.just(1210) | _TEXTS, message=_TEXTS, body=_BODIES, type=_TEXTS
).filter(lambda words: words != ErrorText())
_SOURCES = {"source": _maybe(_TEXTS)}


def _governed(kind, *parts, needed=None, **members):
    told = {"error": _maybe(_WORDS), **_SOURCES}
    if parts:
        told["parts"] = st.dictionaries(st.sampled_from(parts), _WORDS, max_size=2)
    return st.fixed_dictionaries(needed or {}, optional={**told, **members}).map(lambda values: kind(**values))


_FIELDS = _governed(
    Field,
    "range",
    "allowed",
    **{
        member: st.just(getattr(Field(), member)) | st.sampled_from(values)
        for member, values in member_values().items()
    }
    | dict.fromkeys(("min", "above", "max", "below", "floor", "ceiling"), _maybe(_NUMBERS))
    | dict.fromkeys(("force", "default"), _maybe(_SCALARS))
    | {
        "allowed": _maybe(st.lists(_SCALARS, min_size=1, max_size=2).map(tuple)),
        "max_bytes": _maybe(_SIZES),
        "pattern": _maybe(_TEXTS),
        "requires": _OTHERS,
        "excludes": _OTHERS,
        "sources": st.just(()) | _LISTS,
        "map": st.dictionaries(_TEXTS, _SCALARS, max_size=2),
    },
)

_CHECKS = st.fixed_dictionaries(
    {},
    optional={
        "roles": _governed(named.Roles, needed={"allowed": _LISTS}),
        "system_messages": _governed(named.SystemMessages, needed={"max": st.integers(0, 2)}),
        "required_role": _governed(named.RequiredRole, needed={"any_of": _LISTS}),
        "alternation": _governed(named.Alternation),
        "content_parts": _governed(
            named.ContentParts,
            "types",
            needed={"allowed": _LISTS},
            by_role=st.dictionaries(_TEXTS, _LISTS, max_size=2),
        ),
        "tool_results": _governed(named.ToolResults, "known_call", known_call=st.booleans()),
        "tools": _governed(
            named.Tools, "unique", types=_LISTS, name_pattern=_TEXTS, forbidden_names=_LISTS, unique=st.booleans()
        ),
        "message_tools": _governed(named.MessageTools, roles=_LISTS, types=st.just(("function",)) | _LISTS),
        "images": _governed(
            named.Images,
            sources=st.just(("data", "http", "file")) | st.just(("data",)),
            file_prefix=_TEXTS,
            max_bytes=_SIZES,
            max_url_bytes=_SIZES,
            max_data_urls=st.integers(0, 5),
            max_total_bytes=_SIZES,
        ),
        "prompt_contains": _governed(named.PromptContains, needed={"word": _TEXTS}, when=_CONDITIONS),
    },
)

_ANSWERS = st.dictionaries(st.sampled_from(["bad_request", "model_not_found"]), _WORDS, max_size=2)
_ERRORS = _some(
    Errors,
    bad_request_type=_maybe(_TEXTS),
    body=_maybe(_BODIES),
    omit_null=st.booleans(),
    codes=_ANSWERS,
    engine_400=_maybe(_WORDS),
    **_SOURCES,
)
_BUDGETS = st.fixed_dictionaries(
    {"cap": st.just(9), "default": _maybe(st.integers(1, 9))},
    optional={"on_exceed": st.sampled_from(["reject", "clamp"]), **_SOURCES},
).map(lambda values: MaxTokens(**values))
_PARAMS = st.dictionaries(
    st.sampled_from(SAMPLING_FIELDS).filter(lambda name: name not in {"top_k", "n"}),
    st.sampled_from([0.5, 1, 1.0, Interval(0, 1)]),
    max_size=2,
)
_SECTIONS = {
    "checks": _CHECKS,
    "errors": _ERRORS,
    "fields": st.dictionaries(_PATHS, _FIELDS, max_size=2),
    "order": st.lists(_TEXTS, unique=True, max_size=2).map(tuple),
    "output": _some(Output, max_tokens=_maybe(_BUDGETS)),
    "sampling": _some(Sampling, conflict=st.sampled_from(["reject", "allow"]), params=_PARAMS, **_SOURCES),
    "response": _some(Response, stream=_some(Stream, usage=st.sampled_from(["as_asked", "end_frame"]), **_SOURCES)),
    "unknown_fields": _governed(
        UnknownFields,
        policy=st.sampled_from(["pass", "drop", "reject"]),
        known=st.lists(_TEXTS, unique=True, max_size=2).map(tuple),
        within=st.dictionaries(
            _PATHS, _governed(UnknownMembers, policy=st.sampled_from(["drop", "reject"]), known=_LISTS), max_size=2
        ),
    ),
}


_COUNTS = dict.fromkeys(PART_LIMITS.values(), _maybe(st.integers(0, 3)))


def _limits(max_body_bytes):
    return _some(Limits, max_body_bytes=max_body_bytes, **_COUNTS, **_SOURCES)


_WHENS = _some(When, model=_LISTS, mode=_LISTS, fields=_CONDITIONS).filter(lambda when: when != When())
_READINGS = st.builds(ModeMatch, mode=_TEXTS, model=st.just(()) | _LISTS, when=_CONDITIONS)
_MODES = st.just(Mode()) | st.builds(
    Mode, default=_TEXTS, match=st.lists(_READINGS, max_size=2).map(tuple), source=_maybe(_TEXTS)
)
_ALIASES = st.dictionaries(
    _TEXTS,
    _some(Alias, model=_TEXTS.map("id: {}".format), implies=st.dictionaries(_PATHS, _SCALARS, max_size=2), **_SOURCES),
    max_size=2,
)
_MODELS = _some(Models, aliases=_ALIASES, respond_as=st.sampled_from(["requested", "served"]), default=_maybe(_TEXTS))


def _contract(base, sizes, cases):
    same = {name: value for name, value in base.items() if name not in {"models", "mode"}}
    return Contract(
        **base,
        limits=sizes[0],
        cases=tuple(
            Case(name, when, Sections(**{**same, **own}, limits=Limits(sizes[0].max_body_bytes, *sizes[1:])))
            for name, when, own in cases
        ),
    )


_CASES = st.lists(
    st.tuples(_TEXTS, _WHENS, st.fixed_dictionaries({}, optional=_SECTIONS)), unique_by=lambda case: case[0], max_size=2
)

contracts = st.builds(
    _contract,
    st.fixed_dictionaries({}, optional={**_SECTIONS, "models": _MODELS, "mode": _MODES}),
    st.tuples(_limits(_SIZES), *_COUNTS.values(), _maybe(_TEXTS)),
    _CASES,
)
"""Contracts with cases that share with their base what they do not say themselves."""
