"""A small set drawn from folders, lists, COCO and VOC annotations; its manifest, its archive, and data that cannot be drawn from."""

from __future__ import annotations

import json
import re
import tarfile

import pytest

from paralign.cli import main
from paralign.errors import CaptureFormatError, UsageError
from paralign.lite import check_files, draw, read_manifest


def images(root, split="train", classes=5, each=6, size=200):
    for c in range(classes):
        for n in range(each):
            path = root / split / f"class{c}" / f"{n}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes([c, n]) * (size // 2 + n))
    return root


def tree(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_folders_keep_every_class_of_both_splits(tmp_path):
    images(images(tmp_path / "data"), "val", classes=3)
    found = draw(tmp_path / "data", tmp_path / "lite", count=8)
    assert found.splits["train"] == {"samples": 8, "of": 30, "classes": {"class0": 2, "class1": 2, "class2": 2, "class3": 1, "class4": 1}}
    assert sorted(found.splits["val"]["classes"].values()) == [2, 3, 3]
    assert found.notes == []
    assert len(tree(tmp_path / "lite")) == 17  # the manifest too


def test_the_same_call_draws_the_same_bytes_and_another_seed_other_samples(tmp_path):
    images(tmp_path / "data")
    for name in ("one", "two"):
        draw(tmp_path / "data", tmp_path / name / "lite", count=8)
    draw(tmp_path / "data", tmp_path / "three" / "lite", count=8, seed=1)
    first, second, third = (tree(tmp_path / name) for name in ("one", "two", "three"))
    assert first == second
    assert first.keys() != third.keys()


def test_more_classes_than_samples_are_said(tmp_path):
    images(tmp_path / "data", classes=20, each=2)
    found = draw(tmp_path / "data", tmp_path / "lite", count=16)
    assert len(found.splits["train"]["classes"]) == 16
    assert found.notes[0].startswith("train: 16 of 20 classes are kept, class")


def test_the_archive_holds_the_folder_and_nothing_of_the_machine(tmp_path):
    images(tmp_path / "data")
    found = draw(tmp_path / "data", tmp_path / "lite", count=4)
    with tarfile.open(found.archive) as tar:
        members = tar.getmembers()
        assert {m.name for m in members} == {f"lite/{name}" for name in tree(tmp_path / "lite")}
        assert {(m.mtime, m.uid, m.uname, m.mode) for m in members} == {(0, 0, "", 0o644)}
    assert found.bytes == found.archive.stat().st_size


def test_smaller_samples_are_taken_where_bytes_lack_and_classes_stay(tmp_path):
    images(tmp_path / "data", classes=4, each=6, size=100)
    for c in range(4):
        for n in range(3):
            (tmp_path / "data" / "train" / f"class{c}" / f"{n}.jpg").write_bytes(bytes([c]) * 100_000)
    found = draw(tmp_path / "data", tmp_path / "lite", count=8, largest=300_000)
    assert found.bytes <= 300_000
    assert len(found.splits["train"]["classes"]) == 4


def test_samples_that_cannot_fit_are_an_error_with_both_sizes(tmp_path):
    images(tmp_path / "data", size=100_000)
    with pytest.raises(UsageError, match=r"split 'train': 8 samples do not fit into 139,760 bytes; the smallest 8 have 8\d\d,\d\d\d"):
        draw(tmp_path / "data", tmp_path / "lite", count=8, largest=150_000)
    assert not (tmp_path / "lite").exists()


def coco(root, *, file_name="{n}.jpg", images_in="train2017"):
    (root / images_in).mkdir(parents=True)
    table = {"info": {"year": 2017}, "images": [], "annotations": [], "categories": [{"id": c + 1, "name": f"kind{c}"} for c in range(4)]}
    for n in range(12):
        (root / images_in / f"{n}.jpg").write_bytes(bytes([n]) * 50)
        table["images"].append({"id": 100 + n, "file_name": file_name.format(n=n), "width": 4, "height": 4})
        for k in range(n % 3 + 1):
            kind = 4 if n == 7 else 1 + (n + k) % 3
            table["annotations"].append({"id": len(table["annotations"]), "image_id": 100 + n, "category_id": kind, "bbox": [0, 0, 1, 1]})
    (root / "annotations").mkdir()
    (root / "annotations" / "instances_train2017.json").write_text(json.dumps(table))
    return root


@pytest.mark.parametrize("count", [3, 5, 8])
def test_one_picture_without_a_box_is_drawn_after_one_of_every_class(tmp_path, count):
    root = coco(tmp_path / "data")
    path = root / "annotations" / "instances_train2017.json"
    table = json.loads(path.read_text())
    bare = {100, 101, 103, 104}
    table["annotations"] = [each for each in table["annotations"] if each["image_id"] not in bare]
    path.write_text(json.dumps(table))
    draw(root, tmp_path / "lite", count=count)
    drawn = json.loads((tmp_path / "lite" / "annotations" / path.name).read_text())
    images = {each["id"] for each in drawn["images"]}
    kinds = {each["category_id"] for each in drawn["annotations"]}
    assert len(images) == count
    assert len(kinds) == 4 or not images & bare  # classes come first
    assert count < 5 or len(images & bare) >= 1


def test_coco_annotations_are_cut_to_the_images_and_rare_classes_kept(tmp_path):
    draw(coco(tmp_path / "data"), tmp_path / "lite", count=4)
    cut = json.loads((tmp_path / "lite" / "annotations" / "instances_train2017.json").read_text())
    kept = {image["id"] for image in cut["images"]}
    assert len(kept) == 4
    assert 107 in kept  # the one image of its kind
    assert {a["image_id"] for a in cut["annotations"]} == kept
    assert len(cut["categories"]) == 4
    assert cut["info"] == {"year": 2017}
    assert all((tmp_path / "lite" / "train2017" / image["file_name"]).is_file() for image in cut["images"])


def voc(root):
    base = root / "VOC2007"
    for folder in ("JPEGImages", "Annotations", "ImageSets/Main", "SegmentationClass"):
        (base / folder).mkdir(parents=True)
    for n in range(10):
        (base / "JPEGImages" / f"{n:06}.jpg").write_bytes(bytes([n]) * 40)
        names = ["cat", "dog"] if n % 3 else ["bird"]
        objects = "".join(f"<object><name>{name}</name><bndbox/></object>" for name in names)
        (base / "Annotations" / f"{n:06}.xml").write_text(f"<annotation><filename>{n:06}.jpg</filename>{objects}</annotation>")
    (base / "SegmentationClass" / "000000.png").write_bytes(b"mask")
    for split, numbers in (("train", range(7)), ("val", range(7, 10))):
        (base / "ImageSets" / "Main" / f"{split}.txt").write_text("".join(f"{n:06}\n" for n in numbers))
        (base / "ImageSets" / "Main" / f"cat_{split}.txt").write_text("".join(f"{n:06} {1 if n % 3 else -1}\n" for n in numbers))
    return root


def test_voc_lists_annotations_and_masks_are_cut_alike(tmp_path):
    found = draw(voc(tmp_path / "data"), tmp_path / "lite", count=2)
    base = tmp_path / "lite" / "VOC2007"
    kept = (base / "ImageSets" / "Main" / "train.txt").read_text().split()
    assert len(kept) == 2
    assert [line.split()[0] for line in (base / "ImageSets" / "Main" / "cat_train.txt").read_text().splitlines()] == kept
    assert all((base / "Annotations" / f"{name}.xml").is_file() and (base / "JPEGImages" / f"{name}.jpg").is_file() for name in kept)
    assert sorted(found.splits["train"]["classes"]) == ["bird", "cat", "dog"]
    assert found.splits["val"]["samples"] == 2


def test_lists_are_cut_and_keep_their_order(tmp_path):
    images(tmp_path / "data")
    lines = [f"train/class{c}/{n}.jpg {c}" for n in range(6) for c in range(5)]
    (tmp_path / "data" / "train_list.txt").write_text("\n".join(lines) + "\n\n")
    draw(tmp_path / "data", tmp_path / "lite", lists=[tmp_path / "data" / "train_list.txt"], count=5)
    kept = (tmp_path / "lite" / "train_list.txt").read_text().splitlines()
    assert sorted(line.split()[1] for line in kept) == ["0", "1", "2", "3", "4"]
    assert [lines.index(line) for line in kept] == sorted(lines.index(line) for line in kept)


# -- the manifest ------------------------------------------------------------------------------------------------------------------


def test_files_that_changed_went_or_came_are_named(tmp_path, capsys):
    images(tmp_path / "data")
    draw(tmp_path / "data", tmp_path / "lite", count=5)
    assert main(["data", "verify", str(tmp_path / "lite")]) == 0
    changed, gone = sorted((tmp_path / "lite").rglob("*.jpg"))[:2]
    data = changed.read_bytes()
    changed.write_bytes(data[:-1] + b"x")
    gone.unlink()
    (tmp_path / "lite" / "more.jpg").write_bytes(b"1")
    capsys.readouterr()
    assert main(["data", "verify", str(tmp_path / "lite")]) == 1
    out = capsys.readouterr().out
    assert f"other content: {changed.relative_to(tmp_path / 'lite').as_posix()}" in out
    assert "missing: " in out
    assert "not in the manifest: more.jpg" in out
    assert "3 of 5 files are as the manifest says" in out
    assert check_files(read_manifest(tmp_path / "lite"), tmp_path / "lite").total == 5


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "the manifest is no JSON"),
        ("[" * 100_000, "the manifest is no JSON"),
        ('{"format": "other", "files": {"a": {}}}', "no manifest of the format"),
        ('{"format": "paralign-data-1", "files": {"../a": {"sha256": "", "bytes": 1}}}', "not below its folder"),
        ('{"format": "paralign-data-1", "files": {"/a": {"sha256": "", "bytes": 1}}}', "not below its folder"),
        ('{"format": "paralign-data-1", "files": {"a": 3}}', "no hash and size of 'a'"),
    ],
)
def test_files_that_are_no_manifest_are_refused(tmp_path, text, told):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(CaptureFormatError, match=told):
        read_manifest(tmp_path)


# -- data that cannot be drawn from ------------------------------------------------------------------------------------------------


def test_wrong_sources_are_refused_and_nothing_is_overwritten(tmp_path, capsys):
    assert main(["data", "sample", str(tmp_path / "nowhere"), "--out", str(tmp_path / "lite")]) == 2
    (tmp_path / "empty").mkdir()
    assert main(["data", "sample", str(tmp_path / "empty"), "--out", str(tmp_path / "lite")]) == 2
    images(tmp_path / "data")
    assert main(["data", "sample", str(tmp_path / "data"), "--out", str(tmp_path / "data" / "lite")]) == 2
    assert main(["data", "sample", str(tmp_path / "data"), "--out", str(tmp_path / "empty")]) == 2
    err = capsys.readouterr().err
    for told in (
        "the data set is no folder",
        "this is no data set of a known form",
        "would lie inside the data set",
        "it is there already",
    ):
        assert told in err


@pytest.mark.parametrize("name", ["../../secret.jpg", "/etc/passwd", "gone.jpg"])
def test_annotations_that_name_files_outside_or_missing_ones_are_refused(tmp_path, name):
    (tmp_path / "secret.jpg").write_bytes(b"secret")
    with pytest.raises(UsageError, match=r"is not there|outside"):
        draw(coco(tmp_path / "a" / "data", file_name=name), tmp_path / "lite", form="coco")
    (tmp_path / "a" / "data" / "train.txt").write_text(f"{name} 1\n")
    with pytest.raises(UsageError, match=r"is not there|outside"):
        draw(tmp_path / "a" / "data", tmp_path / "lite", form="list", lists=[tmp_path / "a" / "data" / "train.txt"])
    assert not (tmp_path / "lite").exists()


def test_damaged_annotations_are_named(tmp_path):
    root = coco(tmp_path / "data")
    (root / "annotations" / "instances_train2017.json").write_text('{"images": [{"id": 1}], "annotations": []}')
    with pytest.raises(UsageError, match="lacks 'file_name'"):
        draw(root, tmp_path / "lite")
    (root / "annotations" / "instances_train2017.json").write_text("{")
    with pytest.raises(UsageError, match="are no JSON"):
        draw(root, tmp_path / "lite")


# -- in a check --------------------------------------------------------------------------------------------------------------------


READS = """
import numpy as np
from pathlib import Path

class Data:
    def __init__(self):
        self.files = [Path(file) for file in sorted(Path("lite").rglob("*.jpg"))]
    def __len__(self):
        return len(self.files)
    def __getitem__(self, index):
        return np.frombuffer(self.files[index].read_bytes(), np.uint8)[:50], index % 2

def build_dataset(split):
    return Data()
"""


def test_a_check_holds_the_files_of_both_sides_against_the_manifest(project):
    images(project.folder / "data")
    draw(project.folder / "data", project.folder / "lite", count=6)
    for side in ("reference", "candidate"):
        (project.folder / f"{side}.py").write_text(READS)
    toml = project.folder / "paralign.toml"
    toml.write_text(toml.read_text() + '\n[data]\nmanifest = "lite"\n')
    assert project.check("data").code == 0
    notes = project.stage("data")["notes"]
    assert "candidate: 6 files are as the manifest says, it opened 6 of them" in notes
    files = sorted((project.folder / "lite").rglob("*.jpg"))
    changed = files[3]
    changed.write_bytes(changed.read_bytes() + b"x")
    done = project.check("data")
    assert done.code == 1, done.err
    stage = project.stage("data")
    assert [f["rule"] for f in stage["findings"]] == ["data/manifest", "data/manifest"]
    assert changed.name in stage["findings"][0]["cause"]
    changed.unlink()
    readers = {side: (project.folder / f"{side}.py").read_text() for side in ("reference", "candidate")}
    (project.folder / "candidate.py").write_text(
        readers["candidate"].replace('sorted(Path("lite").rglob("*.jpg"))', repr(list(map(str, files))))
    )
    done = project.check("data")  # the side fails, and the manifest says why
    assert done.code == 3
    assert f"1 missing: {changed.relative_to(project.folder / 'lite').as_posix()}" in project.stage("data")["failure"]["message"]
    changed.write_bytes(b"x")
    stray = project.folder / "lite" / "stray.txt"
    stray.write_text("beside")
    (project.folder / "candidate.py").write_text(readers["candidate"].replace("return Data()", "raise KeyError('of its own')"))
    assert project.check("data").code == 3
    assert "1 of other content" in project.stage("data")["failure"]["message"]
    assert "not in the manifest" not in project.stage("data")["failure"]["message"]
    draw(project.folder / "data", project.folder / "again", count=6)
    (project.folder / "again" / "stray.txt").write_text("beside")
    for manifest, text in (
        ("again", None),
        ("nowhere", None),
        ("lite", "{"),
    ):  # all there but a stray file; no manifest; none that can be read
        toml.write_text(re.sub(r'manifest = ".*"', f'manifest = "{manifest}"', toml.read_text()))
        if text is not None:
            (project.folder / manifest / "manifest.json").write_text(text)
        assert project.check("data").code == 3
        failure = project.stage("data")["failure"]
        assert (failure["type"], failure["message"]) == ("KeyError", "'of its own'")
    (project.folder / "candidate.py").write_text(readers["candidate"])
    toml.write_text(toml.read_text().replace('"lite"', '"nowhere"'))
    done = project.check("data")
    assert done.code == 2
    assert "there is no manifest" in done.err
