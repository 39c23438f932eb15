"""What is said of ranks that did not come to an end."""

from __future__ import annotations

from paralign.run.rankfailure import Ended, hung
from paralign.worker.protocol.messages import FAILED, RankReply, Reply


def test_a_rank_whose_library_gave_up_waiting_has_its_own_lines(tmp_path):
    """The communication library may time out shortly before the check does: the line that waited is in the exception then."""
    reply = Reply(FAILED, type="RuntimeError", message="TIMEOUT", frames=["candidate.py:48 in evaluate: dist.all_reduce(c)"])
    failure = hung("candidate", [Ended(0, RankReply(reply, 1.0, "evaluate(model)"), None, "evaluate(model)"), Ended(1)], 40.0, tmp_path)
    assert failure.frames == ["rank 0: candidate.py:48 in evaluate: dist.all_reduce(c)"]
    assert "rank 0 RuntimeError: TIMEOUT; during evaluate(model)" in str(failure)
