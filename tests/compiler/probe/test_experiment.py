"""What a response says to a question: it is accepted, it breaks a rule, or it says nothing of the contract."""

import json

import pytest

from compiler.probe.experiment import BaseRequest, ResultKind, result_of
from compiler.verify.assertion import EndpointResponse

BASE = BaseRequest({"model": "m", "messages": [{"role": "user", "content": "Say OK."}], "max_tokens": 1}, "Say OK.")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 400, "message": "request (3205 tokens) exceeds the available context size (512 tokens)"}, "overflow"),
        ({"code": 400, "message": "too long", "type": "exceed_context_size_error", "n_ctx": 512}, "overflow"),
        ({"message": "This model's maximum context length is 2048 tokens.", "param": "input_tokens"}, "overflow"),
        ({"message": "max_tokens=4096 cannot be greater than max_model_len=2048."}, "overflow"),
        ({"message": "The input (90 tokens) is longer than the model's context length (64 tokens)."}, "overflow"),
        ({"message": "too long", "code": "context_length_exceeded", "param": "messages"}, "overflow"),
        ({"message": "min_tokens must be less than or equal to max_tokens=1, got 2.", "param": None}, "unclear"),
        ({"message": "wrong", "param": "max_tokens"}, "unclear"),
        ({"message": "min_tokens must be at least 0", "param": "min_tokens"}, "rejected"),
        ({"message": "no model m", "param": None}, "rejected"),
    ],
    ids=json.dumps,
)
def test_a_rejection_is_a_rule_only_where_it_is_about_what_was_changed(error: dict, kind: ResultKind) -> None:
    """What does not fit into an engine's context, or only not beside the base's own budget, is no rule of a field."""
    experiment = BASE.experiment("fields.min_tokens", {"min_tokens": 2})
    body = json.dumps({"error": error}).encode()
    assert result_of(experiment, EndpointResponse(400, "application/json", body)).kind == kind
