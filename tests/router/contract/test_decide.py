"""The order of judgement, the model names and what a decision tells."""

import pytest

from router.contract.decide import Forward, Rejection, ServedIds, decide
from router.contract.jsonbytes.parsing import MAX_MEMBERS
from router.contract.schema.model import Contract
from router.contract.schema.sections import Alias, Errors, Limits, MaxTokens, Models, Output, Sampling, plain_aliases
from tests.batches import batched
from tests.router.contract.evaluated import cases, check

SERVED = ServedIds(("served", "other"))
EVERYTHING = Contract(
    errors=Errors("vendor_error"),
    limits=Limits(max_body_bytes=400, max_images=0),
    models=Models(aliases=plain_aliases("alias", "other")),
    output=Output(MaxTokens(cap=9, default=9)),
    sampling=Sampling("reject", {"temperature": 1, "n": 1}),
)
IMAGES = '"messages":[{"role":"user","content":[{"type":"image_url"}]}]'


@pytest.mark.parametrize(
    ("body", "code", "param", "violations"),
    [
        ("x" * 401, "request_too_large", None, ()),
        ('{"stream":1' + "," * 300, "bad_request", None, ()),
        ('{"stream":1,"temperature":2,"max_tokens":10}', "bad_request", "stream", ()),
        ('{"model":"nope","model":"nope","temperature":2}', "bad_request", "model", ()),
        ('{"temperature":2,"max_tokens":10,' + IMAGES + "}", "bad_request", "model", ()),
        ('{"model":7,"temperature":2}', "bad_request", "model", ()),
        ('{"model":"nope","temperature":2,"max_tokens":10}', "model_not_found", "model", ()),
        (
            '{"model":"alias","n":2,"temperature":2,"max_tokens":10,' + IMAGES + "}",
            "sampling_contract_violation",
            "temperature",
            ("temperature", "n"),
        ),
        ('{"model":"alias","max_tokens":10,' + IMAGES + "}", "too_many_images", "messages", ("messages",)),
        ('{"model":"alias","max_tokens":10}', "max_tokens_exceeded", "max_tokens", ("max_tokens",)),
    ],
)
def test_the_first_failure_answers(body, code, param, violations):
    """Size, JSON, single fields, model, sampling, images and budget are judged in this order."""
    decision = decide(body.encode(), EVERYTHING, SERVED)
    assert isinstance(decision, Rejection)
    assert (decision.error.code, decision.error.param, decision.violations) == (code, param, violations)


def test_a_contract_that_enforces_nothing_forwards_the_same_object():
    """Under the default contract even odd values of all other fields pass, and the client's bytes are forwarded."""
    body = (
        b' {"model":"served","messages":7,"temperature": "hot","n":1,"n":2,"max_tokens":-1,"seed":9007199254740993}\n'
    )
    decision = decide(body, Contract(), SERVED)
    assert decision == Forward(body, "served", "served", stream=False, respond_as=None)
    assert decision.body is body


@pytest.mark.parametrize("contract", [Contract(), EVERYTHING], ids=["nothing", "everything"])
@pytest.mark.parametrize("field", ["model", "stream", "messages"])
@pytest.mark.parametrize("second", ["null", '"served"', "[]"])
def test_model_stream_and_messages_occur_only_once(contract, field, second):
    """Whatever the contract, a second one is refused, also when it is equal, null or spelled with escapes."""
    for name in (field, f"\\u{ord(field[0]):04x}{field[1:]}"):
        body = f'{{"model":"served","messages":[],"stream":null,"{name}":{second}}}'.encode()
        error = decide(body, contract, SERVED).error
        assert (error.code, error.param) == ("bad_request", field)


@pytest.mark.parametrize(
    ("written", "stream"),
    [("", False), (',"stream":null', False), (',"stream":false', False), (',"stream":true', True)],
)
def test_stream_is_true_false_or_absent(written, stream):
    """A decision tells whether the answer is streamed; null is absent."""
    assert decide(f'{{"model":"served"{written}}}'.encode(), Contract(), SERVED).stream is stream


@pytest.mark.parametrize("value", ["0", "1", '"true"', '""', "[]", "{}", "1.0"])
def test_a_stream_of_another_type_is_refused(value):
    """Anything but true, false and null is a 400 that shows the value as it was written."""
    error = decide(f'{{"model":"served","stream":{value}}}'.encode(), Contract(), SERVED).error
    assert (error.code, error.param) == ("bad_request", "stream")
    assert error.message == f"stream is {value}: expected true or false, or omit the field"


@pytest.mark.parametrize("value", ["7", "1.0", "true", "[]", "{}"])
def test_a_model_of_another_type_is_refused(value):
    """Anything but a string is a 400 that shows the value as it was written."""
    error = decide(f'{{"model":{value}}}'.encode(), Contract(), SERVED).error
    assert (error.code, error.param, error.message) == ("bad_request", "model", f"model is {value}: expected a string")


@pytest.mark.parametrize("body", [b"{}", b'{"model":null}', b'{"Model":"served"}'])
def test_a_missing_model_is_refused(body):
    """An absent or null model is a 400, also while no engine has said what it serves."""
    for served in (SERVED, ServedIds(()), None):
        error = decide(body, Contract(), served).error
        assert (error.code, error.param) == ("bad_request", "model")


@pytest.mark.parametrize(
    ("asked", "served", "respond_as"),
    [("served", "served", None), ("other", "other", None), ("alias", "served", "alias")],
)
def test_aliases_are_routed_as_the_first_served_id(asked, served, respond_as):
    """A served id beats an equal alias; any other alias becomes the first served id and names the answer."""
    decision = decide(f'{{"model":"{asked}","temperature":1,"n":1,"max_tokens":1}}'.encode(), EVERYTHING, SERVED)
    assert (decision.model_asked, decision.model_served, decision.respond_as) == (asked, served, respond_as)
    assert decision.body == f'{{"model":"{served}","temperature":1,"n":1,"max_tokens":1}}'.encode()
    assert [edit.rule for edit in decision.edits] == (["models.aliases"] if asked != served else [])


def test_answers_may_name_the_served_model():
    """Under `respond_as: served` an alias is routed and the answer keeps the engine's name."""
    contract = Contract(models=Models(aliases=plain_aliases("alias"), respond_as="served"))
    decision = decide(b'{"model":"alias"}', contract, SERVED)
    assert (decision.body, decision.respond_as) == (b'{"model":"served"}', None)


@pytest.mark.parametrize("name", ["", "nope", "Served", "served ", "alias", "é\U0001f600", "x" * 5000, "a\\nb\\u0000"])
def test_an_unknown_model_is_not_found(name):
    """Any name that is neither served nor an alias is a 404 of one short line."""
    error = decide(f'{{"model":"{name}"}}'.encode(), Contract(), SERVED).error
    assert (error.code, error.status, error.param) == ("model_not_found", 404, "model")
    assert len(error.message) < 300
    assert error.message.isprintable()


@pytest.mark.parametrize("asked", ["served", "alias", "nope"])
def test_while_no_ids_are_known_every_model_waits(asked):
    """Before any engine has given its list the answer is a 503; where all have and list nothing, a 404."""
    request = f'{{"model":"{asked}"}}'.encode()
    for is_complete, code in ((False, "no_healthy_engines"), (True, "model_not_found")):
        assert decide(request, EVERYTHING, ServedIds((), is_complete=is_complete)).error.code == code


def test_an_id_that_no_engine_has_listed_yet_waits():
    """While some engine has not given its list, an id or the id behind an alias may still be served: 503, not 404."""
    contract = Contract(models=Models(aliases={"alias": Alias(model="late")}))
    for asked in ("late", "alias", "nope"):
        request = f'{{"model":"{asked}"}}'.encode()
        for is_complete, code in ((False, "no_healthy_engines"), (True, "model_not_found")):
            error = decide(request, contract, ServedIds(("served",), is_complete=is_complete)).error
            assert (error.code, error.details["models"]) == (code, "served, alias")


def test_aliases_wait_while_it_is_open_what_they_mean():
    """Several ids and no order among them: aliases are a 503, served ids pass and unknown names are a 404."""
    contract = Contract(models=Models(aliases=plain_aliases("alias")))
    unordered = ServedIds(("served", "other"), routes_aliases=False)
    assert decide(b'{"model":"alias"}', contract, unordered).error.code == "no_healthy_engines"
    assert decide(b'{"model":"nope"}', contract, unordered).error.code == "model_not_found"
    assert decide(b'{"model":"other"}', contract, unordered).model_served == "other"


def test_an_id_that_every_engine_lacks_is_not_found():
    """An id of the settings that no engine lists is a 404, so is its alias, which means no other; it is not offered."""
    contract = Contract(models=Models(aliases={"alias": Alias(), "late": Alias(model="other")}))
    served = ServedIds(("served", "other"), absent=frozenset({"served"}))
    assert decide(b'{"model":"late"}', contract, served).model_served == "other"
    for asked in ("served", "alias"):
        error = decide(f'{{"model":"{asked}"}}'.encode(), contract, served).error
        assert (error.code, error.details["models"]) == ("model_not_found", "other, alias, late")


def test_without_served_ids_every_name_counts_as_served():
    """A caller that knows no ids gets a decision about everything else."""
    decision = decide(b'{"model":"whatever"}', Contract(), None)
    assert (decision.model_served, decision.respond_as) == ("whatever", None)


def test_a_body_at_the_limit_passes():
    """The limit itself is allowed, one byte more is a 413 that says the limit."""
    body = b'{"model":"served"}'
    assert isinstance(decide(body, Contract(limits=Limits(max_body_bytes=len(body))), SERVED), Forward)
    refused = decide(body, Contract(limits=Limits(max_body_bytes=len(body) - 1)), SERVED)
    assert (refused.error.status, refused.error.code) == (413, "request_too_large")
    assert str(len(body) - 1) in refused.error.message


def test_edits_name_the_rules_that_asked_for_them():
    """Each edit tells its rule, its field and what was done."""
    contract = Contract(
        models=Models(aliases=plain_aliases("alias")),
        output=Output(MaxTokens(cap=9, default=9, on_exceed="clamp")),
        sampling=Sampling("reject", {"temperature": 1, "n": 1}),
    )
    decision = decide(b'{"n":1,"n":1,"model":"alias","max_tokens":10,"min_tokens":10}', contract, SERVED)
    assert [(edit.rule, edit.kind, edit.field, edit.value) for edit in decision.edits] == [
        ("models.aliases", "set", "model", b'"served"'),
        ("sampling.params.temperature", "inject", "temperature", b"1"),
        ("sampling.params.n", "remove", "n", b""),
        ("output.max_tokens", "set", "max_tokens", b"9"),
        ("output.max_tokens", "set", "min_tokens", b"9"),
    ]
    assert decision.body == b'{"n":1,"model":"served","max_tokens":9,"min_tokens":9,"temperature":1}'


@pytest.mark.parametrize(
    ("field", "forwarded"),
    [
        ("temperature", b'{"temperature":1,"max_tokens":9,"model":"served"}'),
        ("min_tokens", b'{"min_tokens":1,"max_tokens":9,"model":"served","temperature":1}'),
    ],
)
def test_two_thousand_repetitions_are_judged(field, forwarded):
    """A governed field that is repeated ever so often is judged by its last value and leaves once."""
    contract = Contract(
        output=Output(MaxTokens(cap=9, default=9, on_exceed="clamp")), sampling=Sampling(params={"temperature": 1})
    )
    repeated = b"".join(b'"%s":%d,' % (field.encode(), count) for count in range(MAX_MEMBERS - 2, 0, -1))
    body = b"{" + repeated + b'"max_tokens":10,"model":"served"}'
    assert decide(body, contract, SERVED).body == forwarded


@batched("case", cases("decision"))
def test_the_case_holds(case):
    """Aliases, modes, cases, the order of rules, unknown fields and usage: what leaves, or who refuses."""
    check(case)
