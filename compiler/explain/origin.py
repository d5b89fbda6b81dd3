"""Where the rules of a contract were declared, for people."""

from dataclasses import dataclass
from typing import Self

from compiler.pipeline import Compilation
from compiler.source.tree import Mapping, key_location, node_at
from router.artifact.format import Artifact
from router.contract.decide import MODELS, READING
from router.contract.schema.combinations import SEPARATOR
from router.contract.schema.rule_list import UNKNOWN_WITHIN


@dataclass(frozen=True, slots=True)
class Origin:
    """The merged profile of a contract; of an artifact only its name is known."""

    artifact_name: str
    profile: Mapping | None

    @classmethod
    def of(cls, loaded: Compilation | Artifact) -> Self:
        """Return the origin of a loaded contract."""
        if isinstance(loaded, Artifact):
            return cls(loaded.name, None)
        return cls(loaded.artifact.name, loaded.profile)

    def declared(self, rule: str, case: str | None = None) -> str:
        """Return the place where a rule was declared, in a case or outside; `default` if no profile sets it."""
        if rule == READING:
            return "always"
        if self.profile is None:
            return f"artifact {self.artifact_name}"
        keys = keys_of(rule)
        # Of a combination of cases the last one that sets a value holds.
        names = [] if case is None else [case, *reversed(case.split(SEPARATOR))]
        for path in [*(("cases", name, *keys) for name in names), keys]:
            if node_at(self.profile, path) is not None:
                return str(key_location(self.profile, path))
        return "default"

    def declared_case(self, name: str) -> str:
        """Return the place where a case was declared; of a combination, those of its cases."""
        if self.profile is None or node_at(self.profile, ("cases", name)) is not None:
            return self.declared(f"cases.{name}")
        return " and ".join(self.declared(f"cases.{part}") for part in name.split(SEPARATOR))


def keys_of(rule: str) -> tuple[str, ...]:
    """Return the keys of a rule in a profile; the path of a field is one key, and so is the name of a case."""
    if rule == MODELS:
        return ("models", "aliases")
    if rule.startswith(f"{UNKNOWN_WITHIN}."):
        return (*UNKNOWN_WITHIN.split("."), rule.removeprefix(f"{UNKNOWN_WITHIN}."))
    section, _, name = rule.partition(".")
    if section in {"fields", "cases"}:
        return (section, name) if name else (section,)
    return tuple(rule.split("."))
