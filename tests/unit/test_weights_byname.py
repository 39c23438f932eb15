"""Rules applied to names alone, and rules that are learned so that they can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paralign.errors import UsageError
from paralign.weights import Drop, Rename, Route, Rules, Way, exact, follow, rules_from_toml, to_toml


def test_routes_go_before_drops_and_drops_before_renamings():
    rules = Rules(
        (Rename("a.{a}.w", "x.{a}"), Rename("a.*", "b.*")),
        (Route("a.0.w", "q", "rows(0, 2)"), Route("a.0.w", "k", "rows(2, 4)")),
        (Drop("reference", "a.{a}.n"), Drop("candidate", "not of this side")),
    )
    found = follow(rules, ["a.0.w", "a.1.w", "a.1.b", "a.0.n", "c"])
    assert found.ways == [
        Way("a.0.w", "q", "rows(0, 2)"),
        Way("a.0.w", "k", "rows(2, 4)"),
        Way("a.1.w", "x.1"),
        Way("a.1.b", "b.1.b"),
        Way("c", "c"),
    ]
    assert found.dropped == ["a.0.n"]
    assert found.untold == ["a.1.w", "a.1.b", "c"]


@pytest.mark.parametrize(
    ("rules", "where"),
    [
        (Rules((Rename("no", "x"),)), "[[rename]] number 1"),
        (Rules((), (Route("a", "b"), Route("no", "x"))), "[[route]] number 2"),
        (Rules((), (), (Drop("reference", "no.{a}"),)), "[[drop]] number 1"),
    ],
)
def test_a_rule_that_speaks_of_nothing_is_told_with_its_number(rules, where):
    with pytest.raises(UsageError, match="speaks of no tensor of the source") as caught:
        follow(rules, ["a"])
    assert caught.value.where == where


def bert(layers=12):
    ways = [Way("embeddings.word_embeddings.weight", "word_embeddings.weight")]
    for n in range(layers):
        for one, other in (
            ("attention.self.query", "self_attn.q_proj"),
            ("attention.self.key", "self_attn.k_proj"),
            ("output.dense", "linear2"),
        ):
            ways.append(Way(f"encoder.layer.{n}.{one}.weight", f"encoder.layers.{n}.{other}.weight", "transpose(1, 0)"))
            ways.append(Way(f"encoder.layer.{n}.{one}.bias", f"encoder.layers.{n}.{other}.bias"))
        ways.append(Way(f"encoder.layer.{n}.norm.weight", f"encoder.layers.{n}.norm1.weight"))
    return ways


def test_the_table_of_a_large_model_is_short():
    ways = bert()
    rules = exact(ways, ["position_ids"])
    assert len(rules.renames) == 5
    assert len(rules.routes) == 3
    assert rules.drops == (Drop("reference", "position_ids"),)
    assert [r.count for r in rules.routes] == [12, 12, 12]
    assert follow(rules, [w.source for w in ways] + ["position_ids"]).ways == ways


def test_equal_names_need_one_rule_for_each_kind_of_layer_that_is_turned():
    leaves = ("attn.qkv.weight", "fc1.weight", "fc2.weight")
    ways = [Way(f"blocks.{n}.{leaf}", f"blocks.{n}.{leaf}", "transpose(1, 0)") for n in range(24) for leaf in leaves]
    assert [(r.reference, r.candidate, r.count) for r in exact(ways, []).routes] == [
        ("blocks.{a}.attn.qkv.weight", "blocks.{a}.attn.qkv.weight", 24),
        ("blocks.{a}.fc{b}.weight", "blocks.{a}.fc{b}.weight", 48),
    ]


def test_a_pattern_never_speaks_of_more_than_it_was_learned_from():
    ways = [Way("0.weight", "0.weight", "transpose(1, 0)"), Way("2.weight", "2.weight", "transpose(1, 0)"), Way("1.weight", "1.weight")]
    rules = exact(ways, ["3.weight"])
    assert [r.reference for r in rules.routes] == ["0.weight", "2.weight"]
    found = follow(rules, ["0.weight", "1.weight", "2.weight", "3.weight"])
    assert set(found.ways) == set(ways)
    assert found.dropped == ["3.weight"]


def test_a_module_that_is_renamed_but_for_one_tensor():
    ways = [Way("a.w", "b.w"), Way("a.v", "b.v"), Way("a.running_mean", "b._mean"), Way("a.keep", "a.keep")]
    rules = exact(ways, [])
    assert follow(rules, [w.source for w in ways]).ways == ways
    assert len(rules.renames) <= 4


words = st.sampled_from(["a", "b", "conv", "l0", "l1", "0", "1", "2", "10", "weight", "bias"])
names = st.lists(words, min_size=1, max_size=4).map(".".join)
transforms = st.sampled_from([None, None, "transpose(1, 0)", "rows(0, 2)"])


@given(st.dictionaries(names, st.tuples(names, transforms), max_size=12), st.sets(names, max_size=3))
def test_what_is_learned_gives_the_same_again(pairs, dropped):
    ways = [Way(name, target, transform) for name, (target, transform) in pairs.items()]
    left = sorted(dropped - set(pairs))
    rules = exact(ways, left)
    again = rules_from_toml(to_toml(rules))
    for learned in (rules, again):
        found = follow(learned, [*pairs, *left])
        assert set(found.ways) == set(ways)
        assert found.dropped == left


def test_shapes_and_others_are_written_and_read():
    rules = Rules((), (Route("q", "qkv", None, "rows(0, 2)", shape=(6, 4)),), (), "keep")
    text = to_toml(rules)
    assert text.startswith('others = "keep"\n\n[[route]]')
    assert "shape = [6, 4]" in text
    assert rules_from_toml(text) == rules


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('others = "drop"', "others = 'drop' is not a choice"),
        ('[[route]]\nreference = "a"\ncandidate = "b"\nshape = "6"', "shape must be a list of whole numbers"),
        ('[[route]]\nreference = "a"\ncandidate = "b"\nshape = [6, true]', "shape must be a list of whole numbers"),
        ('[[rename]]\nreference = "a"\ncandidate = "b"\nshape = [6]', "unknown key 'shape'"),
    ],
)
def test_shapes_and_others_that_are_none(text, message):
    with pytest.raises(UsageError, match=message):
        rules_from_toml(text)
