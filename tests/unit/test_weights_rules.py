import pytest

from paralign.errors import UsageError
from paralign.weights import Drop, Rename, Route, Rules, rules_from_toml, to_toml
from paralign.weights.rules import learn


def test_regular_renamings_are_few():
    pairs = [
        (f"encoder.layer.{n}.{one}", f"layers.{n}.{other}")
        for n in range(12)
        for one, other in (
            ("attention.self.query", "self_attn.q_proj"),
            ("attention.self.key", "self_attn.k_proj"),
            ("output.dense", "linear2"),
        )
    ]
    assert [(r.reference, r.candidate, r.count) for r in learn(pairs)] == [
        ("encoder.layer.{a}.attention.self.query", "layers.{a}.self_attn.q_proj", 12),
        ("encoder.layer.{a}.attention.self.key", "layers.{a}.self_attn.k_proj", 12),
        ("encoder.layer.{a}.output.dense", "layers.{a}.linear2", 12),
    ]


def test_equal_ends_are_left_out():
    pairs = [(f"backbone.layer{i}.{j}.conv1", f"net.layer{i}.{j}.conv1") for i in (1, 2) for j in (0, 1)]
    assert learn(pairs) == [Rename("backbone.*", "net.*", 4)]
    assert learn([("a.b", "a.b")]) == []


def test_numbers_that_are_shifted_or_irregular():
    assert learn([(f"a{n}", f"b.{n + 1}.x") for n in range(3)]) == [Rename("a{a}", "b.{a+1}.x", 3)]
    assert learn([("a0", "b1"), ("a1", "b0")]) == [Rename("a0", "b1", 1), Rename("a1", "b0", 1)]
    assert learn([("a0.c0", "b0"), ("a0.c1", "b1"), ("a1.c0", "b2")]) == [
        Rename("a0.c0", "b0", 1),
        Rename("a0.c1", "b1", 1),
        Rename("a1.c0", "b2", 1),
    ]


@pytest.mark.parametrize(
    "pairs",
    [
        [(f"x.{n}.q", f"y.{n}.a.wq") for n in range(3)],
        [("m.0.a", "n.0.a"), ("m.1.b", "n.1.b"), ("o.1.b", "p.2.b")],
        [(f"features.{n}.{m}", f"f{n}_{m - 1}") for n in (1, 2) for m in (1, 2)],
    ],
)
def test_what_is_learned_leads_where_it_was_learned(pairs):
    rules = learn(pairs)
    for one, other in pairs:
        assert other in [r.applied(one) for r in rules]


@pytest.mark.parametrize(
    ("rule", "path", "expected"),
    [
        (Rename("layer.{a}.fc", "l.{a}.f"), "layer.12.fc", "l.12.f"),
        (Rename("layer.{a}.fc", "l.{a}.f"), "layer.x.fc", None),
        (Rename("layer.{a}.fc", "l.{a}.f"), "layer.1.fc.weight", None),
        (Rename("a.{a}.*", "b.{a-1}.*"), "a.3.c.d", "b.2.c.d"),
        (Rename("a.{a}.*", "b.{a}.*"), "a.3", "b.3"),
        (Rename("a.{a}.{a}", "b.{a}"), "a.3.4", None),
        (Rename("a.c", "b"), "a_c", None),
    ],
)
def test_applying_a_rename(rule, path, expected):
    assert rule.applied(path) == expected


RULES = Rules(
    (Rename('enc.{a}."x"\\\n', "dec.{a+1}"),),
    (Route("a.{a}.qkv", "b.{a}.q", "rows(0, 4) then transpose(1, 0)"), Route("a", "b", None, "rows(0, 1)")),
    (Drop("candidate", "mask"),),
)


def test_rules_are_read_as_they_were_written():
    assert rules_from_toml(to_toml(RULES)) == RULES
    assert rules_from_toml(to_toml(Rules())) == Rules()
    assert [r[2] for r in RULES.rows()] == ["", "rows(0, 4) then transpose(1, 0)", " into rows(0, 1)"]


@pytest.mark.parametrize(
    ("text", "said", "where"),
    [
        ('[[rename]]\nreference = "a\n', "the rules are no TOML: Illegal character '\\n' (at line 2, column 15)", "my.toml"),
        ('[[renames]]\nreference = "a"\n', "unknown entry 'renames' among the rules", "my.toml"),
        ("rename = 3\n", "unknown entry 'rename' among the rules", "my.toml"),
        ('[[rename]]\nreference = "a"\n', "missing key 'candidate'", "my.toml: [[rename]] number 1"),
        ('[[rename]]\nreference = "a"\ncandidate = "b"\nto = "c"\n', "unknown key 'to'", "my.toml: [[rename]] number 1"),
        ('[[rename]]\nreference = "a"\ncandidate = 3\n', "candidate must be a text", "my.toml: [[rename]] number 1"),
        (
            '[[rename]]\nreference = "a"\ncandidate = "b.{a}"\n',
            "the candidate's pattern uses {a}, which the reference's has not",
            "my.toml: [[rename]] number 1",
        ),
        (
            '[[rename]]\nreference = "a.*"\ncandidate = "b"\n',
            "one pattern ends in .* and the other does not",
            "my.toml: [[rename]] number 1",
        ),
        (
            '[[route]]\nreference = "a"\ncandidate = "b"\n[[route]]\nreference = "a"\ncandidate = "b"\ntransform = "flip(0)"\n',
            "'flip(0)' is no transform of weights",
            "my.toml: [[route]] number 2, transform",
        ),
        ('[[drop]]\nside = "left"\nname = "a"\n', "'left' is no side", "my.toml: [[drop]] number 1"),
        ("rename = [3]\n", "missing key 'candidate'", "my.toml: [[rename]] number 1"),
    ],
)
def test_rules_that_are_wrong(text, said, where):
    with pytest.raises(UsageError) as caught:
        rules_from_toml(text, "my.toml")
    assert (caught.value.what, caught.value.where) == (said, where)
    assert caught.value.hint
