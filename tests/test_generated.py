"""What is generated is fresh."""

import pytest

from tests.checkout import CHECKOUT
from tests.generated import generated


@pytest.mark.parametrize(("name", "data"), generated().items())
def test_generated_files_are_fresh(name: str, data: bytes) -> None:
    """Each generated file holds what its sources give today; if not, run `python -m tests.generated`."""
    assert (CHECKOUT / name).read_bytes() == data
