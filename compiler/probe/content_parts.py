"""Content parts: the types that messages of each role may have."""

import re
from typing import Any, Final

from compiler.language.samples import FOREIGN
from compiler.probe.conversations import LearnedChecks
from compiler.probe.evidence import evidence_of
from compiler.probe.experiment import BaseRequest, ExperimentResult, Learner, ask_all, texts_in
from compiler.verify.generation.conversations import content_with, holding_content

ABOUT: Final = "checks.content_parts"

_RARE_ROLE: Final = "function"
_OTHERS: Final = ("system", "developer", "assistant", "tool", _RARE_ROLE)
_KINDS: Final = (
    *("text", "image_url", "video_url", "video", "input_audio", "audio", "file", "file_url", "document_url"),
    *("reference", "thinking", "refusal", FOREIGN),
)
_RARE: Final = (
    "input_text",
    "output_text",
    "input_image",
    "input_file",
    "audio_url",
    "image",
    "document",
    "tool_reference",
)
"""Types that are tried in messages of users first."""

_MOST_LISTED: Final = 16


def learn_content_parts(base: BaseRequest) -> Learner[LearnedChecks]:
    """Learn the accepted types of parts, in messages of users and of the other roles."""
    of_user = yield from _of_role(base, "user", (*_KINDS, *_RARE))
    said = " ".join(texts_in(of_user[FOREIGN]))
    listed = [kind for kind in dict.fromkeys(re.findall(r"[a-z]+(?:_[a-z]+)+", said)) if kind not in of_user]
    of_user |= yield from _of_role(base, "user", tuple(listed[:_MOST_LISTED]))
    allowed = _types(of_user)
    if allowed is None:
        return LearnedChecks({})
    kinds = (*_KINDS, *(kind for kind in allowed if kind not in _KINDS))
    section: dict[str, Any] = {"allowed": allowed}
    by_role: dict[str, Any] = {}
    for role in _OTHERS:
        # The rare role is asked about only where other roles have lists of their own.
        types = _types((yield from _of_role(base, role, kinds))) if by_role or role != _RARE_ROLE else None
        if types is not None and {*types} != {*allowed}:
            by_role[role] = types
    if by_role:
        section["by_role"] = by_role
    odd = ({"text": base.text}, {"type": ["text"], "text": base.text}, base.text)
    yield from ask_all(
        *(base.experiment(ABOUT, {"messages": holding_content("user", base.text, [part])}) for part in odd)
    )
    others = [f"type {kind}" for kind in of_user if kind not in allowed]
    source = evidence_of([f"type {kind}" for kind in allowed], others, list(of_user.values()))
    return LearnedChecks({"content_parts": {**section, "source": source}})


def _of_role(base: BaseRequest, role: str, kinds: tuple[str, ...]) -> Learner[dict[str, ExperimentResult]]:
    contents = {kind: holding_content(role, base.text, content_with(kind, base.text)) for kind in kinds}
    results = yield from ask_all(*(base.experiment(ABOUT, {"messages": messages}) for messages in contents.values()))
    return dict(zip(kinds, results, strict=True))


def _types(of_kinds: dict[str, ExperimentResult]) -> list[str] | None:
    """Return the types that are not rejected as an unknown one is; None where that one, or no text, is accepted."""
    unknown = of_kinds[FOREIGN]
    if not unknown.is_rejected or not of_kinds["text"].is_accepted:
        return None
    kinds = [kind for kind, result in of_kinds.items() if not (result.is_rejected and _is_alike(result, unknown, kind))]
    # If the message of a rejection lists the types, they have the order of the rule.
    said = " ".join(texts_in(unknown))
    places = {kind: found.start() for kind in kinds if (found := re.search(rf"\b{kind}\b", said)) is not None}
    return sorted(kinds, key=places.__getitem__) if len(places) == len(kinds) else kinds


def _is_alike(result: ExperimentResult, unknown: ExperimentResult, kind: str) -> bool:
    """Return whether a type is rejected with the same message as the unknown one."""
    # Beside the type itself, ids of requests and places differ.
    names = re.compile(rf"\b(?:{kind}|{FOREIGN})\b|[0-9a-f]{{8,}}|[0-9]+".encode())
    one, other = (each.response.body for each in (result, unknown))
    return names.sub(b"", one) == names.sub(b"", other)
