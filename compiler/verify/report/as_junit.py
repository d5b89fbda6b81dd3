"""A run as JUnit XML, as CI servers read it: a suite for each rule, a case for each check."""

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from compiler.verify.report.formatting import came_back, caution_of, facts_of, sent_in_words, wanted
from compiler.verify.run import Judged, OfRule, Run

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not have."""


def junit_of(run: Run) -> bytes:
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


def _all(run: Run) -> int:
    return len(run.judged) + len(run.untried)


def _skipped(run: Run) -> int:
    return run.count("not observable") + len(run.untried)


def _suite(root: Element, run: Run, of_rule: OfRule) -> None:
    skipped = of_rule.count("not observable") + len(of_rule.untried)
    tests = len(of_rule.judged) + len(of_rule.untried)
    suite = SubElement(root, "testsuite", _attributes(of_rule.rule, of_rule.count("fail"), skipped, tests))
    _properties(suite, run)
    name = f"{run.profile}.{of_rule.rule}"
    for judged in of_rule.judged:
        _case(suite, name, judged)
    for untried in of_rule.untried:
        title = f"{untried.case or 'base'}: {untried.rule}: {untried.shows}"
        case = SubElement(suite, "testcase", {"classname": name, "name": _clean(title)})
        SubElement(case, "skipped", {"message": _clean(f"not tried: {untried.reason}")})


def _properties(suite: Element, run: Run) -> None:
    """Say in a suite what identifies the run; nothing else of JUnit's has a place for it."""
    if run.begun is not None:
        suite.set("timestamp", run.begun.removesuffix("Z"))
    caution = caution_of(run)
    facts = [("endpoint", run.target), *facts_of(run), *([] if caution is None else [("caution", caution)])]
    properties = SubElement(suite, "properties")
    for name, value in facts:
        SubElement(properties, "property", {"name": name, "value": _clean(value)})


def _case(suite: Element, name: str, judged: Judged) -> None:
    case = SubElement(suite, "testcase", {"classname": name, "name": _clean(judged.check.id)})
    reason = _clean(judged.verdict.reason)
    if judged.verdict.result == "not observable":
        SubElement(case, "skipped", {"message": f"not observable: {reason}"})
    if judged.verdict.result != "fail":
        return
    failure = SubElement(case, "failure", {"message": reason, "type": judged.check.rule})
    source = f" ({judged.source})" if judged.source else ""
    failure.text = _clean(
        f"sent: {sent_in_words(judged.check.ask)}\ncame back: {came_back(judged.answer)}\n"
        f"expected: {wanted(judged.check)}\ncontract: {judged.says}\ndeclared: {judged.declared}{source}\n"
    )


def _attributes(name: str, failures: int, skipped: int, tests: int) -> dict[str, str]:
    return {"name": name, "tests": str(tests), "failures": str(failures), "skipped": str(skipped), "errors": "0"}


def _clean(text: str) -> str:
    return _NO_XML.sub("�", text)
