"""Every pair of the catalogue in six forms: what differs is flagged, what is equal is not called different."""

from __future__ import annotations

import ast
import re

import pytest

from paralign.catalogue import Outcome, read_all
from paralign.catalogue.binding import bind
from paralign.catalogue.naming import torch_signature
from paralign.catalogue.parameters import Kind, stored
from paralign.port.scan.inventory import Status
from paralign.port.scan.scanning import scan

HEAD = """
import functools, math
import numpy as np
import torch
import torchvision
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.nn import init
from torch.optim import lr_scheduler as lr
from torchvision import transforms
X = torch.tensor
"""
FORMS = ("positional", "keyword", "partial", "module", "functional", "method")
FLAGGED = (Status.SILENT, Status.CONDITIONAL, Status.ARGUMENTS, Status.MISSING, Status.UNKNOWN)
ENTRIES = read_all()


def call_of(entry):
    """The call that an entry is about, and a receiver if it is a method's."""
    last = entry.torch.rpartition(".")[2]
    for node in ast.walk(ast.parse(entry.example.reference, mode="eval")):
        if isinstance(node, ast.Call) and last in (getattr(node.func, "attr", None), getattr(node.func, "id", None)):
            return node
    raise AssertionError(entry.id)


def written(name, positional, keywords):
    return ast.unparse(ast.Call(ast.parse(name, mode="eval").body, list(positional), list(keywords)))


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def functional(name):
    last = name.rpartition(".")[2]
    names = (
        f"torch.nn.functional.{each}"
        for each in (snake(last), snake(last.removesuffix("Loss")), last.lower(), snake(last).replace("_loss", ""))
    )
    return next((each for each in names if each in stored("torch")), None)


def module(name):
    last = name.rpartition(".")[2]
    return next(
        (
            each
            for each in stored("torch").members("torch.nn")
            if each[0].isupper() and functional(f"torch.nn.{each}") == f"torch.nn.functional.{last}"
        ),
        None,
    )


def positional(entry, node, signature, bound):
    places = [each.name for each in signature.parameters if each.kind is Kind.PLAIN]
    given = []
    for name in places:
        if name not in bound.given:
            break
        given.append(bound.given[name])
    rest = [ast.keyword(name, value) for name, value in bound.given.items() if name not in places[: len(given)]]
    return written(entry.torch, given, rest + [ast.keyword(name, value) for name, value in bound.unknown.items()])


def sources(entry):
    """The entry's call in those of the six forms that it has."""
    node = call_of(entry)
    signature = torch_signature(entry.torch)
    is_method = entry.torch.startswith("torch.Tensor.")
    if is_method:
        yield "method", f"x = torch.zeros(3)\nx.{node.func.attr}({', '.join(ast.unparse(each) for each in node.args)})"
        return
    bound = bind(signature, node.args, node.keywords)
    keywords = [ast.keyword(name, value) for name, value in {**bound.given, **bound.unknown}.items()]
    whole = signature.known and not bound.many and not bound.open
    yield "positional", positional(entry, node, signature, bound) if whole else ast.unparse(node)
    if whole:
        yield "keyword", written(entry.torch, [], keywords)
        yield "partial", written("functools.partial", [ast.parse(entry.torch, mode="eval").body], keywords)
    settings = [each for each in keywords if each.arg not in ("input", "target", "tensor", "other")]
    if entry.torch.startswith("torch.nn.functional.") and whole and module(entry.torch):
        yield "module", written(f"torch.nn.{module(entry.torch)}", [], settings)
    if entry.torch.startswith("torch.nn.") and entry.torch.count(".") == 2 and functional(entry.torch) and whole:
        yield "functional", written(functional(entry.torch), [ast.Name("x")], settings)
    last = entry.torch.rpartition(".")[2]
    if (
        re.fullmatch(r"torch\.\w+", entry.torch)
        and f"torch.Tensor.{last}" in stored("torch")
        and node.args
        and not isinstance(node.args[0], ast.Starred)
    ):
        yield "method", f"x = torch.zeros(3)\n{written(f'x.{last}', node.args[1:], node.keywords)}"


def judged(tmp_path, entry, form, source):
    path = tmp_path / f"{form}.py"
    path.write_text(HEAD + source + "\n")
    last = entry.torch.rpartition(".")[2]
    wanted = {last, snake(last), (functional(entry.torch) or "").rpartition(".")[2], module(entry.torch) or ""}
    return [row for row in scan([path]).rows if row.name.rpartition(".")[2] in wanted and row.form.value != "reference"]


#: forms that take what the pair is about in another way: a module's weights and state are not its function's
OTHER = {
    ("embedding-padding", "functional"), ("batch-norm2d-momentum", "functional"), ("batch-norm2d-eps", "functional"), ("rms-norm-eps", "functional"),
}  # fmt: skip

#: pairs about an argument that only Paddle's call has: seen when the port is scanned
OF_THE_PORT = {
    "interpolate-align-mode": "paddle.nn.functional.interpolate(x, scale_factor=2, mode='bilinear', align_mode=1)",
    "dropout-downscale": "paddle.nn.functional.dropout(x, 0.5, training=False, mode='downscale_in_infer')",
}


@pytest.mark.parametrize("name", OF_THE_PORT)
def test_an_argument_of_paddle_alone_is_seen_in_the_port(name, tmp_path):
    path = tmp_path / "port.py"
    path.write_text(f"import paddle\n{OF_THE_PORT[name]}\n")
    (row,) = scan([path]).rows
    assert [note.entry for note in row.notes] == [name]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_a_pair_is_flagged_right_in_every_form(entry, tmp_path):
    seen = 0
    for form, source in sources(entry):
        found = judged(tmp_path, entry, form, source)
        assert found, (form, source)
        seen += 1
        if entry.outcome is Outcome.EQUAL:
            wrong = [note.text for row in found if row.port == entry.paddle for note in row.notes if note.status is Status.SILENT]
            assert not wrong, (form, source)
        elif (entry.id, form) not in OTHER and entry.id not in OF_THE_PORT:
            assert any(row.has(status) for row in found for status in FLAGGED), (form, source)
    assert seen


def test_the_six_forms_are_all_there():
    forms = [form for entry in ENTRIES for form, _ in sources(entry)]
    assert {form: forms.count(form) > 10 for form in FORMS} == dict.fromkeys(FORMS, True)
