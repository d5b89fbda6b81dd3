"""The rules that the router runs, as one ordered list: derived from the sections of a contract."""

from collections.abc import Iterator
from typing import Final, Literal, Protocol

import msgspec

from router.contract.schema.fields import BUDGET_FIELDS, SAMPLING_FIELDS, spellings_of
from router.contract.schema.named_checks import CHECKS, Check
from router.contract.schema.sections import Field, Interval, Limits, Output, Sampling, UnknownFields, UnknownMembers
from router.contract.schema.types import Count, Frozen, Positive

Modality = Literal["image", "video", "audio", "file"]
"""What a content part may carry besides text."""


class RuleKind(Frozen, frozen=True):
    """What every kind of rule says of itself, so that whoever runs or describes rules need not know the kinds."""

    def evidence(self, sections: "HasSections") -> str | None:  # noqa: ARG002 - some kinds have it from their section
        """Return the source of the rule, as its profile states it."""
        return None

    @property
    def fields_read(self) -> frozenset[str] | None:
        """The top-level fields of which one must be sent for the rule to matter; None: it matters to every request."""
        return None


class BodyLimit(RuleKind, frozen=True, tag_field="kind", tag="body_limit"):
    """Reject request bodies above this many bytes with 413."""

    max_bytes: Positive
    rule: str = "limits.max_body_bytes"


class Const(RuleKind, frozen=True, tag_field="kind", tag="pin"):
    """Inject a sampling value where the request has none; reject (or, under `allow`, pass) any other value."""

    field: str
    value: int | float
    conflict: Literal["reject", "allow"]
    rule: str

    def evidence(self, sections: "HasSections") -> str | None:
        """Return the source of the rule."""
        return sections.sampling.source


class Range(RuleKind, frozen=True, tag_field="kind", tag="band"):
    """Reject a sampling value outside the closed interval; do nothing where the request has none."""

    field: str
    min: int | float
    max: int | float
    rule: str

    def evidence(self, sections: "HasSections") -> str | None:
        """Return the source of the rule."""
        return sections.sampling.source


class PartLimit(RuleKind, frozen=True, tag_field="kind", tag="part_limit"):
    """Reject requests that carry more content parts of a modality than this, history included."""

    modality: Modality
    max: Count
    rule: str

    def evidence(self, sections: "HasSections") -> str | None:
        """Return the source of the rule."""
        return sections.limits.source


PART_LIMITS: Final[dict[Modality, str]] = {
    "image": "max_images",
    "video": "max_videos",
    "audio": "max_audios",
    "file": "max_files",
}
"""Modality → the member of `limits` that bounds its parts."""


class Budget(RuleKind, frozen=True, tag_field="kind", tag="budget"):
    """Hold every budget field of a request to the cap; inject the default, if there is one, where it names none."""

    cap: Positive
    default: Positive | None
    on_exceed: Literal["reject", "clamp"]
    rule: str = "output.max_tokens"

    def evidence(self, sections: "HasSections") -> str | None:
        """Return the source of the rule."""
        return None if sections.output.max_tokens is None else sections.output.max_tokens.source


class FieldRule(RuleKind, frozen=True, tag_field="kind", tag="field"):
    """The rule of one request field, named by its dotted path."""

    path: str
    field: Field
    rule: str

    def evidence(self, sections: "HasSections") -> str | None:  # noqa: ARG002 - as of all kinds
        """Return the source of the rule."""
        return self.field.source

    @property
    def fields_read(self) -> frozenset[str] | None:
        """The top-level fields of which one must be sent for the rule to matter."""
        paths = (self.path, *sources_of(self.field), *spellings_of(self.path))
        return None if self.field.required else frozenset(path.partition(".")[0] for path in paths)


class CheckRule(RuleKind, frozen=True, tag_field="kind", tag="check"):
    """Make one of the named checks."""

    check: Check
    rule: str

    def evidence(self, sections: "HasSections") -> str | None:  # noqa: ARG002 - as of all kinds
        """Return the source of the rule."""
        return self.check.source

    @property
    def fields_read(self) -> frozenset[str] | None:
        """The top-level fields of which one must be sent for the rule to matter."""
        of_check = FIELDS_OF_CHECKS.get(self.rule.removeprefix("checks."))
        return None if of_check is None else frozenset(of_check[:1])


class UnknownFieldsRule(RuleKind, frozen=True, tag_field="kind", tag="unknown_fields"):
    """Reject or drop fields that are not among the known ones, which are all listed here.

    `path`: the object whose members they are; empty: the request.
    """

    unknown_fields: UnknownFields
    known: tuple[str, ...]
    rule: str = "unknown_fields"
    path: str = ""

    def evidence(self, sections: "HasSections") -> str | None:  # noqa: ARG002 - as of all kinds
        """Return the source of the rule."""
        return self.unknown_fields.source

    @property
    def fields_read(self) -> frozenset[str] | None:
        """The top-level fields of which one must be sent for the rule to matter."""
        return frozenset((self.path.partition(".")[0],)) if self.path else None


UNKNOWN_WITHIN: Final = "unknown_fields.within"
"""The first part of the ids of rules about unknown members of one object; its path follows."""

ALWAYS_KNOWN: Final = ("messages", "model", "stream", "stream_options")
"""Top-level fields that no list of known ones need name."""

FIELDS_OF_CHECKS: Final = {
    "tools": ("tools",),
    "tool_choice": ("tool_choice", "tools"),
    "response_format": ("response_format",),
}
"""Top-level fields that the named checks read, first the one that each is about."""

Rule = BodyLimit | Const | Range | PartLimit | Budget | FieldRule | CheckRule | UnknownFieldsRule


class HasSections(Protocol):
    """What rules are derived from."""

    @property
    def limits(self) -> Limits:
        """The section `limits`."""
        ...

    @property
    def output(self) -> Output:
        """The section `output`."""
        ...

    @property
    def sampling(self) -> Sampling:
        """The section `sampling`."""
        ...

    @property
    def fields(self) -> dict[str, Field]:
        """The section `fields`."""
        ...

    @property
    def checks(self) -> dict[str, Check]:
        """The section `checks`."""
        ...

    @property
    def unknown_fields(self) -> UnknownFields:
        """The section `unknown_fields`."""
        ...

    @property
    def order(self) -> tuple[str, ...]:
        """The section `order`."""
        ...


def sources_of(field: Field) -> tuple[str, ...]:
    """Return the dotted paths that a field takes its value from, the first that is sent: each with its other spellings.

    An engine that prefers another spelling would otherwise get what the field was to take.
    """
    return tuple(dict.fromkeys(path for source in field.sources for path in (source, *spellings_of(source))))


def rules_of(sections: HasSections, known_elsewhere: frozenset[str] = frozenset()) -> tuple[Rule, ...]:
    """Derive the ordered rules of a contract, or of one of its cases.

    `known_elsewhere` are paths of fields that conditions read, and that other cases govern: the vendor knows them too.
    """
    rules = [*_unknown_fields(sections, known_elsewhere), *_sampling(sections), *_other_fields(sections)]
    rules += [CheckRule(sections.checks[name], f"checks.{name}") for name in CHECKS if name in sections.checks]
    for modality, member in PART_LIMITS.items():
        most: int | None = getattr(sections.limits, member)
        if most is not None:
            rules.append(PartLimit(modality, most, f"limits.{member}"))
    if sections.output.max_tokens is not None:
        budget = sections.output.max_tokens
        rules.append(Budget(budget.cap, budget.default, budget.on_exceed))
    places = {name: place for place, name in enumerate(sections.order)}
    # The size comes first whatever `order` says: a body above it is never read.
    return (
        BodyLimit(sections.limits.max_body_bytes),
        *sorted(rules, key=lambda rule: places.get(rule.rule, len(places))),
    )


def _sampling(sections: HasSections) -> Iterator[Rule]:
    for field in SAMPLING_FIELDS:
        expected = sections.sampling.params.get(field)
        name = f"sampling.params.{field}"
        if isinstance(expected, Interval):
            yield Range(field, expected.min, expected.max, name)
        elif expected is not None:
            yield Const(field, expected, sections.sampling.conflict, name)
        if field in sections.fields:
            yield _field(sections, field)


def _other_fields(sections: HasSections) -> Iterator[Rule]:
    return (_field(sections, path) for path in sorted(sections.fields) if path not in SAMPLING_FIELDS)


def _field(sections: HasSections, path: str) -> FieldRule:
    return FieldRule(path, sections.fields[path], f"fields.{path}")


def governed_by(sections: HasSections) -> set[str]:
    """Return the paths of the request fields that the sections have rules for."""
    governed = {*sections.sampling.params}
    governed |= {field for name in sections.checks for field in FIELDS_OF_CHECKS.get(name, ())}
    for path, field in sections.fields.items():
        governed |= {path, *field.sources, *field.requires, *field.excludes}
    if sections.output.max_tokens is not None:
        governed |= {*BUDGET_FIELDS}
    return governed | {*sections.unknown_fields.within}


def _unknown_fields(sections: HasSections, known_elsewhere: frozenset[str]) -> Iterator[Rule]:
    section = sections.unknown_fields
    paths = governed_by(sections) | known_elsewhere
    if section.policy != "pass":
        yield _unknown_at_top(section, paths)
    yield from (_unknown_members(path, section.within[path], paths) for path in sorted(section.within))


def _unknown_at_top(section: UnknownFields, paths: set[str]) -> UnknownFieldsRule:
    names = {*ALWAYS_KNOWN, *section.known, *(path.partition(".")[0] for path in paths)}
    # Other spellings of what vendors do not have as a number of tokens or a sampling parameter are unknown to them.
    spelled = (other for name in names & {*SAMPLING_FIELDS, *BUDGET_FIELDS} for other in spellings_of(name))
    section = msgspec.structs.replace(section, within={})
    return UnknownFieldsRule(section, tuple(sorted({*names, *spelled})))


def _unknown_members(path: str, members: UnknownMembers, paths: set[str]) -> UnknownFieldsRule:
    inner = {each.removeprefix(f"{path}.").partition(".")[0] for each in paths if each.startswith(f"{path}.")}
    section = UnknownFields(**msgspec.structs.asdict(members))
    return UnknownFieldsRule(section, tuple(sorted({*inner, *members.known})), f"{UNKNOWN_WITHIN}.{path}", path)
