"""What is said of ranks that did not come to an end."""

from __future__ import annotations

import pytest

from paralign.run.rankfailure import Ended, blamed, hung
from paralign.run.stacks import Frame
from paralign.worker.protocol.messages import FAILED, RankReply, Reply


def test_a_rank_whose_library_gave_up_waiting_has_its_own_lines(tmp_path):
    """The communication library may time out shortly before the check does: the line that waited is in the exception then."""
    reply = Reply(FAILED, type="RuntimeError", message="TIMEOUT", frames=["candidate.py:48 in evaluate: dist.all_reduce(c)"])
    failure = hung("candidate", [Ended(0, RankReply(reply, 1.0, "evaluate(model)"), None, "evaluate(model)"), Ended(1)], 40.0, tmp_path)
    assert failure.frames == ["rank 0: candidate.py:48 in evaluate: dist.all_reduce(c)"]
    assert "rank 0 RuntimeError: TIMEOUT; during evaluate(model)" in str(failure)


TORCH = "/env/lib/python3.11/site-packages/torch"
COLLECTIVE = Frame(f"{TORCH}/distributed/distributed_c10d.py", 2800, "all_reduce")
BACKWARD = Frame(f"{TORCH}/autograd/graph.py", 865, "_engine_run_backward")
SLEEP = Frame("/port/train.py", 31, "train_step")
USER = Frame("/port/train.py", 48, "train_step")


def raised(error, *frames):
    """Rank 0 has raised; the frames are innermost last."""
    places = "".join(f'  File "{each.file}", line {each.line}, in {each.function}\n' for each in frames)
    kind, _, message = error.partition(": ")
    reply = Reply(FAILED, type=kind, message=message, traceback=f"Traceback (most recent call last):\n{places}{error}\n")
    return Ended(0, RankReply(reply, 1.0, "step 0"), None, "step 0")


def at(rank, *stack):
    return Ended(rank, phase="step 0", stack=list(stack))


GAVE_UP = raised("RuntimeError: Timed out waiting 1800000ms for recv operation to complete", USER, COLLECTIVE)


def test_a_rank_that_waits_in_the_same_call_is_not_said_to_stay_away(tmp_path):
    told = str(blamed("candidate", [GAVE_UP, at(1, COLLECTIVE, USER), at(2, SLEEP)], {}, tmp_path))
    assert "rank 0 waited for rank 2, which does not take part" in told
    assert "rank 1 waits in all_reduce" in told


def test_a_rank_in_a_backward_pass_may_wait_too(tmp_path):
    failure = raised("RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer", USER, BACKWARD)
    told = str(blamed("candidate", [failure, at(1, BACKWARD, USER), at(2, SLEEP)], {}, tmp_path))
    assert "rank 0 waited for rank 2, which does not take part" in told
    assert "does not take part" not in str(blamed("candidate", [failure, at(1, BACKWARD, USER)], {}, tmp_path))


@pytest.mark.parametrize(
    "error", ["URLError: <urlopen error timed out>", "OSError: [Errno 107] socket is not connected", "KeyError: 'peer'"]
)
def test_a_rank_that_failed_by_itself_waited_for_nobody(tmp_path, error):
    first = raised(error, USER, Frame("/env/lib/python3.11/urllib/request.py", 1351, "do_open"))
    for stack in ((COLLECTIVE, USER), (SLEEP,)):
        failure = blamed("candidate", [first, at(1, *stack)], {}, tmp_path)
        assert "does not take part" not in str(failure)
        assert f"rank 0 of 2 failed first, during step 0: {error}" in str(failure)
        assert not any(frame.startswith("rank 1") for frame in failure.frames)
