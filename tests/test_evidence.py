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
