"""``paralign scan``: calls told from source, judged, counted and shown; hostile files give rows; no framework is needed."""

from __future__ import annotations

import json
import time

import pytest

from paralign.cli import main
from paralign.errors import EnvironmentUnavailable, UsageError
from paralign.port.scan.inventory import Category, Status
from paralign.port.scan.scanning import ask, category, scan
from paralign.port.sources.texts import decoded

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nimport functools\n"


def scanned(tmp_path, source, name="program.py"):
    path = tmp_path / name
    path.write_text(source)
    return scan([path])


def rows(tmp_path, source, head=HEAD):
    return [row for row in scanned(tmp_path, head + source).rows if row.form.value != "reference"]


def names(tmp_path, source, head=HEAD):
    return [row.name for row in rows(tmp_path, source, head)]


@pytest.mark.parametrize(
    "source",
    [
        "torch.nn.AvgPool2d(3, 2, padding=1)",
        "nn.AvgPool2d(3, 2, 1)",
        "from torch.nn import AvgPool2d as P\nP(3, 2, 1)",
        "from torch.nn import *\nAvgPool2d(3, 2, 1)",
        "from torch import nn as layers\nlayers.AvgPool2d(3, 2, 1)",
        "import torch as t\nt.nn.AvgPool2d(3, 2, 1)",
        "from torch.nn.modules.pooling import AvgPool2d\nAvgPool2d(3, 2, 1)",
        "pool = nn.AvgPool2d\npool(3, 2, 1)",
        "def make(pool=nn.AvgPool2d):\n    return pool(3, 2, 1)",
        "functools.partial(nn.AvgPool2d, 3, 2, padding=1)",
        "POOLS = {'avg': nn.AvgPool2d}\nPOOLS['avg'](3, 2, 1)",
        "POOLS = dict(avg=nn.AvgPool2d)\nnn.AvgPool2d(3, 2, 1)",
        "getattr(nn, 'AvgPool2d')(3, 2, 1)",
        "nn.__dict__['AvgPool2d'](3, 2, 1)",
        "build(dict(type='AvgPool2d', kernel_size=3, padding=1))",
        "build({'type': 'AvgPool2d', 'kernel_size': 3, 'padding': 1})",
        "class P(nn.AvgPool2d):\n    def __init__(self):\n        super().__init__(3, 2, 1)",
        "import importlib\nimportlib.import_module('torch.nn').AvgPool2d(3, 2, 1)",
        "(nn.MaxPool2d if top else nn.AvgPool2d)(3, 2, 1)",
        "try:\n    from torch.nn import AvgPool2d\nexcept ImportError:\n    AvgPool2d = None\nAvgPool2d(3, 2, 1)",
        "[p(3, 2, 1) for p in (nn.AvgPool2d,)]",
        "make = lambda: nn.AvgPool2d(3, 2, 1)",
    ],
)
def test_a_call_is_told_however_it_is_written(tmp_path, source):
    found = [row for row in rows(tmp_path, source) if row.name == "torch.nn.AvgPool2d"]
    assert found
    assert any(row.has(Status.SILENT) or row.has(Status.CONDITIONAL) for row in found)


def test_a_partial_gives_its_arguments_to_the_call(tmp_path):
    found = rows(tmp_path, "norm = functools.partial(nn.BatchNorm2d, momentum=0.01)\nnorm(64)")
    assert [(row.form.value, row.status.value) for row in found] == [("partial", "silent"), ("call", "silent")]
    assert "momentum=0.99" in found[1].notes[0].write


METHODS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(3))
    def forward(self, x, index):
        y = self.fc(x)
        return y.gather(1, index).softmax(-1), unheard.masked_fill(y > 0, 1), text.split(",")
def annotated(x: torch.Tensor, y: "torch.Tensor | None" = None):
    return x.median() + y.max(0)[0]
def train(model, optimizer, unknown):
    optimizer.step()
    model.load_state_dict(unknown.read())
"""


def test_methods_are_told_by_types_and_guesses_are_said(tmp_path):
    found = {row.name: row for row in rows(tmp_path, METHODS)}
    assert found["torch.Tensor.gather"].certainty.value == "inferred"
    assert found["torch.Tensor.masked_fill"].certainty.value == "guessed"
    assert found["torch.nn.Module.register_buffer"].certainty.value == "inferred"
    assert found["torch.optim.Optimizer.step"].certainty.value == "guessed"
    assert found["torch.nn.Module.load_state_dict"].certainty.value == "guessed"
    assert found["torch.Tensor.median"].status is Status.SILENT
    assert found["torch.Tensor.max"].status is Status.SILENT
    assert not any("read" in name for name in found)


def test_methods_of_unknown_objects_are_counted(tmp_path):
    found = scanned(tmp_path, HEAD + "thing.split(2)\nthing.frobnicate()\n")
    assert (found.rows, found.files[0].ambiguous) == ([], 1)


def test_without_a_framework_nothing_is_guessed(tmp_path):
    assert scanned(tmp_path, "x.masked_fill(y, 1)\nx.split(2)\n").files[0].ambiguous == 0


def test_names_go_from_file_to_file(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "__init__.py").write_text("from .common import *\n")
    (tmp_path / "models" / "common.py").write_text(
        "import torch.nn as nn\nfrom torch.nn import functional as F\nPool = nn.AvgPool2d\nclass Base(nn.Module):\n    pass\n"
    )
    (tmp_path / "models" / "net.py").write_text(
        "from .common import nn, Pool, Base\nfrom models import F\nPool(3, 2, 1)\nnn.Linear(2, 2)\nclass Net(Base):\n    def forward(self, x):\n        return F.relu(x).median()\n"
    )
    found = [row.name for row in scan([tmp_path]).rows if row.path.endswith("net.py")]
    assert sorted(found) == ["torch.Tensor.median", "torch.nn.AvgPool2d", "torch.nn.Linear", "torch.nn.functional.relu"]


def test_files_that_import_one_another_in_a_circle_are_read(tmp_path):
    (tmp_path / "a.py").write_text("from b import *\nimport torch\ntorch.abs(x)\n")
    (tmp_path / "b.py").write_text("from a import *\ntorch.neg(x)\n")
    assert "torch.abs" in [row.name for row in scan([tmp_path]).rows]


def test_what_is_made_at_run_time_is_unknown_and_never_dropped(tmp_path):
    found = rows(tmp_path, "getattr(nn, kind)(3)\ntorch.no_such_call(1)\n")
    assert [(row.name, row.status.value) for row in found] == [("torch.nn.?", "unknown"), ("torch.no_such_call", "unknown")]


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("torch.abs(x)", Status.SAME),
        ("nn.GELU()", Status.SAME),
        ("nn.SiLU()", Status.RENAMED),
        ("nn.AvgPool2d(3, 2)", Status.RENAMED),
        ("nn.AvgPool2d(3, 2, padding=1, count_include_pad=False)", Status.ARGUMENTS),
        ("nn.AvgPool2d(3, 2, padding=p)", Status.CONDITIONAL),
        ("nn.AvgPool2d(*sizes)", Status.CONDITIONAL),
        ("nn.AvgPool2d(3, 2, padding=1)", Status.SILENT),
        ("nn.BatchNorm2d(8, eps=1e-3)", Status.ARGUMENTS),
        ("nn.BatchNorm2d(8, eps=1e-3, momentum=0.01)", Status.SILENT),
        ("nn.Linear(3, 4, bias=False)", Status.ARGUMENTS),
        ("nn.ReLU(inplace=True)", Status.ARGUMENTS),
        ("nn.CrossEntropyLoss()", Status.CONDITIONAL),
        ("nn.utils.rnn.pack_padded_sequence(x, n)", Status.MISSING),
        ("nn.RMSNorm(8)", Status.MISSING),
        ("torch.optim.Adadelta(p)", Status.SILENT),
        ("torch.optim.SGD(p, 0.1, momentum=0.9)", Status.SILENT),
        ("torch.optim.lr_scheduler.StepLR(o, 3)", Status.ARGUMENTS),
        ("F.grid_sample(x, g)", Status.SILENT),
        ("F.grid_sample(x, g, align_corners=False)", Status.SAME),
        ("F.softmax(x, dim=1)", Status.SAME),
        ("F.softmax(x)", Status.SILENT),
        ("torch.linspace(0, 1, 5)", Status.SAME),
        ("torch.max(x)", Status.SAME),
        ("torch.max(x, 1)", Status.SILENT),
    ],
)
def test_each_status(tmp_path, source, status):
    assert rows(tmp_path, source)[0].status is status


def test_a_signature_that_names_no_argument_refuses_none(tmp_path):
    notes = [note.text for note in rows(tmp_path, "nn.GRU(3, 4, batch_first=True, bidirectional=True)")[0].notes]
    assert not [text for text in notes if text.startswith(("neither", "several numbers"))]
    assert "Paddle has no argument batch_first" in notes


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("betas=(0.9, 0.98)", "beta1=0.9, beta2=0.98"),
        ("betas=[b, 1 - b]", "beta1=b, beta2=1 - b"),
        ("betas=settings.betas", "beta1=settings.betas[0], beta2=settings.betas[1]"),
        ("betas=(0.9,)", ""),
        ("fused=True", "without fused"),
    ],
)
def test_an_argument_that_paddle_has_in_other_parts_says_them(tmp_path, given, written):
    (note,) = [each for each in rows(tmp_path, f"torch.optim.Adam(p, {given})")[0].notes if given.partition("=")[0] in each.text]
    assert note.write == written


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("paddle.nn.AvgPool2D(3, 2, padding=1)", Status.SILENT),
        ("paddle.nn.AvgPool2D(3, 2, padding=1, exclusive=False)", Status.SAME),
        ("paddle.nn.AvgPool2D(3, 2)", Status.SAME),
        ("paddle.nn.functional.grid_sample(x, g)", Status.SILENT),
        ("paddle.nn.BatchNorm2D(8, momentum=0.1)", Status.CONDITIONAL),
        ("paddle.optimizer.Adadelta(parameters=p)", Status.SILENT),
        ("paddle.optimizer.Adadelta(1.0, rho=0.9, parameters=p)", Status.SAME),
        ("paddle.nn.NoSuchLayer()", Status.MISSING),
        ("paddle.nn.Linear(3, 4, bias=False)", Status.ARGUMENTS),
    ],
)
def test_a_port_is_scanned_for_defaults_that_are_not_pytorchs(tmp_path, source, status):
    assert rows(tmp_path, source, "import paddle\n")[0].status is status


def test_libraries_are_listed_where_data_is_prepared(tmp_path):
    source = "import numpy as np, cv2\nfrom PIL import Image\nclass Flip:\n    def __call__(self, x):\n        return cv2.flip(np.asarray(Image.open(x)), 1)\ndef other(x):\n    return np.abs(x)\n"
    found = scanned(tmp_path, source)
    assert sorted(row.name for row in found.rows) == ["PIL.Image.open", "cv2.flip", "numpy.asarray"]
    assert {row.category for row in found.rows} == {Category.DATA}
    assert found.files[0].outside == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch.add", "tensor"), ("torch.utils.data.DataLoader", "data"), ("torch.nn.Conv2d", "network"), ("torch.nn.CrossEntropyLoss", "loss"),
        ("torch.nn.functional.mse_loss", "loss"), ("torch.optim.Adam", "optimizer"), ("torch.nn.parallel.DistributedDataParallel", "distributed"),
        ("paddle.optimizer.lr.StepDecay", "optimizer"), ("torchvision.transforms.Resize", "data"), ("torchvision.models.resnet18", "network"),
    ],
)  # fmt: skip
def test_categories_are_the_guides(name, expected):
    assert category(name).value == expected


NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": ["# title"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "!pip install torch\n", "import torch\n"]},
        {"cell_type": "code", "source": "for i in range(3):\n    %time torch.abs(i)\n    torch.exp2(i)\n"},
        {"cell_type": "code", "source": ["%%bash\n", "echo torch.neg(1)"]},
    ],
    "nbformat": 4,
}


def test_notebooks_are_read_cell_by_cell(tmp_path):
    found = scanned(tmp_path, json.dumps(NOTEBOOK), "book.ipynb")
    assert [(row.name, row.cell, row.line) for row in found.rows] == [("torch.exp2", 2, 3)]
    assert found.rows[0].place.endswith("book.ipynb:cell 2:3")


HOSTILE = {
    "empty.py": b"",
    "nulls.py": b"import torch\n\0torch.abs(1)\n",
    "binary.py": bytes(range(256)) * 10,
    "latin.py": "# -*- coding: latin-1 -*-\n# é\nimport torch\ntorch.abs(1)\n".encode("latin-1"),
    "wrong_cookie.py": b"# -*- coding: no-such-encoding -*-\nimport torch\ntorch.abs(1)\n",
    "undeclared.py": "# é\nimport torch\ntorch.abs(1)\n".encode("gbk"),
    "utf16.py": "import torch\ntorch.abs(1)\n".encode("utf-16"),
    "bom.py": b"\xef\xbb\xbfimport torch\ntorch.abs(1)\n",
    "python2.py": b"import torch\nprint 'x'\ntorch.abs(1)\n",
    "tabs.py": b"import torch\ndef f():\n\tif x:\n        y\ntorch.abs(1)\n",
    "marks.py": b"import torch\n>>>>>>> theirs\ntorch.abs(1)\n",
    "cut.py": b"import torch\ntorch.abs(1)\ndef f(x, \n",
    "mac.py": b"import torch\rtorch.abs(1)\r",
    "deep.py": b"import torch\nx = " + b"(" * 5000 + b")" * 5000 + b"\ntorch.abs(1)\n",
    "deep_sum.py": b"import torch\nx = " + b"1 + " * 20000 + b"1\ntorch.abs(1)\n",
    "deep_calls.py": b"import torch\nx = " + b"f(" * 150 + b")" * 150 + b"\ny = a" + b".b()" * 3000 + b"\ntorch.abs(1)\n",
    "nested.py": b"import torch\n" + b"".join(b" " * i + b"if x:\n" for i in range(90)) + b" " * 90 + b"pass\ntorch.abs(1)\n",
    "surrogate.py": b"import torch\nx = '\\ud800'\ntorch.abs(1)\n",
    "bad.ipynb": b"{not json",
    "list.ipynb": b"[]",
    "odd.ipynb": b'{"cells": [3, null, {"cell_type": "code", "source": 5}]}',
    "recursion.ipynb": b"[" * 100000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_any_file_gives_a_row(tmp_path, name):
    (tmp_path / name).write_bytes(HOSTILE[name])
    found = scan([tmp_path])
    assert len(found.files) == 1
    silent = name in ("empty.py", "binary.py") or name.endswith(".ipynb")
    assert silent or "torch.abs" in [row.name for row in found.rows] or found.files[0].lost
    broken = ("python2.py", "tabs.py", "marks.py", "cut.py", "deep.py", "bad.ipynb", "list.ipynb", "odd.ipynb", "recursion.ipynb")
    assert bool(found.files[0].problem) == (name in broken) or name in (
        "binary.py",
        "nulls.py",
        "deep_sum.py",
        "deep_calls.py",
        "nested.py",
    )


def test_what_can_be_read_of_a_broken_file_is_read(tmp_path):
    found = scanned(tmp_path, "import torch\nprint 'x'\ntorch.abs(1)\n")
    assert [row.name for row in found.rows] == ["torch.abs"]
    assert (found.rows[0].line, found.files[0].lost) == (3, 1)
    assert "line 2" in found.files[0].problem


def test_names_with_control_characters_do_not_reach_the_terminal(tmp_path, capsys):
    folder = tmp_path / "a\x1b[2Jb"
    folder.mkdir()
    (folder / "x.py").write_text("import torch\ntorch.exp2(1)\nprint 'x'\n")
    for form in ([], ["--markdown"], ["--json"], ["--sarif"], ["-v"]):
        main(["scan", str(folder), *form])
        assert "\x1b" not in capsys.readouterr().out


def test_encodings():
    assert decoded("é".encode("gbk"))[1].endswith("read as Latin-1")
    assert decoded(b"x\r\ny")[0] == "x\ny"


def test_paths_that_are_not_there(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        scan([tmp_path / "gone"])
    with pytest.raises(UsageError, match="no source file"):
        scan([tmp_path])


def test_hidden_and_foreign_folders_are_left_out(tmp_path):
    for name in (".git", "__pycache__", "site-packages", "src"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.py").write_text("import torch\ntorch.abs(1)\n")
    assert [each.path for each in scan([tmp_path]).files] == [str(tmp_path / "src" / "x.py")]


@pytest.mark.parametrize("python", ["/bin/false", "/bin/echo", "no-such-interpreter"])
def test_an_interpreter_without_paddle_is_refused(python):
    with pytest.raises(EnvironmentUnavailable):
        ask(python)


def test_exit_codes(tmp_path, capsys):
    path = tmp_path / "x.py"
    path.write_text(HEAD + "nn.AvgPool2d(3, 2, 1)\n")
    assert main(["scan", str(path)]) == 0
    assert main(["scan", str(path), "--fail-on", "silent,missing"]) == 1
    assert "--fail-on silent,missing: 1 call" in capsys.readouterr().err
    assert main(["scan", str(path), "--fail-on", "missing"]) == 0
    assert main(["scan", str(path), "--fail-on", "loud"]) == 2
    assert main(["scan", str(tmp_path / "gone.py")]) == 2
    path.write_text("x = 1\n")
    assert main(["scan", str(path)]) == 4
    path.write_text("x = = 1\n")
    assert main(["scan", str(path), "--fail-on", "unread"]) == 1


def test_a_result_is_never_replaced(tmp_path):
    path = tmp_path / "x.py"
    path.write_text(HEAD + "nn.AvgPool2d(3, 2, 1)\n")
    assert main(["scan", str(path), "--json", "--out", str(tmp_path / "o.json")]) == 0
    assert main(["scan", str(path), "--json", "--out", str(tmp_path / "o.json")]) == 2
    assert json.loads((tmp_path / "o.json").read_text())["statistics"]["status"] == {"silent": 1}


def test_forms_of_the_report(tmp_path, capsys):
    path = tmp_path / "x.py"
    path.write_text(HEAD + "nn.AvgPool2d(3, 2, 1)\nnn.RMSNorm(3)\nnn.GELU()\n")
    main(["scan", str(path), "--sarif"])
    log = json.loads(capsys.readouterr().out)
    result = log["runs"][0]["results"][0]
    assert (log["version"], result["ruleId"], result["level"], result["locations"][0]["physicalLocation"]["region"]["startLine"]) == (
        "2.1.0",
        "silent",
        "error",
        5,
    )
    main(["scan", str(path), "--json"])
    calls = json.loads(capsys.readouterr().out)["calls"]
    assert [(each["name"], each["status"], each["basis"]) for each in calls] == [
        ("torch.nn.AvgPool2d", "silent", "executed"),
        ("torch.nn.RMSNorm", "missing", "signatures"),
        ("torch.nn.GELU", "same", "executed"),
    ]
    main(["scan", str(path), "--markdown"])
    page = capsys.readouterr().out
    assert "| network | 0 | 1 | 1 | 0 | 0 | 0 | 1 |" in page
    assert "# Please add a counterpart of torch.nn.RMSNorm" in page
    main(["scan", str(path)])
    shown = capsys.readouterr().out
    assert "fix: Write exclusive=False, or use paddle.compat.nn.AvgPool2d." in shown
    assert "a table stored with paralign" in shown


def test_large_programs_are_scanned_in_time(tmp_path):
    body = HEAD + "".join(
        f"class Net{i}(nn.Module):\n    def forward(self, x):\n        y = torch.cat([x, x], dim=1)\n        z = y.view(y.size(0), -1)\n        return F.relu(z + {i})\n"
        for i in range(1000)
    )
    for i in range(4):
        (tmp_path / f"m{i}.py").write_text(body)
    start = time.process_time()
    found = scan([tmp_path])
    taken = time.process_time() - start
    lines = sum(each.lines for each in found.files)
    assert len(found.rows) >= 20_000
    assert taken / lines * 100_000 < 40  # the densest program there is: twice the limit of an ordinary one, whose calls are rarer
