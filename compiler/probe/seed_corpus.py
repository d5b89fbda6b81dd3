"""The catalogue of experiments: request fields that servers and vendors are known to read, and test values for each."""

from typing import Final, Literal, NamedTuple

from compiler.probe.boundary_search import BUDGETS, FRACTIONS, WHOLE
from compiler.verify.check import Fields
from router.contract.schema.fields import BUDGET_FIELDS

Kind = Literal["fraction", "whole", "words", "list", "text", "object"]


class CorpusEntry(NamedTuple):
    """A field to learn.

    kind: the type, if known. values: further test values; for numbers: the coarse steps. beside: companion fields
    that some endpoints require.
    """

    path: str
    kind: Kind
    values: tuple[float | str | bool, ...] = ()
    beside: Fields = {}  # noqa: RUF012 - never changed

    @property
    def root(self) -> str:
        """The top-level field that contains it."""
        return self.path.partition(".")[0]


_ANSWERS: Final = (-1, 0, 1, 2, 3, 4, 5, 8, 10, 16, 32, 64, 100, 128, 129, 256)
_LOGPROBS: Final = (-1000000, -1, 0, 1, 2, 3, 5, 6, 8, 10, 16, 20, 21, 32, 64, 100, 1000)
_COUNTS: Final = (0, 1, 2, 3, 4, 5, 6, 8, 10, 16, 17, 20, 32, 64, 128, 129, 256)
_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")
_SWITCH: Final = ("enabled", "disabled", "adaptive", "auto")

ENTRIES: Final = (
    CorpusEntry("temperature", "fraction", FRACTIONS),
    CorpusEntry("top_p", "fraction", FRACTIONS),
    CorpusEntry("top_k", "whole", WHOLE),
    CorpusEntry("min_p", "fraction", FRACTIONS),
    CorpusEntry("repetition_penalty", "fraction", FRACTIONS),
    CorpusEntry("frequency_penalty", "fraction", FRACTIONS),
    CorpusEntry("presence_penalty", "fraction", FRACTIONS),
    CorpusEntry("n", "whole", _ANSWERS),
    CorpusEntry("max_completion_tokens", "whole", BUDGETS),
    CorpusEntry("max_tokens", "whole", BUDGETS),
    CorpusEntry("min_tokens", "whole", (-1, 0, 1)),
    CorpusEntry("seed", "whole", WHOLE),
    CorpusEntry("random_seed", "whole", WHOLE),
    CorpusEntry("logprobs", "words", (True, False)),
    CorpusEntry("top_logprobs", "whole", _LOGPROBS, {"logprobs": True}),
    CorpusEntry("stop", "list", _COUNTS),
    CorpusEntry("messages", "list", (0, 1, 2, 3, 4, 5, 8, 10, 16, 20, 32, 40, 41, 64, 128, 256)),
    CorpusEntry("tools", "list", _COUNTS),
    CorpusEntry("functions", "list", _COUNTS),
    CorpusEntry("modalities", "list", (0, 1, 2)),
    CorpusEntry("logit_bias", "object"),
    CorpusEntry("metadata", "object"),
    CorpusEntry("thinking", "object"),
    CorpusEntry("thinking.type", "words", _SWITCH),
    CorpusEntry("thinking.effort", "words", _EFFORTS),
    CorpusEntry("thinking.keep", "words", ("all", "none")),
    CorpusEntry("thinking.budget_tokens", "whole", WHOLE, {"thinking.type": "enabled"}),
    CorpusEntry("thinking_budget", "whole", WHOLE),
    CorpusEntry("enable_thinking", "words", (True, False)),
    CorpusEntry("chat_template_kwargs", "object"),
    CorpusEntry("chat_template_kwargs.thinking", "words", (True, False)),
    CorpusEntry("chat_template_kwargs.enable_thinking", "words", (True, False)),
    CorpusEntry("do_sample", "words", (True, False)),
    CorpusEntry("reasoning_effort", "words", _EFFORTS),
    CorpusEntry("reasoning_format", "words", ("general", "deepseek-style", "none", "auto")),
    CorpusEntry("reasoning_split", "words", (True, False)),
    CorpusEntry("prompt_mode", "words", ("reasoning",)),
    CorpusEntry("parallel_tool_calls", "words", (True, False)),
    CorpusEntry("store", "words", (False,)),
    CorpusEntry("service_tier", "words", ("auto", "default", "flex", "priority")),
    CorpusEntry("verbosity", "words", ("low", "medium", "high")),
    CorpusEntry("user", "text"),
    CorpusEntry("user_id", "text"),
    CorpusEntry("safety_identifier", "text"),
    CorpusEntry("prompt_cache_key", "text"),
)
"""The fields that are learned, in the order in which a draft lists them."""

BUDGET_ENTRIES: Final = frozenset(BUDGET_FIELDS)

OTHER_NAMES: Final[Fields] = {
    "audio": {"voice": "alloy", "format": "wav"},
    "best_of": 1,
    "echo": False,
    "enable_search": False,
    "function_call": "none",
    "guardrails": [],
    "ignore_eos": False,
    "moderation": {},
    "n_predict": 1,
    "prediction": {"type": "content", "content": "OK"},
    "prompt_cache_options": {},
    "prompt_cache_retention": "in_memory",
    "response_format": {"type": "text"},
    "safe_prompt": False,
    "skip_special_tokens": True,
    "stream_options": None,
    "thinking_config": {},
    "tool_choice": "auto",
    "truncation": "disabled",
    "web_search_options": {},
    "webSearch": {},
}
"""Further names of top-level fields, each with a value that is worth sending: where unknown fields are rejected."""


class Switch(NamedTuple):
    """A switch to other rules: the fields that set it, and the mode that they mean."""

    fields: Fields
    mode: str | None

    @property
    def said(self) -> str:
        """The switch as text."""
        return " and ".join(f"{path} {value}" for path, value in self.fields.items())


SWITCHES: Final = (
    Switch({"chat_template_kwargs.thinking": False}, "non-thinking"),
    Switch({"chat_template_kwargs.thinking": True}, "thinking"),
    Switch({"chat_template_kwargs.enable_thinking": False}, "non-thinking"),
    Switch({"chat_template_kwargs.enable_thinking": True}, "thinking"),
    Switch({"thinking.type": "disabled"}, "non-thinking"),
    Switch({"thinking.type": "enabled"}, "thinking"),
    Switch({"enable_thinking": False}, "non-thinking"),
    Switch({"enable_thinking": True}, "thinking"),
    Switch({"reasoning_effort": "none"}, "non-thinking"),
    Switch({"reasoning_effort": "high"}, "thinking"),
    Switch({"do_sample": False}, "greedy"),
    Switch({"temperature": 0}, None),
)
"""The known ways to turn thinking, or sampling, on and off."""
