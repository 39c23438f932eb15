"""Twelve real sources converted without a change, and their ports checked: weights and forward.

``python benchmarks/convert_sources.py`` downloads the wheels of three packages (source as data: nothing of them is installed) and prints a
table; ``--only NAME`` takes one source, ``--wheels DIR`` a folder of wheels, ``--keep DIR`` keeps the projects, ``--write FILE`` writes the
table.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "sources"))

from closure import Package

from paralign.api import check_project
from paralign.errors import ParalignError, one_line
from paralign.port.drafts.drafting import draft
from paralign.port.edits.ledger import Fate, FileFate

HERE = Path(__file__).parent
STANDINS = HERE / "sources" / "standins"
PROGRAMS = HERE / "sources" / "programs"

VISION, LANGUAGE, TIMM = "torchvision==0.28.0", "transformers==4.26.1", "timm==0.5.4"


@dataclass(frozen=True)
class Source:
    """One source: a file of a wheel (``package``) or of this repository, what is built of it, and with which inputs."""

    name: str
    package: str
    entry: str
    model: str
    inputs: tuple[str, ...]


_BERT = "BertConfig(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, return_dict=False)"
_GPT2 = "GPT2Config(vocab_size=60, n_positions=24, n_embd=32, n_layer=2, n_head=4, return_dict=False, use_cache=False)"

SOURCES = (
    Source("MobileNetV3", VISION, "torchvision/models/mobilenetv3.py", "vision.models.mobilenetv3:mobilenet_v3_small", ("2x3x64x64",)),
    Source("ResNet-18", VISION, "torchvision/models/resnet.py", "vision.models.resnet:resnet18(num_classes=10)", ("2x3x64x64",)),
    Source("ViT", VISION, "torchvision/models/vision_transformer.py",
           "vit_headed:build", ("2x3x32x32",)),
    Source("Swin", VISION, "torchvision/models/swin_transformer.py",
           "vision.models.swin_transformer:SwinTransformer(patch_size=[4, 4], embed_dim=24, depths=[2, 2], num_heads=[2, 4], "
           "window_size=[4, 4], stochastic_depth_prob=0.1)", ("2x3x64x64",)),
    Source("Swin v2", VISION, "torchvision/models/swin_transformer.py",
           "vision.models.swin_transformer:SwinTransformer(patch_size=[4, 4], embed_dim=24, depths=[2, 2], num_heads=[2, 4], "
           "window_size=[4, 4], block=SwinTransformerBlockV2, downsample_layer=PatchMergingV2)", ("2x3x64x64",)),
    Source("BERT", LANGUAGE, "transformers/models/bert/modeling_bert.py", f"transformers.models.bert.modeling_bert:BertModel({_BERT})",
           ("input_ids=2x12:int64:60", "attention_mask=2x12:int64:2")),
    Source("GPT-2", LANGUAGE, "transformers/models/gpt2/modeling_gpt2.py",
           f"transformers.models.gpt2.modeling_gpt2:GPT2LMHeadModel({_GPT2})",
           ("input_ids=2x12:int64:60",)),
    Source("ConvNeXt", TIMM, "timm/models/convnext.py", "timm.models.convnext:ConvNeXt(depths=(2, 2, 2, 2), dims=(16, 24, 32, 40))",
           ("2x3x64x64",)),
    Source("Informer", "", "informer", "informer_fixed:build", ("2x48x3", "2x48x2:int64:12", "2x36x3", "2x36x2:int64:12")),
    Source("nanoGPT-like", "", "nano_gpt.py", "nano_gpt:GPT(GPTConfig())", ("2x16:int64:48",)),
    Source("U-Net", "", "unet.py", "unet:UNet()", ("2x3x36x44",)),
    Source("U-Net, bilinear", "", "unet.py", "unet:UNet(bilinear=True)", ("2x3x36x44",)),
    Source("detection head", "", "detection_head.py", "detection_head:Detector()", ("2x3x64x64",)),
)  # fmt: skip


@dataclass
class Row:
    """What became of one source."""

    name: str
    files: int = 0
    calls: int = 0
    by_hand: int = 0
    refused: int = 0
    weights: str = ""
    forward: str = ""
    note: str = ""


def wheel(requirement: str, folder: Path) -> Path:
    """The wheel of a requirement, downloaded where the folder lacks it."""
    name, _, version = requirement.partition("==")
    found = sorted(folder.glob(f"{name}-{version}-*.whl"))
    if not found:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), requirement], check=True)
        found = sorted(folder.glob(f"{name}-{version}-*.whl"))
    return found[0]


def laid_out(source: Source, wheels: Path, folder: Path) -> Path:
    """The source as a folder: the entry and all that it imports."""
    if source.package:
        files = Package(wheel(source.package, wheels), STANDINS).closure(source.entry)
    elif source.entry.endswith(".py"):
        files = {source.entry: (PROGRAMS / source.entry).read_bytes()}
    else:
        root = HERE.parent / "examples" / "informer" / "reference"
        files = {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted((root / source.entry).rglob("*.py"))}
    module = source.model.partition(":")[0]
    if (PROGRAMS / f"{module}.py").is_file():
        files[f"{module}.py"] = (PROGRAMS / f"{module}.py").read_bytes()
    for name, content in files.items():
        path = folder / name.replace("torchvision/", "vision/", 1)  # an installed package would go before
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def measured(source: Source, wheels: Path, folder: Path) -> Row:
    """Convert one source and check the port."""
    row = Row(source.name)
    tree = laid_out(source, wheels, folder / "source")
    try:
        made = draft(tree, folder / "project", source.model, source.inputs)
        counts = made.ledger.counts()
        row.files, row.calls, row.by_hand = len(made.ledger.files), sum(counts.values()), counts[Fate.BY_HAND]
        row.refused = sum(each.fate is FileFate.REFUSED for each in made.ledger.files)
        result, _ = check_project(made.folder)
    except ParalignError as error:
        row.note = one_line(str(error))[:300]
        return row
    row.weights, row.forward = result["weights"].verdict, result["forward"].verdict
    if row.forward != "aligned":
        said = [str(stage.failure or stage.divergence or stage.notes) for stage in result.stages if stage.verdict != "aligned"]
        row.note = one_line(" ".join(said))[:600]
    return row


def table(rows: list[Row]) -> str:
    """The table in Markdown."""
    lines = ["| source | files | uses of PyTorch | left by hand | files refused | weights | forward |", "|---|---|---|---|---|---|---|"]
    lines += [
        f"| {r.name} | {r.files} | {r.calls} | {r.by_hand} | {r.refused} | {r.weights or 'failed'} | {r.forward or 'failed'} |"
        for r in rows
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Convert, check, report; 1 where a port is not aligned."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", action="append", default=[], help="names that begin so")
    options.add_argument("--wheels", type=Path)
    options.add_argument("--keep", type=Path)
    options.add_argument("--write", type=Path)
    chosen = options.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        wheels, projects = chosen.wheels or Path(temporary, "wheels"), chosen.keep or Path(temporary, "projects")
        for number, source in enumerate(SOURCES):
            if chosen.only and not source.name.startswith(tuple(chosen.only)):
                continue
            rows.append(measured(source, wheels, projects / str(number)))
            print(rows[-1], flush=True)
    print(table(rows))
    if chosen.write:
        chosen.write.write_text(table(rows), encoding="utf-8")
    return int(any(row.forward != "aligned" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
