"""The default responses: the routes of an inference server, deterministic."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from router.mock_engine.request import ReceivedRequest
from router.mock_engine.response import MockResponse

TEXT: Final = "The mock engine received this request and responds with these plain words."
CREATED: Final = 1_700_000_000  # a fixed time, in seconds, so that equal requests get equal answers
MAX_CHOICES: Final = 128

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """Who answers: the served names (the first is the one it answers as), the text, the context length in tokens."""

    models: tuple[str, ...]
    text: str
    max_model_len: int
    healthy: bool


@dataclass(frozen=True, slots=True)
class Completion:
    """What is said to one request: words, why they end, how often, and the tokens (words) counted."""

    words: tuple[str, ...]
    finish_reason: str
    choices: int
    prompt_tokens: int

    @property
    def text(self) -> str:
        """The words as one text."""
        return " ".join(self.words)

    @property
    def usage(self) -> dict[str, int]:
        """The token counts as OpenAI spells them."""
        said = len(self.words) * self.choices
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": said,
            "total_tokens": self.prompt_tokens + said,
        }

    def deltas(self) -> Iterator[str]:
        """Yield the text word by word."""
        for position, word in enumerate(self.words):
            yield f" {word}" if position else word


def is_health_check(received: ReceivedRequest) -> bool:
    """Return whether a request is a health check or a model list, which routers send in the background."""
    path = received.path
    return received.method == "GET" and (path in {"/health", "/v1/models"} or path.startswith("/v1/models/"))


def answer(received: ReceivedRequest, profile: EngineProfile) -> MockResponse:
    """Return the default response to a request."""
    route = INFERENCE_ROUTES.get(received.path)
    if route is None:
        return _get_response(received, profile)
    if received.method != "POST":
        return _detail(405, "Method Not Allowed")
    body = _read(received.body)
    if body is None:
        return error(400, "the body is not a JSON object")
    model = body.get("model")
    if isinstance(model, str) and model and model not in profile.models:
        return error(404, f"The model `{model}` does not exist.", "NotFoundError", "model")
    return route(body, profile)


def error(status: int, message: str, kind: str = "BadRequestError", param: str | None = None) -> MockResponse:
    """Return an error in the shape in which vLLM gives it."""
    return MockResponse.json({"error": {"message": message, "type": kind, "param": param, "code": status}}, status)


def _detail(status: int, detail: str) -> MockResponse:
    return MockResponse.json({"detail": detail}, status)


def _read(data: bytes) -> Body | None:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _get_response(received: ReceivedRequest, profile: EngineProfile) -> MockResponse:
    if received.method not in {"GET", "HEAD"}:
        return _detail(404, "Not Found")
    cards = {name: _card(name, profile) for name in profile.models}
    if received.path == "/health":
        return (
            MockResponse.json({"status": "ok"}) if profile.healthy else error(503, "not healthy", "ServiceUnavailable")
        )
    if received.path == "/v1/models":
        return MockResponse.json({"object": "list", "data": list(cards.values())})
    if not received.path.startswith("/v1/models/"):
        return _detail(404, "Not Found")
    name = unquote(received.path.removeprefix("/v1/models/"))
    if name not in cards:
        return error(404, f"The model `{name}` does not exist.", "NotFoundError", "model")
    return MockResponse.json(cards[name])


def _card(name: str, profile: EngineProfile) -> Body:
    return {
        "id": name,
        "object": "model",
        "created": CREATED,
        "owned_by": "mock-engine",
        "max_model_len": profile.max_model_len,
    }


def _chat(body: Body, profile: EngineProfile) -> MockResponse:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return error(400, "messages must be a list of at least one message", param="messages")
    completion = _complete(body, profile, messages)
    frame = _frame("chatcmpl-mock", "chat.completion", profile)
    if _is_true(body.get("stream")):
        return _stream(body, completion, frame | {"object": "chat.completion.chunk"}, list(_chat_choices(completion)))
    message = {"role": "assistant", "content": completion.text}
    choices = [_choice(i, message=message, finish_reason=completion.finish_reason) for i in range(completion.choices)]
    return MockResponse.json(frame | {"choices": choices, "usage": completion.usage})


def _chat_choices(completion: Completion) -> Iterator[Body]:
    for index in range(completion.choices):
        yield _choice(index, delta={"role": "assistant", "content": ""}, finish_reason=None)
        for delta in completion.deltas():
            yield _choice(index, delta={"content": delta}, finish_reason=None)
        yield _choice(index, delta={}, finish_reason=completion.finish_reason)


def _completions(body: Body, profile: EngineProfile) -> MockResponse:
    completion = _complete(body, profile, body.get("prompt"))
    frame = _frame("cmpl-mock", "text_completion", profile)
    if _is_true(body.get("stream")):
        return _stream(body, completion, frame, list(_text_choices(completion)))
    choices = [
        _choice(i, text=completion.text, finish_reason=completion.finish_reason) for i in range(completion.choices)
    ]
    return MockResponse.json(frame | {"choices": choices, "usage": completion.usage})


def _text_choices(completion: Completion) -> Iterator[Body]:
    for index in range(completion.choices):
        for delta in completion.deltas():
            yield _choice(index, text=delta, finish_reason=None)
        yield _choice(index, text="", finish_reason=completion.finish_reason)


def _frame(answer_id: str, kind: str, profile: EngineProfile) -> Body:
    return {"id": answer_id, "object": kind, "created": CREATED, "model": profile.models[0]}


def _choice(index: int, **fields: object) -> Body:
    return {"index": index, **fields}


def _stream(body: Body, completion: Completion, frame: Body, choices: list[Body]) -> MockResponse:
    chunks = [frame | {"choices": [choice]} for choice in choices]
    options = body.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        chunks.append(frame | {"choices": [], "usage": completion.usage})
    events = [f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode() for chunk in chunks]
    return MockResponse.sse(*events, b"data: [DONE]\n\n")


def _complete(body: Body, profile: EngineProfile, prompt: object) -> Completion:
    words = profile.text.split()
    budget = _whole(body.get("max_completion_tokens")) or _whole(body.get("max_tokens")) or len(words)
    said = tuple(words[:budget])
    choices = min(_whole(body.get("n")) or 1, MAX_CHOICES)
    return Completion(said, "stop" if len(said) == len(words) else "length", choices, _count(prompt))


def _whole(value: object) -> int | None:
    """Return a positive whole number, read as leniently as engines do; None for anything else."""
    try:
        number = int(value) if isinstance(value, int | float | str) else 0
    except (ValueError, OverflowError):
        return None
    return number if number > 0 else None


def _is_true(value: object) -> bool:
    return value in (True, "true")  # vLLM streams for "true" and 1 as well


def _count(prompt: object) -> int:
    """Count the words in every text of a prompt, however deep its parts are nested."""
    match prompt:
        case str():
            return len(prompt.split())
        case list():
            return sum(map(_count, prompt))
        case dict():
            return sum(_count(prompt.get(key)) for key in ("content", "text"))
        case _:
            return 0


def _texts(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _embeddings(body: Body, profile: EngineProfile) -> MockResponse:
    data = [_choice(i, object="embedding", embedding=[0.6, 0.8]) for i, _ in enumerate(_texts(body.get("input")))]
    tokens = _count(body.get("input"))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return MockResponse.json({"object": "list", "data": data, "model": profile.models[0], "usage": usage})


def _responses(body: Body, profile: EngineProfile) -> MockResponse:
    tokens, said = _count(body.get("input")), len(profile.text.split())
    content = [{"type": "output_text", "text": profile.text, "annotations": []}]
    message = {"id": "msg-mock", "type": "message", "role": "assistant", "status": "completed", "content": content}
    return MockResponse.json(
        {
            "id": "resp-mock",
            "object": "response",
            "created_at": CREATED,
            "status": "completed",
            "model": profile.models[0],
            "output": [message],
            "usage": {"input_tokens": tokens, "output_tokens": said, "total_tokens": tokens + said},
        }
    )


def _messages(body: Body, profile: EngineProfile) -> MockResponse:
    return MockResponse.json(
        {
            "id": "msg-mock",
            "type": "message",
            "role": "assistant",
            "model": profile.models[0],
            "content": [{"type": "text", "text": profile.text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": _count(body.get("messages")), "output_tokens": len(profile.text.split())},
        }
    )


def _count_tokens(body: Body, profile: EngineProfile) -> MockResponse:  # noqa: ARG001  # every route takes both
    return MockResponse.json({"input_tokens": _count(body.get("messages"))})


def _rerank(body: Body, profile: EngineProfile) -> MockResponse:
    documents = enumerate(_texts(body.get("documents")))
    results = [_choice(i, document={"text": document}, relevance_score=1.0) for i, document in documents]
    return MockResponse.json({"id": "rerank-mock", "model": profile.models[0], "results": results})


def _score(body: Body, profile: EngineProfile) -> MockResponse:
    data = [_choice(i, object="score", score=1.0) for i, _ in enumerate(_texts(body.get("text_2")))]
    return MockResponse.json({"id": "score-mock", "object": "list", "model": profile.models[0], "data": data})


def _classify(body: Body, profile: EngineProfile) -> MockResponse:
    data = [_choice(i, label="LABEL_0", probs=[1.0], num_classes=1) for i, _ in enumerate(_texts(body.get("input")))]
    return MockResponse.json({"id": "classify-mock", "object": "list", "model": profile.models[0], "data": data})


def _generate(body: Body, profile: EngineProfile) -> MockResponse:
    tokens = {"prompt_tokens": _count(body.get("text")), "completion_tokens": len(profile.text.split())}
    return MockResponse.json({"text": profile.text, "meta_info": tokens | {"finish_reason": {"type": "stop"}}})


def _tokenize(body: Body, profile: EngineProfile) -> MockResponse:
    count = _count(body.get("prompt")) or _count(body.get("messages"))
    return MockResponse.json({"count": count, "max_model_len": profile.max_model_len, "tokens": list(range(count))})


def _detokenize(body: Body, profile: EngineProfile) -> MockResponse:
    words = profile.text.split()
    tokens = [token for token in _texts(body.get("tokens")) if isinstance(token, int)]
    return MockResponse.json({"prompt": " ".join(words[token % len(words)] for token in tokens)})


INFERENCE_ROUTES: Final[dict[str, Callable[[Body, EngineProfile], MockResponse]]] = {
    "/v1/chat/completions": _chat,
    "/v1/completions": _completions,
    "/v1/embeddings": _embeddings,
    "/v1/responses": _responses,
    "/v1/messages": _messages,
    "/v1/messages/count_tokens": _count_tokens,
    "/v1/rerank": _rerank,
    "/rerank": _rerank,
    "/v1/score": _score,
    "/v1/classify": _classify,
    "/generate": _generate,
    "/tokenize": _tokenize,
    "/detokenize": _detokenize,
}
"""Path of every POST route that the mock engine answers by itself."""
