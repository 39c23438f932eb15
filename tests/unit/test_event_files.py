"""TensorBoard's event files are read as logs: what TensorBoard wrote, files made by hand, and damaged ones, record by record."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest

from paralign import cli
from paralign.training import compare_logs, read_log
from paralign.training.event_files import _masked
from paralign.trainlog.lines import EVAL, TRAIN

#: written by tensorboard 2.21: train/loss and lr of four steps as plain values, val/acc of steps 1 and 3 as tensors
BY_TENSORBOARD = zlib.decompress(
    base64.b64decode(
        "eNrzYICAf5M85nLWitaezz54y1GKN6koMTNPz7UsNa/EyihIj0unJDWvOL8oKT+xKEWvuDQ3N7GoUq+8KLMktUgvFaQqPi0zJzUeIvJx4rMkOai5N+8IGXEC6QPcUdcctYS5BLm4"
        "SkBm6+fkFxeLMjA02B9gvy8sBlXtn7hPA6Gam4uTiymnSPTsmTO2N5Y/ClaAqtJ8uzIArkqAEYupDPaG8l8sJaDqF9d7KyGrRzY3+5RuAXZzmTDMXb1qld2UDAZ97OYyoZgbIXTo"
        "CnZzmbGFgp2Z0/UG7OYyo5ibVmVmbQhVN7e5+SWyv1S4lLjYyxJz9BOTk524OBiFGJRYGBgc7L1ABrAXJyfmJBYVL7Yq58FuADMOAxJQDWDwjJgOAALTku0="
    )
)


def field(number, kind, data):
    return bytes([number << 3 | kind]) + (bytes([len(data)]) + data if kind == 2 else data)


def event(step, **scalars):
    values = b"".join(
        field(1, 2, field(1, 2, tag.replace("__", "/").encode()) + field(2, 5, struct.pack("<f", v))) for tag, v in scalars.items()
    )
    return field(2, 0, bytes([step])) + field(5, 2, values)


def record(data):
    head = struct.pack("<Q", len(data))
    return head + struct.pack("<I", _masked(head)) + data + struct.pack("<I", _masked(data))


FIRST = record(field(3, 2, b"brain.Event:2"))


def file_of(tmp_path, raw, name="events.out.tfevents.1"):
    path = tmp_path / name
    path.write_bytes(raw)
    return path


def told(log):
    return [(row.kind, row.epoch, row.iteration, row.values) for row in log.rows]


def test_what_tensorboard_wrote_is_read(tmp_path):
    log = read_log(file_of(tmp_path, BY_TENSORBOARD))
    assert (log.damaged, log.other) == ([], 1)
    rate = pytest.approx(0.1)
    assert told(log) == [
        *((TRAIN, 0, n, {"loss": pytest.approx(1 / (n + 1)), "lr": rate}) for n in range(4)),
        (EVAL, 1, -1, {"acc": 0.75}),
        (EVAL, 3, -1, {"acc": 0.875}),
    ]


def test_tags_tell_what_they_are_of(tmp_path):
    raw = FIRST + record(event(7, Loss__train=2.0, ips=100.0, epoch=3.0)) + record(event(7, Loss__test=3.0))
    log = read_log(file_of(tmp_path, raw))
    assert told(log) == [(TRAIN, 3, 7, {"Loss": 2.0}), (EVAL, 3, -1, {"Loss": 3.0})]
    assert log.rows[0].ips == 100.0


def test_tags_that_would_become_one_name_keep_their_own(tmp_path):
    log = read_log(file_of(tmp_path, FIRST + record(event(0, loss=1.0, train__loss=2.0))))
    assert log.rows[0].values == {"loss": 1.0, "train/loss": 2.0}


def test_a_step_that_is_there_twice_has_its_last_value(tmp_path):
    log = read_log(file_of(tmp_path, FIRST + record(event(1, loss=1.0)) + record(event(1, loss=4.0))))
    assert told(log) == [(TRAIN, 0, 1, {"loss": 4.0})]


def changed(raw, place, by=1):
    return raw[:place] + bytes([raw[place] ^ by]) + raw[place + 1 :]


ONE, TWO = record(event(0, loss=1.0)), record(event(1, loss=2.0))
DAMAGED = {
    "a byte of an event": (FIRST + changed(ONE, 14) + TWO, [2], "the checksum of the event is not that of its bytes", 1),
    "a length": (FIRST + ONE + changed(TWO, 0), [3], "the length of the event cannot be read: nothing behind it was, either", 1),
    "cut in a length": (FIRST + ONE + TWO[:5], [3], "the length of the event cannot be read", 1),
    "cut in an event": (FIRST + ONE + TWO[:-6], [3], "the file ends within the event", 1),
    "a message that is not whole": (
        FIRST + record(field(5, 2, b"\x0a\x50ab")) + ONE,
        [2],
        "the event is not whole: a field does not end",
        1,
    ),
    "a number without an end": (FIRST + record(b"\x10" + b"\xff" * 12) + ONE, [2], "the event is not whole: a number does not end", 1),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_record_is_named_with_its_number(tmp_path, name):
    raw, numbers, why, rows = DAMAGED[name]
    log = read_log(file_of(tmp_path, raw))
    assert ([each.line for each in log.damaged], len(log.rows)) == (numbers, rows)
    assert log.damaged[0].why.startswith(why)


@pytest.mark.parametrize("end", range(80, len(BY_TENSORBOARD), 23))
def test_a_file_that_is_cut_anywhere_is_read_up_to_there(tmp_path, end):
    log = read_log(file_of(tmp_path, BY_TENSORBOARD[:end]))
    whole = told(read_log(file_of(tmp_path, BY_TENSORBOARD, "whole")))
    assert len(log.damaged) <= 1
    assert [row[:3] for row in told(log)] == [row[:3] for row in whole][: len(log.rows)]


def test_other_binary_files_are_refused(tmp_path, capsys):
    assert cli.main(["log", "show", str(file_of(tmp_path, b"\0\1" * 40))]) == 3
    assert "name a log of lines, or an event file of TensorBoard's" in capsys.readouterr().err


def test_the_command_compares_an_event_file_with_a_log_of_lines(tmp_path, capsys):
    events = file_of(tmp_path, FIRST + ONE + TWO)
    lines = tmp_path / "train.log"
    lines.write_text("epoch 0 step 0 loss: 1.0\nepoch 0 step 1 loss: 2.5\n")
    assert compare_logs(read_log(events), read_log(lines), atol=1e-6).gaps[0].first == (0, 1)
    assert cli.main(["log", "convert", str(events), "--to", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["TRAIN,0,0,1.0,0.0,0.0,0.0,0.0", "TRAIN,0,1,2.0,0.0,0.0,0.0,0.0"]
