"""The reliability of receipts: scripted runs with all findings, judged by fleet and independently by an auditor."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from corpus.auditing import Auditor
from corpus.case import FAKE, HONEST, VERIFIED
from corpus.cases import CASES
from corpus.playing import Stage
from corpus.table import is_found, is_suspected, table, wrong
from fleet.core.finding import FINDINGS

LEAST_CASES, LEAST_FAKES = 200, 30
LEAST_FOUND, MOST_SUSPECTED = 0.95, 0.02


@pytest.mark.timeout(600)
def test_verified_is_always_true_and_fakes_are_found_and_honest_work_passes(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    stage = Stage(tmp_path)
    try:
        played = stage.play(list(CASES))
    finally:
        stage.stop()
    auditor = Auditor(tmp_path, stage.temporary)
    right = {each.case.name: auditor.is_right(each) for each in played}
    record_property("table: findings of the corpus", table(played, lambda each: right[each.case.name]))
    assert not [each for each in played if each.finding == VERIFIED and right[each.case.name] is not True]
    fakes = [each for each in played if each.case.kind == FAKE]
    missed = [each for each in fakes if not is_found(each)]
    assert len(missed) <= len(fakes) * (1 - LEAST_FOUND), missed
    honest = [each for each in played if each.case.kind == HONEST]
    suspected = [each for each in honest if is_suspected(each)]
    assert len(suspected) <= len(honest) * MOST_SUSPECTED, suspected
    assert {each.finding for each in played} >= set(FINDINGS), "a finding that no case shows"
    # Each run gets the finding that its case expects: any difference is an unintended change.
    assert not {each.case.name: found for each in played if (found := wrong(each, right[each.case.name]))}


def test_corpus_is_large_and_names_each_case_once() -> None:
    kinds = Counter(case.kind for case in CASES)
    assert len(CASES) >= LEAST_CASES and kinds[FAKE] >= LEAST_FAKES
    assert len({case.branch.lower() for case in CASES}) == len(CASES)
