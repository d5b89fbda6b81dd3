"""The model cards for clients: the members of OpenAI's API, and no other members of the engines' cards."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from router.contract.decide import ServedIds
from router.contract.schema.sections import Alias
from router.upstream.engine_state import ModelCard

OWNER: Final = "router"
"""The `owned_by` of each model; engines put their own names there."""


def model_cards(
    served: ServedIds, aliases: Mapping[str, Alias], listed: Iterable[ModelCard], *, include_max_model_len: bool
) -> list[ModelCard]:
    """Return the cards of the served ids, and of each alias of one; its `root` is the id.

    `listed` are the cards of all engines. `include_max_model_len` adds `max_model_len`, in tokens: the smallest of all
    engines', so that it is valid wherever a request goes.
    """
    by_id: dict[str, list[ModelCard]] = {}
    for card in listed:
        by_id.setdefault(card["id"], []).append(card)
    cards = {
        model: _card(model, by_id.get(model, []), include_max_model_len=include_max_model_len)
        for model in served.present
    }
    first = served.ids[0] if served.routes_aliases else None
    targets = {name: alias.model or first for name, alias in aliases.items()}
    copies = [
        {**cards[target], "id": name, "root": target}
        for name, target in targets.items()
        if name not in cards and target in cards
    ]
    return [*cards.values(), *copies]


def _card(model: str, engines: list[ModelCard], *, include_max_model_len: bool) -> ModelCard:
    created = next((card["created"] for card in engines if _is_whole(card.get("created"))), 0)
    own: ModelCard = {"id": model, "object": "model", "created": created, "owned_by": OWNER}
    lengths = [card["max_model_len"] for card in engines if _is_whole(card.get("max_model_len"))]
    return {**own, "max_model_len": min(lengths)} if include_max_model_len and lengths else own


def _is_whole(value: Any) -> bool:  # noqa: ANN401 - any JSON value
    return isinstance(value, int) and not isinstance(value, bool)
