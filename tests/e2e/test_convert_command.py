"""``paralign convert weights`` as a user runs it, without any framework: formats, rules, hostile files, full disks."""

import contextlib
import io
import json
import os
import pickle
import resource
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from paralign.cli import main
from paralign.dtypes import STORAGE, Typed
from paralign.formats import open_checkpoint, save

ALL = [".safetensors", ".npz", ".pdparams", ".pth"]


def sample(dtype, shape, seed=0):
    """Random bit patterns, NaN payloads included (bool: 0 and 1)."""
    raw = np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 256, (*shape, STORAGE[dtype].itemsize), np.uint8)
    return Typed(raw.view(STORAGE[dtype])[..., 0] if STORAGE[dtype].itemsize == 1 else raw.view(STORAGE[dtype]).reshape(shape), dtype)


def everything():
    return {f"layer.{n}.{dtype}": sample(dtype, shape, n) for n, shape in enumerate(((3, 5), (), (0, 2), (7,))) for dtype in STORAGE}


def content(path):
    checkpoint = open_checkpoint(path)
    return {name: (v.dtype, v.array.shape, v.array.tobytes()) for name in checkpoint.names for v in [checkpoint.value(name)]}


@pytest.mark.parametrize("there", ALL)
@pytest.mark.parametrize("here", ALL)
def test_there_and_back_is_bit_exact_for_every_type(tmp_path, capsys, here, there):
    source, middle, back = tmp_path / f"a{here}", tmp_path / f"b{there}", tmp_path / f"c{here}"
    save(source, everything())
    assert main(["convert", "weights", str(source), str(middle)]) in (0, 4)  # 4: nothing tells that matrices are laid out alike
    assert main(["convert", "weights", str(middle), str(back)]) in (0, 4)
    assert content(back) == content(source) == content(middle)
    assert "verdict" in capsys.readouterr().out


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12).map(lambda name: f"w.{name}"),
        st.tuples(st.sampled_from(sorted(STORAGE)), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)),
        max_size=4,
    ),
    st.sampled_from(ALL),
    st.sampled_from(ALL),
)
@settings(max_examples=60, deadline=None)
def test_names_types_and_shapes_of_any_kind_arrive(tmp_path_factory, entries, here, there):
    folder = tmp_path_factory.mktemp("any")
    source, target = folder / f"a{here}", folder / f"b{there}"
    save(source, {name: sample(dtype, shape, n) for n, (name, (dtype, shape)) in enumerate(entries.items())})
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert main(["convert", "weights", str(source), str(target), "--strip", ""]) in (0, 4)
    assert content(target) == content(source)


@pytest.mark.parametrize("framework", ["torch", "paddle", "numpy"])
def test_the_user_may_say_who_laid_an_archive_out(run, tmp_path, framework):
    save(tmp_path / "a.npz", {"fc.weight": sample("float32", (4, 3)), "bn._mean": sample("float32", (4,))})
    done = run("convert", "weights", tmp_path / "a.npz", tmp_path / "b.pdparams", "--from", framework)
    assert done.code == (0 if framework == "paddle" else 4), done.out
    assert content(tmp_path / "b.pdparams") == content(tmp_path / "a.npz")


def test_shards_with_an_index_in_and_out(run, tmp_path):
    tensors = {f"t{n}": sample("bfloat16", (64, 8), n) for n in range(6)}
    save(tmp_path / "model.safetensors", tensors, max_shard_bytes=2100)
    done = run(
        "convert",
        "weights",
        tmp_path / "model.safetensors.index.json",
        tmp_path / "out.pdparams",
        "--max-shard-size",
        "2K",
        "--from",
        "paddle",
    )
    assert done.code == 0, done.err
    assert (tmp_path / "out.pdparams.index.json").is_file()
    assert len(list(tmp_path.glob("out-*.pdparams"))) == 6
    assert content(tmp_path / "out.pdparams.index.json") == content(tmp_path / "model.safetensors.index.json")


def test_a_format_alone_is_no_matter_of_proof(run, tmp_path, monkeypatch):
    monkeypatch.setenv("PARALIGN_PROGRESS", "lines")
    save(tmp_path / "a.pth", {"fc.weight": sample("float32", (4, 4))})
    done = run("convert", "weights", tmp_path / "a.pth", tmp_path / "b.safetensors")
    assert done.code == 0
    assert done.out.splitlines()[0] == "1 of 1 tensors keep name and layout"
    assert done.out.splitlines()[-1] == "verdict: kept: nothing but the format changed"
    assert open_checkpoint(tmp_path / "b.safetensors").metadata == {"format": "pt"}
    assert "writing b.safetensors" in done.err


def test_what_no_layer_type_tells_is_not_transposed_and_no_success(run, tmp_path):
    save(
        tmp_path / "a.pth",
        {
            "fc.weight": sample("float32", (4, 3)),
            "fc.bias": sample("float32", (4,)),
            "bn.running_mean": sample("float32", (4,)),
            "bn.num_batches_tracked": Typed(np.array(3), "int64"),
        },
    )
    done = run("convert", "weights", tmp_path / "a.pth", tmp_path / "b.pdparams", "--json")
    told = json.loads(done.out)
    assert (done.code, told["verdict"], told["untold"], told["dropped"]) == (4, "not proven", ["fc.weight"], ["bn.num_batches_tracked"])
    found = open_checkpoint(tmp_path / "b.pdparams")
    assert found.entries["fc.weight"].shape == (4, 3)
    assert "bn._mean" in found.names
    shown = run("convert", "weights", tmp_path / "a.pth", tmp_path / "b.pdparams", "--overwrite")
    assert "1 matrices were NOT transposed, for nothing tells of which layers they are: fc.weight" in shown.out
    assert "verdict: not proven" in shown.out


RULES = """others = "keep"
[[route]]
reference = "module_{a}.fc.weight"
candidate = "blocks.{a}.weight"
transform = "transpose(1, 0)"
[[rename]]
reference = "module_{a}.fc.*"
candidate = "blocks.{a}.*"
[[drop]]
side = "reference"
name = "steps"
"""


@pytest.fixture
def ruled(tmp_path):
    tensors = {
        f"module_{n}.fc.{leaf}": sample("float32", shape, n) for n in range(3) for leaf, shape in (("weight", (4, 3)), ("bias", (4,)))
    }
    save(tmp_path / "a.pth", {**tensors, "steps": sample("int64", ()), "embed": sample("float16", (5, 5))})
    (tmp_path / "rules.toml").write_text(RULES)
    return tmp_path


def test_rules_alone(run, ruled):
    done = run(
        "convert", "weights", ruled / "a.pth", ruled / "b.pdparams", "--rules", ruled / "rules.toml", "--save-rules", ruled / "again.toml"
    )
    assert done.code == 0, done.err
    assert done.out.splitlines()[1].split() == ["module_{a}.fc.*", "blocks.{a}.*", "6"]
    assert done.out.splitlines()[2].split("  ")[-1].strip() == "3"
    assert "left out, for nothing on the other side needs it: steps" in done.out
    assert "verdict: as the rules say" in done.out
    one, other = open_checkpoint(ruled / "a.pth"), open_checkpoint(ruled / "b.pdparams")
    assert np.array_equal(other.value("blocks.2.weight").array, one.value("module_2.fc.weight").array.T)
    assert sorted(other.names) == sorted([f"blocks.{n}.{leaf}" for n in range(3) for leaf in ("weight", "bias")] + ["embed"])
    done = run("convert", "weights", ruled / "a.pth", ruled / "c.pdparams", "--rules", ruled / "again.toml")
    assert done.code == 0
    assert content(ruled / "c.pdparams") == content(ruled / "b.pdparams")


def test_a_file_that_rules_led_to_claims_no_framework_that_is_not_known(run, ruled):
    done = run("convert", "weights", ruled / "a.pth", ruled / "b.safetensors", "--rules", ruled / "rules.toml")
    assert done.code == 0
    assert open_checkpoint(ruled / "b.safetensors").metadata == {}
    assert run("convert", "weights", ruled / "a.pth", ruled / "c.safetensors").code == 0
    assert open_checkpoint(ruled / "c.safetensors").metadata == {"format": "pt"}


def test_rules_that_do_not_speak_of_every_matrix_are_no_success(run, ruled):
    (ruled / "rules.toml").write_text(RULES.replace('others = "keep"', ""))
    done = run("convert", "weights", ruled / "a.pth", ruled / "b.pdparams", "--rules", ruled / "rules.toml", "--json")
    assert (done.code, json.loads(done.out)["untold"]) == (4, ["embed"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("module_{a}.fc.weight", "nothing.{a}", "speaks of no tensor of the source"),
        ("transpose(1, 0)", "transpose(0, 2, 1)", "a transposition of 3 axes does not fit a tensor of 2"),
        ("transpose(1, 0)", "turn(1, 0)", "is no transform of weights"),
        ("[[drop]]", "[[dorp]]", "unknown entry 'dorp'"),
        ("blocks.{a}.weight", "same", "two tensors would be called 'same'"),
        ('others = "keep"', "others = ", "the rules are no TOML"),
    ],
)
@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_rules_that_cannot_be_leave_the_destination_as_it_was(run, ruled, old, new, message, dry):
    (ruled / "rules.toml").write_text(RULES.replace(old, new))
    (ruled / "b.pdparams").write_bytes(b"precious")
    done = run("convert", "weights", ruled / "a.pth", ruled / "b.pdparams", "--rules", ruled / "rules.toml", "--overwrite", *dry)
    assert (done.code, message in done.err) == (2, True), done.err
    assert (ruled / "b.pdparams").read_bytes() == b"precious"


def test_a_dry_run_writes_nothing(run, ruled):
    before = sorted(p.name for p in ruled.iterdir())
    done = run("convert", "weights", ruled / "a.pth", ruled / "b.pdparams", "--rules", ruled / "rules.toml", "--dry-run")
    assert done.code == 0
    assert "nothing was written: --dry-run" in done.out
    assert "transpose(1, 0)" in done.out
    assert sorted(p.name for p in ruled.iterdir()) == before


def test_prefixes_and_nesting(run, tmp_path):
    tree = {
        "state_dict": {"module.a.weight": np.ones((2, 2), np.float32), "module.b": np.zeros(3)},
        "ema": {"a.weight": np.full((2, 2), 2.0)},
        "epoch": 3,
    }
    (tmp_path / "a.pth").write_bytes(pickle.dumps(tree, 4))
    done = run("convert", "weights", tmp_path / "a.pth", tmp_path / "b.npz")
    assert done.code == 0, done.err
    assert open_checkpoint(tmp_path / "b.npz").names == ["a.weight", "b"]
    assert "also in the source, and left there: ema, epoch" in done.out
    assert "'module.' was taken off the names" in done.out
    assert run("convert", "weights", tmp_path / "a.pth", tmp_path / "c.npz", "--strip", "").code == 0
    assert open_checkpoint(tmp_path / "c.npz").names == ["module.a.weight", "module.b"]
    assert run("convert", "weights", tmp_path / "a.pth", tmp_path / "d.npz", "--within", "ema").code == 0
    assert open_checkpoint(tmp_path / "d.npz").value("a.weight").array.sum() == 8


# -- what must not happen ----------------------------------------------------------------------------------------------------


def safetensors(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


class Code:
    def __reduce__(self):
        return os.mkdir, ("was-run",)


def archive(path, program):
    with zipfile.ZipFile(path, "w") as stream:
        stream.writestr("m/data.pkl", program)
        stream.writestr("m/data/0", b"\0" * 16)


def entry(*offsets, shape=(4,)):
    return {"dtype": "F32", "shape": list(shape), "data_offsets": list(offsets)}


HOSTILE = {
    "corrupt header": ("x.safetensors", safetensors(b"{not json}", b"\0" * 16), 3, "the header is damaged"),
    "header longer than the file": (
        "x.safetensors",
        safetensors(b"{}", length=1 << 40),
        3,
        "it claims a header of 1099511627776 bytes and has 10 in all",
    ),
    "truncated data": (
        "x.safetensors",
        safetensors({"a": entry(0, 16)}, b"\0" * 12),
        3,
        "the file is truncated: its tensors take 16 bytes, 12 are there",
    ),
    "overlapping offsets": ("x.safetensors", safetensors({"a": entry(0, 16), "b": entry(8, 24)}, b"\0" * 24), 3, "overlap"),
    "duplicate names": (
        "x.safetensors",
        safetensors(
            b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}', b"\0" * 16
        ),
        3,
        "a",
    ),
    "missing shard": (
        "model.safetensors.index.json",
        json.dumps({"weight_map": {"a": "gone.safetensors"}}).encode(),
        3,
        "1 of 1 shards are missing: gone.safetensors",
    ),
    "shard outside": (
        "model.safetensors.index.json",
        json.dumps({"weight_map": {"a": "../etc/passwd"}}).encode(),
        3,
        "which is not one beside it",
    ),
    "code in paddle's pickle": (
        "x.pdparams",
        pickle.dumps({"w": Code()}, 4),
        3,
        "the file refers to posix.mkdir, which is refused; nothing of it was run",
    ),
    "code in torch's archive": ("x.pth", None, 3, "the file refers to posix.mkdir, which is refused; nothing of it was run"),
    "an empty file": ("x.pth", b"", 3, "the file is empty"),
    "no checkpoint": ("x.bin", b"hello, world, this is text", 3, "no checkpoint of a known format"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused_and_the_destination_is_intact(run, tmp_path, case):
    name, data, code, message = HOSTILE[case]
    if data is None:
        archive(tmp_path / name, pickle.dumps({"w": Code()}, 2))
    else:
        (tmp_path / name).write_bytes(data)
    (tmp_path / "out.npz").write_bytes(b"precious")
    before = sorted(p.name for p in tmp_path.iterdir())
    done = run("convert", "weights", name, "out.npz", "--overwrite", cwd=tmp_path)
    assert (done.code, message in done.err) == (code, True), done.err
    assert "where:" in done.err
    assert "fix:" in done.err
    assert "Traceback" not in done.err
    assert (tmp_path / "out.npz").read_bytes() == b"precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == before


@pytest.mark.parametrize("suffix", ALL)
def test_a_truncated_shard(run, tmp_path, suffix):
    files = save(tmp_path / f"model{suffix}", {f"t{n}": sample("float32", (256,), n) for n in range(3)}, max_shard_bytes=1024)
    files[1].write_bytes(files[1].read_bytes()[:-40])
    (tmp_path / "out.npz").write_bytes(b"precious")
    done = run("convert", "weights", files[-1], tmp_path / "out.npz", "--overwrite")
    assert done.code == 3, done.err
    assert files[1].name in done.err
    assert (tmp_path / "out.npz").read_bytes() == b"precious"


@pytest.mark.parametrize("suffix", ALL)
def test_a_disk_that_is_full_halfway(tmp_path, suffix):
    save(tmp_path / "a.safetensors", {f"t{n}": sample("float32", (1 << 18,), n) for n in range(3)})
    (tmp_path / f"out{suffix}").write_bytes(b"precious")
    before = sorted(p.name for p in tmp_path.iterdir())
    done = subprocess.run(
        [sys.executable, "-m", "paralign", "convert", "weights", "a.safetensors", f"out{suffix}", "--overwrite"],
        cwd=tmp_path, capture_output=True, text=True, check=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
    )  # fmt: skip
    assert (done.returncode, "the file cannot be written" in done.stderr) == (3, True), done.stderr
    assert (tmp_path / f"out{suffix}").read_bytes() == b"precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_a_disk_that_is_too_full_to_begin(tmp_path, capsys, monkeypatch):
    save(tmp_path / "a.safetensors", {"t": sample("float32", (1 << 10,))})
    real = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((*real[:4], 0, *real[5:])))
    assert main(["convert", "weights", str(tmp_path / "a.safetensors"), str(tmp_path / "b.pth")]) == 3
    assert "the disk is too full" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]


def test_what_is_there_is_overwritten_only_on_request_and_the_source_never(run, tmp_path):
    save(tmp_path / "a.pth", {"t": sample("float32", (4,))})
    (tmp_path / "b.pth").write_bytes(b"precious")
    done = run("convert", "weights", tmp_path / "a.pth", tmp_path / "b.pth")
    assert (done.code, "the destination is there already" in done.err) == (2, True)
    assert (tmp_path / "b.pth").read_bytes() == b"precious"
    done = run("convert", "weights", tmp_path / "a.pth", tmp_path / "a.pth", "--overwrite")
    assert (done.code, "the destination is the source" in done.err) == (2, True)
    assert run("convert", "weights", tmp_path / "a.pth", tmp_path / "b.pth", "--overwrite").code == 0
    (tmp_path / "rules.toml").write_text("precious")
    done = run("convert", "weights", tmp_path / "a.pth", tmp_path / "c.pth", "--save-rules", tmp_path / "rules.toml")
    assert (done.code, "the file of rules is there already" in done.err) == (2, True)
    assert not (tmp_path / "c.pth").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.pth", "b.pth"], "the file cannot be read"),
        (["a.pth", "b.what"], "no format is known by the name 'b.what'"),
        (["a.pth", "none/b.pth"], "the folder of the destination is not there"),
        (["a.pth", "b.pth", "--rules", "none.toml"], "the file cannot be read"),
        (["a.pth", "b.pth", "--max-shard-size", "much"], "'much' is no size"),
        (["a.pth", "b.pth", "--within", "ema"], "the file has no 'ema'"),
        (["a.pth", "b.pth", "--inputs", "1,3"], "--inputs needs --model"),
        (["a.pth", "b.pth", "--from", "candidate"], "--from candidate needs --model"),
        (["a.pth", "b.pth", "--model", "none"], "there is no paralign.toml"),
        (["a.pth", "b.pth", "--model", "side.py:build"], "1 model is named, two are needed"),
        (["a.pth", "b.pth", "--model", "side.py", "--model", "side.py:build"], "'side.py' names no function"),
        (["a.pth", "b.pth", "--model", "none.py:build", "--model", "side.py:build"], "there is no such file"),
    ],
)
def test_wrong_usage(run, tmp_path, arguments, message):
    save(tmp_path / "a.pth", {"t": sample("float32", (4,))})
    done = run("convert", "weights", *arguments, cwd=tmp_path)
    assert (done.code, message in done.err) == (2, True), done.err
    assert [p.name for p in tmp_path.iterdir()] == ["a.pth"]
