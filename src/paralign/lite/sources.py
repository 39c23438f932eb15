"""What a small set is drawn from: folders, COCO, VOC or lists, read as samples."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from paralign.capture.bounds import near
from paralign.errors import UsageError, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

#: endings of files that are samples where nothing but a folder says so
IMAGES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".npy"})

#: names of folders and lists that are splits
SPLITS = ("train", "val", "valid", "validation", "test")

#: bytes of one file of annotations: four times the largest of COCO
LARGEST = 2 << 30


@dataclass(frozen=True)
class Item:
    """One sample: its files (the first is the sample itself), and its classes."""

    name: str
    files: tuple[str, ...]
    classes: frozenset[str]
    size: int


@dataclass
class Split:
    """The samples of one split; ``about`` is what is needed to write its annotations again."""

    name: str
    items: list[Item]
    about: Any = None


@dataclass
class Source:
    """A data set to draw from: ``folder``, ``coco``, ``voc`` or ``list``; its splits."""

    form: str
    root: Path
    splits: list[Split] = field(default_factory=list)


def read(root: Path, form: str, lists: list[Path]) -> Source:
    """The samples of a data set.

    Args:
        root: its folder.
        form: ``auto`` finds it out.
        lists: files of lines ``path class``, below or beside ``root``; with these the form is ``list``.

    Raises:
        UsageError: nothing of that form is there; an annotation names a file that is not there or lies outside.
    """
    if not root.is_dir():
        raise UsageError(f"the data set is no folder{near(root)}", where=str(root), hint="name the folder that the data lies in")
    guessed = form == "auto"
    if guessed:
        form = _form(root, lists)
    splits = {"list": lambda: _lists(root, lists), "coco": lambda: _coco(root), "voc": lambda: _voc(root), "folder": lambda: _folder(root)}
    found = Source(form, root, [split for split in splits[form]() if split.items])
    if not found.splits:
        wanted = {
            "folder": f"files ending in {', '.join(sorted(IMAGES))}",
            "coco": "annotations/*.json with images",
            "voc": "ImageSets/Main/*.txt with Annotations/*.xml",
            "list": "lines `path class`",
        }
        if guessed and form == "folder":
            raise UsageError(
                "this is no data set of a known form: neither images in folders, nor COCO or VOC annotations",
                where=str(root),
                hint=f"images are {wanted['folder']}; COCO: {wanted['coco']}; VOC: {wanted['voc']}; for lists of {wanted['list']}, name "
                "them with --list",
            )
        raise UsageError(
            f"there are no samples of the form {form!r}", where=str(root), hint=f"expected {wanted[form]}; --form names another"
        )
    return found


def _form(root: Path, lists: list[Path]) -> str:
    if lists:
        return "list"
    if _voc_root(root) is not None:
        return "voc"
    if any(_json_files(root)):
        return "coco"
    return "folder"


def inside(root: Path, name: str, where: Path) -> Path:
    """The file that an annotation names.

    Raises:
        UsageError: it lies outside the data set, or is not there.
    """
    parts = PurePosixPath(name)
    if parts.is_absolute() or ".." in parts.parts or "\0" in name:
        raise UsageError(
            f"{quoted(name)} lies outside the data set", where=str(where), hint="draw from data whose names stay below its folder"
        )
    path = root / name
    if not path.is_file():
        raise UsageError(f"{quoted(name)} is not there", where=str(where), hint=f"it was looked for below {root}")
    return path


def _item(root: Path, paths: list[Path], classes: set[str]) -> Item:
    names = tuple(path.relative_to(root).as_posix() for path in paths)
    return Item(names[0], names, frozenset(classes), sum(path.stat().st_size for path in paths))


# -- folders -----------------------------------------------------------------------------------------------------------------------


def _folder(root: Path) -> Iterator[Split]:
    named = [root / name for name in SPLITS if (root / name).is_dir()]
    for folder in named or [root]:
        items = []
        for path in sorted(folder.rglob("*")):
            below = path.relative_to(folder).parts
            if path.suffix.lower() in IMAGES and path.is_file() and not any(part.startswith(".") for part in below):
                items.append(_item(root, [path], {below[0]} if len(below) > 1 else set()))
        yield Split(folder.name if named else "all", items)


# -- lists -------------------------------------------------------------------------------------------------------------------------


def _lists(root: Path, lists: list[Path]) -> Iterator[Split]:
    if not lists:
        lists = sorted(path for path in root.glob("*.txt") if path.is_file())
    for file in lists:
        if not file.is_file():
            raise UsageError("the list is not there", where=str(file), hint="name a file of lines `path class`")
        items, lines = [], {}
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="surrogateescape").splitlines(), 1):
            if not line.strip():
                continue
            parts = re.split(r"[\s,]+", line.strip())
            item = _item(root, [inside(root, parts[0], Path(f"{file}:{number}"))], set(parts[1:2]))
            items.append(item)
            lines[item.name] = line
        name = next((split for split in SPLITS if split in file.stem.lower()), file.stem)
        yield Split(name, items, (file.name, lines))


# -- COCO --------------------------------------------------------------------------------------------------------------------------


def _json_files(root: Path) -> Iterator[Path]:
    for folder in (root / "annotations", root):
        if folder.is_dir():
            yield from sorted(path for path in folder.glob("*.json") if path.name != "manifest.json")


def _coco(root: Path) -> Iterator[Split]:
    for file in _json_files(root):
        if file.stat().st_size > LARGEST:
            raise UsageError(f"the annotations have more than {LARGEST:,} bytes", where=str(file), hint="cut them first")
        try:
            table = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as fault:
            raise UsageError(f"the annotations are no JSON: {fault}", where=str(file), hint="repair or leave out this file") from fault
        if isinstance(table, dict) and isinstance(table.get("images"), list) and isinstance(table.get("annotations"), list):
            yield _coco_split(root, file, table)


def _coco_split(root: Path, file: Path, table: dict[str, Any]) -> Split:
    try:
        names = {c["id"]: str(c.get("name", c["id"])) for c in table.get("categories", [])}
        classes: dict[Any, set[str]] = {}
        for annotation in table["annotations"]:
            kind = annotation.get("category_id")
            classes.setdefault(annotation["image_id"], set()).update({names.get(kind, str(kind))} if kind is not None else set())
        images = [(image["id"], str(image["file_name"])) for image in table["images"]]
    except (KeyError, TypeError, AttributeError) as fault:
        told = f"an image, annotation or category lacks {fault}"
        raise UsageError(told, where=str(file), hint="COCO needs id, file_name, image_id and category_id") from fault
    folder = _image_folder(root, file, images)
    items, ids = [], {}
    for identity, name in images:
        item = _item(root, [inside(folder, name, file)], classes.get(identity, set()))
        items.append(item)
        ids[item.name] = identity
    split = next((s for s in SPLITS if s in file.stem.lower()), file.stem)
    return Split(split, items, (file.relative_to(root).as_posix(), table, ids))


def _image_folder(root: Path, file: Path, images: list[tuple[Any, str]]) -> Path:
    """The folder that the first image lies in: that of the split, ``images``, or any other."""
    if not images:
        return root
    first = images[0][1]
    stem = re.sub(r"^(instances|captions|person_keypoints|annotations?)_?", "", file.stem)
    near = [root / stem, root / "images" / stem, root / "images", root]
    near += sorted(path for path in root.iterdir() if path.is_dir())
    for folder in near:
        if ".." not in PurePosixPath(first).parts and (folder / first).is_file():
            return folder
    raise UsageError(
        f"{quoted(first)} is not there", where=str(file), hint=f"it was looked for in {', '.join(p.name or '.' for p in near)} of {root}"
    )


# -- VOC ---------------------------------------------------------------------------------------------------------------------------


def _voc_root(root: Path) -> Path | None:
    for folder in (root, *sorted(root.glob("VOC*")), *sorted(root.glob("VOCdevkit/VOC*"))):
        if (folder / "Annotations").is_dir() and (folder / "JPEGImages").is_dir():
            return folder
    return None


_NAME = re.compile(r"<object>.*?<name>\s*([^<]{1,100}?)\s*</name>", re.DOTALL)

#: folders beside the images that hold a file of the same stem
_MASKS = ("SegmentationClass", "SegmentationObject")


def _voc(root: Path) -> Iterator[Split]:
    folder = _voc_root(root)
    if folder is None:
        return
    pictures = {path.stem: path for path in sorted((folder / "JPEGImages").iterdir()) if path.suffix.lower() in IMAGES}
    lists = sorted((folder / "ImageSets" / "Main").glob("*.txt")) if (folder / "ImageSets" / "Main").is_dir() else []
    splits = [file for file in lists if file.stem in SPLITS]
    for file in splits:
        names = [line.split()[0] for line in file.read_text(encoding="utf-8").splitlines() if line.split()]
        yield Split(file.stem, [_voc_item(root, folder, name, pictures, file) for name in names], folder.relative_to(root).as_posix())
    if not splits:
        items = [_voc_item(root, folder, name, pictures, folder) for name in pictures]
        yield Split("all", items, folder.relative_to(root).as_posix())


def _voc_item(root: Path, folder: Path, name: str, pictures: dict[str, Path], where: Path) -> Item:
    if name not in pictures:
        raise UsageError(f"{quoted(name)} has no image in JPEGImages", where=str(where), hint="correct the list, or add the image")
    annotation = inside(folder / "Annotations", f"{name}.xml", where)
    text = annotation.read_text(encoding="utf-8", errors="replace")
    masks = [path for kind in _MASKS for path in [folder / kind / f"{name}.png"] if path.is_file()]
    return _item(root, [pictures[name], annotation, *masks], set(_NAME.findall(text)))
