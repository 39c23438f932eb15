"""What only further batches of the loader hold shows in ``forward``, at its own line."""

from __future__ import annotations

import pytest
from tests.e2e.written_projects import checked, line_of, plain

from paralign.api import check_project
from paralign.model import ALIGNED, DIVERGED, ERROR, UNDERPOWERED
from paralign.stages.forward import later_batches

pytest.importorskip("torch")
pytest.importorskip("paddle")

LOADER = """
    import numpy as np
    WIDTH, CLASSES, PAD, PADDED = 6, 4, 0, {padded}

    def build_dataloader(split):
        random, found = np.random.default_rng(3), []
        for number in range({count}):
            x = random.integers(1, 9, (5, 7))
            if number in PADDED:
                x[1:, -2:] = PAD
            found.append((tensor(x), tensor(random.integers(0, CLASSES, 5))))
        return found
"""

REFERENCE = """
    import torch
    tensor = torch.as_tensor

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(9, 6)
            self.outer = torch.nn.Linear(6, 4)

        def forward(self, x):
            held = self.table(x)
            kept = (x != 0).unsqueeze(-1).to(held.dtype)
            mean = (held * kept).sum(1) / kept.sum(1)
            return self.outer(mean)

    def build_model():
        return Model()
"""

PORT = """
    import paddle
    tensor = paddle.to_tensor

    class Model(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.table = paddle.nn.Embedding(9, 6)
            self.outer = paddle.nn.Linear(6, 4)

        def forward(self, x):
            held = self.table(x)
            kept = (x != 0).unsqueeze(-1).astype(held.dtype)
            mean = (held * kept).sum(1) / kept.sum(1)
            return self.outer(mean)

    def build_model():
        return Model()
"""

#: a sum over words that are none
UNMASKED = PORT.replace("mean = (held * kept).sum(1)", "mean = held.sum(1)")

#: a check of one's own that only padded batches meet
REFUSED = PORT.replace("held = self.table(x)\n", "held = self.table(x)\n            assert int(x.min()) > 0, 'a word is missing'\n")


def forward(tmp_path, port, padded="(2,)", count=4):
    loader = LOADER.format(padded=padded, count=count)
    return checked(tmp_path, REFERENCE + loader, port + loader, "forward")


@pytest.mark.parametrize(("padded", "number"), [("(2,)", 2), ("(1, 3)", 1), ("(3,)", 3)])
def test_a_mask_that_later_batches_feel_is_named_by_its_line(tmp_path, padded, number):
    found = forward(tmp_path, UNMASKED, padded)
    assert found.verdict == DIVERGED
    assert found.worst.key.endswith(f"(batch {number})")
    assert found.divergence.candidate.source.endswith(f":{line_of(UNMASKED, 'mean = held.sum(1)')}")


@pytest.mark.parametrize(("count", "said"), [(4, "4 batches"), (2, "2 batches"), (1, "1 batches")])
def test_a_right_port_says_how_many_were_looked_at(tmp_path, count, said):
    found = forward(tmp_path, PORT, "(2,)", count)
    assert found.verdict == ALIGNED
    assert said in [str(each) for each in found.coverage]


def test_a_candidate_that_fails_on_a_later_batch_is_an_error(tmp_path):
    found = forward(tmp_path, REFUSED)
    assert found.verdict == ERROR
    assert found.failure["side"] == "candidate"
    assert "batch 2" in found.failure["message"]


@pytest.mark.parametrize(
    ("limits", "reason"),
    [({"SECONDS": -1.0}, "both sides took"), ({"BYTES": 0}, "those of one batch take 0 MB, more than 0 MB")],
    ids=["seconds", "bytes"],
)
def test_a_limit_that_stops_it_is_said_in_numbers(tmp_path, monkeypatch, limits, reason):
    for name, value in limits.items():
        monkeypatch.setattr(later_batches, name, value)
    found = forward(tmp_path, UNMASKED, "(2,)", 5)
    assert found.verdict == ALIGNED
    assert "1 of 5 batches" in [str(each) for each in found.coverage]
    assert any("compared on 1 batch, not on 4" in note and reason in note for note in found.notes), found.notes


def test_another_method_than_float64_is_said(tmp_path):
    def narrow(program, dtype):
        refusal = f"if held.dtype != {dtype}:\n                raise RuntimeError('float32 only')\n"
        return program.replace("held = self.table(x)\n", f"held = self.table(x)\n            {refusal}")

    loader = LOADER.format(padded="(2,)", count=3)
    sides = narrow(REFERENCE, "torch.float32") + loader, narrow(PORT, "paddle.float32") + loader
    found = checked(tmp_path, *sides, "forward")
    assert "1 of 3 batches" in [str(each) for each in found.coverage], found.coverage
    assert any("not on 3: they are judged by another method than float64" in note for note in found.notes), found.notes


def test_a_loader_of_one_batch_has_no_further_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(later_batches, "SECONDS", -1.0)
    found = forward(tmp_path, PORT, "(2,)", 1)
    assert "1 batches" in [str(each) for each in found.coverage]
    assert not any("compared on 1 batch" in note for note in found.notes)


def test_a_batch_that_the_reference_refuses_is_missing_in_the_count(tmp_path):
    loader = LOADER.format(padded="(2,)", count=4)
    refused = REFERENCE.replace("held = self.table(x)\n", "assert int(x.min()) > 0\n            held = self.table(x)\n")
    found = checked(tmp_path, refused + loader, PORT + loader, "forward")
    assert found.verdict == ALIGNED
    assert "3 of 4 batches" in [str(each) for each in found.coverage], found.coverage


#: what a later pass reads: a share of the mean of the last batch
KEPT_THERE, KEPT_HERE = (
    text.replace("self.outer = ", f"self.{register}('last', {zeros}, {persistent}=False)\n            self.outer = ").replace(
        "return self.outer(mean)", f"given = mean + {{share}} * self.last\n            {keep}\n            return self.outer(given)"
    )
    for text, register, zeros, persistent, keep in (
        (REFERENCE, "register_buffer", "torch.zeros(6)", "persistent", "self.last = mean.detach().mean(0)"),
        (PORT, "register_buffer", "paddle.zeros([6])", "persistable", "self.last = mean.detach().mean(0)"),
    )
)


def of_models(tmp_path, reference, port):
    loader = LOADER.format(padded="()", count=4)
    return checked(tmp_path, reference + loader, port + loader, "forward")


def test_a_port_that_alone_keeps_what_it_was_given_diverges(tmp_path):
    found = of_models(tmp_path, REFERENCE, KEPT_HERE.replace("{share}", "1.0"))
    assert found.verdict == DIVERGED
    assert found.worst.key.endswith("(batch 1 after others)")
    assert any(each.rule == "forward/kept" and each.proven for each in found.findings)
    assert "2 of 4 batches" in [str(each) for each in found.coverage]


@pytest.mark.parametrize(("share", "verdict"), [("1.0", ALIGNED), ("0.5", UNDERPOWERED)])
def test_what_both_sides_keep_is_no_fault_of_the_port_alone(tmp_path, share, verdict):
    found = of_models(tmp_path, KEPT_THERE.replace("{share}", "1.0"), KEPT_HERE.replace("{share}", share))
    assert found.verdict == verdict
    assert any("keeps what it was given" in each for each in found.doubts) == (verdict == UNDERPOWERED)


def test_what_the_reference_alone_keeps_is_a_weak_test(tmp_path):
    found = of_models(tmp_path, KEPT_THERE.replace("{share}", "1.0"), PORT)
    assert found.verdict == UNDERPOWERED
    assert any("batch 1 differ" in each for each in found.doubts)


def test_a_batch_that_the_reference_fails_on_does_not_count(tmp_path):
    refused = REFERENCE.replace("held = self.table(x)\n", "assert int((x == 0).sum()) != 8, 'refused'\n            held = self.table(x)\n")
    loader = LOADER.format(padded="(1, 2)", count=4).replace(
        "if number in PADDED:", "if number == 2:\n                x[1:2, -2:] = PAD\n            if number == 1:"
    )
    found = checked(tmp_path, refused + loader, UNMASKED + loader, "forward")
    assert found.verdict == DIVERGED
    assert any("the outputs on 1 before batch 2 agree" in each for each in found.notes)
    assert "2 of 4 batches" in [str(each) for each in found.coverage]


#: a loss of each word, whose labels are as long as the batch's sentences
WORDS = """
    import numpy as np
    WIDTHS = (7, 7, 9, 8)

    def build_dataloader(split):
        random, found = np.random.default_rng(3), []
        for width in WIDTHS:
            x = random.integers(1, 9, (5, width))
            if width == 9:
                x[1:, -2:] = 0
            found.append((tensor(x), tensor(random.integers(0, 4, (5, width)))))
        return found
"""

WORD_LOSS = """
    def loss(outputs, labels):
        assert outputs.shape[1] == labels.shape[1], "labels of another batch"
        return (outputs.sum(-1) - 0.1 * labels).square().mean()
"""


def test_later_stages_take_the_first_batch_with_its_labels(tmp_path):
    theirs = REFERENCE.replace("return self.outer(mean)", "return self.outer(mean).unsqueeze(1) + self.outer(held)")
    ours = UNMASKED.replace("return self.outer(mean)", "return self.outer(mean).unsqueeze(1) + self.outer(held)")
    for name, text in {"reference.py": theirs + WORDS + WORD_LOSS, "candidate.py": ours + WORDS + WORD_LOSS}.items():
        (tmp_path / name).write_text(plain(text), encoding="utf-8")
    sides = '[reference]\nmodule = "reference.py"\nframework = "torch"\n[candidate]\nmodule = "candidate.py"\nframework = "paddle"\n'
    (tmp_path / "paralign.toml").write_text(f'stages = ["weights", "forward", "loss"]\n{sides}', encoding="utf-8")
    result = check_project(tmp_path)[0]
    assert result["forward"].verdict == DIVERGED
    assert result["forward"].worst.key.endswith("(batch 2)")
    assert result["loss"].verdict == ALIGNED
