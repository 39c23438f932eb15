"""A capture's folder: how its lines are written and read, and how it is deleted."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np

from paralign.capture.bounds import near
from paralign.errors import CaptureFormatError, UsageError, WriteFailed, unwritten
from paralign.model import ROLES, SCHEMA, Manifest, Record, plain

#: stands in every manifest, so that a folder can be told from any other
FORMAT = "paralign capture"
MANIFEST, RECORDS, SHARDS = "manifest.json", "records.jsonl", "shards"

_SHARD = re.compile(r"\d{5,9}\.safetensors")
_LOCATION = re.compile(SHARDS + r"/\d{5,9}\.safetensors")
_REMEDY = "record this run again, or copy the capture again as a whole"

_TEXT, _MAYBE = (str,), (str, type(None))
_MANIFEST_TYPES: Dict[str, Tuple[type, ...]] = {
    "schema": (int,),
    "side": _TEXT,
    "stage": _TEXT,
    "framework": _TEXT,
    "versions": (dict,),
    "device": _TEXT,
    "seed": (int, type(None)),
    "flags": (dict,),
    "command": (list,),
    "revision": _MAYBE,
    "settings": (dict,),
    "files": (dict,),
    "variables": (dict,),
    "notes": (list,),
    "resources": (dict,),
    "created": _TEXT,
    "complete": (bool,),
    "records": (int,),
    "released": (bool,),
}
_RECORD_TYPES: Dict[str, Tuple[type, ...]] = {
    "id": (int,),
    "name": _TEXT,
    "stage": _TEXT,
    "role": _TEXT,
    "dtype": _TEXT,
    "shape": (list,),
    "leaf": _TEXT,
    "run": _TEXT,
    "step": (int,),
    "rank": (int,),
    "call": (int,),
    "op": _TEXT,
    "source": _MAYBE,
    "inputs": (list,),
    "digest": _MAYBE,
    "location": (list, type(None)),
    "text": _MAYBE,
    "attrs": (dict,),
}
_REQUIRED = ("id", "name", "stage", "role", "dtype", "shape")
_DEFAULTS: Dict[str, Any] = {f.name: {} if f.default is MISSING else f.default for f in fields(Record) if f.name not in _REQUIRED}


def shard_name(number: int) -> str:
    """The place of a shard, relative to the capture."""
    return f"{SHARDS}/{number:05d}.safetensors"


def is_shard_name(name: str) -> bool:
    """Whether a name is one that :func:`shard_name` gives: it cannot lead out of the capture."""
    return _LOCATION.fullmatch(name) is not None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write ``manifest.json`` to a temporary name and rename it.

    Raises:
        UsageError: a value that JSON cannot hold.
        WriteFailed: the folder cannot be written.
    """
    content = {"format": FORMAT, **{key: _jsonable(value, f"manifest field {key!r}") for key, value in vars(manifest).items()}}
    target, temporary = folder / MANIFEST, folder / (MANIFEST + ".tmp")
    try:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="ascii")
        temporary.replace(target)
    except OSError as fault:
        raise unwritable(target, fault) from fault
    finally:
        with suppress(OSError):
            temporary.unlink()


def unwritable(path: Path, fault: OSError) -> WriteFailed:
    """The error that says why a part of a capture cannot be written."""
    return unwritten(path, fault, "the capture")


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a capture.

    Raises:
        CaptureFormatError: the folder is no capture, its manifest is damaged or of a newer version.
    """
    path = folder / MANIFEST
    content = _manifest_json(folder)
    schema = content.get("schema")
    if type(schema) is not int or schema < 1:
        raise CaptureFormatError("the manifest is damaged: it has no schema number", where=str(path), hint=_REMEDY)
    if schema > SCHEMA:
        raise CaptureFormatError(
            f"the capture has schema {schema}, this version of paralign reads up to {SCHEMA}",
            where=str(path),
            hint="read it with the version of paralign that wrote it, or a later one",
        )
    known = {key: value for key, value in content.items() if key in _MANIFEST_TYPES}
    _check_types(known, _MANIFEST_TYPES, "the manifest is damaged", path)
    return Manifest(**known)


def _manifest_json(folder: Path) -> Dict[str, Any]:
    path = folder / MANIFEST
    if not path.is_file():
        raise CaptureFormatError(
            f"the folder is not a capture: it has no {MANIFEST}" if folder.is_dir() else f"there is no such folder{near(folder)}",
            where=str(folder),
            hint=f"name a folder that paralign recorded into; it holds {MANIFEST}",
        )
    content = _read_json(_content(path), "the manifest is damaged", path)
    if content.get("format") != FORMAT:
        raise CaptureFormatError(
            f"the folder is not a capture: its {MANIFEST} does not say {FORMAT!r}",
            where=str(path),
            hint="name a folder that paralign recorded into",
        )
    return content


def _content(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for, a device read without end
            raise CaptureFormatError("the file is a folder, a pipe or a device", where=str(path), hint="record this run again")
        return path.read_bytes()
    except OSError as fault:
        raise CaptureFormatError(
            f"the file cannot be read: {fault.strerror or fault}", where=str(path), hint="check its permissions"
        ) from fault


def _read_json(line: bytes, what: str, place: Path) -> Dict[str, Any]:
    try:
        content = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as fault:
        raise CaptureFormatError(f"{what}: {fault}", where=str(place), hint=_REMEDY) from fault
    if not isinstance(content, dict):
        raise CaptureFormatError(f"{what}: it is no JSON object", where=str(place), hint=_REMEDY)
    return content


def _check_types(content: Dict[str, Any], types: Dict[str, Tuple[type, ...]], what: str, place: Path) -> None:
    for key, value in content.items():
        allowed = types[key]
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            raise CaptureFormatError(f"{what}: field {key!r} holds {value!r}", where=str(place), hint=_REMEDY)


#: encodes what needs no conversion; one for all records, because making it takes longer than using it
_LINE = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def encode_record(record: Record) -> str:
    """A record as one line; fields that have their default are left out.

    Raises:
        UsageError: an attribute that JSON cannot hold.
    """
    content = {key: value for key, value in vars(record).items() if key not in _DEFAULTS or value != _DEFAULTS[key]}
    try:
        return _LINE.encode(content)
    except (TypeError, ValueError):  # numpy's scalars, NaN, infinities, and what JSON cannot hold at all
        content["attrs"] = _jsonable(record.attrs, f"attributes of record {record.key!r}")
    return _LINE.encode(content)


def read_records(folder: Path, *, complete: bool) -> List[Record]:
    """The records of a capture, in the order of recording.

    The last line of a capture that was cut short may be torn; it is left out.

    Raises:
        CaptureFormatError: names the file, the line and the cause.
    """
    path = folder / RECORDS
    if not complete and not path.exists():
        return []  # killed before it recorded anything
    lines = _content(path).split(b"\n")
    torn = lines.pop()
    records = [_decode_record(line, f"line {number} is damaged", path) for number, line in enumerate(lines, 1)]
    if torn and complete:
        raise CaptureFormatError(f"line {len(lines) + 1} is damaged: it is cut off", where=str(path), hint=_REMEDY)
    return records


def _decode_record(line: bytes, what: str, place: Path) -> Record:
    """The record of one line, every field checked."""
    content = _read_json(line, what, place)
    unknown, absent = sorted(set(content) - set(_RECORD_TYPES)), [key for key in _REQUIRED if key not in content]
    fault: Optional[str]
    if unknown or absent:
        fault = f"field {absent[0]!r} is missing" if absent else f"field {unknown[0]!r} is not known"
    else:
        _check_types(content, _RECORD_TYPES, what, place)
        fault = _record_fault(content)
    if fault:
        raise CaptureFormatError(f"{what}: {fault}", where=str(place), hint=_REMEDY)
    for key in ("shape", "inputs", "location"):
        if content.get(key) is not None:
            content[key] = tuple(content[key])
    return Record(**content)


def _record_fault(content: Dict[str, Any]) -> Optional[str]:
    """What types alone do not tell."""
    location = content.get("location")
    if not all(type(size) is int and size >= 0 for size in content["shape"]):
        return f"its shape {content['shape']!r} is no list of whole numbers from 0"
    if not all(type(number) is int for number in content.get("inputs", ())):
        return f"its inputs {content['inputs']!r} are no record numbers"
    if content["role"] not in ROLES:
        return f"its role {content['role']!r} is none of {', '.join(ROLES)}"
    if location is not None and (len(location) != 2 or not all(isinstance(part, str) for part in location)):  # noqa: PLR2004 - a pair
        return f"its location {location!r} is no pair of shard and tensor name"
    if location is not None and not is_shard_name(location[0]):
        return f"its shard {location[0]!r} is none of this capture's"
    return None


def _jsonable(value: Any, what: str) -> Any:
    """A value that JSON can hold and that nobody else holds.

    Infinities and NaN become words, numpy's scalars Python's.
    """

    def convert(other: Any) -> Any:
        if isinstance(other, (np.generic, np.ndarray)):
            return plain(other.tolist())
        if isinstance(other, os.PathLike):
            return os.fspath(other)
        raise UsageError(
            f"{what}: a {type(other).__name__} cannot be written as JSON", hint="use numbers, texts, booleans, None, lists and dicts"
        )

    return json.loads(json.dumps(plain(value), default=convert))


def discard(path: Union[str, Path]) -> None:
    """Delete a capture: files that we wrote, and folders that this empties.

    Never anything else.

    Raises:
        UsageError: the folder is no capture, or something that is not ours lies in it; nothing was deleted.
    """
    folder = Path(path)
    if folder.is_symlink() or not folder.is_dir():
        raise UsageError("a capture is a folder; this is none", where=str(folder), hint="name the capture itself")
    try:
        _manifest_json(folder)
    except CaptureFormatError as fault:
        raise UsageError(
            f"this is not deleted: {fault.what}",
            where=fault.where,
            hint="name a folder that paralign recorded into, or delete this one yourself",
        ) from fault
    files = _own_files(folder)
    for file in files:
        file.unlink()
    if (folder / SHARDS).is_dir():
        (folder / SHARDS).rmdir()
    folder.rmdir()


def clear(path: Union[str, Path]) -> None:
    """Delete the capture that is there, to make room for one.

    Also what is left where its writing or deletion was cut short.

    Raises:
        UsageError: as :func:`discard`.
        WriteFailed: it cannot be deleted.
    """
    folder = Path(path)
    if not folder.exists():
        return
    try:
        if folder.is_symlink() or not folder.is_dir() or not _is_remnant(folder):
            discard(folder)
            return
        if (folder / (MANIFEST + ".tmp")).exists():
            (folder / (MANIFEST + ".tmp")).unlink()
        if (folder / SHARDS).exists():
            (folder / SHARDS).rmdir()
        folder.rmdir()
    except OSError as fault:
        raise unwritten(folder, fault, "the capture") from fault


def _is_remnant(folder: Path) -> bool:
    """Whether a folder holds nothing but what a capture without manifest may have.

    Before it is written, or after it is gone.
    """
    for entry in folder.iterdir():
        if entry.name == SHARDS and entry.is_dir() and not entry.is_symlink():
            if next(entry.iterdir(), None) is not None:
                return False
        elif entry.name != MANIFEST + ".tmp":
            return False
    return True


def _own_files(folder: Path) -> List[Path]:
    """Files of a capture, the manifest last: a deletion that is cut short can be repeated."""
    ours: List[Path] = []
    for entry in folder.iterdir():
        if entry.name == SHARDS and entry.is_dir() and not entry.is_symlink():
            ours += [_own(shard, _is_shard_file(shard.name)) for shard in entry.iterdir()]
        else:
            ours.append(_own(entry, entry.name in (MANIFEST, MANIFEST + ".tmp", RECORDS)))
    return sorted(ours, key=lambda file: (file.name == MANIFEST, file))


def _is_shard_file(name: str) -> bool:
    return _SHARD.fullmatch(name[:-4] if name.endswith(".tmp") else name) is not None


def _own(entry: Path, known: bool) -> Path:
    if not known or entry.is_symlink() or not entry.is_file():
        raise UsageError(
            "this is not deleted: it holds something that paralign did not write",
            where=str(entry),
            hint="move it out of the capture, then try again",
        )
    return entry
