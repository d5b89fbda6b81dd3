"""Requests on routes under no contract: the model is read from the raw bytes as engines read it, and resolved."""

import pytest

from router.contract.decide import MODELS, READING, Rejection, ServedIds
from router.contract.jsonbytes.parsing import MAX_MEMBERS
from router.contract.routing import ModelRoute, route_by_model
from router.contract.schema.model import Contract
from router.contract.schema.sections import Alias, Models

SERVED = ServedIds(("served", "other"))
ALIASES = {"alias": Alias(), "o": Alias(model="other"), "é": Alias(model="other")}
CONTRACT = Contract(models=Models(aliases=ALIASES))


def _route(body: bytes, served: ServedIds = SERVED) -> ModelRoute | Rejection:
    return route_by_model(body, CONTRACT, served)


@pytest.mark.parametrize(
    ("body", "asked", "served", "sent"),
    [
        (b' {"model":"other","x":[{"model":1}]}\r\n', "other", "other", None),
        (b'{"x":"\\u006d\\"model\\"","model":"served"}', "served", "served", None),
        (b'{"x":{"model":"other","model":1},"model":"served"}', "served", "served", None),
        (b'{"model" :\t"alias" ,"x":"\xff"}', "alias", "served", b'{"model" :\t"served" ,"x":"\xff"}'),
        (b'{"x":"model","mod\\u0065l":"\\u006f"}', "o", "other", b'{"x":"model","mod\\u0065l":"other"}'),
        (b'{"a":{"model":"alias"},"model":"\\u00e9"}', "é", "other", b'{"a":{"model":"alias"},"model":"other"}'),
    ],
)
def test_the_outermost_model_decides(body: bytes, asked: str, served: str, sent: bytes | None) -> None:
    """Whatever else is called model, the member of the outermost object is read; an alias alone is replaced."""
    routed = _route(body)
    assert isinstance(routed, ModelRoute)
    assert (routed.model_asked, routed.model_served) == (asked, served)
    assert (routed.body, routed.respond_as) == (sent or body, asked if sent else None)


def test_an_answer_may_keep_the_served_name() -> None:
    """Under `respond_as: served` an alias is routed, and the answer keeps the engine's name."""
    contract = Contract(models=Models(aliases=ALIASES, respond_as="served"))
    assert route_by_model(b'{"model":"o"}', contract, SERVED) == ModelRoute(b'{"model":"other"}', "o", "other", None)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not valid JSON"),
        (b"\xef\xbb\xbf{}", "not valid JSON"),
        (b'{"model":"served"}{}', "not valid JSON"),
        (b'{"model":"served","x":NaN}', "not valid JSON"),
        ('{"model":"served"}'.encode("utf-16"), "not valid JSON"),
        (b'["served"]', "must be a JSON object"),
        (b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}", "nested too deep"),
        (b'{"model":7}', "model is 7: expected a string"),
        (b'{"model":{"model":"served"}}', "expected a string"),
        (b'{"model":"\xff"}', "expected a string"),
        (b'{"model":"served","model":"served"}', "model occurs more than once"),
        (b'{"model":"served","\\u006dodel":"other"}', "model occurs more than once"),
        (b'{"model":null,"x":"model","model":"served"}', "model occurs more than once"),
        (b'{"model":"o",' + b'"a":1,' * MAX_MEMBERS + b'"b":1}', "more than 2000 members"),
        (b'{"model":"o","x":[' + b"0," * 1_000_000 + b"0]}", "more than 1,000,000 JSON values"),
        (b"{}", "model is missing"),
        (b'{"Model":"served"}', "model is missing"),
        (b'{"model":null}', "model is missing"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_an_engine_might_read_otherwise_is_rejected(body: bytes, message: str) -> None:
    """A body of which engines might read another model, or none where several are served, is a 400."""
    refusal = _route(body)
    assert isinstance(refusal, Rejection)
    assert (refusal.error.code, refusal.rule in {READING, MODELS}) == ("bad_request", True)
    assert message in refusal.error.message
    assert len(refusal.error.message) < 300


@pytest.mark.parametrize("body", [b"{}", b'{"x":{"model":"other"}}', b'{"model":null}', b'{"messages":[]}'])
def test_a_request_without_a_model_is_for_the_default(body: bytes) -> None:
    """Where one model alone is served a body without one passes as it is; while none is known, it waits."""
    assert _route(body, ServedIds(("served",), default="served")) == ModelRoute(body, None, "served")
    for is_complete in (True, False):
        refusal = _route(body, ServedIds((), is_complete=is_complete))
        assert isinstance(refusal, Rejection)
        assert refusal.error.code == "no_healthy_engines"


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (b" {}\n", b' {"model":"other"}\n'),
        (b'{"x":{"model":"served"}}', b'{"model":"other","x":{"model":"served"}}'),
        (b'{"x":1.0, "mod\\u0065l" : null }', b'{"x":1.0, "mod\\u0065l" : "other" }'),
        (b'{"model":"served"}', b'{"model":"served"}'),
    ],
)
def test_a_contract_s_default_model_is_set(body: bytes, sent: bytes) -> None:
    """A request without a model goes to the contract's default, which may be an alias, also if one model is served."""
    contract = Contract(models=Models({"\u00e9": Alias("other")}, default="\u00e9"))
    routed = route_by_model(body, contract, ServedIds(("served", "other"), default="served"))
    assert isinstance(routed, ModelRoute)
    assert routed.body == sent
    names = (routed.model_asked, routed.model_served, routed.respond_as, routed.is_default_model)
    assert names == (("served", "served", None, False) if sent == body else ("\u00e9", "other", "\u00e9", True))


def test_names_are_resolved_as_for_a_chat() -> None:
    """An unknown name is a 404 that names what is served, 503 while it may still be listed; the log gets it."""
    for is_complete, code in ((True, "model_not_found"), (False, "no_healthy_engines")):
        refusal = _route(b'{"model":"nope"}', ServedIds(("served",), is_complete=is_complete))
        assert isinstance(refusal, Rejection)
        assert (refusal.error.code, refusal.rule, refusal.model_asked) == (code, MODELS, "nope")
        assert refusal.error.details["models"] == "served, alias, o, é"
