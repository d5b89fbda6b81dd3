"""The named check of the requested response format."""

from collections.abc import Callable
from typing import Any, Final

from router.contract.rules.field_tests import Fields, Violation, listed
from router.contract.schema import named_checks as named
from router.contract.templates import display

Check = Callable[[Fields], Violation | None]


def _response_format(check: named.ResponseFormat) -> Check:
    words = listed(check.types)

    def find(fields: Fields) -> Violation | None:
        wanted = fields.get("response_format")
        if wanted is None:
            return None
        kind = wanted.get("type") if isinstance(wanted, dict) else None
        if not isinstance(kind, str) or kind not in check.types:
            said = f"response_format.type is {display(kind)}: expected {words}"
            return Violation("types", said, {"value": display(kind), "allowed": words})
        if check.named_schema and kind == "json_schema":
            return _wrong_schema(wanted.get("json_schema"))
        return None

    return find


def _wrong_schema(value: object) -> Violation | None:
    holder = value if isinstance(value, dict) else {}
    name, strict = holder.get("name"), holder.get("strict")
    if not isinstance(name, str) or not name:
        return Violation("named_schema", "response_format.json_schema has no name", {})
    if not isinstance(holder.get("schema"), dict):
        return Violation("named_schema", "response_format.json_schema.schema is not an object", {})
    if not isinstance(strict, bool | None):
        return Violation("named_schema", "response_format.json_schema.strict is not true or false", {})
    return None


MADE_BY: Final[dict[type, Callable[[Any], Check]]] = {named.ResponseFormat: _response_format}
