"""What is asked about: the request fields that servers and vendors are known to read, and what to try in each."""

from typing import Final, Literal, NamedTuple

from compiler.probe.boundary_search import BUDGETS, FRACTIONS, WHOLE
from compiler.verify.check import Fields
from router.contract.schema.fields import BUDGET_FIELDS

Kind = Literal["fraction", "whole", "words", "list", "text", "object"]


class Entry(NamedTuple):
    """A field to learn.

    kind: what it holds where it is known. values: what else is tried; of numbers: the ladder. beside: fields without
    which some endpoints refuse it.
    """

    path: str
    kind: Kind
    values: tuple[float | str | bool, ...] = ()
    beside: Fields = {}  # noqa: RUF012 - never changed

    @property
    def root(self) -> str:
        """The top-level field that it stands in."""
        return self.path.partition(".")[0]


_ANSWERS: Final = (-1, 0, 1, 2, 3, 4, 5, 8, 10, 16, 32, 64, 100, 128, 129, 256)
_LOGPROBS: Final = (-1000000, -1, 0, 1, 2, 3, 5, 6, 8, 10, 16, 20, 21, 32, 64, 100, 1000)
_COUNTS: Final = (0, 1, 2, 3, 4, 5, 6, 8, 10, 16, 17, 20, 32, 64, 128, 129, 256)
_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")
_SWITCH: Final = ("enabled", "disabled", "adaptive", "auto")

ENTRIES: Final = (
    Entry("temperature", "fraction", FRACTIONS),
    Entry("top_p", "fraction", FRACTIONS),
    Entry("top_k", "whole", WHOLE),
    Entry("min_p", "fraction", FRACTIONS),
    Entry("repetition_penalty", "fraction", FRACTIONS),
    Entry("frequency_penalty", "fraction", FRACTIONS),
    Entry("presence_penalty", "fraction", FRACTIONS),
    Entry("n", "whole", _ANSWERS),
    Entry("max_completion_tokens", "whole", BUDGETS),
    Entry("max_tokens", "whole", BUDGETS),
    Entry("min_tokens", "whole", (-1, 0, 1)),
    Entry("seed", "whole", WHOLE),
    Entry("random_seed", "whole", WHOLE),
    Entry("logprobs", "words", (True, False)),
    Entry("top_logprobs", "whole", _LOGPROBS, {"logprobs": True}),
    Entry("stop", "list", _COUNTS),
    Entry("messages", "list", (0, 1, 2, 3, 4, 5, 8, 10, 16, 20, 32, 40, 41, 64, 128, 256)),
    Entry("tools", "list", _COUNTS),
    Entry("functions", "list", _COUNTS),
    Entry("modalities", "list", (0, 1, 2)),
    Entry("logit_bias", "object"),
    Entry("metadata", "object"),
    Entry("thinking", "object"),
    Entry("thinking.type", "words", _SWITCH),
    Entry("thinking.effort", "words", _EFFORTS),
    Entry("thinking.keep", "words", ("all", "none")),
    Entry("thinking.budget_tokens", "whole", WHOLE, {"thinking.type": "enabled"}),
    Entry("thinking_budget", "whole", WHOLE),
    Entry("enable_thinking", "words", (True, False)),
    Entry("chat_template_kwargs", "object"),
    Entry("chat_template_kwargs.thinking", "words", (True, False)),
    Entry("chat_template_kwargs.enable_thinking", "words", (True, False)),
    Entry("do_sample", "words", (True, False)),
    Entry("reasoning_effort", "words", _EFFORTS),
    Entry("reasoning_format", "words", ("general", "deepseek-style", "none", "auto")),
    Entry("reasoning_split", "words", (True, False)),
    Entry("prompt_mode", "words", ("reasoning",)),
    Entry("parallel_tool_calls", "words", (True, False)),
    Entry("store", "words", (False,)),
    Entry("service_tier", "words", ("auto", "default", "flex", "priority")),
    Entry("verbosity", "words", ("low", "medium", "high")),
    Entry("user", "text"),
    Entry("user_id", "text"),
    Entry("safety_identifier", "text"),
    Entry("prompt_cache_key", "text"),
)
"""The fields that are learnt, in the order in which a draft would be asked about them."""

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
"""Further names of top-level fields, each with a value that is worth sending: where unknown fields are refused."""


class Switch(NamedTuple):
    """What may bring a request under other rules: the fields that say so, and the mode that they mean."""

    fields: Fields
    mode: str | None

    @property
    def said(self) -> str:
        """The switch in words."""
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
