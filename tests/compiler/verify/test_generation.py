"""The requests that are derived from a contract."""

from compiler.verify.check import ExpectedRejection
from compiler.verify.generation import derive
from compiler.verify.generation.names import LARGE, Deployment
from router.contract.schema.model import Case, Contract, Sections, When
from router.contract.schema.named_checks import Images, ResponseFormat

CASES = ("deep", "fast")


def large_checks(images: Images) -> list[tuple[str | None, bool]]:
    """Return the cases of all checks with a large body, and whether it is rejected; every case has the same rules."""
    checks = {"response_format": ResponseFormat(types=("text",)), "images": images}
    cases = tuple(Case(name, When(fields={"pace": (name,)}), Sections(checks=checks)) for name in CASES)
    contract = Contract(checks=checks, cases=cases)
    unpadded = [each for each in derive(contract, Deployment.for_contract(contract)).checks if not each.request.length]
    large = [each for each in unpadded if each.request.size() > LARGE]
    return [(each.case, isinstance(each.expected, ExpectedRejection)) for each in large]


def test_large_bodies_are_sent_where_nothing_smaller_shows_the_rule() -> None:
    """First come both edges and one order; each further case gets the rejected edge, or none if a small body does."""
    of_first = [(None, False), (None, True), (None, True)]
    assert large_checks(Images(max_bytes=4 * LARGE)) == [*of_first, *((name, True) for name in CASES)]
    assert large_checks(Images(max_bytes=4 * LARGE, sources=("data",))) == of_first[:2]
