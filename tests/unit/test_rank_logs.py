"""Logs of launchers: whose they are, which process failed first, where; stacks of processes that hang or crashed."""

from __future__ import annotations

import os

import pytest

from paralign.cli import main
from paralign.run import ranklogs, stacks

PADDLE = """I1122 10:14:50.427222 13780 tcp_store.cc:336] create libuv server at port: 48869
Traceback (most recent call last):
  File "/data/port/train.py", line 40, in <module>
    main()
  File "/data/port/train.py", line 37, in main
    raise ValueError("no labels")
ValueError: no labels
"""

LOST = """W1122 10:14:54.047676 13780 backward.cc:697] While running Node (GradNodeAccumulation) raises a std::exception: gloo::TimeoutException
terminate called after throwing an instance of 'gloo::TimeoutException'
  what():  [/paddle/third_party/gloo/gloo/transport/tcp/pair.cc:584] TIMEOUT self_rank = 0 pair_rank = 1
FatalError: `Process abort signal` is detected by the operating system.
"""

TORCH = """[rank1]: Traceback (most recent call last):
[rank1]:   File "/env/lib/python3.11/site-packages/torch/distributed/run.py", line 4, in main
[rank1]:     launch()
[rank1]: torch.distributed.elastic.multiprocessing.errors.ChildFailedError: worker failed
[rank1]: Traceback (most recent call last):
[rank1]:   File "/data/paper/loss.py", line 12, in forward
[rank1]:     return x @ y
[rank1]: RuntimeError: mat1 and mat2 shapes cannot be multiplied
"""


def write(path, text, age):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    os.utime(path, (1e9 + age, 1e9 + age))
    return path


def test_the_cause_is_told_before_those_that_lost_it_whatever_the_order(tmp_path, capsys):
    write(tmp_path / "workerlog.0", LOST, age=1)
    write(tmp_path / "workerlog.1", PADDLE, age=2)
    write(tmp_path / "workerlog.2", "a step\n", age=3)
    write(tmp_path / "endpoints.log", "PADDLE_TRAINER_ENDPOINTS: 127.0.0.1:1", age=0)
    assert main(["rank-logs", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "rank 1 failed first: ValueError: no labels"
    assert lines[1:3] == ["  /data/port/train.py:40 in <module>", "  /data/port/train.py:37 in main"]
    assert lines[4].startswith("rank 0: gloo::TimeoutException: ")
    assert lines[4].endswith("(it has lost another process)")
    assert lines[5] == "rank 2: no exception in its log"


def test_logs_of_torchrun_are_those_of_the_newest_run_without_the_launchers_own_trace(tmp_path):
    write(tmp_path / "a_1" / "attempt_0" / "1" / "stderr.log", PADDLE, age=1)
    write(tmp_path / "b_2" / "attempt_0" / "1" / "stderr.log", TORCH, age=5)
    write(tmp_path / "b_2" / "attempt_0" / "1" / "stdout.log", "x", age=9)
    write(tmp_path / "b_2" / "attempt_0" / "0" / "stderr.log", "", age=5)
    found = ranklogs.logs_in(tmp_path)
    assert {rank: path.parts[-4] for rank, path in found.items()} == {0: "b_2", 1: "b_2"}
    log = ranklogs.read(1, found[1])
    assert [trace.is_launchers for trace in log.traces] == [True, False]
    assert log.failure.message == "mat1 and mat2 shapes cannot be multiplied"
    assert [str(frame) for frame in log.failure.frames] == ["/data/paper/loss.py:12 in forward"]


def test_logs_of_earlier_launches_are_deleted_and_nothing_else(tmp_path):
    for name in ("a_1/attempt_0/1/stderr.log", "a_1/attempt_0/1/stdout.log", "workerlog.0", "endpoints.log", "b/mine.txt", "b/workerlog.1"):
        write(tmp_path / name, "x", age=0)
    (tmp_path / "c").symlink_to(tmp_path / "b")
    ranklogs.forget(tmp_path)
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")) == ["b", "b/mine.txt", "c"]


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        (b"\xff\xfe\x00\x1b[2J" * 50, None),
        ("Traceback (most recent call last):\n", None),
        ("Traceback (most recent call last):\n" * 200, None),
        ('Traceback (most recent call last):\n  File "x.py", line 1, in f\n' + "y" * 100_000, ""),
        ("FatalError: `Segmentation fault` is detected by the operating system.\n", "FatalError"),
        ("", None),
    ],
)
def test_damaged_logs_are_read_as_far_as_they_go(tmp_path, text, failure):
    log = ranklogs.read(0, write(tmp_path / "workerlog.0", text, age=0))
    assert (None if log.failure is None else log.failure.type) == failure


def test_control_characters_of_a_log_are_not_printed(tmp_path, capsys):
    write(tmp_path / "workerlog.0", PADDLE.replace("no labels", "\x1b[2Jgone\rnothing"), age=0)
    assert main(["rank-logs", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\\u001b[2Jgone" in out


def test_only_the_end_of_a_long_log_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(ranklogs, "READ", 2000)
    log = ranklogs.read(0, write(tmp_path / "workerlog.0", PADDLE + "a step\n" * 1000, age=0))
    assert log.failure is None
    assert ranklogs.read(0, write(tmp_path / "workerlog.0", "a step\n" * 1000 + PADDLE, age=0)).failure.type == "ValueError"


def test_a_folder_without_logs_and_one_that_is_not_there_are_told_apart(tmp_path, capsys):
    assert main(["rank-logs", str(tmp_path)]) == 4
    assert "start the launcher with --log_dir" in capsys.readouterr().out
    assert main(["rank-logs", str(tmp_path / "gone")]) == 2


def test_the_launchers_words_name_ranks():
    words = "ABORT!!! Out of all 4 trainers, the trainer process with rank=[1, 2] was aborted. Please check its log."
    assert ranklogs.aborted(words) == [1, 2]
    assert ranklogs.aborted("Out of all 4 Trainers") == []


STACK = """Timeout (0:00:05)!
Thread 0x00007f01 (most recent call first):
  File "/env/lib/python3.11/threading.py", line 320 in wait
  File "/data/port/reader.py", line 9 in read

Thread 0x00007f02 (most recent call first):
  File "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 2810 in all_reduce
  File "/env/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", line 81 in wrapper
  File "/data/port/train.py", line 12 in evaluate
  File "/data/port/train.py", line 30 in main
"""


def test_a_rank_that_waits_is_told_by_the_call_and_the_users_line():
    frames = stacks.main_thread(STACK)
    assert stacks.where(frames) == "waits in all_reduce, at /data/port/train.py:12 in evaluate"
    assert [frame.line for frame in stacks.users(frames)] == [12, 30]


def test_a_rank_that_does_something_else_is_told_by_that():
    lines = STACK.splitlines()
    assert stacks.where(stacks.main_thread("\n".join(lines[:4]))) == ("is in wait (threading.py:320), at /data/port/reader.py:9 in read")
    assert stacks.where(stacks.main_thread("")) == "has left no stack"
    assert stacks.main_thread("no stack\n  File x") == []
