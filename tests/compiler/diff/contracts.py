"""Hypothesis strategies: pairs of contracts that share many settings, with edges close to each other."""

from functools import partial

import msgspec
from hypothesis import strategies as st

from router.contract.schema.fields import SAMPLING_FIELDS, WHOLE_NUMBER_FIELDS
from router.contract.schema.model import Contract
from router.contract.schema.rule_list import PART_LIMITS
from router.contract.schema.sections import Errors, Interval, Limits, MaxTokens, Models, Output, Sampling, plain_aliases

SERVED = "served"
ALIASES = ("alias-a", "alias-b", "alias-c")

_WHOLE = st.integers(1, 6)
_NUMBERS = st.sampled_from([0.25, 0.5, 0.75, 1, 1.0])
_CONFLICTS = st.sampled_from(["reject", "allow"])


def _expected(field, conflict):
    number = _WHOLE if field in WHOLE_NUMBER_FIELDS else _NUMBERS
    pin = number | st.just(-1) if field == "top_k" else number
    band = st.tuples(number, number).map(lambda pair: Interval(min(pair), max(pair)))
    return pin if conflict == "allow" else pin | band


def _sampling(conflict, fields=SAMPLING_FIELDS):
    params = st.fixed_dictionaries({}, optional={field: _expected(field, conflict) for field in fields})
    return st.builds(Sampling, conflict=st.just(conflict), params=params)


_models = st.builds(
    Models,
    aliases=st.lists(st.sampled_from(ALIASES), unique=True).map(lambda names: plain_aliases(*names)),
    respond_as=st.sampled_from(["requested", "served"]),
)
_limits = st.builds(
    Limits,
    max_body_bytes=st.sampled_from([400, 401, 500, 2**25]),
    **dict.fromkeys(PART_LIMITS.values(), st.none() | st.integers(0, 3)),
)
_budgets = st.tuples(st.integers(1, 12), st.integers(1, 12), st.sampled_from(["reject", "clamp"])).map(
    lambda drawn: MaxTokens(cap=max(drawn[:2]), default=min(drawn[:2]), on_exceed=drawn[2])
)
_outputs = st.builds(Output, max_tokens=st.none() | _budgets)
_errors = st.builds(Errors, bad_request_type=st.none() | st.sampled_from(["invalid_request_error", "other"]))

contracts = st.builds(
    Contract,
    errors=_errors,
    limits=_limits,
    models=_models,
    output=_outputs,
    sampling=_CONFLICTS.flatmap(_sampling),
)


@st.composite
def pairs(draw):
    """Two contracts of which the second takes some settings from elsewhere and keeps the rest."""
    before, other = draw(contracts), draw(contracts)
    return before, _mixed(draw, before, other)


@st.composite
def lone_pairs(draw):
    """Two contracts that leave most settings open and differ in about one."""
    name, section = draw(
        st.sampled_from([("models", _models), ("limits", _limits), ("output", _outputs), ("sampling", None)])
    )
    if section is not None:
        return Contract(**{name: draw(section)}), Contract(**{name: draw(section)})
    if draw(st.booleans()):
        pins = draw(_sampling("allow"))
        pair = [pins, msgspec.structs.replace(pins, conflict="reject")]
        return tuple(Contract(sampling=sampling) for sampling in draw(st.permutations(pair)))
    sampling = _sampling(draw(_CONFLICTS), [draw(st.sampled_from(SAMPLING_FIELDS))])
    return Contract(sampling=draw(sampling)), Contract(sampling=draw(sampling))


def _mixed(draw, mine, others):
    """A value between two of the same type: each leaf from either, as long as a profile could say the whole."""
    either = st.sampled_from([mine, mine, others])
    if not isinstance(mine, msgspec.Struct) or type(mine) is not type(others) or isinstance(mine, Interval):
        return draw(either)
    mix = partial(_mixed, draw)
    if isinstance(mine, Sampling):
        return _mixed_sampling(mix, mine, others)
    names = type(mine).__struct_fields__
    mixed = type(mine)(**{name: mix(getattr(mine, name), getattr(others, name)) for name in names})
    if isinstance(mixed, MaxTokens):
        return msgspec.structs.replace(mixed, default=min(mixed.default, mixed.cap))
    return mixed


def _mixed_sampling(mix, mine, others):
    conflict = mix(mine.conflict, others.conflict)
    values = {field: mix(mine.params.get(field), others.params.get(field)) for field in SAMPLING_FIELDS}
    absent = type(None) if conflict == "reject" else (type(None), Interval)
    return Sampling(conflict, {field: value for field, value in values.items() if not isinstance(value, absent)})
