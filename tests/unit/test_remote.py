"""Checkpoints and captures at URLs: copied here, written there; what is not there, or leads elsewhere, is refused."""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from paralign.api import compare, convert_weights
from paralign.cli import main
from paralign.conversion.difference import diff_weights
from paralign.errors import CaptureFormatError, EnvironmentUnavailable, UsageError, WriteFailed
from paralign.formats import open_checkpoint
from paralign.formats.opening import fetched
from paralign.remote import Destination, Fetched, is_remote, reached
from paralign.run.project import read

fsspec = pytest.importorskip("fsspec")

TENSORS = {f"layer{n}.weight": np.arange(12, dtype="float32").reshape(3, 4) * (n + 1) for n in range(4)}


@pytest.fixture
def store():
    """A store of this process, empty."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    return system


@pytest.fixture
def stored(store, tmp_path):
    """A checkpoint in one file and in shards, at URLs."""
    np.savez(tmp_path / "model.npz", **TENSORS)
    (tmp_path / "sharded").mkdir()
    convert_weights(tmp_path / "model.npz", tmp_path / "sharded" / "model.safetensors", max_shard_bytes=60)
    store.pipe_file("/models/model.npz", (tmp_path / "model.npz").read_bytes())
    for path in (tmp_path / "sharded").iterdir():
        store.pipe_file(f"/models/sharded/{path.name}", path.read_bytes())
    return store


def values(checkpoint):
    return {name: checkpoint.value(name).array for name in checkpoint.names}


def assert_whole(checkpoint):
    found = values(checkpoint)
    assert sorted(found) == sorted(TENSORS)
    for name, value in TENSORS.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize(
    "url", ["memory://models/model.npz", "memory://models/sharded", "memory://models/sharded/model.safetensors.index.json"]
)
def test_a_checkpoint_opens_at_a_url(stored, url):
    assert_whole(open_checkpoint(url))


def test_a_copy_is_taken_again_until_what_lies_there_changes(stored, tmp_path, monkeypatch):
    copied = []
    pour = Fetched._pour
    monkeypatch.setattr(Fetched, "_pour", lambda self, path, copy: (copied.append(path), pour(self, path, copy)))
    for _ in range(2):
        fetched("memory://models/sharded", tmp_path / "copies")
    assert len(copied) == len(set(copied)) == 5  # four shards and their index
    shard = copied[-1]
    data = stored.cat_file(shard)
    stored.pipe_file(shard, data)
    path = fetched("memory://models/sharded", tmp_path / "copies")
    assert copied[5:] == [shard]
    assert_whole(open_checkpoint(path))
    (tmp_path / "copies" / shard.rpartition("/")[2]).write_bytes(b"")  # damaged here
    assert_whole(open_checkpoint(fetched("memory://models/sharded", tmp_path / "copies")))
    (tmp_path / "copies" / ".copied.json").write_text("[" * 100000)
    assert_whole(open_checkpoint(fetched("memory://models/sharded", tmp_path / "copies")))


def test_a_conversion_from_url_to_url(stored, tmp_path, capsys):
    assert main(["convert", "weights", "memory://models/model.npz", "memory://made/model.safetensors"]) == 0
    assert "memory://made/model.safetensors" in capsys.readouterr().out
    assert_whole(open_checkpoint("memory://made/model.safetensors"))
    with pytest.raises(UsageError, match="the destination is there already") as refused:
        convert_weights("memory://models/model.npz", "memory://made/model.safetensors")
    assert refused.value.where == "memory://made/model.safetensors"
    found = convert_weights("memory://models/model.npz", "memory://shards/model.safetensors", max_shard_bytes=60)
    assert found.urls[-1] == "memory://shards/model.safetensors.index.json"
    report = json.loads(found.to_json())
    assert report["files"] == found.urls
    assert (report["source"], report["destination"]) == ("memory://models/model.npz", "memory://shards/model.safetensors")
    assert_whole(open_checkpoint("memory://shards"))
    with pytest.raises(UsageError, match="the destination is there already"):
        convert_weights("memory://models/model.npz", "memory://shards/model.safetensors", max_shard_bytes=60)
    assert convert_weights("memory://models/model.npz", "memory://none/model.safetensors", dry_run=True).urls == []
    assert not stored.exists("/none")
    assert diff_weights("memory://models/model.npz", "memory://shards").same


def test_captures_at_urls_are_compared(store, tmp_path):
    from paralign.capture import CaptureWriter
    from paralign.model import Manifest

    for side, factor in (("a", 1.0), ("b", 1.0), ("c", 1.5)):
        with CaptureWriter(tmp_path / side, Manifest()) as writer:
            writer.add("output", np.linspace(0, factor, 50, dtype="float32"), role="output")
        for path in (tmp_path / side).rglob("*"):
            if path.is_file():
                store.pipe_file(f"/runs/{side}/{path.relative_to(tmp_path / side)}", path.read_bytes())
    assert compare("memory://runs/a", "memory://runs/b").verdict == "aligned"
    assert compare(tmp_path / "a", "memory://runs/c").verdict == "diverged"


def test_what_is_not_there_is_said(store):
    with pytest.raises(UsageError, match="nothing lies there") as missing:
        open_checkpoint("memory://models/none.npz")
    assert missing.value.where == "memory://models/none.npz"
    store.pipe_file("/empty/readme.txt", b"")
    with pytest.raises(UsageError, match="no checkpoint of a usual name"):
        open_checkpoint("memory://empty")
    with pytest.raises(UsageError, match="nothing reaches"):
        open_checkpoint("nowhere://models/model.npz")


def test_names_that_lead_out_are_refused(store, tmp_path):
    store.pipe_file("/bad/model.safetensors.index.json", json.dumps({"weight_map": {"w": "../../etc/passwd"}}).encode())
    with pytest.raises(CaptureFormatError, match="not one beside it"):
        open_checkpoint("memory://bad")
    source = Fetched("memory://bad", tmp_path / "copies")
    for name in ("../up", "/etc/passwd", "a/../../b", "a\\b", ""):
        with pytest.raises(UsageError, match="does not lie below"):
            source.file(name)
    assert list(tmp_path.rglob("*")) == []


def test_a_store_that_fails_is_told_in_one_line(store, tmp_path, monkeypatch):
    store.pipe_file("/models/model.npz", b"x" * 100)

    class NoCredentials(Exception):
        """As packages of stores have them."""

    def fail(*_, **__):
        raise NoCredentials("Unable to locate credentials\nsecond line")

    monkeypatch.setattr(type(store), "open", fail)
    with pytest.raises(UsageError, match="it cannot be read: Unable to locate credentials") as fault:
        open_checkpoint("memory://models/model.npz")
    assert "\n" not in fault.value.what
    np.savez(tmp_path / "model.npz", **TENSORS)
    with pytest.raises(WriteFailed, match="it cannot be written: Unable to locate credentials"):
        convert_weights(tmp_path / "model.npz", "memory://made/model.safetensors")


def test_a_copy_that_was_cut_short_leaves_nothing(stored, tmp_path, monkeypatch):
    real = type(stored).open

    class Cut:
        def __init__(self, inner):
            self.inner, self.count = inner, 0

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.inner.close()

        def read(self, size):
            self.count += 1
            if self.count > 1:
                raise OSError("connection reset")
            return self.inner.read(10)

    monkeypatch.setattr(type(stored), "open", lambda self, path, mode="rb", **more: Cut(real(self, path, mode, **more)))
    with pytest.raises(UsageError, match="connection reset"):
        fetched("memory://models/model.npz", tmp_path / "copies")
    assert [path.name for path in (tmp_path / "copies").iterdir()] == []


def test_an_archive_at_a_url(stored, tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.write(tmp_path / "model.npz", "model.npz")
        archive.write(tmp_path / "model.npz", "inner/model.npz")
    for name in ("model.npz", "inner/model.npz"):
        assert_whole(open_checkpoint(f"zip://{name}::file://{tmp_path / 'all.zip'}"))
    with pytest.raises(UsageError, match="nothing lies there"):
        open_checkpoint(f"zip://model.npz::file://{tmp_path / 'none.zip'}")
    (tmp_path / "bad.zip").write_bytes(b"no archive")
    with pytest.raises(UsageError, match="it cannot be read"):
        open_checkpoint(f"zip://model.npz::file://{tmp_path / 'bad.zip'}")


def test_a_file_of_which_a_store_tells_its_size_alone_is_copied_each_time(stored, tmp_path, monkeypatch):
    told = type(stored).info
    monkeypatch.setattr(type(stored), "info", lambda self, path, **_: {k: told(self, path)[k] for k in ("name", "size", "type")})
    path = fetched("memory://models/model.npz", tmp_path / "copies")
    other = {name: value + 1 for name, value in TENSORS.items()}
    np.savez(tmp_path / "other.npz", **other)
    stored.pipe_file("/models/model.npz", (tmp_path / "other.npz").read_bytes())
    assert path.stat().st_size == (tmp_path / "other.npz").stat().st_size
    found = values(open_checkpoint(fetched("memory://models/model.npz", tmp_path / "copies")))
    np.testing.assert_array_equal(found["layer0.weight"], other["layer0.weight"])


def test_without_fsspec_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(EnvironmentUnavailable, match="fsspec is not installed"):
        reached("memory://x")


def test_paths_are_no_urls(tmp_path):
    assert not is_remote(tmp_path)
    assert not is_remote("models/model.npz")
    assert is_remote("s3://bucket/model.npz")


def test_a_project_names_a_checkpoint_at_a_url(tmp_path):
    for side in ("reference", "candidate"):
        (tmp_path / f"{side}.py").write_text("def build_model():\n    return None\n")
    (tmp_path / "paralign.toml").write_text(
        '[model]\nstreaming = true\n[reference]\nframework = "torch"\ncheckpoint = "s3://bucket/big"\n'
        '[candidate]\nframework = "paddle"\n[inputs]\nshape = [1, 4]\n'
    )
    project = read(tmp_path)
    assert project.reference.elsewhere == "s3://bucket/big"
    assert project.reference.checkpoint is None
    assert project.candidate.elsewhere == ""


@pytest.fixture
def bucket(monkeypatch):
    """A server of S3's protocol on this machine, with one bucket."""
    pytest.importorskip("s3fs")
    pytest.importorskip("moto.server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(300):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        for name, value in (("AWS_ACCESS_KEY_ID", "x"), ("AWS_SECRET_ACCESS_KEY", "x"), ("AWS_DEFAULT_REGION", "us-east-1")):
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        system = fsspec.filesystem("s3", skip_instance_cache=True)
        system.mkdir("models")
        yield "s3://models"
    finally:
        server.terminate()
        server.wait(20)


def test_a_bucket_of_s3(bucket, tmp_path):
    np.savez(tmp_path / "model.npz", **TENSORS)
    for size in (None, 100):
        name = "whole" if size is None else "shards"
        convert_weights(tmp_path / "model.npz", f"{bucket}/{name}/model.safetensors", max_shard_bytes=size)
        assert_whole(open_checkpoint(f"{bucket}/{name}"))
    with pytest.raises(UsageError, match="nothing lies there"):
        open_checkpoint(f"{bucket}/none.npz")
    with pytest.raises(UsageError, match="there already"):
        convert_weights(tmp_path / "model.npz", f"{bucket}/whole/model.safetensors")


def test_a_destination_has_its_files_beside_each_other(store, tmp_path):
    (tmp_path / "a.bin").write_bytes(b"1")
    target = Destination("memory://made/deep/a.bin")
    assert target.name == "a.bin"
    assert not target.is_there("a.bin")
    assert target.put([Path(tmp_path / "a.bin")]) == ["memory://made/deep/a.bin"]
    assert target.is_there("a.bin")
    assert store.cat_file("/made/deep/a.bin") == b"1"
    assert (tmp_path / "a.bin").exists()
