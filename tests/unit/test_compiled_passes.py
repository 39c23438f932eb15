"""The compiled passes of digest and sketch, held against numpy's, on every vector width, in one thread and in several."""

from __future__ import annotations

import ctypes
import importlib.util
import math
import os
from pathlib import Path

import numpy as np
import pytest

from paralign.capture import compiled_passes
from paralign.capture.compiled_passes import KINDS, SWITCH, fingerprint
from paralign.capture.digest import agree, moments
from paralign.capture.sketch import CHUNK, SIZE, distance, sketch

NATIVE = Path(__file__).parents[2] / "native"
SIZES = (SIZE + 1, 2 * SIZE - 3, 64 * SIZE, 64 * SIZE + 5, CHUNK - 1, CHUNK, CHUNK + 7, 3 * CHUNK + 1234)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The library, compiled from this tree's source, whatever is installed."""
    spec = importlib.util.spec_from_file_location("build_fused", NATIVE / "build_fused.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    try:
        return build.compile_fingerprint(tmp_path_factory.mktemp("prints"))
    except build.NotCompiled as missing:
        pytest.skip(f"nothing can be compiled here: {missing}")


@pytest.fixture
def library(built, monkeypatch):
    """That library in place of an installed one."""
    monkeypatch.setattr(compiled_passes, "LIBRARY", built)
    monkeypatch.delenv(SWITCH, raising=False)
    compiled_passes.library.cache_clear()
    yield compiled_passes.library()
    compiled_passes.library.cache_clear()


def normal(size, kind="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(size).astype(kind)


def made(x, *, ordered=True):
    return fingerprint(x.ctypes.data, x.size, x.dtype.name, ordered=ordered)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES)
def test_digest_and_sketch_are_numpys(kind, size):
    x = normal(size, kind) * 3 + 0.5
    text, drawn = made(x)
    assert agree(text, moments(x), 1e-12)
    assert drawn.dtype == sketch(x).dtype
    assert distance(sketch(x), drawn) < (1e-12 if kind == "float64" else 2e-6)
    assert made(x, ordered=False) == (text, None)


def pooled():
    """Threads of the pool that PyTorch has loaded, where it has one for all to see."""
    pool = openmp()
    return [] if pool is None else [compiled_passes.Threads(count, pool.address) for count in (2, 3)]


def openmp():
    pytest.importorskip("torch")
    compiled_passes._pool.cache_clear()
    return compiled_passes._pool()


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("kind", KINDS)
def test_every_processor_and_number_of_threads_gives_the_same_bits(kind, monkeypatch):
    x = normal(3 * CHUNK + 1234, kind)
    found = []
    for level in (0, 1, 2):
        for threads in (*(compiled_passes.Threads(count) for count in (1, 2, 3)), *pooled()):
            monkeypatch.setattr(compiled_passes, "_LEVEL", level)
            monkeypatch.setattr(compiled_passes, "threads", lambda threads=threads: threads)
            text, drawn = made(x)
            found.append((text, drawn.tobytes()))
    assert len(set(found)) == 1


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("factor", [1e-40, 1e-30, 1e-3, 1e5, 1e30])
def test_small_and_large_values(kind, factor):
    x = (normal(5000, "float64") * factor).astype(kind)
    found = made(x)
    assert found is not None
    assert agree(found[0], moments(x), 1e-12)


@pytest.mark.usefixtures("library")
def test_values_near_the_ends_of_float64():
    for factor in (1e-290, 1e290):
        x = normal(5000, "float64") * factor
        found = made(x)
        assert found is None or agree(found[0], moments(x), 1e-12)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 1234, -1])
def test_what_is_not_finite_is_left_to_numpy(kind, odd, place):
    x = normal(2 * SIZE + 3, kind)
    x[place] = odd
    assert made(x) is None


@pytest.mark.usefixtures("library")
def test_constants_and_zeros():
    for value in (0.0, -0.0, 2.5):
        x = np.full(3000, value, "float32")
        assert made(x)[0] == moments(x)


@pytest.mark.usefixtures("library")
def test_extremes_in_the_last_elements_are_seen():
    x = normal(2 * SIZE + 3)
    x[-1], x[-2] = 100.0, -90.0
    assert agree(made(x)[0], moments(x), 1e-12)
    y = np.full(2 * SIZE + 3, 5.0, "float32")
    y[0] = 6.0
    assert agree(made(y)[0], moments(y), 1e-12)  # the zeros that fill the last vector are no extremes


def test_it_can_be_switched_off(library, monkeypatch):
    assert library is not None
    assert compiled_passes.available("float32")
    assert not compiled_passes.available("bfloat16")
    monkeypatch.setenv(SWITCH, "0")
    assert not compiled_passes.available("float32")


def test_a_file_of_other_sources_or_none_is_not_used(built, monkeypatch, tmp_path):
    monkeypatch.setattr(compiled_passes, "LIBRARY", built)
    monkeypatch.delenv(SWITCH, raising=False)
    for name, text in (("fingerprint.c", "other"), ("rows.h", ""), ("build_fused.py", "")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert ctypes.CDLL(str(built)).interface() == 2
    monkeypatch.setattr(compiled_passes, "NATIVE", tmp_path)
    compiled_passes.library.cache_clear()
    assert not compiled_passes.available("float32")
    (tmp_path / "no.so").write_bytes(b"no library")
    for path in (tmp_path / "no.so", tmp_path / "nowhere.so"):
        monkeypatch.setattr(compiled_passes, "LIBRARY", path)
        compiled_passes.library.cache_clear()
        assert not compiled_passes.available("float64")
    compiled_passes.library.cache_clear()


@pytest.mark.usefixtures("library")
def test_tensors_of_pytorch_in_any_layout():
    torch = pytest.importorskip("torch")
    from paralign.adapters import _digest_torch

    x = torch.from_numpy(normal(8 * 40 * 64).reshape(8, 40, 64))
    views = [x, x[2:], x.transpose(0, 2), x[:, ::2], x.flip(0), torch.imag(torch.conj(torch.complex(x, x))), torch.nn.Parameter(x)]
    for view in views:
        for ordered in (True, False):
            with torch.no_grad():
                found = _digest_torch.fingerprint(view, "float32", ordered=ordered)
            array = view.detach().resolve_neg().numpy()
            if found is None:
                continue
            assert agree(found[0], moments(array), 1e-6)
            assert found[1] is None or distance(sketch(array), found[1]) < 1e-5


@pytest.mark.usefixtures("library")
def test_tensors_of_paddle_in_any_layout():
    paddle = pytest.importorskip("paddle")
    from paralign.adapters import _digest_paddle

    x = paddle.to_tensor(normal(8 * 40 * 64).reshape(8, 40, 64))
    for view in (x, x[2:], x.transpose([2, 1, 0]), x[:, ::2], x.flip([0]), x[3].expand([4, 40, 64])):
        for ordered in (True, False):
            found = _digest_paddle.fingerprint(view, "float32", ordered=ordered)
            if found is None:
                continue
            assert agree(found[0], moments(view.numpy()), 1e-6)
            assert found[1] is None or distance(sketch(view.numpy()), found[1]) < 1e-5


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("size", [64, 400])
def test_masks_of_the_least_float32_have_finite_sketches(size):
    x = normal(size * size).reshape(size, size) + np.triu(np.full((size, size), np.finfo("float32").min, "float32"), 1)
    text, drawn = made(np.ascontiguousarray(x))
    assert drawn is None or np.isfinite(drawn).all()
    torch = pytest.importorskip("torch")
    from paralign.adapters import _digest_torch

    whole = _digest_torch.fingerprint(torch.from_numpy(x), "float32", ordered=True)
    assert whole[0] == text == _digest_torch.fingerprint(torch.from_numpy(x), "float32", ordered=False)[0]
    assert np.isfinite(whole[1]).all()


@pytest.mark.usefixtures("library")
def test_tensors_without_memory_are_left_alone():
    torch = pytest.importorskip("torch")
    from paralign.adapters import _digest_torch

    freed = torch.randn(2000)
    freed.untyped_storage().resize_(0)
    assert _digest_torch._compiled(freed, "float32", ordered=True) is None
    seen = []

    def inside(x):
        seen.append(_digest_torch._compiled(x * 2, "float32", ordered=True))
        return x

    torch.func.functionalize(inside)(torch.randn(2000))
    assert seen == [None]


@pytest.mark.parametrize(
    ("cores", "asked", "due"), [(2, "", 1), (2, "2", 1), (8, "", 4), (8, "1", 1), (32, "16", 4), (1, "", 1), (8, "all", 4)]
)
def test_threads_leave_the_frameworks_their_cores(monkeypatch, cores, asked, due):
    monkeypatch.setattr(compiled_passes.os, "sched_getaffinity", lambda _: range(cores), raising=False)
    monkeypatch.setattr(compiled_passes, "_pool", lambda: None)
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert compiled_passes.threads() == compiled_passes.Threads(due)


@pytest.mark.parametrize(("cores", "most", "due"), [(2, 2, 2), (8, 2, 2), (8, 1, 1), (32, 32, 4), (1, 2, 1)])
def test_the_frameworks_own_threads_do_the_passes(monkeypatch, cores, most, due):
    monkeypatch.setattr(compiled_passes.os, "sched_getaffinity", lambda _: range(cores), raising=False)
    monkeypatch.setattr(compiled_passes, "_pool", lambda: compiled_passes._Pool(77, lambda: most))
    assert compiled_passes.threads() == compiled_passes.Threads(due, 77)


@pytest.mark.usefixtures("library")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system starts no process this way")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_threads_that_it_does_not_have():
    pool = openmp()
    if pool is None:
        pytest.skip("PyTorch has loaded no OpenMP for all to see")
    x = normal(3 * CHUNK)
    own = made(x)[0]
    child = os.fork()
    if not child:
        os._exit(0 if compiled_passes.threads().pool is None and made(x)[0] == own else 1)
    assert os.waitpid(child, 0)[1] == 0


def a_missing_file(folder, built):
    return folder / "none.native"


def a_file_of_another_system(folder, built):
    path = folder / "other.native"
    path.write_bytes(b"MZ" + bytes(200))
    return path


def a_library_of_other_sources(folder, built):
    path = folder / "stale.native"
    path.write_bytes(built.read_bytes())
    (folder / "native").mkdir()
    for name in ("fingerprint.c", "rows.h", "build_fused.py"):
        (folder / "native" / name).write_text("other")
    return path


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (a_missing_file, "no C compiler"),
        (a_file_of_another_system, "of another system"),
        (a_library_of_other_sources, "compiled from other sources"),
    ],
)
def test_the_doctor_tells_why_watching_is_slower(built, tmp_path, monkeypatch, capsys, make, why):
    from paralign import cli
    from paralign.run.doctor import Diagnosis

    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setattr("paralign.run.doctor.diagnose", lambda *_: Diagnosis([]))
    monkeypatch.setattr(compiled_passes, "LIBRARY", make(tmp_path, built))
    if (tmp_path / "native").exists():
        monkeypatch.setattr(compiled_passes, "NATIVE", tmp_path / "native")
    compiled_passes.library.cache_clear()
    try:
        assert compiled_passes.library() is None
        assert cli.main(["doctor"]) == 0
    finally:
        compiled_passes.library.cache_clear()
    told = capsys.readouterr().out
    assert "watches with the framework's own kernels" in told
    assert why in told


@pytest.mark.parametrize(("switch", "line"), [("1", "watches with its compiled kernel"), ("0", "slower: PARALIGN_KERNEL=0 is set")])
def test_the_doctor_tells_what_watching_uses(library, monkeypatch, capsys, switch, line):
    from paralign import cli
    from paralign.run.doctor import Diagnosis

    monkeypatch.setenv(SWITCH, switch)
    monkeypatch.setattr("paralign.run.doctor.diagnose", lambda *_: Diagnosis([]))
    assert cli.main(["doctor"]) == 0
    assert line in capsys.readouterr().out
