"""The named checks of a contract: what vendors verify about messages, tools and formats beyond single fields."""

from typing import Final

from router.contract.schema.types import Condition, Count, Positive, RuleBase


class Roles(RuleBase, frozen=True, kw_only=True, tag_field="check", tag="roles"):
    """Every message has one of these roles."""

    allowed: tuple[str, ...]


class SystemMessages(RuleBase, frozen=True, kw_only=True, tag_field="check", tag="system_messages"):
    """At most so many messages have the role system."""

    max: Count


class FirstRole(RuleBase, frozen=True, kw_only=True, tag_field="check", tag="first_role"):
    """The first message has one of these roles."""

    allowed: tuple[str, ...]


class LastRole(RuleBase, frozen=True, kw_only=True, tag_field="check", tag="last_role"):
    """The last message has one of these roles."""

    allowed: tuple[str, ...]


class RequiredRole(RuleBase, frozen=True, kw_only=True, tag_field="check", tag="required_role"):
    """Some message has one of these roles."""

    any_of: tuple[str, ...]


class Alternation(RuleBase, frozen=True, kw_only=True, tag_field="check", tag="alternation"):
    """Behind leading system messages, those of user or tool and of assistant alternate, a user first.

    Several tool results may follow each other.
    """


class StringContent(RuleBase, frozen=True, kw_only=True, tag_field="check", tag="string_content"):
    """The content of messages of these roles is a string."""

    roles: tuple[str, ...]


class ContentParts(RuleBase, frozen=True, kw_only=True, tag_field="check", tag="content_parts"):
    """Contents that are no text are made of parts of these types, parts within parts included.

    Parts: types, shape. `by_role` has the types of single roles, instead of `allowed`. A part that is no object, or has
    no `type` that is a string, is of no type (shape). A part with a `uuid` is also of the types that its keys name:
    vLLM goes by them. {index}, {role}: the message's.
    """

    allowed: tuple[str, ...]
    by_role: dict[str, tuple[str, ...]] = {}


class ToolResults(RuleBase, frozen=True, kw_only=True, tag_field="check", tag="tool_results"):
    """Messages of role tool have the id of a call; with `known_call`, of a call in an earlier message.

    Parts: tool_call_id, known_call.
    """

    known_call: bool = False


class ToolCallsAnswered(RuleBase, frozen=True, kw_only=True, tag_field="check", tag="tool_calls_answered"):
    """Every call of an assistant message has a result in the tool messages right after it.

    {value}: the ids of calls without result.
    """


class ReasoningPassedBack(RuleBase, frozen=True, kw_only=True, tag_field="check", tag="reasoning_passed_back"):
    """Assistant messages that call tools carry `reasoning_content`. {index}: the message's."""


class Tools(RuleBase, frozen=True, kw_only=True, tag_field="check", tag="tools"):
    """The request's tools are well formed.

    Parts: shape, types, name, forbidden, unique. `types` empty: any type. A tool of type function has an object
    `function` with a string `name`; another type is not looked into.
    """

    types: tuple[str, ...] = ()
    name_pattern: str | None = None
    forbidden_names: tuple[str, ...] = ()
    unique: bool = False


class MessageTools(RuleBase, frozen=True, kw_only=True, tag_field="check", tag="message_tools"):
    """Tools within messages are well formed and only in messages of these roles, without content if `empty_content`.

    Parts: roles, content, shape, types, name, unique. `unique` counts the request's own tools too. A null is absent.
    """

    roles: tuple[str, ...] = ()
    empty_content: bool = False
    types: tuple[str, ...] = ("function",)
    name_pattern: str | None = None
    unique: bool = False


class ToolChoice(RuleBase, frozen=True, kw_only=True, tag_field="check", tag="tool_choice"):
    """`tool_choice` is one of these; `named` means an object that names a function.

    Parts: one per value (auto, none, required, named, any), other (anything else), requires_tools, known.
    {value}: the word, `specified` for an object.
    """

    allowed: tuple[str, ...]
    requires_tools: tuple[str, ...] = ()
    """Those that need a tool, in the request or, with message_tools, in a message."""
    drop_without_tools: bool = False
    """Is it kept from the engine where there are no tools? Some engines reject it there."""
    known: bool = False
    """Must a named function be among the tools?"""


class ResponseFormat(RuleBase, frozen=True, kw_only=True, tag_field="check", tag="response_format"):
    """`response_format.type` is one of these.

    With `named_schema`, a json_schema has a string `name`, an object `schema`, and `strict` is a boolean or absent.

    Parts: types, named_schema.
    """

    types: tuple[str, ...]
    named_schema: bool = False


class Images(RuleBase, frozen=True, kw_only=True, tag_field="check", tag="images"):
    """What image parts refer to: `data` URLs, `http` (and https) URLs, or `file` ids that begin with a prefix.

    Parts: sources, max_bytes, max_url_bytes, max_data_urls, max_total_bytes. `max_bytes` is of the decoded image,
    `max_url_bytes` of the data URL as it is sent, `max_total_bytes` of all decoded images of data URLs together.
    `wrap_bare_url`: an `image_url` that is a string reaches the engine as an object with `url`.
    """

    sources: tuple[str, ...] = ("data", "http", "file")
    file_prefix: str | None = None
    max_bytes: Positive | None = None
    max_url_bytes: Positive | None = None
    max_data_urls: Count | None = None
    max_total_bytes: Positive | None = None
    wrap_bare_url: bool = False


class PromptContains(RuleBase, frozen=True, kw_only=True, tag_field="check", tag="prompt_contains"):
    """Some text of the messages contains a word, whatever its case, when these fields have these values."""

    word: str
    when: Condition = {}


Check = (
    Roles
    | SystemMessages
    | FirstRole
    | LastRole
    | RequiredRole
    | Alternation
    | StringContent
    | ContentParts
    | ToolResults
    | ToolCallsAnswered
    | ReasoningPassedBack
    | Tools
    | MessageTools
    | ToolChoice
    | ResponseFormat
    | Images
    | PromptContains
)

CHECK_TYPES: Final[dict[str, type[RuleBase]]] = {
    "roles": Roles,
    "system_messages": SystemMessages,
    "first_role": FirstRole,
    "last_role": LastRole,
    "required_role": RequiredRole,
    "alternation": Alternation,
    "string_content": StringContent,
    "content_parts": ContentParts,
    "tool_results": ToolResults,
    "tool_calls_answered": ToolCallsAnswered,
    "reasoning_passed_back": ReasoningPassedBack,
    "tools": Tools,
    "message_tools": MessageTools,
    "tool_choice": ToolChoice,
    "response_format": ResponseFormat,
    "images": Images,
    "prompt_contains": PromptContains,
}
"""The checks by name, in the order in which they are made."""

CHECKS: Final = tuple(CHECK_TYPES)
