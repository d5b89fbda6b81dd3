"""Takes and rejects requests as vLLM 0.32 does, which serves a text model and has no parser of tool calls.

Held against vLLM 0.32.0 itself (CPU build, a context of 2,048 tokens) on 2026-11-30: of 5,508 requests, those of a
probe and 4,000 of `unasked`, each was accepted or rejected alike. The words are vLLM's where a probe reads them.
"""

import json
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, Self

from annotated_types import MaxLen
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from compiler.verify.assertion import EndpointResponse
from compiler.verify.check import ChatRequest

CONTEXT = 2048
_TEMPLATE_TOKENS = 4
_PER_MESSAGE = 8
_INT64 = 2**63
_MOST_ANSWERS = 16384
_MOST_LOGPROBS = 20


_SPEAKING = ("system", "developer", "user", "tool")
"""Roles whose messages may lack a content, but not have null for it."""


class _Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class _Message(_Open):
    role: str
    content: str | list[dict[str, Any]] | None = None

    @model_validator(mode="after")
    def _has_content(self) -> Self:
        if self.content is None and "content" in self.model_fields_set and self.role in _SPEAKING:
            raise ValueError("Input should be a valid string")
        return self


class _Function(_Open):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class _Tool(_Open):
    type: Literal["function"] = "function"
    function: _Function


class _Schema(_Open):
    name: str
    json_schema: dict[str, Any] | None = Field(None, alias="schema")
    strict: bool | None = None


class _Format(_Open):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _Schema | None = None


class _StreamOptions(_Open):
    include_usage: bool | None = True
    continuous_usage_stats: bool | None = False


class _Request(_Open):
    """The types of vLLM's request fields; pydantic's lax mode reads "0.5" and true as numbers, "yes" as a boolean."""

    messages: list[_Message]
    model: str | None = None
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    n: int | None = 1
    seed: Annotated[int, Field(ge=-_INT64, lt=_INT64)] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    min_tokens: int = 0
    logprobs: bool | None = False
    logit_bias: dict[str, float] | None = None
    stop: str | Annotated[list[str], MaxLen(4)] | None = None
    stop_token_ids: list[int] | None = None
    tools: list[_Tool] | None = None
    parallel_tool_calls: bool | None = True
    response_format: _Format | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    user: str | None = None
    ignore_eos: bool = False
    echo: bool = False
    add_generation_prompt: bool = True
    skip_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    return_token_ids: bool | None = None
    truncate_prompt_tokens: Annotated[int, Field(ge=-1, lt=_INT64)] | None = None
    priority: int = 0
    request_id: str = ""


class RejectedError(Exception):
    """What is said of a request, and the field that it is about."""

    def __init__(self, said: str, param: str | None = None) -> None:
        super().__init__(said if param is None else f"{said} (parameter={param})")
        self.param = param


def response(request: ChatRequest, model: str) -> EndpointResponse:
    """Return what vLLM responds to a request, of a stream or a response the outline alone."""
    try:
        parsed = _read(request.body(), model)
        for check in _CHECKS:
            for said in check(parsed):
                raise said
    except LookupError as error:
        return _error(404, f"The model `{error}` does not exist.", "NotFoundError", "model")
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, ("body", *first["loc"])))
        lines = "".join(f"\n  {{'type': '{each['type']}', 'msg': \"{each['msg']}\"}}" for each in error.errors())
        return _error(400, f"{error.error_count()} validation error:{lines}", "Bad Request", place)
    except RejectedError as error:
        return _error(400, str(error), "BadRequestError", error.param)
    if parsed.stream:
        return EndpointResponse(200, "text/event-stream", b'data: {"choices": []}\n\ndata: [DONE]\n\n')
    return EndpointResponse(200, "application/json", b'{"choices": []}')


def _error(status: int, said: str, kind: str, param: str | None) -> EndpointResponse:
    body = {"error": {"message": said, "type": kind, "param": param, "code": status}}
    return EndpointResponse(status, "application/json", json.dumps(body).encode())


def _read(body: bytes, model: str) -> _Request:
    try:
        fields = json.loads(body)
    except ValueError as error:
        raise RejectedError(f"JSON decode error: {error}") from error
    # These are looked at before any type is.
    if isinstance(fields, dict):
        for said in (*_logprobs_of(fields), *_choice_of(fields)):
            raise said
    request = _Request.model_validate(fields)
    if request.model not in (None, "", model):
        raise LookupError(request.model)
    return request


def _logprobs_of(fields: dict[str, Any]) -> Iterator[RejectedError]:
    top = fields.get("top_logprobs")
    if top is None:
        return
    if not isinstance(top, int) and not (isinstance(top, float) and top.is_integer()):
        yield RejectedError("`top_logprobs` must be an integer.", "top_logprobs")
    elif top < 0 and top != -1:
        yield RejectedError(f"`top_logprobs` must be a positive value or -1. value={top}", "top_logprobs")
    elif (top > 0 or top == -1) and not fields.get("logprobs"):
        yield RejectedError("when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs")


def _choice_of(fields: dict[str, Any]) -> Iterator[RejectedError]:
    choice, tools = fields.get("tool_choice"), fields.get("tools")
    if tools == []:
        yield RejectedError("`tools` must not be an empty array.", "tools")
    if choice is None or choice == "none":
        return
    if not tools:
        yield RejectedError("When using `tool_choice`, `tools` must be set.", "tool_choice")
    elif choice not in ("auto", "required") and not isinstance(choice, dict):
        yield RejectedError(f"Invalid value for `tool_choice`: {choice}!", "tool_choice")
    elif isinstance(choice, dict) and not isinstance(choice.get("function"), dict):
        yield RejectedError("Invalid value for `function`: `None` in `tool_choice`!", "tool_choice.function")


def _ranges(request: _Request) -> Iterator[RejectedError]:
    if request.temperature is not None and not 0 <= request.temperature <= 2:
        yield RejectedError(f"temperature must be in [0, 2], got {request.temperature}.", "temperature")
    if request.top_p is not None and not 0 < request.top_p <= 1:
        yield RejectedError(f"top_p must be in (0, 1], got {request.top_p}.", "top_p")
    for name in ("frequency_penalty", "presence_penalty"):
        value = getattr(request, name)
        if value is not None and not -2 <= value <= 2:
            yield RejectedError(f"{name} must be in [-2, 2], got {value}.")
    if request.min_p is not None and not 0 <= request.min_p <= 1:
        yield RejectedError(f"min_p must be in [0, 1], got {request.min_p}.")
    if request.repetition_penalty is not None and request.repetition_penalty <= 0:
        yield RejectedError(f"repetition_penalty must be greater than zero, got {request.repetition_penalty}.")
    if request.top_k is not None and request.top_k < -1:
        yield RejectedError(f"top_k must be 0 (disable), or at least 1, got {request.top_k}.")
    yield from _counts(request)


def _counts(request: _Request) -> Iterator[RejectedError]:
    n = 1 if request.n is None else request.n
    if n < 1:
        yield RejectedError(f"n must be at least 1, got {n}.")
    if n > _MOST_ANSWERS:
        yield RejectedError(f"n must be at most {_MOST_ANSWERS}, got {n}.")
    if n > 1 and request.temperature == 0:
        yield RejectedError("n must be 1 when using greedy sampling")
    top = (request.model_extra or {}).get("top_logprobs") or 0
    if request.logprobs and top > _MOST_LOGPROBS:
        yield RejectedError(
            f"Requested sample logprobs of {top}, which is greater than max allowed: {_MOST_LOGPROBS}", "logprobs"
        )
    if request.logprobs and top == -1:
        yield RejectedError(
            f"Requested sample logprobs of 528, which is greater than max allowed: {_MOST_LOGPROBS}", "logprobs"
        )
    for key in request.logit_bias or {}:
        if not key.lstrip("-").isdigit():
            yield RejectedError(f"logit_bias contains key(s) that cannot be converted: {key}", "logit_bias")
    if "" in ([request.stop] if isinstance(request.stop, str) else request.stop or []):
        yield RejectedError("stop cannot contain an empty string.")
    if request.stream_options and request.stream_options.model_fields_set and not request.stream:
        yield RejectedError("Stream options can only be defined when `stream=True`.", "stream_options")


def _budget(request: _Request) -> Iterator[RejectedError]:
    name = "max_tokens" if request.max_completion_tokens is None else "max_completion_tokens"
    budget = getattr(request, name)
    if not request.messages:
        yield RejectedError("Cannot apply chat template to an empty conversation. Provide at least one message.")
    size = _tokens(request)
    if size > CONTEXT:
        yield RejectedError(f"This model's maximum context length is {CONTEXT} tokens.", "input_tokens")
    if (request.truncate_prompt_tokens or 0) > CONTEXT:
        yield RejectedError(
            f"truncate_prompt_tokens={request.truncate_prompt_tokens} cannot be greater than max_model_len"
        )
    if budget is None:
        budget = CONTEXT - size
    if budget > CONTEXT:
        yield RejectedError(f"{name}={budget} cannot be greater than max_model_len={CONTEXT}.", name)
    if budget < 1:
        yield RejectedError(f"max_tokens must be at least 1, got {budget}.", "max_tokens")
    if request.min_tokens < 0:
        yield RejectedError(f"min_tokens must be greater than or equal to 0, got {request.min_tokens}.")
    if request.min_tokens > budget:
        yield RejectedError(f"min_tokens must be less than or equal to max_tokens={budget}, got {request.min_tokens}.")


def _tokens(request: _Request) -> int:
    """Return about how many tokens a prompt has: its template's, and one for each four letters."""
    texts = [part.get("text", "") for each in request.messages for part in _parts(each.content)]
    return _TEMPLATE_TOKENS + sum(_PER_MESSAGE + len(str(text)) // 4 for text in texts)


def _parts(content: object) -> list[dict[str, Any]]:
    return content if isinstance(content, list) else [{"type": "text", "text": content or ""}]


def _tools(request: _Request) -> Iterator[RejectedError]:
    choice = (request.model_extra or {}).get("tool_choice", "auto")
    if not request.tools or choice in (None, "none"):
        return
    if isinstance(choice, dict):
        names = [tool.function.name for tool in request.tools]
        if choice["function"].get("name") not in names:
            yield RejectedError(
                "The tool specified in `tool_choice` does not match any of the specified `tools`", "tool_choice"
            )
    yield RejectedError(f'"{choice}" tool choice requires --enable-auto-tool-choice and --tool-call-parser')


def _contents(request: _Request) -> Iterator[RejectedError]:
    for message in request.messages:
        for part in _parts(message.content):
            if part.get("type") not in ("text", None):
                yield RejectedError("it is not a multimodal model")
    if request.response_format is not None and request.response_format.type == "json_schema":
        held = request.response_format.json_schema
        if held is None or held.json_schema is None:
            yield RejectedError("You must use one kind of structured outputs constraint but none are specified")


_CHECKS: tuple[Callable[[_Request], Iterator[RejectedError]], ...] = (_tools, _contents, _ranges, _budget)
