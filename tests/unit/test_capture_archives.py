"""numpy's archives: every member is checked and read as a file of its own would be."""

import contextlib
import io
import os
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paralign.capture import load_foreign
from paralign.errors import CaptureFormatError, UnsafeFile


class Hostile:
    def __reduce__(self):
        return os.system, ("exit 1",)


def objects(value):
    """A .npy file as bytes."""
    buffer = io.BytesIO()
    np.save(buffer, value)
    return buffer.getvalue()


def archive(path, members, **options):
    with zipfile.ZipFile(path, "w", **options) as file:
        for name, content in members:
            file.writestr(name, content)
    return path


def test_archives_of_objects_go_through_the_same_reader(tmp_path):
    hostile = objects({"a": Hostile()})
    with pytest.raises(UnsafeFile, match=r"posix\.system") as caught:
        load_foreign(archive(tmp_path / "a.npz", [("x.npy", hostile)]))
    assert caught.value.where.endswith("a.npz, array 'x'")
    np.savez(tmp_path / "b.npz", x=np.array({"a": 1}, dtype=object))
    assert load_foreign(tmp_path / "b.npz") == {"x": {"a": 1}}
    np.savez(tmp_path / "c.npz")
    assert load_foreign(tmp_path / "c.npz") == {}


def test_archives_that_lie_are_refused(tmp_path):
    good = objects(np.zeros(1000, np.float32))
    with pytest.raises(UnsafeFile, match=r"the archive holds 'run\.sh', which is no array"):
        load_foreign(archive(tmp_path / "a.npz", [("run.sh", b"")]))
    with pytest.warns(UserWarning, match="Duplicate"):
        archive(tmp_path / "b.npz", [("x.npy", good), ("x.npy", good)])
    with pytest.raises(CaptureFormatError, match="two arrays called 'x'"):
        load_foreign(tmp_path / "b.npz")
    with pytest.raises(CaptureFormatError, match="packed in a way that numpy does not use"):
        load_foreign(archive(tmp_path / "c.npz", [("x.npy", good)], compression=zipfile.ZIP_BZIP2))
    content = archive(tmp_path / "d.npz", [("x.npy", good)], compression=zipfile.ZIP_DEFLATED).read_bytes()
    for length in range(4, len(content), 7):
        (tmp_path / "d.npz").write_bytes(content[:length])
        with pytest.raises(CaptureFormatError):
            load_foreign(tmp_path / "d.npz")
    place = content.rindex(b"PK\x01\x02") + 24
    (tmp_path / "d.npz").write_bytes(content[:place] + struct.pack("<I", 2**31) + content[place + 4 :])
    with pytest.raises(CaptureFormatError, match=r"claims to unpack \d+ bytes to 2147483648"):
        load_foreign(tmp_path / "d.npz")


@settings(deadline=None)
@given(st.data())
def test_damaged_archives_are_an_error_of_ours_or_harmless(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("foreign") / "a.npz"
    np.savez_compressed(path, x=np.arange(20), y=np.ones(3))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content))
    with contextlib.suppress(CaptureFormatError, UnsafeFile):
        load_foreign(path)
