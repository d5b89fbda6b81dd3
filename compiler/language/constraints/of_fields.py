"""The constraints of a field as a whole, its relations to other fields, and what becomes of its value."""

from typing import Final

from compiler.language.constraints.record import Constraint, ConstraintComparison, Contradiction
from compiler.language.values import Rules, condition, field_path, flag, free, number, one_or_many, scalar, text


def _fields_or_values(meaning: str, example: str) -> Rules:
    """Return the rules of other fields: a list of paths, or each with its values."""
    by_path = condition()
    paths = one_or_many(field_path(), "")["anyof"]
    return {
        "anyof": [*paths, {key: rule for key, rule in by_path.items() if key != "meta"}],
        "meta": {
            "expected": "request fields: a path, a list of paths, or a mapping of paths to values",
            "meaning": meaning,
            "absent": "nothing",
            "example": example,
        },
    }


OF_PRESENCE: Final = (
    Constraint(
        key="required",
        schema=flag("Reject a request where the field is absent or null."),
        kind="required, rejected, types",
        part="required",
        comparison=ConstraintComparison("flag", "requests without {path}"),
        holds_for_messages=True,
    ),
    Constraint(
        key="reject",
        schema=flag("Reject a request that sends the field at all."),
        kind="required, rejected, types",
        part="reject",
        comparison=ConstraintComparison("flag", "requests sending {path}"),
        contradicts={
            "required": Contradiction(
                "refused-and-required", "`reject` and `required` are both given, so every request is rejected"
            )
        },
    ),
)

OF_OTHERS_AND_CHANGES: Final = (
    Constraint(
        key="requires",
        schema=_fields_or_values(
            "Fields that must be there, or have these values, when this one is sent.", "{logprobs: true}"
        ),
        kind="cross-field",
        form="condition",
        json_schema=("dependentRequired", "dependencies"),
        part="requires",
        comparison=ConstraintComparison("demands", "requests sending {path} without {}"),
    ),
    Constraint(
        key="excludes",
        schema=_fields_or_values(
            "Fields that must not be there, or not have these values, when this one is sent.", "[reasoning_effort]"
        ),
        kind="cross-field",
        form="condition",
        part="excludes",
        comparison=ConstraintComparison("exclusions", "requests sending {path} with {}"),
    ),
    Constraint(
        key="from",
        schema=one_or_many(
            field_path(),
            "a dotted path of a request field",
            meaning="Fields whose value this one takes when it is not sent; the engine never gets them.",
            absent="none",
            example="[max_completion_tokens]",
        ),
        kind="mapped, forced, dropped",
        form="texts",
        attribute="sources",
        comparison=ConstraintComparison("sources"),
    ),
    Constraint(
        key="map",
        schema=free(
            text("a value, as JSON writes it"),
            scalar(),
            "a mapping of values to values",
            meaning="Values that are replaced before the engine gets them.",
            absent="none",
            example='{medium: high, "true": enabled}',
        ),
        kind="mapped, forced, dropped",
        comparison=ConstraintComparison("map"),
    ),
    Constraint(
        key="floor",
        schema=number(meaning="The value is silently raised to at least this.", absent="nothing", example="0.95"),
        kind="mapped, forced, dropped",
        comparison=ConstraintComparison("floor"),
        names_values=True,
    ),
    Constraint(
        key="ceiling",
        schema=number(meaning="The value is silently lowered to at most this.", absent="nothing", example="1"),
        kind="mapped, forced, dropped",
        comparison=ConstraintComparison("ceiling"),
        not_below=("floor",),
        names_values=True,
    ),
    Constraint(
        key="force",
        schema=scalar(meaning="The engine always gets this value.", absent="nothing", example="1.0"),
        kind="mapped, forced, dropped",
        comparison=ConstraintComparison("force"),
        contradicts={"drop": Contradiction("force-and-drop", "`force` and `drop` are both given")},
        names_values=True,
    ),
    Constraint(
        key="drop",
        schema=flag("The engine does not get the field."),
        kind="mapped, forced, dropped",
        comparison=ConstraintComparison("drop"),
    ),
    Constraint(
        key="default",
        schema=scalar(
            meaning="The engine gets this where the field is absent or null.", absent="nothing", example="1.0"
        ),
        kind="defaults",
        comparison=ConstraintComparison("default"),
        contradicts={
            "force": Contradiction("idle-default", "`default` has no effect with `force`"),
            "drop": Contradiction("idle-default", "`default` has no effect with `drop`"),
        },
        names_values=True,
    ),
)
