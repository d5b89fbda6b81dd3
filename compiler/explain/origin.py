"""Where the rules of a contract were declared, for people."""

from dataclasses import dataclass
from typing import Self

from compiler.compilation import Compiled
from compiler.tree import Mapping, key_location, node_at
from router.artifact import Artifact
from router.contract.decision import MODELS, READING


@dataclass(frozen=True, slots=True)
class Origin:
    """The merged profile of a contract; of an artifact only its name is known."""

    artifact_name: str
    profile: Mapping | None

    @classmethod
    def of(cls, loaded: Compiled | Artifact) -> Self:
        """Return the origin of what was loaded."""
        if isinstance(loaded, Artifact):
            return cls(loaded.name, None)
        return cls(loaded.artifact.name, loaded.profile)

    def declared(self, rule: str) -> str:
        """Return the place where a rule was declared; `default` where no profile says it."""
        if rule == READING:
            return "always"
        if self.profile is None:
            return f"artifact {self.artifact_name}"
        path = ("models", "aliases") if rule == MODELS else tuple(rule.split("."))
        if node_at(self.profile, path) is None:
            return "default"
        return str(key_location(self.profile, path))
