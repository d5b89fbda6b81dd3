"""The first format of artifacts, which is still read: its contract knew sampling, budget, sizes, names and one type."""

from typing import Any, Final, Literal

import msgspec

from router.artifact.v2 import rules_as_written
from router.contract.schema.model import Contract
from router.contract.schema.sections import Errors, Interval, Limits, MaxTokens, Models, Output, Sampling, plain_aliases
from router.contract.schema.types import Count, Frozen, Positive

FORMAT_VERSION: Final = 1


class _Errors(Frozen, frozen=True):
    bad_request_type: str | None


class _Limits(Frozen, frozen=True):
    max_body_bytes: Positive
    max_images: Count | None


class _Models(Frozen, frozen=True):
    aliases: tuple[str, ...]
    answer_as: Literal["requested", "served"]


class _MaxTokens(Frozen, frozen=True):
    cap: Positive
    default: Positive
    on_exceed: Literal["reject", "clamp"]


class _Output(Frozen, frozen=True):
    max_tokens: _MaxTokens | None


class _Sampling(Frozen, frozen=True):
    conflict: Literal["reject", "allow"]
    params: dict[str, int | float | Interval]


class _Contract(Frozen, frozen=True):
    errors: _Errors
    limits: _Limits
    models: _Models
    output: _Output
    sampling: _Sampling


class ArtifactV1(Frozen, frozen=True):
    """An artifact of the first format as it stands in a file; its sources are as in any later one."""

    format_version: int
    name: str
    contract: _Contract
    rules: tuple[dict[str, Any], ...]
    sources: tuple[dict[str, Any], ...]
    digest: str

    def meaning(self) -> Contract:
        """Return the contract that it means today."""
        written = self.contract
        budget = written.output.max_tokens
        return Contract(
            errors=Errors(bad_request_type=written.errors.bad_request_type),
            limits=Limits(written.limits.max_body_bytes, written.limits.max_images),
            models=Models(plain_aliases(*written.models.aliases), written.models.answer_as),
            output=Output(None if budget is None else MaxTokens(budget.cap, budget.default, budget.on_exceed)),
            sampling=Sampling(written.sampling.conflict, written.sampling.params),
        )

    def as_written(self, digest: str) -> dict[str, Any]:
        """Return what stands in the file of a contract that nobody edited by hand."""
        whole = msgspec.structs.replace(self, rules=rules_as_written(self.meaning().rules), digest=digest)
        value: dict[str, Any] = msgspec.to_builtins(whole)
        return value
