"""Captures: what is written reads back; what is damaged says so."""

import contextlib
import json
import shutil
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paralign.capture import Capture, CaptureWriter
from paralign.dtypes import STORAGE, Typed
from paralign.errors import CaptureFormatError, UnsupportedTensor, UsageError
from paralign.model import ROLES, SCHEMA, Manifest

LAYOUTS = {
    "plain": lambda a: a,
    "transposed": lambda a: a.T,
    "flipped": lambda a: a[::-1] if a.ndim else a,
    "sliced": lambda a: a[..., ::2] if a.ndim else a,
    "swapped": lambda a: a.astype(a.dtype.newbyteorder()),
}


def bits(array):
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


def recorded(path, complete=True, **options):
    """A small capture with a record of each kind."""
    writer = CaptureWriter(path, Manifest(stage="forward", side="reference", seed=3), **options)
    writer.add("x", np.arange(6, dtype=np.float32).reshape(2, 3), role="input")
    writer.add(
        "layer",
        Typed(np.arange(4, dtype=np.uint16), "bfloat16"),
        role="output",
        leaf="0",
        op="Linear",
        call=1,
        inputs=[0],
        source="model.py:3",
        attrs={"kernel": (3, 3)},
    )
    writer.add("text", "caf\u00e9 \ud800", role="sample")
    writer.add("missing", None, role="gradient")
    writer.add("dropped", np.zeros((9, 9)), role="output", keep=False, digest="ab", run="float64", step=2, rank=1, stage="loss")
    writer.add("z", np.array([1 + 2j, 3 - 4j], np.complex64), role="output")
    if complete:
        writer.close()
    else:
        writer.__exit__(KeyboardInterrupt, None, None)
    return writer


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(STORAGE)), st.lists(st.integers(0, 4), max_size=3), st.sampled_from(sorted(LAYOUTS))), max_size=8
    ),
    st.integers(0, 2**32),
    st.sampled_from([1, 40, 32 << 20]),
)
def test_values_read_back_whatever_their_type_and_layout(tmp_path_factory, kinds, seed, shard_bytes):
    path, random = tmp_path_factory.mktemp("capture") / "c", np.random.default_rng(seed)
    values = []
    for dtype, shape, layout in kinds:
        count = int(np.prod(shape, dtype=int))
        data = random.bytes(count * STORAGE[dtype].itemsize)
        flat = np.frombuffer(data, STORAGE[dtype]) if dtype != "bool" else random.integers(0, 2, count).astype(bool)
        values.append(Typed(LAYOUTS[layout](flat.reshape(shape)), dtype))
    with CaptureWriter(path, Manifest(), shard_bytes=shard_bytes) as writer:
        records = [writer.add(f"v{number}", value, role="output") for number, value in enumerate(values)]
    capture = Capture.open(path)
    assert capture.complete
    assert capture.records == records
    for record, expected in zip(capture.records, values):  # noqa: B905 - strict= is not in Python 3.8, where this runs too
        read = capture.value(record)
        assert (read.dtype, read.array.shape) == (expected.dtype, expected.array.shape)
        assert read.array.dtype == STORAGE[expected.dtype]
        assert bits(read.array) == bits(expected.array)


def test_records_read_back(tmp_path):
    recorded(tmp_path / "c")
    capture = Capture.open(str(tmp_path / "c"))
    assert [r.name for r in capture.records] == ["x", "layer", "text", "missing", "dropped", "z"]
    x, layer, text, missing, dropped, z = capture.records
    assert (x.stage, x.role, x.shape, x.dtype, x.key) == ("forward", "input", (2, 3), "float32", "x")
    assert (layer.key, layer.op, layer.call, layer.inputs, layer.source) == ("layer.0", "Linear", 1, (0,), "model.py:3")
    assert layer.attrs == {"kernel": [3, 3]}
    assert (text.dtype, text.text, text.shape, text.location) == ("str", "caf\u00e9 \ud800", (), None)
    assert (missing.dtype, missing.shape, missing.location, missing.text) == ("none", (), None, None)
    assert (dropped.stage, dropped.run, dropped.step, dropped.rank, dropped.digest) == ("loss", "float64", 2, 1, "ab")
    assert (dropped.shape, dropped.location) == ((9, 9), None)
    np.testing.assert_array_equal(capture.array(x), np.arange(6).reshape(2, 3))
    assert capture.array(layer).dtype == np.float32
    assert capture.value(z).array.dtype == np.complex64
    np.testing.assert_array_equal(capture.array(z), [1 + 2j, 3 - 4j])
    assert capture.by_id[4] is dropped
    assert (capture.manifest.side, capture.manifest.seed, capture.manifest.records) == ("reference", 3, 6)
    assert capture.manifest.created.endswith("+00:00")
    assert capture.path == tmp_path / "c"


def test_select_goes_by_fields_in_order_of_recording(tmp_path):
    recorded(tmp_path / "c")
    capture = Capture.open(tmp_path / "c")
    assert [r.name for r in capture.select(role="output")] == ["layer", "dropped", "z"]
    assert [r.name for r in capture.select(role="output", run="float64")] == ["dropped"]
    assert [r.id for r in capture.select(key="layer.0")] == [1]
    assert capture.select(role="nothing") == []
    assert capture.select() == capture.records
    with pytest.raises(UsageError, match="records have no field 'rolle'") as caught:
        capture.select(rolle="output")
    assert "role" in caught.value.hint


def test_values_are_copied_when_they_are_added(tmp_path):
    small, large = np.ones(4), np.ones(100)
    with CaptureWriter(tmp_path / "c", Manifest(), shard_bytes=100) as writer:
        for array in (small, large):
            writer.add("a", array, role="output")
            array[:] = 7
    capture = Capture.open(tmp_path / "c")
    assert [capture.array(r).max() for r in capture.records] == [1, 1]


def test_reading_copies_nothing(tmp_path):
    recorded(tmp_path / "c")
    capture = Capture.open(tmp_path / "c")
    for record in (capture.records[0], capture.records[5]):
        one, two = capture.value(record).array, capture.value(record).array
        assert isinstance(one.base, np.memmap)
        assert np.shares_memory(one, two)
        assert not one.flags.writeable
    assert np.shares_memory(capture.array(capture.records[0]), capture.value(capture.records[0]).array)


def test_small_tensors_share_shards_and_large_ones_have_their_own(tmp_path):
    with CaptureWriter(tmp_path / "c", Manifest(), shard_bytes=1000) as writer:
        records = [writer.add("a", np.zeros(size, np.uint8), role="output") for size in (400, 400, 400, 1000, 5000, 10)]
    assert [r.location[0][-13:-12] for r in records] == list("001234")
    assert writer.manifest.records == 6


def test_records_appear_once_their_shard_is_in_place(tmp_path):
    writer = CaptureWriter(tmp_path / "c", Manifest(), shard_bytes=1000)
    writer.add("a", np.zeros(400, np.uint8), role="output")
    writer.add("b", "text", role="sample")
    assert Capture.open(tmp_path / "c").records == []
    writer.add("c", np.zeros(800, np.uint8), role="output")
    assert [r.name for r in Capture.open(tmp_path / "c").records] == ["a", "b"]
    writer.close()
    assert [r.name for r in Capture.open(tmp_path / "c").records] == ["a", "b", "c"]


def test_many_small_records_do_not_wait_for_a_full_shard(tmp_path):
    writer = CaptureWriter(tmp_path / "c", Manifest())
    for _ in range(5000):
        writer.add("a", np.float32(1), role="scalar")
    assert len(Capture.open(tmp_path / "c").records) == 4096
    writer.close()


def test_a_moved_capture_opens(tmp_path):
    recorded(tmp_path / "c")
    shutil.move(str(tmp_path / "c"), str(tmp_path / "elsewhere"))
    capture = Capture.open(tmp_path / "elsewhere")
    assert capture.array(capture.records[0]).sum() == 15
    for file in (tmp_path / "elsewhere").rglob("*"):
        assert not file.is_file() or str(tmp_path).encode() not in file.read_bytes()


def test_more_shards_than_a_process_may_hold_open(tmp_path):
    resource = pytest.importorskip("resource")
    with CaptureWriter(tmp_path / "c", Manifest(), shard_bytes=1) as writer:
        for number in range(200):
            writer.add("a", np.array([number]), role="output")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, limits[1]))
    try:
        capture = Capture.open(tmp_path / "c")
        assert [int(capture.array(r)[0]) for r in capture.records] == list(range(200))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_an_exception_leaves_what_was_recorded_and_says_that_it_is_incomplete(tmp_path):
    def fail():
        with CaptureWriter(tmp_path / "c", Manifest()) as writer:
            writer.add("a", np.ones(3), role="output")
            writer.note("was going well")
            raise KeyError("boom")

    with pytest.raises(KeyError, match="boom"):
        fail()
    capture = Capture.open(tmp_path / "c")
    assert not capture.complete
    assert capture.manifest.notes == ["was going well"]
    np.testing.assert_array_equal(capture.array(capture.records[0]), np.ones(3))


def test_closing_twice_is_harmless_and_adding_afterwards_is_not(tmp_path):
    writer = recorded(tmp_path / "c")
    writer.close()
    with pytest.raises(UsageError, match="'late' cannot be recorded: the capture is closed"):
        writer.add("late", np.ones(1), role="output")
    assert Capture.open(tmp_path / "c").complete


def test_a_capture_needs_a_folder_of_its_own(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written: File exists"):
        CaptureWriter(tmp_path / "file", Manifest())
    (tmp_path / "empty").mkdir()
    CaptureWriter(tmp_path / "empty", Manifest()).close()
    with pytest.raises(UsageError, match="this one is not empty") as caught:
        CaptureWriter(tmp_path / "empty", Manifest())
    assert caught.value.where == str(tmp_path / "empty")
    CaptureWriter(tmp_path / "deep" / "er", Manifest()).close()


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (np.array(["x"]), UnsupportedTensor, "'a': elements of type <U1 cannot be recorded"),
        (np.array([None]), UnsupportedTensor, "'a': elements of type object cannot be recorded"),
        ([1, 2], UnsupportedTensor, "'a' is a list, which cannot be recorded"),
        (Typed(np.zeros(2), "bfloat16"), UnsupportedTensor, "'a' is said to be bfloat16, its storage is float64"),
        (Typed(np.zeros(2), "float128"), UnsupportedTensor, "'a' is said to be float128"),
    ],
)
def test_what_cannot_be_recorded_is_named_and_the_capture_goes_on(tmp_path, value, error, message):
    with CaptureWriter(tmp_path / "c", Manifest()) as writer:
        with pytest.raises(error, match=message):
            writer.add("a", value, role="output")
        assert writer.add("b", 0.5, role="scalar").id == 0
    assert [r.name for r in Capture.open(tmp_path / "c").records] == ["b"]


def test_unknown_roles_and_unwritable_attributes_are_named(tmp_path):
    with CaptureWriter(tmp_path / "c", Manifest()) as writer:
        with pytest.raises(UsageError, match="'a' has the unknown role 'outptu'") as caught:
            writer.add("a", 1.0, role="outptu")
        assert caught.value.hint == "choose one of: " + ", ".join(ROLES)
        with pytest.raises(UsageError, match="attributes of record 'a': a object cannot be written as JSON"):
            writer.add("a", 1.0, role="scalar", attrs={"x": object()})
        writer.add("a", 1.0, role="scalar", attrs={"inf": float("inf"), "nan": np.float32("nan"), "n": np.int64(3), "l": np.arange(2)})
    (record,) = Capture.open(tmp_path / "c").records
    assert record.attrs == {"inf": "inf", "nan": "nan", "n": 3, "l": [0, 1]}
    with pytest.raises(UsageError, match="manifest field 'flags'"):
        CaptureWriter(tmp_path / "d", Manifest(flags={"x": object()}))


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path):
    writer = CaptureWriter(tmp_path / "c", Manifest())
    writer.add("a", np.ones(3), role="output")
    shutil.rmtree(tmp_path / "c")
    with pytest.raises(UsageError, match="cannot be written: No such file") as caught:
        writer.close()
    assert "00000.safetensors" in caught.value.where


def test_records_without_values_say_so(tmp_path):
    recorded(tmp_path / "c")
    capture = Capture.open(tmp_path / "c")
    with pytest.raises(UsageError, match="the values of 'dropped' were not kept") as caught:
        capture.value(capture.records[4])
    assert caught.value.hint == "record with full values"
    with pytest.raises(UsageError, match="'text' is no tensor"):
        capture.array(capture.records[2])


def refused(path):
    with pytest.raises(CaptureFormatError) as caught:
        Capture.open(path)
    assert caught.value.where
    assert caught.value.hint
    return str(caught.value)


def test_what_is_no_capture_is_refused(tmp_path):
    assert "there is no such folder" in refused(tmp_path / "missing")
    assert "the folder is not a capture: it has no manifest.json" in refused(tmp_path)
    (tmp_path / "manifest.json").write_text('{"schema": 1}')
    assert "does not say 'paralign capture'" in refused(tmp_path)


def change_manifest(path, **changes):
    content = json.loads((path / "manifest.json").read_text())
    content.update(changes)
    (path / "manifest.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": SCHEMA + 1}, f"the capture has schema {SCHEMA + 1}, this version of paralign reads up to {SCHEMA}"),
        ({"schema": "1"}, "it has no schema number"),
        ({"schema": 0}, "it has no schema number"),
        ({"records": "many"}, "the manifest is damaged: field 'records' holds 'many'"),
        ({"complete": 1}, "field 'complete' holds 1"),
        ({"seed": True}, "field 'seed' holds True"),
        ({"notes": {}}, "field 'notes' holds {}"),
        ({"records": 7}, "the manifest tells of 7 records, 6 are there"),
        ({"records": 5}, "the manifest tells of 5 records, 6 are there"),
    ],
)
def test_damaged_manifests_are_refused(tmp_path, changes, message):
    recorded(tmp_path / "c")
    change_manifest(tmp_path / "c", **changes)
    assert message in refused(tmp_path / "c")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'"text"'])
def test_manifests_that_are_no_json_are_refused(tmp_path, content):
    recorded(tmp_path / "c")
    (tmp_path / "c" / "manifest.json").write_bytes(content)
    assert "the manifest is damaged" in refused(tmp_path / "c")


def test_later_fields_of_the_same_schema_are_ignored(tmp_path):
    recorded(tmp_path / "c")
    change_manifest(tmp_path / "c", novelty=[1])
    assert Capture.open(tmp_path / "c").complete


def change_record(path, **changes):
    lines = (path / "records.jsonl").read_text().splitlines()
    lines[1] = json.dumps({key: value for key, value in {**json.loads(lines[1]), **changes}.items() if value is not ...})
    (path / "records.jsonl").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ...}, "line 2 is damaged: field 'name' is missing"),
        ({"novelty": 1}, "line 2 is damaged: field 'novelty' is not known"),
        ({"id": "1"}, "field 'id' holds '1'"),
        ({"id": 0}, "two records have the same number"),
        ({"shape": [-1]}, "its shape [-1] is no list"),
        ({"shape": [True]}, "its shape [True] is no list"),
        ({"shape": 3}, "field 'shape' holds 3"),
        ({"role": "spy"}, "its role 'spy' is none of input, output"),
        ({"inputs": ["a"]}, "its inputs ['a'] are no record numbers"),
        ({"attrs": []}, "field 'attrs' holds []"),
        ({"location": ["a"]}, "no pair of shard and tensor name"),
        ({"location": ["shards/00000.safetensors", 1]}, "no pair of shard and tensor name"),
        ({"location": ["../x", "1"]}, "its shard '../x' is none of this capture's"),
        ({"location": ["shards/../../x.safetensors", "1"]}, "is none of this capture's"),
        ({"location": ["/etc/passwd", "1"]}, "is none of this capture's"),
        ({"location": ["shards/00000.safetensors\n", "1"]}, "is none of this capture's"),
        ({"location": ["shards\\00000.safetensors", "1"]}, "is none of this capture's"),
    ],
)
def test_damaged_records_are_refused(tmp_path, changes, message):
    recorded(tmp_path / "c")
    change_record(tmp_path / "c", **changes)
    text = refused(tmp_path / "c")
    assert message in text
    assert "records.jsonl" in text


def test_a_record_changed_in_memory_cannot_lead_out_of_the_capture_either(tmp_path):
    recorded(tmp_path / "c")
    capture = Capture.open(tmp_path / "c")
    capture.records[0].location = ("../c/shards/00000.safetensors", "0")
    with pytest.raises(CaptureFormatError, match="is none of this capture's"):
        capture.value(capture.records[0])


@pytest.mark.parametrize("line", ["", "{", "[]", "null", "\ufffd"])
def test_lines_that_are_no_records_are_refused_unless_torn(tmp_path, line):
    recorded(tmp_path / "c")
    path = tmp_path / "c" / "records.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], line, *lines[2:]]) + "\n", encoding="utf-8")
    assert "line 3 is damaged" in refused(tmp_path / "c")


@settings(deadline=None)
@given(st.data())
def test_any_damage_is_an_error_of_ours_or_harmless(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("capture") / "c"
    recorded(path)
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        content = bytearray(file.read_bytes())
        for _ in range(data.draw(st.integers(0, 2))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        file.write_bytes(bytes(content))
    with contextlib.suppress(CaptureFormatError):
        capture = Capture.open(path)
        for record in capture.records:
            with contextlib.suppress(UsageError):
                capture.value(record)


def test_a_complete_capture_with_a_torn_or_missing_line_is_refused(tmp_path):
    recorded(tmp_path / "c")
    path = tmp_path / "c" / "records.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[:-3])
    assert "line 6 is damaged: it is cut off" in refused(tmp_path / "c")
    path.write_bytes(content[: content[:-1].rindex(b"\n") + 1])
    assert "the manifest tells of 6 records, 5 are there" in refused(tmp_path / "c")
    path.unlink()
    assert "cannot be read: No such file" in refused(tmp_path / "c")


def test_an_incomplete_capture_opens_wherever_its_last_line_is_torn(tmp_path):
    recorded(tmp_path / "c", complete=False)
    path = tmp_path / "c" / "records.jsonl"
    content = path.read_bytes()
    for length in range(len(content) + 1):
        path.write_bytes(content[:length])
        capture = Capture.open(tmp_path / "c")
        assert not capture.complete
        assert len(capture.records) == content[:length].count(b"\n")
    path.unlink()
    assert Capture.open(tmp_path / "c").records == []


def damaged_shard(path, change):
    """What reading the first record says after ``change`` was applied to its shard's bytes."""
    recorded(path)
    capture = Capture.open(path)
    shard = path / capture.records[0].location[0]
    content = change(shard.read_bytes())
    if content is None:
        shard.unlink()
    else:
        shard.write_bytes(content)
    with pytest.raises(CaptureFormatError) as caught:
        capture.value(capture.records[0])
    assert caught.value.where == str(shard)
    return str(caught.value)


def rewrite(**changes):
    """Change the header of the tensor of the first record."""

    def change(content):
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + length])
        header["0"].update(changes)
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + content[8 + length :]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: None, "cannot be read: No such file"),
        (lambda _: b"", "truncated: it has 0 bytes"),
        (lambda content: content[:100], "claims a header"),
        (lambda content: content[:-1], "the file is truncated: its tensors take"),
        (lambda content: content + b"x", "1 bytes after its last tensor"),
        (lambda content: content[:8] + b"x" + content[9:], "the header is damaged"),
        (lambda content: content.replace(b'"0":', b'"9":'), "holds no tensor '0'"),
        (rewrite(shape=[3, 2]), "recorded as float32 of shape (2, 3), the shard holds float32 of shape (3, 2)"),
        (rewrite(dtype="I32"), "the shard holds int32 of shape (2, 3)"),
        (rewrite(data_offsets=[8, 32]), "8 bytes before tensor '0' belong to no tensor"),
    ],
)
def test_damaged_shards_are_named(tmp_path, change, message):
    assert message in damaged_shard(tmp_path / "c", change)


def test_complex_values_that_are_no_pairs_are_refused(tmp_path):
    recorded(tmp_path / "c")
    capture = Capture.open(tmp_path / "c")
    capture.records[0].dtype = "complex64"
    with pytest.raises(CaptureFormatError, match="should hold complex64 as pairs"):
        capture.value(capture.records[0])
