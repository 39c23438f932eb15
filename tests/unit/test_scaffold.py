"""A project written from the source of a reference repository, which is read and never run."""

from __future__ import annotations

import ast
import re

import pytest

from paralign import cli
from paralign.errors import UsageError
from paralign.run.inputs import make
from paralign.run.project import read
from paralign.scaffold import survey, write
from paralign.scaffold.survey import Kind

FILES = {
    "models/__init__.py": "from .net import Net\n",
    "models/layers.py": "from torch import nn\n\nclass Block(nn.Module):\n    def __init__(self, width, act=nn.ReLU):\n        super().__init__()\n",
    "models/net.py": (
        "import torch.nn as nn\nfrom models.layers import Block\n\n"
        "class Base(nn.Module):\n    pass\n\n"
        "class Net(Base):\n    def __init__(self, classes=10, width=8):\n        super().__init__()\n        self.block = Block(width)\n"
        "    def forward(self, image, mask=None):\n        return image\n"
    ),
    "losses.py": "import torch\n\nclass FocalLoss(torch.nn.Module):\n    def __init__(self, gamma=2.0):\n        super().__init__()\n",
    "data/folder.py": "from torch.utils.data import Dataset\n\nclass Pictures(Dataset):\n    def __init__(self, root, split):\n        pass\n",
    "train.py": (
        "import argparse\nimport torch\nfrom torch import optim\nfrom torch.optim import lr_scheduler as sched\nfrom models import Net\n"
        "parser = argparse.ArgumentParser()\nparser.add_argument('--lr', type=float, default=0.05)\nparser.add_argument('-b', '--batch-size', default=4)\n"
        "args = parser.parse_args()\nraise SystemExit('this file was run')\n"
        "net = Net()\ncriterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)\n"
        "optimizer = optim.SGD(net.parameters(), lr=args.lr, momentum=0.9)\nscheduler = sched.StepLR(optimizer, step_size=30, gamma=0.1)\n"
    ),
    "old.py": "print 'python 2'\n",
    "my-tools/odd.py": "x = 1\n",
    ".git/hook.py": "class Hidden: pass\n",
}


@pytest.fixture
def repository(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "paper-code" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "paper-code"


def test_the_classes_and_calls_are_found_with_their_kinds(repository):
    found = survey(repository)
    assert [each.name for each in found.models] == ["Net", "Base", "Block"]
    assert [each.name for each in found.classes(Kind.LOSS)] == ["FocalLoss"]
    assert [each.name for each in found.classes(Kind.DATASET)] == ["Pictures"]
    uses = {each.kind: (each.name, each.text, each.literal, str(each.place)) for each in found.uses}
    assert uses == {
        Kind.LOSS: ("torch.nn.CrossEntropyLoss", "torch.nn.CrossEntropyLoss(label_smoothing=0.1)", True, "train.py:12"),
        Kind.OPTIMIZER: ("torch.optim.SGD", "optim.SGD(net.parameters(), lr=0.05, momentum=0.9)", True, "train.py:13"),
        Kind.SCHEDULER: ("torch.optim.lr_scheduler.StepLR", "sched.StepLR(optimizer, step_size=30, gamma=0.1)", True, "train.py:14"),
    }
    assert [str(path) for path, _ in found.unread] == ["old.py"]


def test_the_sides_are_filled_in(repository, tmp_path):
    write(tmp_path / "port", survey(repository))
    text = (tmp_path / "port" / "reference.py").read_text()
    functions = {node.name: ast.unparse(node.body[-1]) for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    assert functions == {
        "build_model": "return Net()",
        "loss": "return torch.nn.CrossEntropyLoss(label_smoothing=0.1)(outputs, labels)",
        "build_optimizer": "return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)",
        "build_scheduler": "return torch.optim.lr_scheduler.StepLR(optimizer, step_size=30, gamma=0.1)",
    }
    assert "from models.net import Net" in text
    assert "# def predict(path, model):" in text
    assert "# Pictures(root, split)  data/folder.py:3" in text
    candidate = (tmp_path / "port" / "candidate.py").read_text()
    assert "#     paddle.optimizer.Momentum(…)  # train.py:13" in candidate
    assert "#     paddle.optimizer.lr.StepDecay(…)  # train.py:14" in candidate
    assert [node.name for node in ast.parse(candidate).body if isinstance(node, ast.FunctionDef)] == ["build_model"]


def test_the_ports_tree_mirrors_the_references(repository, tmp_path):
    write(tmp_path / "port", survey(repository))
    tree = {str(path.relative_to(tmp_path / "port" / "port")) for path in (tmp_path / "port" / "port").rglob("*.py")}
    assert tree == {name for name in FILES if name not in ("old.py", ".git/hook.py")}
    text = (tmp_path / "port" / "port" / "models" / "net.py").read_text()
    ast.parse(text)
    assert text.startswith('"""Port of ../paper-code/models/net.py."""\n')
    assert "# class Base(paddle.nn.Layer):  # line 4 of the reference" in text
    assert "#     def forward(self, image, mask=None): ..." in text


def test_the_project_can_be_read_as_it_is(repository, tmp_path):
    write(tmp_path / "port", survey(repository))
    project = read(tmp_path / "port")
    assert project.reference.root == repository
    assert project.candidate.root == tmp_path / "port" / "port"
    assert "image, mask=None" in (tmp_path / "port" / "paralign.toml").read_text()


def test_what_has_to_be_filled_in_says_what(repository, tmp_path):
    write(tmp_path / "port", survey(repository), "Block")
    text = (tmp_path / "port" / "reference.py").read_text()
    assert 'raise NotImplementedError("CHECK: build Block with width")' in text
    assert "# called as: Block(width)" in text
    with pytest.raises(UsageError, match="there is no model class 'Nett'") as caught:
        write(tmp_path / "other", survey(repository), "Nett")
    assert caught.value.hint == "classes: Net, Base, Block"


OWN = """import torch
from torch import optim
from torch.nn import functional as F

def objective(logits, target, weight=1.0):
    return weight * F.cross_entropy(logits, target, weight=torch.ones(3))

def make(net, lr=0.1):
    return optim.SGD([{"params": net.parameters()}], lr=lr)

def schedule(optimizer):
    return optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (n + 1))
"""


def test_functions_of_the_repository_are_called_where_they_take_what_is_given(repository, tmp_path):
    (repository / "train.py").write_text(OWN)
    write(tmp_path / "port", survey(repository))
    text = (tmp_path / "port" / "reference.py").read_text()
    last = {n.name: ast.unparse(n.body[-1]) for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)}
    assert last["loss"] == "return objective(outputs, labels)"
    assert last["build_optimizer"] == "return make(model)"
    assert last["build_scheduler"] == "return schedule(optimizer)"
    assert "    from train import objective\n" in text
    candidate = (tmp_path / "port" / "candidate.py").read_text()
    assert "#     from train import objective\n#     return objective(outputs, labels)  # as train.py of the reference" in candidate


@pytest.mark.parametrize(
    "text",
    [
        OWN + "\nmain()\n",
        OWN + "\nfor epoch in range(3):\n    pass\n",
        "import argparse\nargs = argparse.ArgumentParser().parse_args()\n" + OWN,
        OWN.replace("objective(logits, target,", "objective(self, logits, target,")
        .replace("make(net,", "make(net, rate,")
        .replace("schedule(optimizer)", "schedule(optimizer, epochs)"),
    ],
)
def test_functions_that_cannot_just_be_called_are_left_to_the_user(repository, tmp_path, text):
    (repository / "train.py").write_text(text)
    write(tmp_path / "port", survey(repository))
    ours = (tmp_path / "port" / "reference.py").read_text()
    assert ours.count("CHECK: write the call of train.py") == 2
    assert "    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (n + 1))" in ours.splitlines()
    assert "#     return objective(outputs, labels)" not in ours.splitlines()  # the loss is no metric


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("optim.AdamW(net.parameters(), 1e-3)", "return torch.optim.AdamW(model.parameters(), 0.001)"),
        (
            "optim.SGD([{'params': net.parameters()}], lr=1e-3)",
            "raise NotImplementedError('CHECK: write the call of train.py:2 with its values')",
        ),
        ("optim.Adam(params=net.parameters(), betas=(0.9, 0.99))", "return torch.optim.Adam(model.parameters(), betas=(0.9, 0.99))"),
        ("optim.SGD(net.parameters(), lr=args.rate)", "raise NotImplementedError('CHECK: write the call of train.py:2 with its values')"),
        ("optim.SGD(net.parameters(), **settings)", "raise NotImplementedError('CHECK: write the call of train.py:2 with its values')"),
    ],
)
def test_calls_that_can_stand_alone_are_written_others_are_named(repository, tmp_path, call, expected):
    (repository / "train.py").write_text(f"from torch import optim\nopt = {call}\n")
    write(tmp_path / "port", survey(repository))
    text = (tmp_path / "port" / "reference.py").read_text()
    function = next(n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == "build_optimizer")
    assert ast.unparse(function.body[-1]) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("F.cross_entropy(out, y, weight=None)", "return torch.nn.functional.cross_entropy(outputs, labels, weight=None)"),
        ("F.nll_loss(input=out, target=y)", "return torch.nn.functional.nll_loss(outputs, labels)"),
        ("nn.CrossEntropyLoss(weight=w)", "raise NotImplementedError('CHECK: write the call of train.py:3 with its values')"),
    ],
)
def test_a_function_that_is_a_loss_is_given_outputs_and_labels(repository, tmp_path, call, expected):
    (repository / "train.py").write_text(f"from torch import nn\nfrom torch.nn import functional as F\nloss = {call}\n")
    write(tmp_path / "port", survey(repository))
    text = (tmp_path / "port" / "reference.py").read_text()
    function = next(n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == "loss")
    assert ast.unparse(function.body[-1]) == expected


def test_an_own_loss_serves_where_no_other_is_called(repository, tmp_path):
    (repository / "train.py").write_text("")
    write(tmp_path / "port", survey(repository))
    text = (tmp_path / "port" / "reference.py").read_text()
    assert "    from losses import FocalLoss" in text
    assert "    return FocalLoss()(outputs, labels)" in text
    assert "build_optimizer" not in text


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("", "return FocalLoss()(outputs, labels)"),
        ("from torch import nn\nloss = nn.MSELoss()\n", "return torch.nn.MSELoss()(outputs, labels)"),
    ],
    ids=["alone", "beside one that the program calls"],
)
def test_what_an_own_loss_is_made_of_is_not_taken_for_it(repository, tmp_path, program, expected):
    (repository / "losses.py").write_text(
        "import torch\nfrom torch.nn import functional as F\n\n\nclass FocalLoss(torch.nn.Module):\n    def forward(self, o, t):\n"
        "        return 2 * F.cross_entropy(o, t, label_smoothing=0.1)\n"
    )
    (repository / "train.py").write_text(program)
    write(tmp_path / "port", survey(repository))
    text = (tmp_path / "port" / "reference.py").read_text()
    assert expected in text
    assert "cross_entropy(outputs" not in text


def test_an_own_loss_of_the_name_of_one_of_torch_is_not_given_its_labels(repository, tmp_path):
    (repository / "train.py").write_text("")
    (repository / "losses.py").write_text(FILES["losses.py"].replace("FocalLoss", "CTCLoss"))
    write(tmp_path / "port", survey(repository))
    assert "    return CTCLoss()(outputs, labels)" in (tmp_path / "port" / "reference.py").read_text()
    assert "input_lengths" not in (tmp_path / "port" / "paralign.toml").read_text()


def test_nothing_is_overwritten_nor_written_into_the_repository(repository, tmp_path):
    (tmp_path / "port" / "port").mkdir(parents=True)
    (tmp_path / "port" / "port" / "train.py").write_text("mine")
    with pytest.raises(UsageError, match=r"port/train\.py would be overwritten"):
        write(tmp_path / "port", survey(repository))
    assert [str(p.relative_to(tmp_path / "port")) for p in (tmp_path / "port").rglob("*") if p.is_file()] == ["port/train.py"]
    with pytest.raises(UsageError, match="would lie in the reference repository"):
        write(repository / "port", survey(repository))


@pytest.mark.parametrize("content", ["(" * 100_000, "\0", "class A(nn.Module):\n  def f(self): '''\\\"\\\"\\\"'''\n", "x = 1\n"])
def test_a_repository_without_a_model_is_told(tmp_path, content):
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "a.py").write_text(content)
    with pytest.raises(UsageError):
        write(tmp_path / "port", survey(tmp_path / "repo"))
    assert not (tmp_path / "port").exists()


def test_names_of_the_repository_cannot_break_out_of_comments(tmp_path):
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / 'a"""b.py').write_text(
        'from torch import nn\nclass Net(nn.Module):\n    def __init__(self, a="""x\n# y"""): pass\n'
    )
    write(tmp_path / "port", survey(tmp_path / "repo"))
    for path in (tmp_path / "port").rglob("*.py"):
        ast.parse(path.read_text())
    assert "CHECK: a'''b.py is no name that can be imported" in (tmp_path / "port" / "reference.py").read_text()


def test_the_command_says_what_it_found(repository, tmp_path, capsys):
    assert cli.main(["init", str(tmp_path / "port"), "--reference", str(repository)]) == 0
    out = capsys.readouterr().out
    assert "  model: Net (models/net.py:7), Base (models/net.py:4), Block (models/layers.py:3)" in out
    assert "  not read: old.py: SyntaxError" in out
    assert cli.main(["init", str(tmp_path / "x"), "--reference", str(tmp_path / "nowhere")]) == 2
    assert cli.main(["init", str(tmp_path / "x"), "--model", "Net"]) == 2


@pytest.mark.parametrize(("count", "said"), [(1, "read 1 file of "), (2, "read 2 files of ")])
def test_files_that_were_read_are_counted(tmp_path, capsys, count, said):
    source = tmp_path / "source"
    source.mkdir()
    for number in range(count):
        (source / f"net{number}.py").write_text("from torch import nn\n\n\nclass Net(nn.Module):\n    pass\n")
    assert cli.main(["init", str(tmp_path / "port"), "--reference", str(source)]) == 0
    assert capsys.readouterr().out.startswith(said)


# -- what the model is called with ---------------------------------------------------------------------------------------------------------


def tables(repository, tmp_path, code, *, model=""):
    """``[inputs]`` and ``[labels]`` of a project for the repository with a program more."""
    import tomllib

    (repository / "demo.py").write_text("import torch\nfrom torch import nn\nfrom models import Net\n" + code)
    write(tmp_path / "port", survey(repository), model)
    text = (tmp_path / "port" / "paralign.toml").read_text()
    return tomllib.loads(text), text


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("net = Net()\ny = net(torch.randn(2, 1, 64, 64))\n", {"shape": [2, 1, 64, 64], "dtype": "float32"}),
        ("net = Net().to('cuda').eval()\nx = torch.zeros((3, 1, 8)).cuda()\ny = net(x)\n", {"shape": [3, 1, 8], "dtype": "float32"}),
        ("y = Net()(torch.rand(size=[2, 4], dtype=torch.float64))\n", {"shape": [2, 4], "dtype": "float64"}),
        ("SIZE = 4 * 8\ny = Net()(torch.ones(2, SIZE + 1))\n", {"shape": [2, 33], "dtype": "float32"}),
        ("y = Net()(torch.randint(0, 100, (2, 16)))\n", {"shape": [2, 16], "dtype": "int64", "low": 0, "high": 100}),
        ("y = Net()(torch.randint(30, size=(2, 16)))\n", {"shape": [2, 16], "dtype": "int64", "low": 0, "high": 30}),
        ("net = Net()\ntorch.onnx.export(net, torch.randn(1, 3, 7, 7), 'a.onnx')\n", {"shape": [1, 3, 7, 7], "dtype": "float32"}),
        ("from torchsummary import summary\nsummary(Net(), (3, 20, 30))\n", {"shape": [2, 3, 20, 30], "dtype": "float32"}),
        ("from torchinfo import summary\nsummary(Net(), input_size=(4, 3, 5, 5))\n", {"shape": [4, 3, 5, 5], "dtype": "float32"}),
        (("import argparse\np = argparse.ArgumentParser()\np.add_argument('--size', default=24)\nargs = p.parse_args()\n"
         "model = build(args)\nmodel(torch.randn(1, 3, args.size, args.size))\n"), {"shape": [1, 3, 24, 24], "dtype": "float32"}),
    ],
)  # fmt: skip
def test_the_inputs_are_those_of_an_example_in_the_reference(repository, tmp_path, code, expected):
    found, text = tables(repository, tmp_path, code)
    assert found["inputs"] == expected
    assert "the shapes are those of demo.py:" in text


def test_several_inputs_stand_by_position_or_by_keyword(repository, tmp_path):
    found, text = tables(repository, tmp_path, "Net()(torch.randn(2, 3), torch.ones(2, 1))\n")
    assert [each["shape"] for each in found["inputs"]] == [[2, 3], [2, 1]]
    assert "[[inputs]]                # mask" in text


def test_inputs_by_keyword(repository, tmp_path):
    found, _ = tables(repository, tmp_path, "Net()(image=torch.randn(2, 3), mask=torch.zeros(2, 1).long())\n")
    assert found["inputs"]["image"] == {"shape": [2, 3], "dtype": "float32"}
    assert found["inputs"]["mask"]["dtype"] == "int64"


@pytest.mark.parametrize(
    "code",
    [
        "",
        "net = Net()\nfor x in loader:\n    net(x)\n",
        "net = Net()\nnet(torch.randn(n, 3))\n",
        "other = Block(3)\nother(torch.randn(2, 3))\n",
        "net = Net()\nnet(torch.randn(2, 3), unknown)\n",
    ],
)
def test_without_an_example_nothing_is_guessed_and_what_is_missing_is_said(repository, tmp_path, capsys, code):
    found, text = tables(repository, tmp_path, code)
    assert "shape" not in found["inputs"]
    assert "# CHECK: what Net.forward is called with: image, mask=None." in text
    assert "# shape = [2, …]" in text
    assert cli.main(["init", str(tmp_path / "again"), "--reference", str(repository)]) == 0
    assert "inputs of Net: no call with a tensor of known shape was found: fill in [inputs]" in capsys.readouterr().out


def test_labels_follow_from_an_example_the_loss_and_the_number_of_classes(repository, tmp_path):
    found, _ = tables(
        repository,
        tmp_path,
        "net = Net()\ncrit = nn.CrossEntropyLoss()\nt = torch.zeros(2, 9, dtype=torch.long)\ncrit(net(torch.randn(2, 3)), t)\n",
    )
    assert found["labels"] == {"shape": [2, 9], "dtype": "int64", "low": 0, "high": 10}


def test_labels_of_a_loss_on_values_are_to_be_filled_in(repository, tmp_path):
    (repository / "train.py").write_text("from torch import nn\nfrom models import Net\nnet = Net()\nloss = nn.MSELoss()\n")
    found, text = tables(repository, tmp_path, "")
    assert found["labels"] == {"dtype": "float32"}
    assert "CHECK: the shape of the outputs, which MSELoss compares with" in text


def test_the_command_tells_where_the_shapes_come_from(repository, tmp_path, capsys):
    (repository / "demo.py").write_text("import torch\nfrom models import Net\nNet()(torch.randn(2, 3, 8, 8))\n")
    assert cli.main(["init", str(tmp_path / "port"), "--reference", str(repository)]) == 0
    assert "  inputs of Net: [2, 3, 8, 8] float32 (demo.py:3)" in capsys.readouterr().out


FACTORY = """
from torch import nn
class Residual(nn.Module):
    def __init__(self, fn):
        super().__init__()
def Mixer(dim, depth, n_classes=1000):
    return nn.Sequential(nn.Conv2d(3, dim, 7), *[Residual(nn.GELU()) for _ in range(depth)], nn.Linear(dim, n_classes))
"""
PROGRAM = """
import argparse
from mixer import Mixer
parser = argparse.ArgumentParser()
parser.add_argument('--dim', default=256, type=int)
args = parser.parse_args()
model = Mixer(args.dim, 8, n_classes=10)
"""


def test_a_function_that_puts_a_model_together_is_one(tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    (code / "mixer.py").write_text(FACTORY)
    (code / "train.py").write_text(PROGRAM)
    found = survey(code)
    assert [model.name for model in found.models] == ["Mixer", "Residual"]
    write(tmp_path / "port", found)
    text = (tmp_path / "port" / "reference.py").read_text()
    assert "    from mixer import Mixer\n\n    return Mixer(256, 8, n_classes=10)  # as train.py:7\n" in text
    assert "high = 10" in (tmp_path / "port" / "paralign.toml").read_text()
    assert "class Mixer" not in (tmp_path / "port" / "port" / "mixer.py").read_text()
    assert [model.name for model in survey(code).models] == ["Mixer", "Residual"]


def test_functions_that_call_a_class_leave_the_class_the_model(repository):
    (repository / "models" / "makers.py").write_text("from models.net import Net\ndef small():\n    return Net(width=4)\n")
    assert survey(repository).models[0].name == "Net"


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("optim.SGD(net.parameters(), lr=0.1)", "SGD"),
        ("optim.SGD(net.parameters(), 0.1, 0)", "SGD"),
        ("optim.SGD(net.parameters(), lr=0.1, momentum=0.0, weight_decay=1e-4)", "SGD"),
        ("optim.SGD(net.parameters(), lr=0.1, momentum=args.momentum)", "Momentum"),
        ("optim.SGD(net.parameters(), 0.1, 0.9)", "Momentum"),
        ("optim.SGD(net.parameters(), **settings)", "Momentum"),
        ("optim.Adam(net.parameters(), 0.1)", "Adam"),
    ],
)
def test_sgd_with_momentum_is_called_momentum_in_paddle(repository, tmp_path, call, named):
    (repository / "train.py").write_text(f"from torch import optim\nopt = {call}\n")
    write(tmp_path / "port", survey(repository))
    assert f"#     paddle.optimizer.{named}(…)" in (tmp_path / "port" / "candidate.py").read_text()


@pytest.mark.torch
@pytest.mark.parametrize(
    ("call", "outputs"),
    [
        ("CTCLoss(blank=0)", "torch.randn(6, 2, 5).log_softmax(-1)"),
        ("CosineEmbeddingLoss(0.1)", "(torch.randn(2, 3), torch.randn(2, 3))"),
        ("MarginRankingLoss()", "(torch.randn(2), torch.randn(2))"),
        ("TripletMarginLoss()", "(torch.randn(2, 3), torch.randn(2, 3), torch.randn(2, 3))"),
        ("GaussianNLLLoss()", "(torch.randn(2), torch.rand(2))"),
        ("CrossEntropyLoss()", "torch.randn(2, 10)"),
    ],
)
def test_losses_are_given_what_they_take(repository, tmp_path, call, outputs):
    """The loss that was written runs on labels of the tables that were written."""
    import torch

    (repository / "train.py").write_text(f"import torch\nfrom models import Net\nnet = Net()\ncriterion = torch.nn.{call}\n")
    write(tmp_path / "port", survey(repository))
    written = ast.parse((tmp_path / "port" / "reference.py").read_text())
    scope = {"torch": torch}
    function = next(node for node in written.body if isinstance(node, ast.FunctionDef) and node.name == "loss")
    exec(compile(ast.Module([function], []), "reference.py", "exec"), scope)
    spec = read(tmp_path / "port").labels or {}
    drawn = {"shape": [2], **spec}  # labels of values are left to the user
    made = make(spec if "keywords" in spec else drawn, tmp_path, "labels", 0)
    labels = {name: torch.from_numpy(value.array) for name, value in made.items()} if "keywords" in spec else torch.from_numpy(made.array)
    assert torch.isfinite(scope["loss"](eval(outputs), labels))


# -- styles of repositories ------------------------------------------------------------------------------------------------------

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.out = nn.Linear(3, width)

    def forward(self, x):
        return self.out(x)
"""


def written(tmp_path, **files):
    """Both sides of the project of a repository of these files."""
    folder = tmp_path / "repository"
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    write(tmp_path / "project", survey(folder))
    sides = [(tmp_path / "project" / f"{side}.py").read_text(encoding="utf-8") for side in ("reference", "candidate")]
    for side in sides:
        compile(side, "side", "exec")
        compile("\n".join(uncommented(side)), "side", "exec")
    return sides


def uncommented(side):
    """What a user gets who uncomments all functions; those without a body are left out."""
    lines = [line[2:] if line.startswith("# ") else "" for line in side.partition("Fill in and uncomment:")[2].splitlines()]
    return [line.replace("(…)", "()").replace("return …", "return None") for line in lines if line.startswith(("def", " "))]


FLAT = """
import torch
import torchvision.transforms as T
from torch.utils.data import DataLoader
from torchvision.datasets import CIFAR10
from model import Net
steps = T.Compose([T.Resize((8, 8)), T.ToTensor()])
train = CIFAR10("data", train=True, transform=steps)
loader = DataLoader(train, batch_size=16, shuffle=True)

def top(output, target):
    return (output.argmax(1) == target).float().mean()

def my_loss(output, target):
    return ((output - target) ** 2).mean()

def predict_file(model, path):
    return model(torch.load(path))
"""


def test_data_metrics_and_predictions_of_scripts_stand_in_the_comments(tmp_path):
    ours, theirs = written(tmp_path, model=NET, train=FLAT)
    for expected in (
        "#     # called as: torchvision.datasets.CIFAR10('data', train=True, transform=steps)  train.py:8",
        "#     return torch.utils.data.DataLoader(build_dataset(split), batch_size=16, shuffle=True)",
        "#     return [torchvision.transforms.Resize((8, 8)), torchvision.transforms.ToTensor()]  # train.py:7",
        "#     from train import top",
        "#     return top(outputs, labels)",
        "#     return predict_file(…)  # train.py:17: predict_file(model, path)",
    ):
        assert expected in ours.splitlines()
    assert "my_loss" not in ours
    assert "#     return paddle.io.DataLoader(build_dataset(split), batch_size=16, shuffle=True)" in theirs.splitlines()


def test_a_model_in_a_script_is_said_to_run_it(tmp_path):
    ours, _ = written(tmp_path, train=NET + "\nprint(Net())\n")
    assert "    # CHECK: importing train.py runs what stands outside of its functions" in ours


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("self.save_hyperparameters()", "torch.optim.Adam(model.parameters(), lr=0.01)"),
        ("self.hparams = load()", None),
    ],
)
def test_settings_that_a_class_saves_are_filled_in(tmp_path, text, expected):
    system = f"""
import torch
class System:
    def __init__(self, lr=0.01):
        {text}
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
"""
    ours, _ = written(tmp_path, model=NET, system=system)
    assert (f"    return {expected}" in ours.splitlines()) == (expected is not None)
    assert ("CHECK: write the call of system.py:7" in ours) == (expected is None)


@pytest.mark.parametrize(
    ("kept", "filled"),
    [("self.size = size", True), ("self.size, self.path = size, path", True), ("self.size = 2 * size", False), ("pass", False)],
)
def test_settings_that_a_class_keeps_are_filled_in_where_nothing_changes_them(tmp_path, kept, filled):
    data = f"""
from torch.utils.data import DataLoader
class Loaders:
    def __init__(self, path="x", size=16):
        {kept}
    def train(self):
        return DataLoader(self.data, batch_size=self.size)
"""
    ours, _ = written(tmp_path, model=NET, data=data)
    assert ("batch_size=16)" in ours) == filled
    assert ("batch_size=self.size)" in ours) != filled


@pytest.mark.parametrize(
    ("law", "stands"), [("lambda n: min(1.0, (n + 1) / 100)", True), ("lambda n: n * warmup", False), ("lambda n, k=steps: n / k", False)]
)
def test_functions_of_nothing_else_stand_as_they_are(tmp_path, law, stands):
    program = f"import torch\nsched = torch.optim.lr_scheduler.LambdaLR(optimizer, {law})\n"
    ours, _ = written(tmp_path, model=NET, program=program)
    assert (f"    return torch.optim.lr_scheduler.LambdaLR(optimizer, {law})" in ours.splitlines()) == stands


REGISTRY = """
from torch import nn
from registry import MODELS, LOSSES

@MODELS.register()
class Stem(nn.Module):
    def forward(self, x):
        return x

@MODELS.register_module(name="whole")
class Whole(nn.Module):
    def __init__(self, stem, width=4):
        super().__init__()
        self.stem = MODELS.build(stem)

    def forward(self, x):
        return self.stem(x)

@LOSSES.register("near")
class NearLoss(nn.Module):
    def __init__(self, weight=1.0):
        super().__init__()

    def forward(self, output, target):
        return (output - target).abs().mean()
"""

CONFIGURATION = """
model = dict(type="whole", width=6, stem=dict(type="Stem"))
loss = {"type": "near", "weight": 5.0}
optimizer = dict(type="RMSprop", lr=0.02)
schedule = dict(type="StepLR", step_size=7)
other = dict(type="Unknown", x=1)
odd = [dict(type=3), dict(type="not a name"), {"type": "RMSprop", 5: 1}, {"type": "Adam", "a b": 1}, {**other}]
"""


def test_configurations_of_a_registry_are_read(tmp_path):
    ours, theirs = written(tmp_path, parts=REGISTRY, config=CONFIGURATION)
    for expected in (
        "    from parts import Whole",
        "    # called as: Whole(width=6, stem=dict(type='Stem'))",
        "    return NearLoss(weight=5.0)(outputs, labels)  # as config.py:3",
        "    return torch.optim.RMSprop(model.parameters(), lr=0.02)",
        "    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=7)",
    ):
        assert expected in ours.splitlines()
    assert "Unknown" not in ours + theirs


def test_an_own_loss_that_is_built_otherwise_says_so(tmp_path):
    ours, _ = written(tmp_path, parts=REGISTRY, program="from parts import NearLoss\nloss = NearLoss(weight=find())\n")
    assert "    # called as: NearLoss(weight=find())" in ours.splitlines()
    assert "# CHECK: not as it is called, parts.py:20" in ours


def test_a_function_that_needs_more_than_is_given_is_named(tmp_path):
    solver = "from torch import optim\ndef make(cfg, model):\n    return optim.Adam(model.parameters(), lr=cfg.lr)\n"
    ours, _ = written(tmp_path, model=NET, solver=solver)
    assert "    # make(cfg, model) of solver.py makes it" in ours.splitlines()


def test_calls_cannot_break_out_of_the_comments(tmp_path):
    hostile = 'from torch.utils.data import DataLoader\nDataLoader(data, collate_fn=eval("""a\nimport os\n"""), name="\\"\\"\\"")\n'
    (tmp_path / "repository").mkdir()
    for name, text in (("model", NET), ("program", hostile)):
        (tmp_path / "repository" / f"{name}.py").write_text(text, encoding="utf-8")
    write(tmp_path / "project", survey(tmp_path / "repository"))
    for side in ("reference", "candidate"):
        body = compile((tmp_path / "project" / f"{side}.py").read_text(encoding="utf-8"), "side", "exec", ast.PyCF_ONLY_AST).body
        assert {type(each).__name__ for each in body} <= {"Expr", "Import", "ImportFrom", "FunctionDef"}
        assert not any(alias.name == "os" for each in body if isinstance(each, ast.Import) for alias in each.names)


def test_keywords_and_unknown_types_of_configurations_are_no_calls(tmp_path):
    config = (
        'net = {"type": "Net", "width": 5, "class": 3}\nrule = {"type": "WarmupCosineLR", "lambda": 3}\nodd = dict(type="class")\n'
        'loss = dict(type="GHMCLoss", bins=3)\nother = dict(type="HuberLoss", delta=0.5)\n'
    )
    net = "from torch import nn\n\nclass Net(nn.Module):\n    def __init__(self, width=4):\n        super().__init__()\n"
    reference, _ = written(tmp_path, config=config, net=net)
    assert "GHMCLoss" not in reference
    assert "HuberLoss(delta=0.5)" in reference


def test_long_expressions_elsewhere_do_not_matter(tmp_path):
    long = "print(" + " + ".join(f"'a{n}' * k" for n in range(600)) + ")\n"
    reference, _ = written(tmp_path, prompts=f"k = 2\n{long}", net="from torch import nn\n\nclass Net(nn.Module):\n    pass\n")
    assert "Net" in reference


def test_transforms_with_names_of_their_own_can_be_uncommented(tmp_path):
    data = (
        "from torchvision import transforms as T\n"
        "steps = T.Compose([T.ToTensor(), T.Lambda(lambda T: T * 2), *[T.Normalize([m], [1.0]) for m in (0.5,)]])\n"
    )
    reference, _ = written(tmp_path, data=data, net="from torch import nn\n\nclass Net(nn.Module):\n    pass\n")
    assert "lambda T: T * 2" in reference
    assert "import torchvision" in reference
    assert "import *" not in reference


def test_a_setting_that_is_changed_is_no_default(tmp_path):
    lit = (
        "import torch\nfrom torch import nn\n\nclass Lit(nn.Module):\n    def __init__(self, lr=0.1, momentum=0.9, decay=0.01):\n"
        "        super().__init__()\n        lr = lr * 8\n        self.lr, self.momentum, self.decay = lr, momentum, decay\n"
        "        self.momentum *= 0.5\n    def configure_optimizers(self):\n"
        "        return torch.optim.SGD(self.parameters(), lr=self.lr, momentum=self.momentum, weight_decay=self.decay)\n"
    )
    reference, _ = written(tmp_path, lit=lit)
    assert not re.search(r"SGD\(.*(lr=0\.1|momentum=0\.9)", reference)
    assert "weight_decay=0.01" in reference


@pytest.mark.parametrize(
    ("call", "ready"),
    [
        ("Tones(split)", "Tones(split)"),
        ("Tones(split, count=24)", "Tones(split, count=24)"),
        ("Tones(split, **options)", "Tones(…)"),
        ("Tones(split, root)", "Tones(…)"),
        ("Tones('train')", "Tones(…)"),
    ],
)
def test_a_data_set_that_is_made_of_the_split_is_made_so(tmp_path, call, ready):
    data = "from torch.utils.data import Dataset\nclass Tones(Dataset):\n    def __init__(self, split, *more, **options):\n        pass\n"
    reference, candidate = written(
        tmp_path, net=NET, data=data, train=f"from data import Tones\ndef loader(split, root=0):\n    return {call}\n"
    )
    assert f"#     return {ready}" in reference.splitlines()
    assert f"#     return {ready}" in candidate.splitlines()
