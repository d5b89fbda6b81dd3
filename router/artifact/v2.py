"""The second format of artifacts, which is still read: of content parts its limits bounded images alone."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from router.contract.schema.model import Contract
from router.contract.schema.types import Frozen

FORMAT_VERSION: Final = 2

Members = dict[str, Any]

_ADDED_LIMITS: Final = ("max_videos", "max_audios", "max_files")
"""Members of `limits` that later formats have; in this one each is null."""


class ArtifactV2(Frozen, frozen=True):
    """An artifact of the second format as it stands in a file; its sources are as in any later one."""

    format_version: int
    name: str
    contract: Members
    rules: tuple[Members, ...]
    case_rules: dict[str, tuple[Members, ...]]
    sources: tuple[Members, ...]
    digest: str

    def meaning(self) -> Contract:
        """Return the contract that it means today. Raises msgspec.ValidationError on what is none."""
        return msgspec.convert(_with_limits(self.contract, _with_added), Contract)

    def as_written(self, contract: Contract, digest_of: Callable[[object], str]) -> Members:
        """Return what stands in the file of such a contract that nobody edited by hand."""
        members = _with_limits(msgspec.to_builtins(contract), _without_added)
        case_rules = {name: rules_as_written(rules) for name, rules in contract.case_rules.items()}
        return {
            **msgspec.to_builtins(self),
            "contract": members,
            "rules": rules_as_written(contract.rules),
            "case_rules": case_rules,
            "digest": digest_of(members),
        }


def rules_as_written(rules: object) -> list[Members]:
    """Return rules as the first two formats had them: with a kind of its own for the number of images."""
    return [_image_limit(rule) if rule["kind"] == "part_limit" else rule for rule in msgspec.to_builtins(rules)]


def _image_limit(rule: Members) -> Members:
    return {"kind": "image_limit", "max_images": rule["max"], "rule": rule["rule"]}


def _with_limits(contract: Members, changed: Callable[[Members], Members]) -> Members:
    """Return a contract with other limits, those of its cases included; what is no contract is left for the reader."""
    cases = contract.get("cases")
    if isinstance(cases, list | tuple):
        cases = [
            {**case, "sections": _with_own_limits(case["sections"], changed)}
            if isinstance(case, dict) and isinstance(case.get("sections"), dict)
            else case
            for case in cases
        ]
        contract = {**contract, "cases": cases}
    return _with_own_limits(contract, changed)


def _with_own_limits(sections: Members, changed: Callable[[Members], Members]) -> Members:
    limits = sections.get("limits")
    return {**sections, "limits": changed(limits)} if isinstance(limits, dict) else sections


def _with_added(limits: Members) -> Members:
    return {**dict.fromkeys(_ADDED_LIMITS), **limits}


def _without_added(limits: Members) -> Members:
    return {name: value for name, value in limits.items() if name not in _ADDED_LIMITS}
