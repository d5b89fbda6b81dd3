"""The artifact: a contract frozen as one JSON file. Its format, its digest, how it is read."""

import hashlib
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec

from router.artifact.cases import restored, stored
from router.artifact.layout import in_order, laid_out
from router.artifact.release import FORMAT_VERSION
from router.contract.rules.compiled import compiled_contract_of
from router.contract.schema.fields import SAMPLING_FIELDS
from router.contract.schema.model import Contract, Sections
from router.contract.schema.named_checks import CHECK_TYPES
from router.contract.schema.sections import Interval
from router.contract.schema.types import Frozen
from router.runtime.files import read_regular_file

MAX_ARTIFACT_BYTES: Final = 1024 * 1024
"""Largest artifact in bytes that a router reads."""

CONFLICT_MARKER: Final = re.compile(r"^(?:(?:<{7}|>{7}|\|{7})(?: .*)?|={7})$", re.MULTILINE)
"""A line that git leaves where two sides of a merge differ."""

REBUILD: Final = "rebuild it: profilec build SOURCE -o FILE"

_MOST_SHOWN: Final = 60
"""Characters of a key that an error shows."""


class ArtifactError(Exception):
    """An artifact cannot be used; the message is one line that says why and what to run."""


class Source(Frozen, frozen=True):
    """One file, preset or flag that went into the contract, and the SHA-256 of its bytes."""

    kind: str
    name: str
    sha256: str


class Artifact(Frozen, frozen=True):
    """The content of an artifact file: a contract, its name and its sources.

    `rules` are the ids of the rules for requests that match no case, in the order of their evaluation.
    """

    format_version: int
    name: str
    contract: Contract
    rules: tuple[str, ...]
    sources: tuple[Source, ...]
    digest: str


def freeze(name: str, contract: Contract, sources: tuple[Source, ...]) -> Artifact:
    """Make the artifact of a contract: add its rules and its digest."""
    rules = tuple(rule.rule for rule in contract.rules)
    return Artifact(FORMAT_VERSION, name, contract, rules, sources, digest_of(contract))


def digest_of(contract: Contract) -> str:
    """Return `sha256:` and the hex SHA-256 of the contract alone, written on one line."""
    text = json.dumps(in_order(stored(contract)), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def serialise(artifact: Artifact) -> bytes:
    """Return the bytes of the artifact file: UTF-8, sorted keys, what fits into a line in one."""
    return _serialise({**msgspec.to_builtins(artifact), "contract": stored(artifact.contract)})


def load(data: bytes, where: str) -> Artifact:
    """Read an artifact from its bytes; `where` names it in errors.

    Raises ArtifactError on anything but an artifact as `profilec build` writes it. The domains of single values are the
    compiler's affair: a digest that fits values out of them was made by somebody who means it.
    """
    if len(data) > MAX_ARTIFACT_BYTES:
        raise ArtifactError(f"{where}: larger than {MAX_ARTIFACT_BYTES} bytes: not an artifact; {REBUILD}")
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_reject_repeated_keys,
            parse_constant=_reject_constant,
            parse_float=_read_finite,
        )
        written = _serialise(value)
    except (ValueError, RecursionError) as error:
        if where.endswith((".yaml", ".yml")):
            raise ArtifactError(f"{where}: a profile, not an artifact; {REBUILD}") from error
        raise ArtifactError(f"{where}: {_unreadable(data, error)}; {REBUILD}") from error
    return _artifact_of(value, written, where)


def read(path: Path) -> Artifact:
    """Read an artifact file. Raises ArtifactError, also when the file cannot be read."""
    return load(read_bytes(path), str(path))


def read_bytes(path: Path) -> bytes:
    """Return a file's bytes, at most one more than an artifact may have. Raises ArtifactError if it is unreadable."""
    try:
        data, _ = read_regular_file(path, MAX_ARTIFACT_BYTES + 1)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror}") from error
    return data


def _unreadable(data: bytes, error: Exception) -> str:
    """Return the error text for bytes that are not valid JSON."""
    text = data.decode(errors="replace").replace("\r\n", "\n")
    conflict = CONFLICT_MARKER.search(text)
    if conflict:
        return f"unresolved merge conflict, line {text.count(chr(10), 0, conflict.start()) + 1}"
    return f"not a JSON artifact ({_one_line(error)})"


def _serialise(value: object) -> bytes:
    return laid_out(value).encode()


def _reject_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        repeated = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"the key {json.dumps(repeated[:_MOST_SHOWN])} is repeated")
    return members


def _reject_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def _read_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is beyond what a number can be")
    return number


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _contradiction(contract: Contract) -> str | None:
    """Say what in a contract cannot be enforced; None when all can."""
    for sections in (contract, *(case.sections for case in contract.cases)):
        contradiction = _contradiction_in(sections)
        if contradiction:
            return contradiction
    try:
        compiled_contract_of(contract)
    except (ValueError, LookupError, OverflowError, RecursionError) as error:
        return f"the contract cannot be run ({_one_line(error)})"
    return None


def _contradiction_in(sections: Sections) -> str | None:
    params, budget = sections.sampling.params, sections.output.max_tokens
    unknown = sorted(set(params) - set(SAMPLING_FIELDS))
    if unknown:
        return f"unknown sampling parameter {unknown[0]!r}"
    if budget is not None and budget.default is not None and budget.default > budget.cap:
        return f"the default of {budget.default} tokens is above the cap of {budget.cap}"
    for name, expected in params.items():
        if isinstance(expected, Interval) and not expected.min <= expected.max:
            return f"the band of {name} is empty"
        if isinstance(expected, Interval) and sections.sampling.conflict == "allow":
            return f"{name} is a band under conflict: allow"
    misnamed = [name for name, check in sections.checks.items() if type(check) is not CHECK_TYPES.get(name)]
    return f"unknown check {misnamed[0]!r}" if misnamed else None


def _check_version(value: object, where: str) -> None:
    version = value.get("format_version") if isinstance(value, dict) else None
    if type(version) is not int:
        raise ArtifactError(f"{where}: not an artifact: it has no format_version; {REBUILD}")
    if version != FORMAT_VERSION:
        raise ArtifactError(
            f"{where}: artifact format {version}, but this release reads only format {FORMAT_VERSION}; {REBUILD} with "
            "the profilec of the router's release"
        )


def _artifact_of(value: Any, written: bytes, where: str) -> Artifact:  # noqa: ANN401 - any JSON
    _check_version(value, where)
    try:
        if isinstance(value.get("contract"), dict):
            value = {**value, "contract": restored(value["contract"])}
        artifact = msgspec.convert(value, Artifact)
    except msgspec.ValidationError as error:
        raise ArtifactError(
            f"{where}: not an artifact of format {FORMAT_VERSION}: {_one_line(error)}; {REBUILD}"
        ) from error
    contradiction = _contradiction(artifact.contract)
    if contradiction:
        raise ArtifactError(f"{where}: {contradiction}; {REBUILD}")
    expected = freeze(artifact.name, artifact.contract, artifact.sources)
    # As text: a default left out, or `1.0` for `1`, would be equal as values.
    if serialise(expected) != written:
        raise ArtifactError(f"{where}: the digest does not match the contract: the file was edited by hand; {REBUILD}")
    return artifact
