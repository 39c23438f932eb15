"""Draw a small set: samples chosen, copied with annotations, packed, hashed."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paralign.errors import UsageError, unwritten
from paralign.lite import sources
from paralign.lite.hashes import FORMAT, MANIFEST, sha256

if TYPE_CHECKING:
    from paralign.lite.sources import Item, Source, Split

#: bytes of the archive: what the guides ask for
LARGEST = 20_000_000

#: bytes that an archive needs for one file beside its content: a head, and filling up to a block
HEAD = 1024

#: bytes at the end of an archive
TAIL = 10_240


@dataclass
class Drawn:
    """What was drawn: folder, archive, samples and classes, and what was left out."""

    folder: Path
    archive: Path
    bytes: int
    splits: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def draw(
    root: Path, out: Path, *, form: str = "auto", lists: list[Path] | None = None, count: int = 16, seed: int = 0, largest: int = LARGEST
) -> Drawn:
    """Draw ``count`` samples of every split into ``out`` and ``out``.tar, the same bytes.

    Args:
        root: the data set.
        out: a folder that is not there yet.
        form: ``auto``, ``folder``, ``coco``, ``voc`` or ``list``.
        lists: files of lines ``path class``.
        count: samples of each split; fewer where a split has fewer.
        seed: which samples of a class are taken.
        largest: bytes of the archive.

    Raises:
        UsageError: no samples, a folder that is there already, or ``largest`` cannot be kept.
    """
    archive = out.with_name(out.name + ".tar")
    for path in (out, archive):
        if path.exists():
            raise UsageError(
                "it is there already, and is not overwritten", where=str(path), hint="name another folder by --out, or move it away"
            )
    if out.resolve() == root.resolve() or root.resolve() in out.resolve().parents:
        raise UsageError("the small set would lie inside the data set", where=str(out), hint="name a folder outside it by --out")
    source = sources.read(root, form, lists or [])
    budget = max(largest - TAIL, 0) // len(source.splits)
    chosen = {split.name: choose(split, count, seed, budget) for split in source.splits}
    found = Drawn(out, archive, 0)
    for split in source.splits:
        found.notes += _left_out(split, chosen[split.name], count)
    try:
        _write(source, chosen, out)
        found.splits = _manifest(source, chosen, out, {"form": source.form, "count": count, "seed": seed})
        _pack(out, archive)
    except OSError as fault:
        raise unwritten(fault.filename or out, fault) from fault
    found.bytes = archive.stat().st_size
    if found.bytes > largest:
        archive.unlink()
        told = f"the archive would have {found.bytes:,} bytes with the annotations, more than {largest:,}"
        raise UsageError(told, where=str(out), hint="draw fewer samples (--count), or allow more (--bytes); the folder is kept")
    return found


# -- which -------------------------------------------------------------------------------------------------------------------------


def choose(split: Split, count: int, seed: int, budget: int) -> list[Item]:
    """Samples of a split: classes in turn, the rarest first, in an order of ``seed``.

    Raises:
        UsageError: even the smallest samples do not fit.
    """
    ranked = sorted(split.items, key=lambda item: _rank(item, seed))
    wanted = min(count, len(ranked))
    taken = _covering(ranked, wanted)
    while _bytes(taken) > budget:
        largest = max(taken, key=lambda item: (item.size, item.name))
        smaller = _smaller(largest, ranked, taken)
        if smaller is None:
            least = sorted(item.size for item in split.items)[:wanted]
            told = f"split {split.name!r}: {wanted} samples do not fit into {budget:,} bytes; the smallest {wanted} have {sum(least):,}"
            raise UsageError(told, hint="draw fewer samples (--count), or allow more (--bytes)")
        taken[taken.index(largest)] = smaller
    return sorted(taken, key=lambda item: item.name)


def _rank(item: Item, seed: int) -> bytes:
    return hashlib.sha256(f"{seed} {item.name}".encode("utf-8", "surrogateescape")).digest()


def _bytes(items: list[Item]) -> int:
    return sum(item.size + HEAD * len(item.files) for item in items)


#: what stands for the class of samples without one
_NOTHING = ""


def _covering(ranked: list[Item], wanted: int) -> list[Item]:
    """A greedy choice for the class with the fewest, rare first, of most new classes.

    Where some samples have no class, as pictures without a box, one of them is taken after one of every class.
    """
    frequency: dict[str, int] = {}
    for item in ranked:
        for name in item.classes:
            frequency[name] = frequency.get(name, 0) + 1
    have = dict.fromkeys(sorted(frequency, key=lambda name: (frequency[name], name)), 0)
    if have and not all(item.classes for item in ranked):
        have[_NOTHING] = 0
    left = list(ranked)
    taken: list[Item] = []
    while left and len(taken) < wanted:
        scarce = min(have, key=lambda name: have[name], default=None)
        fitting = [item for item in left if scarce in item.classes or (scarce == _NOTHING and not item.classes)]
        if not fitting and scarce is not None and have:
            del have[scarce]
            continue
        if scarce == _NOTHING:
            del have[_NOTHING]
        missing = {name for name, number in have.items() if number == 0}
        best = max(fitting or left, key=lambda item: len(item.classes & missing))
        left.remove(best)
        taken.append(best)
        for name in best.classes & have.keys():
            have[name] += 1
    return taken


def _smaller(item: Item, ranked: list[Item], taken: list[Item]) -> Item | None:
    """The smallest sample of at least the same classes, else of any that remain."""
    kept = set().union(*(other.classes for other in taken if other is not item))
    free = [other for other in ranked if other not in taken and other.size < item.size]
    alike = [other for other in free if other.classes >= item.classes] or [other for other in free if item.classes - other.classes <= kept]
    return min(alike or free, key=lambda other: (other.size, other.name), default=None)


def _left_out(split: Split, chosen: list[Item], count: int) -> list[str]:
    every = set().union(*(item.classes for item in split.items))
    kept = set().union(*(item.classes for item in chosen))
    notes = []
    if len(chosen) < count:
        notes.append(f"{split.name}: there are only {len(chosen)} samples")
    if every - kept:
        lost = sorted(every - kept)
        more = f", {', '.join(lost[:5])}{' …' if len(lost) > 5 else ''} are left out"  # noqa: PLR2004 - what a line holds
        notes.append(f"{split.name}: {len(kept)} of {len(every)} classes are kept{more}")
    return notes


# -- files -------------------------------------------------------------------------------------------------------------------------


def _write(source: Source, chosen: dict[str, list[Item]], out: Path) -> None:
    """Copy the samples, and write annotations and lists that name these alone."""
    out.mkdir(parents=True)
    for items in chosen.values():
        for item in items:
            for name in item.files:
                (out / name).parent.mkdir(parents=True, exist_ok=True)
                if not (out / name).exists():
                    shutil.copyfile(source.root / name, out / name)
    for split in source.splits:
        items = chosen[split.name]
        if source.form == "list":
            file, lines = split.about
            _text(out / file, "".join(f"{lines[item.name]}\n" for item in _in_order(split, items)))
        elif source.form == "coco":
            _cut_coco(split, items, out)
        elif source.form == "voc":
            _cut_voc(source, split, items, out)


def _in_order(split: Split, items: list[Item]) -> list[Item]:
    names = {item.name for item in items}
    return [item for item in split.items if item.name in names]


def _text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="surrogateescape", newline="\n")


def _cut_coco(split: Split, items: list[Item], out: Path) -> None:
    """The annotations of the images that are kept; categories stay whole."""
    file, table, ids = split.about
    kept = {ids[item.name] for item in items}
    cut = {
        **table,
        "images": [image for image in table["images"] if image["id"] in kept],
        "annotations": [each for each in table["annotations"] if each["image_id"] in kept],
    }
    _text(out / file, json.dumps(cut, ensure_ascii=False, separators=(",", ":")) + "\n")


def _cut_voc(source: Source, split: Split, items: list[Item], out: Path) -> None:
    """Every list of the image sets, cut to the samples that are kept."""
    lists = source.root / split.about / "ImageSets"
    kept = {Path(item.name).stem for item in items}
    for file in sorted(lists.rglob("*.txt")) if lists.is_dir() else []:
        if file.stem != split.name and not file.stem.endswith(f"_{split.name}"):
            continue
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.split() and line.split()[0] in kept]
        _text(out / file.relative_to(source.root), "".join(f"{line}\n" for line in lines))


def _manifest(source: Source, chosen: dict[str, list[Item]], out: Path, how: dict[str, Any]) -> dict[str, dict[str, Any]]:
    splits: dict[str, dict[str, Any]] = {}
    for split in source.splits:
        classes: dict[str, int] = {}
        for item in chosen[split.name]:
            for name in sorted(item.classes):
                classes[name] = classes.get(name, 0) + 1
        splits[split.name] = {"samples": len(chosen[split.name]), "of": len(split.items), "classes": dict(sorted(classes.items()))}
    files = {
        path.relative_to(out).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in sorted(out.rglob("*"))
        if path.is_file()
    }
    table = {"format": FORMAT, **how, "splits": splits, "files": files}
    _text(out / MANIFEST, json.dumps(table, indent=1, ensure_ascii=False) + "\n")
    return splits


def _pack(folder: Path, archive: Path) -> None:
    """An archive that is always the same: names in order, no times, no owners."""
    with tarfile.open(archive, "x", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            info = tarfile.TarInfo(f"{folder.name}/{path.relative_to(folder).as_posix()}")
            data = path.read_bytes()
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
