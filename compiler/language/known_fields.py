"""Request fields that some vendor or engine has: a name that is almost one of them is probably a misspelling.

Sources: OpenAI's chat completions reference, and what the presets and `profilec probe` know of other vendors.
"""

from typing import Final

from router.contract.schema.fields import BOUND_TO_BUDGET, BUDGET_FIELDS, OTHER_SPELLINGS, SAMPLING_FIELDS

_OF_OPENAI: Final = (
    "audio", "function_call", "functions", "logit_bias", "logprobs", "messages", "metadata", "modalities", "moderation",
    "parallel_tool_calls", "prediction", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
    "reasoning_effort", "response_format", "safety_identifier", "seed", "service_tier", "stop", "store",
    "stream_options", "tool_choice", "tools", "top_logprobs", "user", "verbosity", "web_search_options",
)  # fmt: skip
_OF_OTHERS: Final = (
    "chat_template_kwargs", "chat_template_kwargs.enable_thinking", "chat_template_kwargs.preserve_thinking",
    "chat_template_kwargs.thinking", "chat_template_kwargs.thinking_effort", "do_sample", "enable_thinking",
    "guardrails", "prompt_mode", "random_seed", "reasoning_format", "reasoning_split", "safe_prompt", "thinking",
    "thinking.effort", "thinking.keep", "thinking.type", "thinking_budget", "user_id",
)  # fmt: skip
KNOWN_FIELDS: Final = frozenset(
    {*SAMPLING_FIELDS, *BUDGET_FIELDS, *OTHER_SPELLINGS, *BOUND_TO_BUDGET, *_OF_OPENAI, *_OF_OTHERS}
)
"""The fields, those of nested objects by their dotted paths."""
