"""Files of others: arrays and containers are read as numpy and pickle would read them; anything else is refused, unrun."""

import builtins
import collections
import contextlib
import datetime as dt
import decimal
import functools
import io
import operator
import os
import pathlib
import pickle
import struct
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from paralign.capture import load_foreign, save_foreign
from paralign.errors import CaptureFormatError, UnsafeFile, UnsupportedTensor, UsageError

OBJECTS = {"descr": "|O", "fortran_order": False, "shape": ()}
PUBLISHED = pathlib.Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "reprod_log"


def npy(header, data=b"", version=(1, 0)):
    """A .npy file with any header."""
    text = (header if isinstance(header, str) else repr(header)).encode() + b"\n"
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H" if version[0] == 1 else "<I", len(text)) + text + data


def saved(path, value, protocol=3):
    """What numpy.save of an object writes, in any protocol."""
    path.write_bytes(npy(OBJECTS, pickle.dumps(np.array(value, dtype=object), protocol)))
    return path


def inside(path, program):
    """A file whose pickle is this program, as it stands."""
    path.write_bytes(npy(OBJECTS, program))
    return path


def array_program(shape=b"K\x02\x85", code=b"f4", order=b"<", data=b"C\x08" + b"\x00" * 8, element_state=b"NNN"):
    """The program of an array with any state."""
    return (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R(K\x01"
        + shape
        + b"cnumpy\ndtype\nX"
        + struct.pack("<I", len(code))
        + code
        + b"\x89\x88\x87R(K\x03X"
        + struct.pack("<I", len(order))
        + order
        + element_state
        + b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        + data
        + b"tb"
    )


def loaded(value):
    """The program of an array of one object, whose own program this is."""
    return b"\x80\x04" + array_program(shape=b")", code=b"O8", order=b"|", data=b"]" + value + b"a") + b"."


def same(one, other):
    """Equal in types, shapes and bits, NaN included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(same(one[i], other[i]) for i in range(len(one)))
    if isinstance(one, np.ndarray) and one.dtype == object:
        return one.shape == other.shape and same(one.tolist(), other.tolist())
    if isinstance(one, (np.ndarray, np.generic)):
        native = one.dtype.newbyteorder("=")  # pickle changes the byte order of some arrays
        return (one.shape, native) == (other.shape, other.dtype.newbyteorder("=")) and (
            one.astype(native).tobytes() == other.astype(native).tobytes()
        )
    return one == other if isinstance(one, (set, frozenset)) else repr(one) == repr(other)


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.complex_numbers(), st.text(), st.binary(max_size=300)
)
ELEMENTS = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(sizes=(64, 128)),
    hnp.byte_string_dtypes(max_len=4),
    hnp.unicode_string_dtypes(max_len=4),
)
ARRAYS = hnp.arrays(ELEMENTS, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)).flatmap(
    lambda array: st.sampled_from([array, array.T, np.asfortranarray(array), array[()], array[..., None][..., ::-1]])
)
VALUES = st.recursive(
    st.one_of(SCALARS, ARRAYS, st.sets(st.integers()), st.frozensets(st.text()), st.binary().map(bytearray)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(), inner, max_size=4),
        st.dictionaries(st.one_of(st.integers(), st.booleans()), inner, max_size=3).map(collections.OrderedDict),
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=300)
@given(VALUES, st.sampled_from([2, 3, 4, 5]))
def test_nested_values_read_as_pickle_reads_them(tmp_path_factory, value, protocol):
    path = tmp_path_factory.mktemp("foreign") / "a.npy"
    holder = np.empty((), object)
    holder[()] = {"value": value}
    path.write_bytes(npy(OBJECTS, pickle.dumps(holder, protocol)))
    assert same(load_foreign(path), pickle.loads(pickle.dumps({"value": value}, protocol)))


@given(ARRAYS, st.booleans())
def test_plain_arrays_read_as_numpy_reads_them(tmp_path_factory, array, packed):
    folder = tmp_path_factory.mktemp("foreign")
    np.save(folder / "a.npy", array)
    (np.savez_compressed if packed else np.savez)(folder / "a.npz", one=array, two=np.arange(3))
    expected = np.load(folder / "a.npy")
    assert same(load_foreign(folder / "a.npy"), expected)
    archive = load_foreign(str(folder / "a.npz"))
    assert list(archive) == ["one", "two"]
    assert same(archive["one"], expected)


@pytest.mark.parametrize("names", ["numpy.core", "numpy._core"])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_both_names_of_numpys_core_are_read_without_a_warning(tmp_path, names, protocol):
    value = {"a": np.arange(6.0).reshape(2, 3), "s": np.float32(2)}
    data = pickle.dumps(np.array(value, dtype=object), protocol)
    here = b"numpy._core" if b"numpy._core" in data else b"numpy.core"
    longer = len(names) - len(here)
    if protocol < 4:
        data = data.replace(here, names.encode())
    else:  # texts are preceded by their length, frames too
        for module in (b".multiarray", b".numeric"):
            old, new = here + module, names.encode() + module
            data = data.replace(bytes([len(old)]) + old, bytes([len(old) + longer]) + new)
        frame = data.index(b"\x95")
        data = data[:frame] + data[frame + 9 :]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(load_foreign(inside(tmp_path / "a.npy", data)), value)


def test_what_python_2_wrote_is_read(tmp_path):
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01K\x02\x85"
        b"cnumpy\ndtype\nU\x02f4K\x00K\x01\x87R"
        b"(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x08" + np.float32([-1, 300]).tobytes() + b"tb"
    )
    program = loaded(b"}U\x04lossU\x02oksU\x01a" + array + b"s")
    assert same(load_foreign(inside(tmp_path / "a.npy", program)), {"loss": "ok", "a": np.float32([-1, 300])})


def test_arrays_are_writable_and_shared_values_stay_shared(tmp_path):
    array = np.arange(3)
    value = load_foreign(saved(tmp_path / "a.npy", {"a": array, "b": array, "list": [array]}))
    value["a"][0] = 9
    assert value["b"][0] == 9
    assert value["list"][0] is value["a"]
    np.save(tmp_path / "b.npy", array)
    load_foreign(tmp_path / "b.npy")[0] = 9


def test_arrays_of_objects_are_read(tmp_path):
    inner = np.empty((2, 2), object)
    inner[:] = [[np.arange(2), "x"], [None, {"k": 1.5}]]
    value = load_foreign(saved(tmp_path / "a.npy", {"o": inner, "f": np.asfortranarray(inner), "t": np.dtype(">i2")}))
    assert same(value["o"], inner)
    assert same(value["f"].tolist(), inner.tolist())
    assert value["t"] == np.dtype(">i2")
    several = np.empty(2, object)
    several[:] = [{"a": 1}, np.arange(2)]
    np.save(tmp_path / "b.npy", several)
    assert same(load_foreign(tmp_path / "b.npy"), [{"a": 1}, np.arange(2)])


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published files are not here")
def test_published_files_are_read():
    forward = load_foreign(PUBLISHED / "forward_ref.npy")
    assert {key: (value.shape, str(value.dtype)) for key, value in forward.items()} == {"logits": ((1, 1000), "float32")}
    losses = load_foreign(PUBLISHED / "losses_paddle.npy")
    assert {key: value.shape for key, value in losses.items() if key.endswith("0")} == {"loss_0": (1,), "lr_0": ()}


class Calls:
    """Pickles as a call."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


class States:
    """Pickles as a call whose result is given a state."""

    def __init__(self, function, arguments, state):
        self.call = (function, arguments, state)

    def __reduce__(self):
        return self.call


HOSTILE = {
    "posix.system": lambda mark: Calls(os.system, f"touch {mark}"),
    "builtins.eval": lambda mark: Calls(eval, f"open({str(mark)!r}, 'w')"),
    "builtins.exec": lambda mark: Calls(exec, f"open({str(mark)!r}, 'w')"),
    "builtins.getattr": lambda _: Calls(getattr, [], "append"),
    "io.open": lambda mark: Calls(open, str(mark), "w"),
    "builtins.__import__": lambda _: Calls(builtins.__import__, "os"),
    "builtins.print": lambda _: Calls(print, "x"),
    "_pickle.loads": lambda mark: Calls(pickle.loads, pickle.dumps(Calls(os.system, f"touch {mark}"))),
    "operator.attrgetter": lambda _: Calls(operator.attrgetter, "a"),
    "functools.partial": lambda mark: functools.partial(os.system, f"touch {mark}"),
    "numpy.load": lambda mark: Calls(np.load, str(mark), None, True),
    "numpy.fromfile": lambda _: np.fromfile,
    "numpy.save": lambda mark: Calls(np.save, str(mark), np.zeros(1)),
    "numpy.memmap": lambda mark: Calls(np.memmap, str(mark), np.uint8, "w+", 0, (8,)),
    "numpy.empty": lambda _: Calls(np.empty, 10**12),
    "numpy.frombuffer": lambda _: np.frombuffer,
    "numpy.matrix": lambda _: np.array([[1]]).view(np.matrix),
    "recarray": lambda _: np.zeros(1).view(np.recarray),
    "datetime.datetime": lambda _: dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc),
    "decimal.Decimal": lambda _: decimal.Decimal(1),
    "collections.defaultdict": lambda _: collections.defaultdict(list),
    "collections.Counter": lambda _: collections.Counter(),
    "PosixPath": lambda _: pathlib.PosixPath("x"),
    "builtins.slice": lambda _: slice(1),
    "builtins.range": lambda _: Calls(range, 3),
    "builtins.type": lambda _: type,
    "builtins.bytes": lambda _: Calls(bytes, 10**12),
    "builtins.bytearray": lambda _: Calls(bytearray, 10**12),
    "builtins.list": lambda _: Calls(list, "text"),
    "builtins.complex": lambda _: Calls(complex, "1"),
    "OrderedDict": lambda _: States(collections.OrderedDict, (), {"update": 1}),
    "elements of type 'V4'": lambda _: np.dtype([("a", "f4")]),
    "elements of type 'V12'": lambda _: np.zeros(2, [("a", "f4"), ("b", "O")]),
    "elements of type 'M8'": lambda _: np.array(["2020"], "M8[D]"),
}


@pytest.mark.parametrize("protocol", [0, 2, 3, 4])
@pytest.mark.parametrize("case", sorted(HOSTILE))
def test_everything_else_is_refused_and_not_run(tmp_path, case, protocol):
    mark = tmp_path / "mark"
    with contextlib.suppress(FileExistsError):
        path = saved(tmp_path / "a.npy", {"x": HOSTILE[case](mark)}, protocol)
    before = sorted(tmp_path.iterdir())
    with pytest.raises((UnsafeFile, CaptureFormatError)) as caught:
        load_foreign(path)
    assert caught.value.where == str(path)
    assert caught.value.hint
    if protocol >= 3:
        assert case in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before


def test_the_hostile_files_are_hostile(tmp_path):
    """Without this, the test above could pass on files that do nothing."""
    mark = tmp_path / "mark"
    path = saved(tmp_path / "a.npy", {"x": HOSTILE["builtins.exec"](mark)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.load(path, allow_pickle=True)
    assert mark.exists()


#: an array whose state has not come
UNFINISHED = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R"

PROGRAMS = {
    "a dotted name": (b"cnumpy\ncore.multiarray.scalar\n", UnsafeFile, "numpy.core.multiarray.scalar"),
    "a name inside an admitted one": (b"cnumpy.core.multiarray\n_reconstruct.__globals__\n", UnsafeFile, "_reconstruct.__globals__"),
    "a name spelt with escapes": (b"cos\nsy\\x73tem\n", CaptureFormatError, "a name with a backslash"),
    "names from the stack": (b"\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R", UnsafeFile, "os.system"),
    "names from the memory": (b"\x8c\x06system\x940\x8c\x02os\x94h\x00\x93", UnsafeFile, "operation POP"),
    "a name that is no text": (b"K\x01K\x02\x93", CaptureFormatError, "a name is no text"),
    "a class as a value": (b"cnumpy\nndarray\n", UnsafeFile, "the file holds a numpy.ndarray as a value"),
    "a call of a value": (b"\x8c\x02os)R", UnsafeFile, "the file calls a str"),
    "a call of the array class": (b"cnumpy\nndarray\n(J\xff\xff\xff\x7ft\x85R", UnsafeFile, "the file calls a numpy.ndarray"),
    "another array class": (
        b"cnumpy.core.multiarray\n_reconstruct\ncbuiltins\ndict\nK\x00\x85C\x01b\x87R",
        UnsafeFile,
        "holds a builtins.dict in place of a plain array",
    ),
    "the state of a list": (b"]}b", UnsafeFile, "sets the state of a list"),
    "the state of a name": (b"cbuiltins\ndict\n}b", UnsafeFile, "sets the state of a builtins.dict"),
    "the state of a text": (b"\x8c\x01xN}\x86b", UnsafeFile, "sets the state of a str"),
    "instances": (b"(cbuiltins\ndict\no", UnsafeFile, "operation OBJ"),
    "old instances": (b"(ios\nsystem\n", UnsafeFile, "operation INST"),
    "new objects": (b"cbuiltins\ndict\n)\x81", UnsafeFile, "operation NEWOBJ"),
    "new objects with keywords": (b"cbuiltins\ndict\n)}\x92", UnsafeFile, "operation NEWOBJ_EX"),
    "persistent ids": (b"Pname\n", UnsafeFile, "operation PERSID"),
    "binary persistent ids": (b"K\x01Q", UnsafeFile, "operation BINPERSID"),
    "extensions": (b"\x82\x01", UnsafeFile, "operation EXT1"),
    "buffers outside": (b"\x97", UnsafeFile, "operation NEXT_BUFFER"),
    "an array as a key": (b"}" + UNFINISHED + b"Ns", UnsafeFile, "uses a array as a key"),
    "a list as a key": (b"}]Ns", UnsafeFile, "the file uses a list as a key"),
    "a list in a set": (b"\x8f(]\x90", UnsafeFile, "the file uses a list as a key or in a set"),
    "an array without data": (UNFINISHED, CaptureFormatError, "no data"),
    "a list in itself": (b"]q\x63h\x63a", CaptureFormatError, "contain themselves"),
    "a dict in itself": (b"}q\x63K\x01h\x63s", CaptureFormatError, "contain themselves"),
    "deep nesting": (b")" + b"\x85" * 100_000, CaptureFormatError, "nested more than 64 deep"),
    "endless copies": (
        b"B\x00\x00\x01\x00" + b"x" * 65536 + b"q\x63" + b"cbuiltins\nbytearray\nh\x63\x85R" * 500,
        CaptureFormatError,
        "repeats its data without end",
    ),
    "a huge text": (b"\x8d\xff\xff\xff\xff\xff\xff\xff\x00", CaptureFormatError, "truncated or damaged"),
    "huge bytes": (b"\x8e\xff\xff\xff\xff\xff\xff\xff\x00abc", CaptureFormatError, "truncated or damaged"),
    "a huge integer": (b"\x8b\xff\xff\xff\x7f1", CaptureFormatError, "truncated or damaged"),
    "a huge memory place": (b"K\x01r\xff\xff\xff\xffj\xfe\xff\xff\xff", CaptureFormatError, "recalls value 4294967294"),
    "an unknown operation": (b"\xff", CaptureFormatError, "truncated or damaged"),
    "an endless name": (b"c" + b"a" * 10_000 + b"\nb\n", CaptureFormatError, "truncated or damaged"),
    "a mark as an argument": (b"(\x85", CaptureFormatError, "lacks its arguments"),
    "append to a tuple": (b")K\x01a", CaptureFormatError, "expects a list"),
    "a key without value": (b"}(K\x01u", CaptureFormatError, "a key lacks its value"),
    "bytes in another coding": (
        b"c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00rot\x86R",
        CaptureFormatError,
        "bytes are written as 'rot'",
    ),
    "bytes of other characters": (
        b"c_codecs\nencode\nX\x03\x00\x00\x00\xe2\x82\xacX\x06\x00\x00\x00latin1\x86R",
        CaptureFormatError,
        "other characters",
    ),
    "pairs that are none": (b"ccollections\nOrderedDict\n](K\x01e\x85R", CaptureFormatError, "no pairs"),
}


@pytest.mark.parametrize("case", sorted(PROGRAMS))
def test_hostile_programs_are_refused(tmp_path, case):
    program, error, message = PROGRAMS[case]
    path = inside(tmp_path / "a.npy", loaded(program))
    with pytest.raises((UnsafeFile, CaptureFormatError)) as caught:
        load_foreign(path)
    if message:
        assert isinstance(caught.value, error)
    assert message in str(caught.value)
    assert caught.value.where == str(path)
    if error is UnsafeFile and message:
        assert "nothing of it was run" in str(caught.value)


def test_what_unfolds_without_end_is_refused(tmp_path):
    value = [1]
    for _ in range(40):
        value = [value, value, value]
    path = saved(tmp_path / "a.npy", {"laughs": value})
    assert path.stat().st_size < 2000
    with pytest.raises(CaptureFormatError, match=r"unfolds to at least [0-9]+ values; at most 2000000 are allowed"):
        load_foreign(path)


def test_the_array_program_is_right(tmp_path):
    assert same(load_foreign(inside(tmp_path / "a.npy", loaded(array_program()))), np.zeros(2, np.float32))


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"shape": b"J\xff\xff\xff\x7f\x85"}, "an array of shape (2147483647,) and type float32 does not take 8 bytes"),
        ({"shape": b"K\x01\x85"}, "does not take 8 bytes"),
        ({"shape": b"J\xfe\xff\xff\xff\x85"}, "shape is no tuple of whole numbers"),
        ({"shape": b"\x88\x85"}, "shape is no tuple of whole numbers"),
        ({"shape": b"K\x02"}, "shape is no tuple"),
        ({"shape": b"K\x00\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x40\x86", "data": b"C\x00"}, "impossible shape"),
        ({"shape": b"(" + b"K\x01" * 70 + b"t", "data": b"C\x04abcd"}, "impossible shape"),
        ({"code": b"f3"}, "there is no element type 'f3'"),
        ({"code": b"U999999999"}, ""),
        ({"code": b"V8"}, "elements of type 'V8', which are refused"),
        ({"code": b"f4,f4"}, "elements of type 'f4,f4', which are refused"),
        ({"code": b"O"}, "does not have as many elements"),
        ({"code": b"O", "data": b"]"}, "does not have as many elements"),
        ({"code": b"O", "shape": b"K\x00\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x40\x86", "data": b"]"}, "impossible shape"),
        ({"order": b"!"}, "an element type has an unknown state"),
        ({"element_state": b"N}N"}, "structured elements"),
        ({"data": b"]"}, "an array's data are no bytes"),
        ({"data": b"X\x04\x00\x00\x00\xe2\x82\xaca"}, "other characters"),
    ],
)
def test_array_states_that_lie_are_refused(tmp_path, state, message):
    with pytest.raises((CaptureFormatError, UnsafeFile)) as caught:
        load_foreign(inside(tmp_path / "a.npy", loaded(array_program(**state))))
    assert message in str(caught.value)


def test_a_state_is_set_once(tmp_path):
    twice = array_program()[:-2] + b"tq\x63b}b"
    with pytest.raises(UnsafeFile, match="sets the state of a array"):
        load_foreign(inside(tmp_path / "a.npy", loaded(twice)))


@pytest.mark.parametrize(
    ("header", "data", "error", "message"),
    [
        ({"descr": "<f4", "fortran_order": False, "shape": (10**12,)}, b"", CaptureFormatError, "takes 4000000000000 bytes, 0 are there"),
        ({"descr": "<f4", "fortran_order": False, "shape": (2,)}, b"1234567", CaptureFormatError, "takes 8 bytes, 7 are there"),
        ({"descr": "<f4", "fortran_order": False, "shape": (2,)}, b"123456789", CaptureFormatError, "takes 8 bytes, 9 are there"),
        ({"descr": "<f4", "fortran_order": False, "shape": (-2,)}, b"", CaptureFormatError, "is no tuple of whole numbers"),
        ({"descr": "<f4", "fortran_order": False, "shape": [2]}, b"", CaptureFormatError, "is no tuple of whole numbers"),
        ({"descr": "<f4", "fortran_order": False, "shape": (0, 2**62, 2**62)}, b"", CaptureFormatError, "impossible shape"),
        ({"descr": "<f3", "fortran_order": False, "shape": ()}, b"123", CaptureFormatError, "there is no element type '<f3'"),
        ({"descr": "<M8[D]", "fortran_order": False, "shape": ()}, b"12345678", UnsafeFile, "elements of type '<M8[D]', which are refused"),
        ({"descr": [("a", "<f4")], "fortran_order": False, "shape": ()}, b"1234", UnsafeFile, "structured elements"),
        ({"descr": "<f4", "fortran_order": 0, "shape": ()}, b"1234", CaptureFormatError, "its header says"),
        ({"descr": "<f4", "shape": ()}, b"1234", CaptureFormatError, "must have descr, fortran_order and shape"),
        ("[]", b"", CaptureFormatError, "must have descr, fortran_order and shape"),
        ("{'descr': print()}", b"", CaptureFormatError, "its header is no Python literal"),
        ("{'\\q': 1or 2}", b"", CaptureFormatError, "its header is no Python literal"),
        ("(" * 5000, b"", CaptureFormatError, "its header is no Python literal"),
        ("\x00", b"", CaptureFormatError, "its header is no Python literal"),
        ("{" + " " * 20_000 + "}", b"", CaptureFormatError, "it claims a header of 20003 bytes"),
        (
            {"descr": "|O", "fortran_order": False, "shape": (2,)},
            pickle.dumps(np.array({}, dtype=object)),
            CaptureFormatError,
            "holds something else",
        ),
        (OBJECTS, pickle.dumps({"a": 1}), CaptureFormatError, "holds something else"),
        (OBJECTS, pickle.dumps(np.array({}, dtype=object)) + b"x", CaptureFormatError, "bytes follow its end"),
        (OBJECTS, b"", CaptureFormatError, "the pickle inside is truncated or damaged"),
    ],
)
def test_headers_that_lie_are_refused(tmp_path, header, data, error, message):
    path = tmp_path / "a.npy"
    path.write_bytes(npy(header, data))
    with pytest.raises(error) as caught:
        load_foreign(path)
    assert message in str(caught.value)
    assert caught.value.where == str(path)
    assert caught.value.hint


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions_of_the_format(tmp_path, version):
    (tmp_path / "a.npy").write_bytes(npy({"descr": "<i2", "fortran_order": True, "shape": (1, 2)}, b"\x01\x00\x02\x00", version))
    assert same(load_foreign(tmp_path / "a.npy"), np.int16([[1, 2]]))
    (tmp_path / "a.npy").write_bytes(npy({}, b"", (4, 0)))
    with pytest.raises(CaptureFormatError, match=r"has version 4\.0 of the \.npy format"):
        load_foreign(tmp_path / "a.npy")


def test_a_file_cut_off_anywhere_is_refused(tmp_path):
    content = saved(tmp_path / "whole.npy", {"a": np.arange(4), "b": [1, "x"]}).read_bytes()
    path = tmp_path / "a.npy"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(CaptureFormatError):
            load_foreign(path)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_any_damage_is_an_error_of_ours_or_harmless(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("foreign") / "a.npy"
    protocol = data.draw(st.sampled_from([2, 3, 4, 5]))
    content = bytearray(saved(path, {"a": np.arange(4.0), "b": [np.float32(1), (None, b"x")], "c": {"d": {1, 2}}}, protocol).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content))
    with contextlib.suppress(CaptureFormatError, UnsafeFile):
        load_foreign(path)


@given(st.binary(max_size=60))
def test_any_program_is_an_error_of_ours_or_harmless(tmp_path_factory, program):
    path = inside(tmp_path_factory.mktemp("foreign") / "a.npy", program + b".")
    with contextlib.suppress(CaptureFormatError, UnsafeFile):
        load_foreign(path)


def test_what_is_no_such_file_is_named(tmp_path):
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load_foreign(tmp_path / "missing.npy")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load_foreign(tmp_path)
    (tmp_path / "a.npy").write_bytes(b"")
    with pytest.raises(CaptureFormatError, match="the file is empty"):
        load_foreign(tmp_path / "a.npy")
    (tmp_path / "a.npy").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(CaptureFormatError, match=r"is neither \.npy nor \.npz"):
        load_foreign(tmp_path / "a.npy")


def test_saved_dicts_are_read_by_numpy_and_by_us(tmp_path):
    value = {"logits": np.arange(6.0).reshape(2, 3).T, "nested": {"lr": np.float64(0.1), 3: [np.zeros(0), (1, "x")]}, "o": np.array([None])}
    save_foreign(str(tmp_path / "deep" / "er" / "a"), value)
    path = tmp_path / "deep" / "er" / "a.npy"
    assert list(path.parent.iterdir()) == [path]
    assert same(np.load(path, allow_pickle=True).item(), value)
    assert same(load_foreign(path), value)
    save_foreign(path, {})
    assert load_foreign(path) == {}


def test_what_could_not_be_read_back_is_not_saved(tmp_path):
    save_foreign(tmp_path / "a.npy", {"a": 1})
    before = (tmp_path / "a.npy").read_bytes()
    with pytest.raises(UnsupportedTensor, match=r"'x\.y\[1\]' is a BytesIO, which cannot be saved as data") as caught:
        save_foreign(tmp_path / "a.npy", {"x": {"y": [1, io.BytesIO()]}})
    assert ".numpy()" in caught.value.hint
    assert (tmp_path / "a.npy").read_bytes() == before
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        save_foreign(tmp_path / "file" / "a.npy", {"a": 1})
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(UsageError, match="cannot be written: Is a directory"):
        save_foreign(tmp_path / "folder", {"a": 1})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npy", "file", "folder.npy"]
