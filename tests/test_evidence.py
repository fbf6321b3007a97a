"""The evidence of `python -m tests.evidence`, in small."""

import pytest

from tests import evidence

NO_HEAD = {"truncate", "snapshot_rollback"}  # what only a head kept elsewhere shows


@pytest.mark.slow
@pytest.mark.parametrize("anchored, unnoticed", [(True, set()), (False, NO_HEAD)])
def test_agent_memory_integrity_reports_all_edits_with_a_head_kept_elsewhere(anchored, unnoticed):
    verdicts = evidence.integrity(anchored)
    assert len(verdicts) == 9
    assert {edit for edit, verdict in verdicts.items() if not verdict.startswith("reported: ")} == unnoticed


@pytest.mark.slow
@pytest.mark.parametrize("n, each", [(30, 40), (3000, 5)])
def test_edits_of_single_entries_are_reported_with_place_and_kind(n, each):
    found = evidence.tampering(n, each)
    assert found["detected"] == found["place and kind right"] == found["edits"] == 4 * each
    assert not found["false alarms, of 10 heads"]


@pytest.mark.slow
@pytest.mark.parametrize("n", [9, 3000])
def test_other_implementations_accept_all_proofs_and_no_corrupted_one(n):
    found = evidence.proofs(1000, n)
    assert len(found) == 9 and set(found.values()) == {1000}
