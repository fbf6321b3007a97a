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
def test_edits_are_reported_with_place_and_kind_and_by_the_chain_alone_but_for_a_cut_tail(n, each):
    whole = dict.fromkeys(evidence.KINDS, each) | {"intact": 10}
    assert evidence.tampering(n, each) == whole
    assert evidence.tampering(n, each, anchored=False) == whole | {"cut": 0}


@pytest.mark.slow
@pytest.mark.parametrize("n", [9, 3000])
def test_other_implementations_accept_all_proofs_and_no_corrupted_one(n):
    found = evidence.proofs(1000, n)
    assert len(found) == 8 and set(found.values()) == {1000}
