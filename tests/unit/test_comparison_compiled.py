"""The compiled kernel and numpy: the same numbers on anything, and what is said where there is no kernel."""

import ctypes
import importlib.util
import math
import platform
import subprocess
import sys
import types
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from paralign import cli
from paralign.capture import compiled_passes
from paralign.capture.compiled_passes import made_of
from paralign.comparison import compiled, measure
from paralign.comparison.compiled import KINDS, SWITCH, State
from paralign.dtypes import STORAGE, Typed, narrow, widen

NATIVE = Path(__file__).parents[2] / "native"
MODULE = "paralign.comparison._fused"
CHUNK = 2048
EXACT = (
    "count", "mismatched", "max_abs", "max_abs_at", "max_rel", "max_rel_at", "exceeding", "nan", "inf", "nan_reference", "nan_candidate",
    "inf_reference", "inf_candidate", "ulp",
)  # fmt: skip
SUMS = ("rel_l2", "mean_abs", "rms_reference", "rms_candidate")
#: what the kernel promises of a sum, relative to the magnitudes that are added
PROMISED = 1e-12
#: a figure is a quotient of two sums, numpy's of narrow types are added in float32
NUMPY = {"float64": 1e-11, "float32": 2e-5, "float16": 2e-5, "bfloat16": 2e-5}


@pytest.fixture(scope="module")
def build():
    """The script that compiles."""
    spec = importlib.util.spec_from_file_location("build_fused", NATIVE / "build_fused.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def library(build, tmp_path_factory):
    """The module, compiled from this tree's source, whatever is installed."""
    try:
        path = build.compile_kernel(tmp_path_factory.mktemp("kernel"))
    except build.NotCompiled as missing:
        pytest.skip(f"nothing can be compiled here: {missing}")
    spec = importlib.util.spec_from_file_location(MODULE, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def put():
    """Let paralign load a module, or fail to; everything is as before afterwards."""
    before = sys.modules.get(MODULE)

    def place(module):
        sys.modules[MODULE] = module
        compiled._load.cache_clear()

    yield place
    sys.modules.pop(MODULE, None)
    if before is not None:
        sys.modules[MODULE] = before
    compiled._load.cache_clear()


@pytest.fixture
def both(library, put, monkeypatch):
    """Measures with the kernel and with numpy, holds one against the other, and returns what the kernel came to."""
    put(library)

    def run(reference, candidate, **options):
        found = []
        for switch in ("1", "0"):
            monkeypatch.setenv(SWITCH, switch)
            found.append(measure(reference, candidate, **options))
        agree(*found, NUMPY[getattr(reference, "dtype", "float64") if isinstance(reference, Typed) else "float32"])
        return found[0]

    return run


def agree(ours, numpys, bound):
    for name in EXACT:
        assert getattr(ours, name) == getattr(numpys, name), name
    for name in SUMS:
        one, other = getattr(ours, name), getattr(numpys, name)
        assert (one is None) == (other is None), name
        assert one == other or one == pytest.approx(other, rel=bound, abs=1e-300, nan_ok=True), name
    assert ours.cosine == pytest.approx(numpys.cosine, abs=bound)


def exact_sums(reference, candidate):
    """The sums in rational arithmetic over what is finite on both sides, with the sum of the magnitudes of each."""
    wide = [widen(side).astype(np.float64) for side in (reference, candidate)]
    keep = np.isfinite(wide[0]) & np.isfinite(wide[1])
    rows = [(Fraction(x), Fraction(y)) for x, y in zip(*(side[keep].tolist() for side in wide), strict=True)]
    terms = {
        "reference": [x * x for x, _ in rows],
        "candidate": [y * y for _, y in rows],
        "error": [(x - y) ** 2 for x, y in rows],
        "product": [x * y for x, y in rows],
        "absolute": [abs(x - y) for x, y in rows],
    }
    return {name: (sum(each), sum(map(abs, each))) for name, each in terms.items()}


def values(name, n, seed, away=1e-3):
    """A reference of ordinary values, zeros among them, and a candidate that is near it."""
    rng = np.random.default_rng(seed)
    wide = rng.standard_normal(n) * np.exp(2 * rng.standard_normal(n))
    wide[rng.random(n) < 0.2] = 0.0
    other = wide * (1 + away * rng.standard_normal(n)) + away * (rng.random(n) < 0.01)
    other[rng.random(n) < 0.3] = np.nan
    other = np.where(np.isnan(other), wide, other)
    return [narrow(side, name) if name == "bfloat16" else Typed(side.astype(name), name) for side in (wide, other)]


# --- the same numbers -----------------------------------------------------------------------------------------------


@st.composite
def pairs(draw):
    """Any bits of any type that the kernel has code for: NaN, infinities and subnormal values among them."""
    name = draw(st.sampled_from(sorted(KINDS)))
    n = draw(st.integers(0, 40))
    sides = [draw(hnp.arrays(np.uint8, n * STORAGE[name].itemsize)).view(STORAGE[name]) for _ in range(2)]
    if draw(st.booleans()):
        mask = np.random.default_rng(draw(st.integers(0, 99))).random(n) < draw(st.sampled_from([0.0, 0.1]))
        sides[1] = np.where(mask, sides[1], sides[0])
    return [Typed(side, name) for side in sides]


@settings(max_examples=500, deadline=None)
@given(two=pairs(), shown=st.booleans(), tolerance=st.sampled_from([{}, {"atol": 0.5}, {"rtol": 0.25, "atol": 0.0}]))
@example(
    two=[Typed(np.array([3e38, -3e38], np.float32), "float32"), Typed(np.array([-3e38, 3e38], np.float32), "float32")],
    shown=True,
    tolerance={},
)
@example(two=[Typed(np.array([0.0, -0.0]), "float64"), Typed(np.array([-0.0, 0.0]), "float64")], shown=True, tolerance={})
@example(two=[Typed(np.array([5e-324, 1.0]), "float64"), Typed(np.array([0.0, 2.0]), "float64")], shown=True, tolerance={"rtol": 0.1})
def test_any_bits_give_numpys_numbers(library, two, shown, tolerance):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, MODULE, library)
        compiled._load.cache_clear()
        found = []
        for switch in ("1", "0"):
            patch.setenv(SWITCH, switch)
            found.append(measure(*two, shown=shown, **tolerance))
    compiled._load.cache_clear()
    agree(*found, NUMPY[two[0].dtype])


@pytest.mark.parametrize("name", sorted(KINDS))
@pytest.mark.parametrize("n", [1, 7, 15, 16, 17, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5, 300_001])
def test_lengths_around_those_of_chunks(both, name, n):
    both(*values(name, n, n), atol=1e-4, rtol=1e-3, block=1000)


@pytest.mark.parametrize("name", sorted(KINDS))
def test_what_is_not_finite_may_stand_anywhere(both, name):
    reference, candidate = values(name, 5 * CHUNK, 1)
    nan, inf = (narrow(np.array([x]), name).array[0] for x in (math.nan, math.inf))
    for at, (x, y) in {0: (nan, nan), CHUNK - 1: (inf, inf), CHUNK: (nan, inf), 4 * CHUNK + 7: (inf, nan), 5 * CHUNK - 1: (inf, 0)}.items():
        reference.array[at], candidate.array[at] = x, y
    found = both(reference, candidate, atol=0.1)
    assert (found.nan, found.inf, found.nan_reference, found.inf_candidate) == (2, 3, 2, 2)
    both(reference, reference, atol=0.1)


@pytest.mark.parametrize("scale", [1e-45, 1e-38, 1e-20, 1e20, 1e38, 1e-200, 1e-320, 1e150, 1e308])
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_values_of_any_size(both, name, scale):
    with np.errstate(all="ignore"):
        rng = np.random.default_rng(0)
        reference = (rng.random(CHUNK * 3) * scale).astype(name)
        candidate = (reference * (1 + 0.1 * rng.random(reference.size))).astype(name)
    reference[::5] = 1
    both(Typed(reference, name), Typed(candidate, name))
    both(Typed(reference, name), Typed(-candidate, name))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1), (37, 5)])
def test_any_shape_and_any_layout(both, shape):
    reference = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    candidate = reference + np.float32(0.5)
    swapped = candidate.astype(">f4")
    crooked = np.frombuffer(b"\0" + candidate.tobytes(), np.uint8)[1:].view(np.float32).reshape(shape)
    stored = np.ndarray(shape, "<f4" if sys.byteorder == "little" else ">f4", candidate.tobytes())  # as files say it
    layouts = [candidate, stored, np.asfortranarray(candidate), swapped, crooked, np.repeat(candidate.reshape(-1), 2)[::2].reshape(shape)]
    for each in layouts:
        assert both(reference, each).mismatched == reference.size
        both(each, reference, shown=False)


@pytest.mark.parametrize("shown", [True, False])
def test_many_stretches_on_any_number_of_threads(both, shown):
    two = values("float32", 3_000_000, 5)
    one = both(*two, threads=1, shown=shown)
    assert [both(*two, threads=n, shown=shown) for n in (2, 5, None)] == [one] * 3


@pytest.mark.parametrize("name", sorted(KINDS))
@pytest.mark.parametrize("bad", [False, True])
def test_sums_are_as_near_to_the_exact_ones_as_promised(library, name, bad):
    two = values(name, CHUNK + 100, 3)
    if bad and name != "float64":  # float64 with NaN is numpy's
        two[0].array[5] = narrow(np.array([math.nan]), name).array[0]
    found = compiled._Found(*library.compare(two[0].array, two[1].array, KINDS[name], 0.0, 0.0, False, True, 2))
    assert found.done == CHUNK + 100
    for each, (exact, size) in exact_sums(*two).items():
        assert abs(Fraction(getattr(found, each)) - exact) <= Fraction(PROMISED) * size, each


@pytest.mark.parametrize("name", sorted(KINDS))
def test_the_bits_do_not_depend_on_the_processor(library, name):
    two = values(name, 10 * CHUNK + 3, 4)
    found = [library.compare(*(side.array for side in two), KINDS[name], 1e-3, 1e-3, True, True, level) for level in (0, 1, 2)]
    assert found[0] == found[1] == found[2]


def test_every_value_of_two_bytes_is_widened_to_what_numpy_says(library):
    bits = np.arange(2**16, dtype=np.uint16)
    half = bits.view(np.float16)
    with np.errstate(invalid="ignore"):  # signalling NaN
        both_wide = half.astype(np.float64), widen(Typed(bits, "bfloat16")).astype(np.float64)
    for kind, array, wide in ((2, half, both_wide[0]), (3, bits, both_wide[1])):
        zero = np.zeros_like(array)
        for at in np.flatnonzero(np.isfinite(wide))[::37]:
            found = compiled._Found(*library.compare(array[at : at + 1].copy(), zero[:1], kind, 0.0, 0.0, False, True, 2))
            assert found.max_abs == abs(wide[at])
            assert found.ulp == int(bits[at]) & 0x7FFF
        whole = compiled._Found(*library.compare(array, zero, kind, 0.0, 0.0, False, True, 2))
        assert (whole.finite, whole.nan_reference, whole.inf_reference) == (
            np.isfinite(wide).sum(), np.isnan(wide).sum(), np.isinf(wide).sum(),
        )  # fmt: skip
        assert whole.absolute == pytest.approx(np.abs(wide[np.isfinite(wide)]).sum(), rel=PROMISED)


def test_values_that_float64_does_not_sum_are_left_to_numpy(library):
    array = np.full(3 * CHUNK, 1e200)
    array[:CHUNK] = 1.0
    found = compiled._Found(*library.compare(array, array, 1, 0.0, 0.0, False, True, 2))
    assert (found.done, found.finite, found.reference) == (CHUNK, CHUNK, CHUNK)


# --- wrong buffers --------------------------------------------------------------------------------------------------

RIGHT = np.ones(8, np.float32)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((RIGHT, RIGHT[:7], 0), ValueError, "buffers of 32 and 28 bytes"),
        ((RIGHT, RIGHT.astype(np.float64), 0), ValueError, "a buffer of d values of 8 bytes, where f of 4 are due"),
        ((RIGHT, RIGHT.astype(RIGHT.dtype.newbyteorder()), 0), ValueError, "a buffer of .f values"),
        ((RIGHT.astype("u4"), RIGHT, 0), ValueError, "a buffer of I values of 4 bytes, where f of 4 are due"),
        ((RIGHT, RIGHT.tobytes(), 0), ValueError, "where f of 4 are due"),
        ((RIGHT, np.frombuffer(b"\0" * 33, np.uint8)[1:].view(np.float32), 0), ValueError, "not aligned"),
        ((RIGHT, np.ones(16, np.float32)[::2], 0), (BufferError, ValueError), "not C-contiguous"),
        ((RIGHT, "text", 0), TypeError, "bytes-like"),
        ((RIGHT, None, 0), TypeError, "bytes-like"),
        ((RIGHT, RIGHT, 4), ValueError, "no kind 4"),
        ((RIGHT, RIGHT, -1), ValueError, "no kind -1"),
        ((RIGHT, RIGHT, 2), ValueError, "where e of 2 are due"),
    ],
)
def test_a_wrong_buffer_is_refused(library, arguments, error, message):
    with pytest.raises(error, match=message):
        library.compare(*arguments, 0.0, 0.0, False, True, 2)


@pytest.mark.parametrize("wrong", [None, b"", "text", np.ones(4, np.float32), np.ones(5)])
def test_buffers_are_given_back(library, wrong):
    store = bytearray(np.ones(5, np.float32).tobytes())
    view = memoryview(store).cast("f")
    if wrong is None:
        library.compare(view, view, 0, 0.0, 0.0, False, True, 2)
    else:
        for two in ((view, wrong), (wrong, view)):
            with pytest.raises((TypeError, ValueError)):
                library.compare(*two, 0, 0.0, 0.0, False, True, 2)
    view.release()
    store.append(1)  # a buffer that is still held would forbid it


# --- whether there is one -------------------------------------------------------------------------------------------


def broken(*_):
    raise ImportError("invalid ELF header")


def test_what_is_in_use_is_told(library, put, monkeypatch):
    monkeypatch.delenv(SWITCH, raising=False)
    put(library)
    assert compiled.state() is State.IN_USE
    put(None)  # Python's way of saying that a module is not there
    assert compiled.state() is State.ABSENT
    put(types.SimpleNamespace(INTERFACE=0))
    assert compiled.state() is State.OUTDATED
    compiled._load.cache_clear()
    monkeypatch.setattr(compiled.importlib, "import_module", broken)
    assert compiled.state() is State.BROKEN
    array = np.ones(5, np.float32)
    assert measure(array, array + 1).mismatched == 5
    compiled._load.cache_clear()
    monkeypatch.setenv(SWITCH, "0")
    assert compiled.state() is State.SWITCHED_OFF


@pytest.mark.parametrize(
    ("switch", "line"), [("1", "its compiled kernel"), ("0", "with numpy alone, some three times slower: PARALIGN_KERNEL=0 is set")]
)
def test_the_doctor_tells_it(library, put, monkeypatch, capsys, switch, line):
    from paralign.run.doctor import Diagnosis

    put(library)
    monkeypatch.setenv(SWITCH, switch)
    monkeypatch.setattr("paralign.run.doctor.diagnose", lambda *_: Diagnosis([]))
    assert cli.main(["doctor"]) == 0
    assert line in capsys.readouterr().out


def test_the_kernel_is_what_measures(library, put, monkeypatch):
    put(library)
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setattr(compiled.Kernel, "absorb", broken)
    assert measure(RIGHT, RIGHT + 1).mismatched == 8
    monkeypatch.setenv(SWITCH, "0")
    with pytest.raises(ImportError, match="invalid ELF"):
        measure(RIGHT, RIGHT + 1)


def test_other_types_are_numpys(library, put, monkeypatch):
    put(library)
    monkeypatch.setenv(SWITCH, "1")
    assert compiled.serves("float32", "float32")
    for pair in (("float32", "float64"), ("int64", "int64"), ("complex64", "complex64"), ("float8_e5m2", "float8_e5m2")):
        assert not compiled.serves(*pair)


# --- the sources it is made of ---------------------------------------------------------------------------------------


def sources_in(folder):
    folder.mkdir()
    for name in compiled._MADE_OF:
        (folder / name).write_bytes((NATIVE / name).read_bytes())
    return folder


def test_a_kernel_of_other_sources_is_not_used(build, library, put, monkeypatch, tmp_path, capsys):
    from paralign.run.doctor import Diagnosis

    monkeypatch.delenv(SWITCH, raising=False)
    assert library.SOURCES == build.digest() == made_of(compiled._MADE_OF)
    for name in compiled._MADE_OF:
        native = sources_in(tmp_path / name)
        monkeypatch.setattr(compiled_passes, "NATIVE", native)
        put(library)
        assert compiled.state() is State.IN_USE
        with (native / name).open("a") as file:
            file.write("\n/* changed */\n")
        put(library)
        assert compiled.state() is State.STALE
    monkeypatch.setattr("paralign.run.doctor.diagnose", lambda *_: Diagnosis([]))
    assert cli.main(["doctor"]) == 0
    assert "run `python native/build_fused.py`" in capsys.readouterr().out
    assert measure(RIGHT, RIGHT + 1).mismatched == 8
    monkeypatch.setattr(compiled_passes, "NATIVE", tmp_path / "none, as in a wheel")
    put(library)
    assert compiled.state() is State.IN_USE


def test_a_kernel_that_does_not_say_what_it_is_made_of_is_not_used_beside_sources(put, monkeypatch):
    monkeypatch.delenv(SWITCH, raising=False)
    put(types.SimpleNamespace(INTERFACE=compiled._INTERFACE))
    assert compiled.state() is State.STALE


# --- inside --------------------------------------------------------------------------------------------------------

INSIDE = """
static const char *without = "";
#define __builtin_cpu_supports(name) (strcmp(name, without) != 0)
#include "fused.c"
__attribute__((visibility("default"))) int chosen(int level, const char *missing) {
    without = missing;
    void (*pass)(const struct job *, struct part *) = best_pass(level);
#if defined(__x86_64__)
    return pass == pass_avx512 ? 2 : pass == pass_avx2;
#else
    return pass == pass_plain ? 0 : -1;
#endif
}
__attribute__((visibility("default"))) Py_ssize_t placed(const double *a, const double *b, Py_ssize_t n, double top) {
    struct part part = {.max_abs_at = -1};
    place_greatest(&part, a, b, 100, n, 1, top);
    return part.max_abs_at;
}
"""


@pytest.fixture(scope="module")
def inside(build, library, tmp_path_factory):
    """Functions of the source that the module does not offer; the processor's abilities are said to it."""
    assert library
    folder = tmp_path_factory.mktemp("inside")
    (folder / "inside.c").write_text(INSIDE)
    flags = [flag for flag in build.FLAGS if flag != "-O3"]
    include = [f"-I{NATIVE}", f"-I{build.sysconfig.get_paths()['include']}"]
    linking = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
    whole = [] if build.limited() else ["-DPARALIGN_WHOLE_API"]
    command = [*build.compiler(), "-O1", *flags, *whole, *include, str(folder / "inside.c"), *linking, "-o", str(folder / "inside.so")]
    subprocess.run(command, check=True, timeout=build.LIMIT, capture_output=True)
    found = ctypes.CDLL(str(folder / "inside.so"))
    found.placed.restype, found.placed.argtypes = ctypes.c_ssize_t, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_double]
    return found


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the passes of other processors need nothing")
@pytest.mark.parametrize("missing", ["avx2", "fma", "f16c"])
def test_no_pass_is_taken_whose_instructions_the_processor_lacks(inside, missing):
    assert [inside.chosen(level, missing.encode()) for level in (0, 1, 2)] == [0, 0, 0]


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the passes of other processors need nothing")
@pytest.mark.parametrize("missing", ["avx512f", "avx512vl", "avx512dq", "avx512bw"])
def test_without_all_of_avx512_the_narrower_pass_is_taken(inside, missing):
    assert [inside.chosen(level, missing.encode()) for level in (0, 1, 2)] == [0, 1, 1]
    assert [inside.chosen(level, b"") for level in (0, 1, 2)] == [0, 1, 2]


def test_the_place_of_the_greatest_error_is_never_behind_the_last_element(inside):
    a, b = np.zeros(64), np.zeros(64)
    b[5] = b[9] = b[20] = 3.0
    assert inside.placed(a.ctypes.data, b.ctypes.data, 16, 3.0) == 105
    b[5] = b[9] = 0
    assert inside.placed(a.ctypes.data, b.ctypes.data, 16, 3.0) == 115  # it stands behind the chunk
    assert inside.placed(a.ctypes.data, b.ctypes.data, 16, math.nan) == 115


# --- compiling ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("compiler", "why"), [("/nowhere/cc", "/nowhere/cc"), ("false", "false failed"), (f"{sys.executable} -c exit(1)", "failed")]
)
def test_no_compiler_leaves_nothing_behind(build, tmp_path, monkeypatch, compiler, why):
    monkeypatch.setenv("CC", compiler)
    with pytest.raises(build.NotCompiled, match=why):
        build.compile_kernel(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_headers_of_python_is_told(build, library, tmp_path, monkeypatch):
    assert library
    monkeypatch.setattr(build.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    with pytest.raises(build.NotCompiled, match=r"Python\.h"):
        build.compile_kernel(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_wheel_is_named_for_what_it_runs_on(build, monkeypatch):
    monkeypatch.setenv("_PYTHON_HOST_PLATFORM", "macosx-11.0-arm64")
    assert build.tag() == ("cp311-abi3-macosx_11_0_arm64" if build.limited() else build.tag())
    monkeypatch.setattr(build, "limited", lambda: False)
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert build.tag() == f"{version}-{version}-macosx_11_0_arm64"
    assert not build.name().startswith("_fused.abi3")
