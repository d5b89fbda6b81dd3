"""A run as JUnit XML, for CI servers: a test suite for each rule, a test case for each check."""

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from compiler.verify.report.formatting import came_back, caution_of, facts_of, sent_in_words, wanted
from compiler.verify.run import CompletedCheck, RuleResults, VerifyRun

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not have."""


def junit_of(run: VerifyRun) -> bytes:
    """Return a run as JUnit XML."""
    root = Element("testsuites", _attributes("profilec verify", run.count("fail"), _skipped(run), _all(run)))
    root.set("time", f"{run.seconds:.3f}")
    if run.begun is not None:
        root.set("timestamp", run.begun.removesuffix("Z"))
    for each in run.by_rule():
        _suite(root, run, each)
    indent(root)
    xml: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return xml + b"\n"


def _all(run: VerifyRun) -> int:
    return len(run.completed) + len(run.skipped)


def _skipped(run: VerifyRun) -> int:
    return run.count("not observable") + len(run.skipped)


def _suite(root: Element, run: VerifyRun, of_rule: RuleResults) -> None:
    skipped = of_rule.count("not observable") + len(of_rule.skipped)
    tests = len(of_rule.completed) + len(of_rule.skipped)
    suite = SubElement(root, "testsuite", _attributes(of_rule.rule, of_rule.count("fail"), skipped, tests))
    _properties(suite, run)
    name = f"{run.profile}.{of_rule.rule}"
    for completed in of_rule.completed:
        _case(suite, name, completed)
    for untried in of_rule.skipped:
        title = f"{untried.case or 'base'}: {untried.rule}: {untried.description}"
        case = SubElement(suite, "testcase", {"classname": name, "name": _clean(title)})
        SubElement(case, "skipped", {"message": _clean(f"not tried: {untried.reason}")})


def _properties(suite: Element, run: VerifyRun) -> None:
    """Return the properties of a suite that identify the run; JUnit has no other place for them."""
    if run.begun is not None:
        suite.set("timestamp", run.begun.removesuffix("Z"))
    caution = caution_of(run)
    facts = [("endpoint", run.target), *facts_of(run), *([] if caution is None else [("caution", caution)])]
    properties = SubElement(suite, "properties")
    for name, value in facts:
        SubElement(properties, "property", {"name": name, "value": _clean(value)})


def _case(suite: Element, name: str, completed: CompletedCheck) -> None:
    case = SubElement(suite, "testcase", {"classname": name, "name": _clean(completed.check.id)})
    reason = _clean(completed.verdict.reason)
    if completed.verdict.result == "not observable":
        SubElement(case, "skipped", {"message": f"not observable: {reason}"})
    if completed.verdict.result != "fail":
        return
    failure = SubElement(case, "failure", {"message": reason, "type": completed.check.rule})
    source = f" ({completed.source})" if completed.source else ""
    failure.text = _clean(
        f"sent: {sent_in_words(completed.check.request)}\ncame back: {came_back(completed.response)}\n"
        f"expected: {wanted(completed.check)}\ncontract: {completed.rule_description}\n"
        f"declared: {completed.declared}{source}\n"
    )


def _attributes(name: str, failures: int, skipped: int, tests: int) -> dict[str, str]:
    return {"name": name, "tests": str(tests), "failures": str(failures), "skipped": str(skipped), "errors": "0"}


def _clean(text: str) -> str:
    return _NO_XML.sub("�", text)
