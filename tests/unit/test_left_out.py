"""An argument that the reference's call is given and the candidate's is not is named, where no literal can be tried."""

import pytest

from paralign.model import Divergence, Point
from paralign.port.scan import hints
from paralign.port.scan.left_out import ID, left_out

#: reference, candidate, what is named
PAIRS = [
    ("F.cross_entropy(x, t, weight=W)", "F.cross_entropy(x, t)", "weight=W"),
    ("F.cross_entropy(x, t, weight=W.to(x.dtype), ignore_index=2)", "F.cross_entropy(x, t, ignore_index=2)", "weight=W.to(x.dtype)"),
    ("F.binary_cross_entropy_with_logits(x, t, pos_weight=P)", "F.binary_cross_entropy_with_logits(x, t)", "pos_weight=P"),
    ("CRITERION(x, t)", "CRITERION(x, t)", "weight=W"),
    ("F.scaled_dot_product_attention(q, k, v, attn_mask=mask)", "F.scaled_dot_product_attention(q, k, v)", "attn_mask=mask"),
    ("F.cross_entropy(x, t, weight=W)", "F.cross_entropy(x, t, weight=V)", ""),
    ("F.cross_entropy(x, t, weight=W)", "F.cross_entropy(x, t, W)", ""),
    ("F.cross_entropy(x, t, weight=W)", "F.cross_entropy(x, t, **OPTIONS)", ""),
    ("F.cross_entropy(x, t, weight=W)", "F.cross_entropy(*given)", ""),
    ("F.cross_entropy(x, t, weight=W, label_smoothing=S)", "F.cross_entropy(x, t)", ""),
    ("F.cross_entropy(x, t, reduction='mean')", "F.cross_entropy(x, t)", ""),
    ("F.softmax(x, 1, dtype=torch.float32)", "F.softmax(x, 1)", ""),
    ("F.layer_norm(x, n, eps=E)", "F.layer_norm(x, n, epsilon=E)", ""),
    ("F.nll_loss(x, t, weight=W)", "F.cross_entropy(x, t)", ""),
    ("torch.softmax(x, dim=d)", "F.softmax(x, axis=d)", ""),
    ("torch.softmax(x, dim=d)", "x.softmax(d)", ""),
    ("x.softmax(dim=d)", "F.softmax(x, d)", ""),
    ("F.normalize(x, dim=d)", "F.normalize(x, axis=d)", ""),
    ("x.mean(dim=d)", "x.mean(axis=d)", ""),
    ("x.mean(dim=d)", "paddle.mean(x, d)", ""),
    ("layer(x, key_padding_mask=pad)", "layer(x, attn_mask=pad)", ""),
    ("torch.randn(3, device=dev)", "paddle.randn(3)", ""),
    ("torch.normal(m, s, generator=gen)", "paddle.normal(m, s)", ""),
    ("torch.add(x, y, out=z)", "paddle.add(x, y)", ""),
    ("x.sum(0, dtype=kind)", "x.sum(0)", ""),
    ("F.cross_entropy(x, t, size_average=flag)", "F.cross_entropy(x, t)", ""),
    ("layer(x, mask=int_mask)", "layer(x)", "mask=int_mask"),
    ("F.cross_entropy(x, t, weight=boolean_w)", "F.cross_entropy(x, t)", "weight=boolean_w"),
    ("torch.softmax(x, dim=d)", "F.softmax(x)", "dim=d"),
    ("x.mean(dim=d)", "x.mean()", "dim=d"),
    ("F.nll_loss(x, t, weight=W) + F.nll_loss(y, t)", "F.nll_loss(x, t) + F.nll_loss(y, t)", ""),
]


def divergence(tmp_path, reference, candidate, what="different"):
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text(f"import torch\nimport torch.nn.functional as F\nCRITERION = torch.nn.CrossEntropyLoss(weight=W)\ny = {reference}\n")
    two.write_text(f"import paddle\nimport paddle.nn.functional as F\nCRITERION = paddle.nn.CrossEntropyLoss()\ny = {candidate}\n")
    found = Divergence(Point("y", source=f"{one}:4"), Point("y", source=f"{two}:4"))
    found.what = what
    return found


@pytest.mark.parametrize(("reference", "candidate", "named"), PAIRS)
def test_the_argument_is_named_where_it_is_one_and_seen(tmp_path, reference, candidate, named):
    found = left_out(divergence(tmp_path, reference, candidate))
    assert (found is not None) is bool(named)
    if found is not None:
        assert f"`{named}`" in found.cause
        assert not found.proven


def test_it_comes_before_what_may_differ_and_hides_nothing_of_it(tmp_path):
    found = hints.hints(divergence(tmp_path, *PAIRS[0][:2]))
    assert found[0].rule == ID
    assert [each.rule for each in hints.hints(divergence(tmp_path, *PAIRS[5][:2]))] != [ID]


@pytest.mark.parametrize(("reference", "candidate"), [("torch.softmax(x, dim=d)", "F.softmax(x)"), ("x.mean(dim=d)", "x.mean()")])
def test_the_argument_is_called_as_the_port_takes_it(tmp_path, reference, candidate):
    assert left_out(divergence(tmp_path, reference, candidate)).fix.startswith("give it `axis`,")


def test_what_the_catalogue_knows_of_the_call_stays(tmp_path):
    found = hints.hints(divergence(tmp_path, "F.pad(x, p, value=v)", "F.pad(x, p)"))
    assert [each.rule for each in found] == [ID, "catalogue/pad-all-axes"]


def test_nothing_is_said_of_other_steps_and_files_that_are_not_there(tmp_path):
    assert left_out(divergence(tmp_path, *PAIRS[0][:2], what="missing")) is None
    assert left_out(Divergence(None, Point("y", source="none.py:3"))) is None
    assert left_out(Divergence(Point("y", source="none.py:3"), Point("y", source="none.py:3"))) is None
