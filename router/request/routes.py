"""The routes of the router. Any other path is 404."""

from typing import Final

from router.contract import protocols
from router.contract.protocols import Protocol

CHAT: Final = "/v1/chat/completions"
"""The route to which the whole contract applies."""

COMPLETIONS: Final = "/v1/completions"
RESPONSES: Final = "/v1/responses"
MESSAGES: Final = "/v1/messages"
EMBEDDINGS: Final = "/v1/embeddings"
PASS_THROUGH: Final = (
    COMPLETIONS,
    EMBEDDINGS,
    RESPONSES,
    MESSAGES,
    f"{MESSAGES}/count_tokens",
    "/v1/rerank",
    "/rerank",
    "/v1/score",
    "/v1/classify",
    "/generate",
    "/tokenize",
    "/detokenize",
)
"""Inference routes to which only the body limit and the model list apply."""

INFERENCE: Final = (CHAT, *PASS_THROUGH)
MODELS: Final = "/v1/models"
MODEL_DETAIL: Final = "/v1/models/{model}"
"""The route label of all model details."""
HEALTHZ: Final = "/healthz"
READYZ: Final = "/readyz"

METRICS: Final = "/metrics"
"""Exists with ROUTER_METRICS=on."""

HEALTH_ROUTES: Final = (HEALTHZ, READYZ)
"""Routes for the probes of orchestrators; they need no API key."""

CONFIGURABLE: Final = (*INFERENCE, MODELS)
"""Routes that ROUTER_ROUTES chooses from; the health routes always exist."""


_PROTOCOLS: Final = {
    CHAT: protocols.CHAT,
    COMPLETIONS: protocols.COMPLETIONS,
    RESPONSES: protocols.RESPONSES,
    MESSAGES: protocols.MESSAGES,
}


def protocol_of(path: str | None) -> Protocol:
    """Return the protocol of a path, also of an unknown one; None stands for a request without a target."""
    found = _PROTOCOLS.get(path or "")
    if found is None and path is not None and path.startswith(f"{MESSAGES}/"):
        return protocols.MESSAGES
    return found or protocols.OTHER
