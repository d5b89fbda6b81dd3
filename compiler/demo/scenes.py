"""The requests of the demo: derived from the contract, each with what it is meant to show."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import requests

from compiler.demo.harness import Engine, Router
from compiler.pipeline import compile_profile
from compiler.resolve.selection import Selection
from router.artifact.format import Artifact
from router.contract.decide import Forward, Rejection, ServedIds, decide
from router.contract.errors import build_error_response
from router.contract.jsonbytes.numbers import show
from router.contract.schema.fields import BUDGET_FIELDS
from router.contract.schema.model import Contract
from router.contract.schema.rule_list import Const, Range

ALIAS: Final = "demo-latest"
VENDOR_TYPE: Final = "vendor_error"
MAX_IMAGES: Final = 2
MAX_IMAGES_SENT: Final = 100
MAX_TOKENS: Final = 256
MAX_BODY_BYTES: Final = 4096
_PIXEL: Final = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
QUESTION: Final = [{"role": "user", "content": "Say hello."}]

_SHOWN_BODY: Final = 200

Body = dict[str, Any]


class DemoRow(NamedTuple):
    """One line of the table: what it shows, what was sent, what the engine got, what came back, which rule decided."""

    title: str
    sent: str
    engine_received: str
    response: str
    rule: str
    as_expected: bool


@dataclass(frozen=True)
class Overlay:
    """A deployment file on top of the profile that is shown, so that every section has something to do."""

    base: Selection
    on_exceed: Literal["reject", "clamp"]

    def yaml(self, base: str | None = None) -> str:
        """Return the text of the file, by default as it would stand beside the profile that it extends."""
        name = self.base.name if self.base.kind == "preset" else f"./{Path(self.base.name).name}"
        return (
            f"extends: {base or name}\n"
            f"models: {{aliases: [{ALIAS}]}}\n"
            f"limits: {{max_body_bytes: {MAX_BODY_BYTES // 1024}KiB, max_images: {MAX_IMAGES}}}\n"
            f"output: {{max_tokens: {{cap: {MAX_TOKENS}, on_exceed: {self.on_exceed}, default: {MAX_TOKENS}}}}}\n"
            f"errors: {{bad_request_type: {VENDOR_TYPE}}}\n"
        )

    def compile_in(self, folder: Path) -> Artifact:
        """Write the file into a folder and compile it."""
        path = folder / f"deployment-{self.on_exceed}.yaml"
        base = None if self.base.kind == "preset" else json.dumps(str(Path(self.base.name).resolve()))
        path.write_text(self.yaml(base), encoding="utf-8")
        return compile_profile(Selection("file", str(path), "demo")).artifact


@dataclass(frozen=True)
class Scene:
    """One request and its expected status, unless the contract sets another.

    None stands for what the engine says.
    """

    title: str
    fields: Body
    status: int | None = 200
    padding: int = 0
    rule: str = ""
    sent: str = ""
    names_pins: bool = False
    check: Callable[[requests.Response], bool] = field(default=lambda _: True)

    def play(self, engine: Engine, router: Router) -> DemoRow:
        """Send the request and return what happened."""
        body = {"model": engine.model, "messages": QUESTION, **self.fields}
        if self.padding:
            body["padding"] = "x" * self.padding
        data = json.dumps(body).encode()
        decision = decide(data, router.artifact.contract, ServedIds((engine.model,)))
        response = router.post(data)
        received = engine.last_received()
        reached = not isinstance(decision, Rejection)
        pins = () if self.names_pins else _pins(router.artifact.contract)
        got = "nothing" if isinstance(decision, Rejection) else _changes(body, json.loads(decision.body), pins)
        as_expected = self._is_expected(decision, response)
        if engine.mock_engine is not None:
            as_expected &= (received is not None) == reached
            if received is not None:
                got = _changes(body, json.loads(received.body), pins)
        rule = self.rule or (decision.rule if isinstance(decision, Rejection) else "")
        return DemoRow(self.title, self.sent or _fields(self.fields), got, _response_text(response), rule, as_expected)

    def _is_expected(self, decision: Forward | Rejection, got: requests.Response) -> bool:
        """Return whether the response is what the contract says: rejected where due, with the contract's status."""
        if isinstance(decision, Rejection):
            is_refused = self.status != HTTPStatus.OK
            return (
                is_refused
                and got.status_code == build_error_response(decision.error, decision.errors).status
                and self.check(got)
            )
        return self.status in (None, got.status_code) and self.check(got)


def profile_scenes(contract: Contract) -> Iterator[Scene]:
    """Yield the requests that show the profile itself at work: its pins and its bands."""
    pins = _pins(contract)
    if pins:
        yield Scene("a pin is injected", {}, sent="no sampling fields", rule=_rules(pins), names_pins=True)
        yield _with_another_value(pins[0])
    for band in [rule for rule in contract.rules if isinstance(rule, Range)][:1]:
        middle = band.max if isinstance(band.max, int) else round((band.min + band.max) / 2, 3)
        yield Scene("a band accepts a value", {band.field: middle}, rule=band.rule)
        outside = band.max + 1 if isinstance(band.max, int) else round(band.max + 0.5, 3)
        yield Scene("a band refuses", {band.field: outside}, 400)
    yield from _size_scenes(contract)
    routed = [name for name, alias in contract.models.aliases.items() if alias.model is None]
    for name in routed[:1]:
        yield _alias_scene(name)
    if not contract.governs_beyond_body_size():
        yield Scene("nothing is enforced", {"temperature": 0.7, "top_p": 0.9}, rule="none: the bytes pass unchanged")


def _size_scenes(contract: Contract) -> Iterator[Scene]:
    budget = contract.output.max_tokens
    if budget is not None:
        over = {_budget_field(contract): budget.cap + 1}
        if budget.on_exceed == "clamp":
            yield Scene("the cap clamps", over, rule="output.max_tokens")
        else:
            yield Scene("the cap refuses", over, 400)
    images = contract.limits.max_images
    if images is not None and images < MAX_IMAGES_SENT:
        yield _images_scene(images + 1)


def _images_scene(count: int) -> Scene:
    content = [{"type": "text", "text": "Look."}] + [_PIXEL] * count
    return Scene(
        "images are counted", {"messages": [{"role": "user", "content": content}]}, 400, sent=f"{count} images"
    )


def _alias_scene(alias: str) -> Scene:
    def names_alias(answer: requests.Response) -> bool:
        return bool(_json_of(answer).get("model") == alias)

    return Scene("an alias is accepted", {"model": alias}, rule="models.aliases", check=names_alias)


def _budget_field(contract: Contract) -> str:
    """Return the name of the budget that a request may send."""
    refused = [name for name, field in contract.fields.items() if field.reject]
    return next((name for name in ("max_tokens", *BUDGET_FIELDS) if name not in refused), "max_tokens")


def clamp_scene(contract: Contract) -> Scene:
    """Return the request that shows a cap that clamps."""
    over = {_budget_field(contract): MAX_TOKENS + 1}
    return Scene("with on_exceed: clamp it lowers", over, rule="output.max_tokens")


def overlay_scenes(contract: Contract) -> Iterator[Scene]:
    """Yield the requests that show the sections of the overlay at work, the cap that rejects first."""
    yield Scene("a cap refuses", {_budget_field(contract): MAX_TOKENS + 1}, 400)
    yield _images_scene(MAX_IMAGES + 1)
    yield _alias_scene(ALIAS)
    yield Scene("an unknown model is not", {"model": "no-such-model"}, 404)
    yield Scene("a body is too large", {}, 413, padding=MAX_BODY_BYTES, sent="4 KiB and a bit")
    yield Scene(
        "the engine's 400 is retyped",
        {"messages": "Say hello."},
        None,
        rule="errors.bad_request_type",
        # An envelope of the contract's own may put another type there, or none.
        check=_is_retyped if contract.errors.engine_400 is None else lambda _: True,
    )
    yield Scene(
        "a stream passes", {"stream": True}, sent="stream: true", check=_is_done, rule="none: bytes pass unchanged"
    )


def _with_another_value(pin: Const) -> Scene:
    other = round(pin.value - 0.15, 3) if isinstance(pin.value, float) else pin.value + 1
    if pin.conflict == "reject":
        return Scene("a pin rejects another value", {pin.field: other}, 400)
    return Scene("a pin allows another value", {pin.field: other}, rule=pin.rule)


def _is_retyped(answer: requests.Response) -> bool:
    return answer.status_code != HTTPStatus.BAD_REQUEST or bool(_error_of(answer).get("type") == VENDOR_TYPE)


def _is_done(answer: requests.Response) -> bool:
    return answer.content.rstrip().endswith(b"data: [DONE]")


def _pins(contract: Contract) -> list[Const]:
    return [rule for rule in contract.rules if isinstance(rule, Const)]


def _rules(pins: list[Const]) -> str:
    others = f"\nand {len(pins) - 1} more" if len(pins) > 1 else ""
    return pins[0].rule + others


def _fields(fields: Body) -> str:
    return ", ".join(f"{name}: {_value(value)}" for name, value in fields.items())


def _changes(sent: Body, got: Body, known_pins: Sequence[Const]) -> str:
    """Return how the engine's request differs from the sent one; pins that were shown before are only counted."""
    fields = [rule.field for rule in known_pins]
    changed = [f"{name}: {_value(got[name])}" for name in got if name in sent and got[name] != sent[name]]
    added = [f"+ {name}: {_value(value)}" for name, value in got.items() if name not in sent and name not in fields]
    pins = [name for name in got if name not in sent and name in fields]
    counted = [f"+ {len(pins)} pins"] if pins else []
    return "\n".join(changed + added + counted) or "the same bytes"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return show(value)
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


def _response_text(answer: requests.Response) -> str:
    if answer.headers.get("Content-Type", "").startswith("text/event-stream"):
        return f"{answer.status_code}, {answer.content.count(b'data:')} events, the last [DONE]"
    body, error = _json_of(answer), _error_of(answer)
    if error:
        kind = f" {error['type']}" if "type" in error else ""
        return f"{answer.status_code}{kind}\n{error.get('message')}"
    if answer.status_code >= HTTPStatus.BAD_REQUEST:
        return f"{answer.status_code}\n{answer.text[:_SHOWN_BODY]}"
    return (
        f"{answer.status_code}, model: {body['model']}"
        if "model" in body
        else f"{answer.status_code}, no chat completion"
    )


def _json_of(answer: requests.Response) -> Body:
    try:
        value = answer.json()
    except requests.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _error_of(answer: requests.Response) -> Body:
    error = _json_of(answer).get("error")
    return error if isinstance(error, dict) else {}
