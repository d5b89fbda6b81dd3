"""What the stand-in says when nobody scripted it: the routes of an inference server, with deterministic answers."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from router.mock_engine.answer import Answer
from router.mock_engine.request import Received

TEXT: Final = "The stand-in engine heard you and answers with these few plain words."
CREATED: Final = 1_700_000_000  # a fixed time, in seconds, so that equal requests get equal answers
MOST_CHOICES: Final = 128

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Persona:
    """Who answers: the served names (the first is the one it answers as), the text, the context length in tokens."""

    models: tuple[str, ...]
    text: str
    max_model_len: int
    healthy: bool


@dataclass(frozen=True, slots=True)
class Speech:
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


def is_probe(received: Received) -> bool:
    """Say whether a request only asks how the engine is, as a router does in the background at any time."""
    path = received.path
    return received.method == "GET" and (path in {"/health", "/v1/models"} or path.startswith("/v1/models/"))


def answer(received: Received, persona: Persona) -> Answer:
    """Return the stand-in's own answer to a request."""
    route = INFERENCE_ROUTES.get(received.path)
    if route is None:
        return _answer_get(received, persona)
    if received.method != "POST":
        return _detail(405, "Method Not Allowed")
    body = _read(received.body)
    if body is None:
        return error(400, "the body is not a JSON object")
    model = body.get("model")
    if isinstance(model, str) and model and model not in persona.models:
        return error(404, f"The model `{model}` does not exist.", "NotFoundError", "model")
    return route(body, persona)


def error(status: int, message: str, kind: str = "BadRequestError", param: str | None = None) -> Answer:
    """Return an error in the shape in which vLLM gives it."""
    return Answer.json({"error": {"message": message, "type": kind, "param": param, "code": status}}, status)


def _detail(status: int, detail: str) -> Answer:
    return Answer.json({"detail": detail}, status)


def _read(data: bytes) -> Body | None:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _answer_get(received: Received, persona: Persona) -> Answer:
    if received.method not in {"GET", "HEAD"}:
        return _detail(404, "Not Found")
    cards = {name: _card(name, persona) for name in persona.models}
    if received.path == "/health":
        return Answer.json({"status": "ok"}) if persona.healthy else error(503, "not healthy", "ServiceUnavailable")
    if received.path == "/v1/models":
        return Answer.json({"object": "list", "data": list(cards.values())})
    if not received.path.startswith("/v1/models/"):
        return _detail(404, "Not Found")
    name = unquote(received.path.removeprefix("/v1/models/"))
    if name not in cards:
        return error(404, f"The model `{name}` does not exist.", "NotFoundError", "model")
    return Answer.json(cards[name])


def _card(name: str, persona: Persona) -> Body:
    return {
        "id": name,
        "object": "model",
        "created": CREATED,
        "owned_by": "standin",
        "max_model_len": persona.max_model_len,
    }


def _chat(body: Body, persona: Persona) -> Answer:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return error(400, "messages must be a list of at least one message", param="messages")
    speech = _speak(body, persona, messages)
    frame = _frame("chatcmpl-standin", "chat.completion", persona)
    if _is_true(body.get("stream")):
        return _stream(body, speech, frame | {"object": "chat.completion.chunk"}, list(_chat_choices(speech)))
    message = {"role": "assistant", "content": speech.text}
    choices = [_choice(i, message=message, finish_reason=speech.finish_reason) for i in range(speech.choices)]
    return Answer.json(frame | {"choices": choices, "usage": speech.usage})


def _chat_choices(speech: Speech) -> Iterator[Body]:
    for index in range(speech.choices):
        yield _choice(index, delta={"role": "assistant", "content": ""}, finish_reason=None)
        for delta in speech.deltas():
            yield _choice(index, delta={"content": delta}, finish_reason=None)
        yield _choice(index, delta={}, finish_reason=speech.finish_reason)


def _completions(body: Body, persona: Persona) -> Answer:
    speech = _speak(body, persona, body.get("prompt"))
    frame = _frame("cmpl-standin", "text_completion", persona)
    if _is_true(body.get("stream")):
        return _stream(body, speech, frame, list(_text_choices(speech)))
    choices = [_choice(i, text=speech.text, finish_reason=speech.finish_reason) for i in range(speech.choices)]
    return Answer.json(frame | {"choices": choices, "usage": speech.usage})


def _text_choices(speech: Speech) -> Iterator[Body]:
    for index in range(speech.choices):
        for delta in speech.deltas():
            yield _choice(index, text=delta, finish_reason=None)
        yield _choice(index, text="", finish_reason=speech.finish_reason)


def _frame(answer_id: str, kind: str, persona: Persona) -> Body:
    return {"id": answer_id, "object": kind, "created": CREATED, "model": persona.models[0]}


def _choice(index: int, **fields: object) -> Body:
    return {"index": index, **fields}


def _stream(body: Body, speech: Speech, frame: Body, choices: list[Body]) -> Answer:
    chunks = [frame | {"choices": [choice]} for choice in choices]
    options = body.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        chunks.append(frame | {"choices": [], "usage": speech.usage})
    events = [f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode() for chunk in chunks]
    return Answer.sse(*events, b"data: [DONE]\n\n")


def _speak(body: Body, persona: Persona, prompt: object) -> Speech:
    words = persona.text.split()
    budget = _whole(body.get("max_completion_tokens")) or _whole(body.get("max_tokens")) or len(words)
    said = tuple(words[:budget])
    choices = min(_whole(body.get("n")) or 1, MOST_CHOICES)
    return Speech(said, "stop" if len(said) == len(words) else "length", choices, _count(prompt))


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


def _embeddings(body: Body, persona: Persona) -> Answer:
    data = [_choice(i, object="embedding", embedding=[0.6, 0.8]) for i, _ in enumerate(_texts(body.get("input")))]
    tokens = _count(body.get("input"))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return Answer.json({"object": "list", "data": data, "model": persona.models[0], "usage": usage})


def _responses(body: Body, persona: Persona) -> Answer:
    tokens, said = _count(body.get("input")), len(persona.text.split())
    content = [{"type": "output_text", "text": persona.text, "annotations": []}]
    message = {"id": "msg-standin", "type": "message", "role": "assistant", "status": "completed", "content": content}
    return Answer.json(
        {
            "id": "resp-standin",
            "object": "response",
            "created_at": CREATED,
            "status": "completed",
            "model": persona.models[0],
            "output": [message],
            "usage": {"input_tokens": tokens, "output_tokens": said, "total_tokens": tokens + said},
        }
    )


def _messages(body: Body, persona: Persona) -> Answer:
    return Answer.json(
        {
            "id": "msg-standin",
            "type": "message",
            "role": "assistant",
            "model": persona.models[0],
            "content": [{"type": "text", "text": persona.text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": _count(body.get("messages")), "output_tokens": len(persona.text.split())},
        }
    )


def _count_tokens(body: Body, persona: Persona) -> Answer:  # noqa: ARG001  # every route takes both
    return Answer.json({"input_tokens": _count(body.get("messages"))})


def _rerank(body: Body, persona: Persona) -> Answer:
    documents = enumerate(_texts(body.get("documents")))
    results = [_choice(i, document={"text": document}, relevance_score=1.0) for i, document in documents]
    return Answer.json({"id": "rerank-standin", "model": persona.models[0], "results": results})


def _score(body: Body, persona: Persona) -> Answer:
    data = [_choice(i, object="score", score=1.0) for i, _ in enumerate(_texts(body.get("text_2")))]
    return Answer.json({"id": "score-standin", "object": "list", "model": persona.models[0], "data": data})


def _classify(body: Body, persona: Persona) -> Answer:
    data = [_choice(i, label="LABEL_0", probs=[1.0], num_classes=1) for i, _ in enumerate(_texts(body.get("input")))]
    return Answer.json({"id": "classify-standin", "object": "list", "model": persona.models[0], "data": data})


def _generate(body: Body, persona: Persona) -> Answer:
    tokens = {"prompt_tokens": _count(body.get("text")), "completion_tokens": len(persona.text.split())}
    return Answer.json({"text": persona.text, "meta_info": tokens | {"finish_reason": {"type": "stop"}}})


def _tokenize(body: Body, persona: Persona) -> Answer:
    count = _count(body.get("prompt")) or _count(body.get("messages"))
    return Answer.json({"count": count, "max_model_len": persona.max_model_len, "tokens": list(range(count))})


def _detokenize(body: Body, persona: Persona) -> Answer:
    words = persona.text.split()
    tokens = [token for token in _texts(body.get("tokens")) if isinstance(token, int)]
    return Answer.json({"prompt": " ".join(words[token % len(words)] for token in tokens)})


INFERENCE_ROUTES: Final[dict[str, Callable[[Body, Persona], Answer]]] = {
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
"""Path of every POST route that the stand-in answers by itself."""
