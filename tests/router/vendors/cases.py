"""The acceptance cases of the vendors' presets: read from their files, made into requests, held against answers."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent / "cases"
SERVED: Final = "served-model"
"""The id that the engine serves where a case names none."""

ENGINE_MODEL: Final = "$ENGINE_MODEL"
REQUEST_ID: Final = "$REQUEST_ID"

PRESETS_OF_FAMILY: Final = {
    "kimi-k3": {"verifier": "moonshot-kimi-k3", "live": "moonshot-kimi-k3-live"},
    "kimi-k2.7-code": {"verifier": "moonshot-kimi-k2.7-code"},
    "kimi-k2.7-code-highspeed": {"verifier": "moonshot-kimi-k2.7-code"},
    "kimi-k2.6": {"verifier": "moonshot-kimi-k2.6", "live": "moonshot-kimi-k2.6-live"},
}
"""Which preset a case is for that names its `family` and `variant` instead; `both` means all of the family's."""

RETIRED: Final = frozenset({"kimi-k2", "kimi-k2.5", "kimi-k2-thinking", "moonshot-v1"})
"""Families that their vendor no longer serves: their cases are kept as data."""


@dataclass(frozen=True)
class Case:
    """One case for one preset."""

    file: str
    preset: str
    data: dict[str, Any]

    @property
    def name(self) -> str:
        """How the case is named where tests are listed."""
        return f"{self.preset}: {self.data['id']}"

    @property
    def served(self) -> tuple[str, ...]:
        """The ids that the engine serves."""
        return tuple(self.data.get("model_ids", (SERVED,)))

    @property
    def is_retired(self) -> bool:
        """Tell whether it is of a family that its vendor no longer serves."""
        return self.data.get("family") in RETIRED

    @property
    def engine(self) -> dict[str, Any] | None:
        """What the engine answers, where it is not what it would say by itself."""
        return self.data.get("engine")

    def request(self) -> bytes:
        """Return the body of the request, with what `build` adds to it."""
        request = json.loads(json.dumps(self.data["request"]))
        build = self.data.get("build", {})
        if "tools" in build:
            request["tools"] = [_tool(build["tools"]["name"], number) for number in range(build["tools"]["repeat"])]
        if "image_parts" in build:
            images = build["image_parts"]
            # More base64: any letter will do.
            url = images["url"].ljust(images.get("pad_url_to_bytes", 0), "A")
            part = {"type": "image_url", "image_url": {"url": url}}
            text = {"type": "text", "text": request["messages"][-1]["content"]}
            request["messages"][-1]["content"] = [*([part] * images["repeat"]), text]
        # Blanks behind a body are part of its size and nothing else.
        return json.dumps(request, ensure_ascii=False).encode().ljust(build.get("pad_body_to_bytes", 0))

    def expected(self, key: str, request_id: str = "") -> Any:
        """Return what is expected, with what only a run knows put in the place of its marks; None where nothing is."""
        return _filled(self.data["expect"].get(key), {ENGINE_MODEL: self.served[0], REQUEST_ID: request_id})


def all_cases() -> list[Case]:
    """Return the cases of all files, those of one router side by side."""
    found = [case for path in sorted(FOLDER.glob("*.jsonl")) for case in _cases_of(path)]
    return sorted(found, key=lambda case: (case.preset, case.served))


def _cases_of(path: Path) -> Iterator[Case]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            data = json.loads(line)
            yield from (Case(path.name, preset, data) for preset in _presets_of(data))


def _presets_of(data: dict[str, Any]) -> list[str]:
    if "preset" in data:
        return [data["preset"]]
    if data["family"] in RETIRED:
        return [data["family"]]
    presets = PRESETS_OF_FAMILY[data["family"]]
    return list(presets.values()) if data["variant"] == "both" else [presets[data["variant"]]]


def _tool(name: str, number: int) -> dict[str, Any]:
    parameters: dict[str, Any] = {"type": "object", "properties": {}}
    return {"type": "function", "function": {"name": name.replace("{i}", str(number)), "parameters": parameters}}


def _filled(value: Any, marks: dict[str, str]) -> Any:
    if isinstance(value, str):
        for mark, meant in marks.items():
            value = value.replace(mark, meant)
        return value
    if isinstance(value, list):
        return [_filled(item, marks) for item in value]
    if isinstance(value, dict):
        return {key: _filled(item, marks) for key, item in value.items()}
    return value


def check_error(case: Case, body: Any, request_id: str) -> None:
    """Hold the body of an error against what a case expects of it."""
    error = body.get("error", body)
    error = error if isinstance(error, dict) else body
    for key, member in (("error_type", "type"), ("error_code", "code"), ("error_message", "message")):
        if key in case.data["expect"]:
            assert error.get(member) == case.expected(key, request_id), body
    part = case.expected("error_message_contains")
    assert part is None or part in _as_text(error.get("message")), body
    absent = case.expected("error_message_lacks")
    assert absent is None or absent not in _as_text(error.get("message")), body
    if "body" in case.data["expect"]:
        assert body == case.expected("body", request_id), body


def check_forwarded(case: Case, body: Any) -> None:
    """Hold what an engine got against what a case expects of it."""
    wanted = case.expected("forwarded")
    assert wanted is None or holds(body, wanted), (body, wanted)
    choices = case.expected("forwarded_any_of")
    assert choices is None or any(holds(body, choice) for choice in choices), (body, choices)
    for path in case.expected("forwarded_absent") or ():
        assert not _is_there(body, path), (body, path)


def check_stream(case: Case, events: list[Any]) -> None:
    """Hold the events of a stream against what a case expects of them."""
    wanted = case.expected("stream")
    usages = [event.get("usage") for event in events]
    ends = [choice for event in events for choice in event.get("choices", ()) if choice.get("finish_reason")]
    if "usage_present" in wanted:
        found = any(usages) or any(choice.get("usage") for event in events for choice in event.get("choices", ()))
        assert found is wanted["usage_present"], events
    if "choices_empty_frame" in wanted:
        assert any(event.get("choices") == [] for event in events) is wanted["choices_empty_frame"], events
    if "end_frame_has" in wanted:
        assert wanted["end_frame_has"] == "choices[0].usage"
        assert ends[-1].get("usage"), events


def holds(value: Any, wanted: Any) -> bool:
    """Tell whether a JSON value is another, or an object that has at least its members, at any depth."""
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(key in value and holds(value[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(holds, value, wanted))
    return type(value) in _ALIKE.get(type(wanted), (type(wanted),)) and bool(value == wanted)


_ALIKE: Final[dict[type, tuple[type, ...]]] = {int: (int, float), float: (int, float)}


def _is_there(body: Any, dotted: str) -> bool:
    for step in dotted.split("."):
        if not isinstance(body, dict) or step not in body:
            return False
        body = body[step]
    return True


def _as_text(message: Any) -> str:
    return message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
