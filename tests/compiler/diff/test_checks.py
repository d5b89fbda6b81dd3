import msgspec
import pytest

from compiler.diff.checks import _SETTINGS
from compiler.diff.fields import compare_fields
from router.contract.schema.named_checks import CHECK_TYPES
from router.contract.schema.sections import Field
from router.contract.schema.types import ErrorText, RuleBase
from tests.compiler.constraint_values import member_values


@pytest.mark.parametrize("name", CHECK_TYPES)
def test_every_setting_of_a_check_is_compared(name):
    """No setting of a check can change without a word about it."""
    own = set(CHECK_TYPES[name].__struct_fields__) - set(RuleBase.__struct_fields__)
    assert set(_SETTINGS.get(name, {})) == own


VALUES = {
    **{member: values[0] for member, values in member_values().items()},
    "error": ErrorText(message="no"),
    "parts": {"range": ErrorText(message="no")},
    "source": "docs",
}


@pytest.mark.parametrize("name", Field.__struct_fields__)
def test_every_constraint_of_a_field_is_compared(name):
    """No constraint of a field can change without a word about it, and the way back is the reverse."""
    plain, other = Field(), msgspec.structs.replace(Field(), **{name: VALUES[name]})
    (there,), (back,) = (compare_fields({"x": old}, {"x": new}) for old, new in ((plain, other), (other, plain)))
    assert (there.at, there.tightens, there.loosens) == (back.at, back.loosens, back.tightens)
