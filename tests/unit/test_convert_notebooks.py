"""Notebooks: cells in, cells out; what is no Python stays, what PyTorch has printed goes."""

from __future__ import annotations

import json

import pytest

from paralign.port.drafts.converted import convert_code
from paralign.port.edits.ledger import Fate, FileFate

NET = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = nn.AvgPool2d(3, 2, padding=1)  # the same size

    def forward(self, x):
        return torch.flatten(self.pool(x), 1)"""

CELLS = [
    "%matplotlib inline\n!pip install torch\nimport torch\nfrom torch import nn",
    NET,
    "%%bash\npython -m torch.utils.collect_env",
    "net = Net()\nif True:\n    %time y = net(torch.ones(1, 1, 4, 4))\ntotal = torch.ones(2).sum()\ntotal",
    "cell = nn.LPPool3d(3, 4)",
    "",
    "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\nscheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)\n",
]


def notebook(cells, **more):
    """A notebook of code cells, with text between them."""
    content = []
    for number, source in enumerate(cells):
        content.append({"cell_type": "markdown", "id": f"text{number}", "metadata": {}, "source": [f"# Part {number}\n", "import torch"]})
        content.append({
            "cell_type": "code", "id": f"code{number}", "metadata": {"tags": ["a"]}, "execution_count": 7,
            "outputs": [{"output_type": "stream", "name": "stdout", "text": "tensor(1.)"}], "source": source.splitlines(keepends=True),
        })  # fmt: skip
    return {
        "cells": content,
        "metadata": {"kernelspec": {"name": "python3", "language": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
        **more,
    }


def converted(folder, content):
    (folder / "in.ipynb").write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    ledger = convert_code(folder / "in.ipynb", folder / "out.ipynb")
    out = folder / "out.ipynb"
    return ledger, json.loads(out.read_text(encoding="utf-8")) if out.exists() else None


def test_cells_are_kept_and_converted(tmp_path):
    given = notebook(CELLS)
    ledger, made = converted(tmp_path, given)
    assert [file.fate for file in ledger.files] == [FileFate.CONVERTED]
    assert [cell for cell in made["cells"] if cell["cell_type"] == "markdown"] == [
        each for each in given["cells"] if each["cell_type"] == "markdown"
    ]
    assert {key: value for key, value in made.items() if key != "cells"} == {key: value for key, value in given.items() if key != "cells"}
    code = [cell for cell in made["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None and cell["metadata"] == {"tags": ["a"]} for cell in code)
    texts = ["".join(cell["source"]) for cell in code]
    assert texts[0] == "%matplotlib inline\n!pip install torch\nimport paddle\nfrom paddle import nn"
    assert "nn.AvgPool2D(3, 2, padding=1, exclusive=False)  # the same size" in texts[1]
    assert texts[2] == CELLS[2]
    assert texts[3] == "net = Net()\nif True:\n    %time y = net(torch.ones(1, 1, 4, 4))\ntotal = paddle.ones([2]).sum()\ntotal".replace(
        "[2]", "2"
    )
    assert "in.ipynb:cell 5:1: torch.nn.LPPool3d is not converted" in texts[4]
    assert texts[5] == ""
    assert "_scheduled(optimizer, paddle.optimizer.lr.StepDecay, 3, gamma=0.1)" in texts[6]
    assert "_scheduled" in "".join(texts[1:6])  # defined before it is used


def test_places_of_a_notebook_are_cells_and_lines_of_theirs(tmp_path):
    ledger, _ = converted(tmp_path, notebook(CELLS))
    left = [place for place in ledger.places if place.fate is Fate.BY_HAND]
    assert sorted((place.cell, place.line) for place in left) == [(4, 3), (5, 1)]
    assert any(line.startswith("by hand: in.ipynb:cell 5:1 torch.nn.LPPool3d") for line in ledger.lines())
    said = [(place.cell, place.line, place.fate) for place in ledger.places if place.name == "IPython"]
    assert said == [(1, 2, Fate.UNTOUCHED), (3, 2, Fate.UNTOUCHED), (4, 3, Fate.BY_HAND)]  # they name PyTorch, and stay
    assert json.loads(ledger.to_json())["places"][0]["cell"] == 1


def test_a_line_of_ipython_within_a_text_stays(tmp_path):
    _, made = converted(tmp_path, notebook(['import torch\ntext = """\n%d of\n!\n"""', "x = torch.ones(2)"]))
    assert "".join(made["cells"][1]["source"]) == 'import paddle\ntext = """\n%d of\n!\n"""'


def test_a_source_that_is_one_text_stays_one(tmp_path):
    given = notebook(["import torch"])
    given["cells"][1]["source"] = "import torch\nx = torch.ones(2)"
    _, made = converted(tmp_path, given)
    assert made["cells"][1]["source"].startswith("import paddle\nx = paddle.ones")


def test_a_notebook_without_pytorch_is_copied(tmp_path):
    given = notebook(["x = 1", "%pip list"])
    ledger, made = converted(tmp_path, given)
    assert [file.fate for file in ledger.files] == [FileFate.COPIED]
    assert made == given


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"cells": []}', "old form"),
        ("{", "no notebook"),
        ('{"cells": 3, "nbformat": 4}', "no notebook"),
        (notebook(["import torch\nx = (torch.ones(2),", "torch.ones(3))"]), "cell 1, line"),
        (notebook(["import torch\nx = torch.ones(("]), ""),
        (notebook(["import torch\n#!paralign:cell:1\n%time"]), "a comment that the conversion uses"),
        ({"worksheets": [{"cells": [{"cell_type": "code", "input": "import torch", "language": "python"}]}], "nbformat": 3}, "old form"),
    ],
)
def test_what_cannot_be_taken_apart_is_refused_with_the_reason(tmp_path, content, said):
    ledger, made = converted(tmp_path, content)
    assert [file.fate for file in ledger.files] == [FileFate.REFUSED]
    assert said in ledger.files[0].problem
    assert made is None


@pytest.mark.paddle
def test_the_cells_of_a_converted_notebook_run_one_after_the_other(tmp_path):
    cells = [
        CELLS[0].split("\n", 2)[2],
        CELLS[1],
        "net = Net()\ny = net(torch.ones(1, 1, 4, 4))",
        CELLS[6].replace("net.parameters()", "nn.Linear(2, 2).parameters()"),
    ]
    ledger, made = converted(tmp_path, notebook(cells))
    assert not ledger.left
    space: dict[str, object] = {}
    for cell in made["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "cell", "exec"), space)
    assert space["y"].shape == [1, 4]
    assert space["scheduler"].step_size == 3
