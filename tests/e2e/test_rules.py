"""Rules for weights, from the project file to the verdict."""

from __future__ import annotations

import pytest

MORE = '[weights]\nrules = "rules.toml"'


def test_a_rule_leads_a_tensor_where_it_says(project):
    project.edit("candidate", '"bias": random', '"offset": random').edit("candidate", 'parameters["bias"]', 'parameters["offset"]')
    project.edit("reference", '"bias": random', '"spare": random.randn(3).astype("float32"), "bias": random')
    (project.folder / "rules.toml").write_text(
        '[[route]]\nreference = "parameters.bias"\ncandidate = "parameters.offset"\n\n[[drop]]\nside = "reference"\nname = "parameters.spare"\n'
    )
    project.write(more=MORE)
    done = project.check("weights", "forward")
    assert done.code == 0, done.out + done.err
    found = {p["key"]: (p["candidate"]["name"], p["how"]) for p in project.stage("weights")["pairs"]}
    assert found == {"parameters.weight": ("parameters.weight", "name"), "parameters.bias": ("parameters.offset", "user")}


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ('[[rename]]\nreference = "encoder"\ncandidate = "body"', "'encoder' speaks of no tensor of the reference"),
        ('[[route]]\nreference = "parameters.bias"\ncandidate = "nowhere"', "parameters.bias is led to nowhere, which the candidate lacks"),
        ("[[rename]]\nreference = 3", "missing key 'candidate'"),
        ("[[rename", "the rules are no TOML"),
    ],
)
def test_rules_that_are_wrong_are_told(project, rules, told):
    (project.folder / "rules.toml").write_text(rules)
    done = project.write(more=MORE).check("weights")
    assert done.code == 2
    assert told in done.err
