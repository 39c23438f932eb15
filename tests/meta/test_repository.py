"""What the repository says of itself holds: links lead somewhere, figures name their command, both languages say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*/README.md")])


def links(text):
    return [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target and not target.startswith("#")]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert [t for t in links(page.read_text()) if t and not (page.parent / t).exists()] == []


def test_a_broken_link_would_be_seen():
    assert links("see [this](docs/nowhere.md#x) and [that](https://example.org)") == ["docs/nowhere.md"]


def shape(text):
    """How many headings, fences of blocks and rows of tables a page has."""
    return tuple(len(re.findall(mark, text, re.MULTILINE)) for mark in (r"^#+ ", r"^```", r"^\|"))


#: pages whose Chinese form is shorter on purpose: it refers to the English page for blocks that hold nothing to translate
SHORTER = {"adapters", "agents", "ci", "command-line", "convert", "distributed", "jax", "kernel", "steps", "streaming", "sweep", "verify"}
CHINESE = ["README.zh.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.zh.md"))]


@pytest.mark.parametrize("chinese", [name for name in CHINESE if Path(name).name.split(".")[0] not in SHORTER])
def test_both_languages_have_the_same_parts(chinese):
    assert shape((ROOT / chinese.replace(".zh.md", ".md")).read_text()) == shape((ROOT / chinese).read_text())


def test_pages_that_have_the_same_parts_are_not_called_shorter():
    pairs = {name: [shape((ROOT / "docs" / f"{name}{end}").read_text()) for end in (".md", ".zh.md")] for name in SHORTER}
    assert [name for name, (english, chinese) in pairs.items() if english == chinese] == []


def test_a_part_that_is_missing_would_be_seen():
    assert shape("# a\n\n| b |\n") != shape("# a\n")
    assert shape("## a\n```text\nx\n```\n| b |\n") == (1, 2, 1)


def test_commands_of_the_readmes_exist():
    makefile = (ROOT / "Makefile").read_text()
    for name in ("README.md", "README.zh.md"):
        targets = set(re.findall(r"\bmake ([a-z-]+)", (ROOT / name).read_text()))
        assert {"demo", "test"} <= targets
        assert [t for t in targets if f"\n{t}:" not in makefile] == []


def test_the_demo_covers_every_step_of_the_guide():
    from paralign.progress.steps import STEPS
    from paralign.registry import STAGES

    makefile = (ROOT / "Makefile").read_text()
    (named,) = re.findall(r"^DEMO_STAGES := (.*)$", makefile, re.MULTILINE)
    assert named.split() == [stage.name for stage in STAGES]
    recipe = re.search(r"^demo: \$\(VENV\)/stamp-demo\n((?:\t.*\n)+)", makefile, re.MULTILINE).group(1)
    assert "$(DEMO_STAGES)" in recipe
    assert "paralign status $(DEMO)" in recipe.splitlines()[-1]
    without_stage = [step.number for step in STEPS if not step.stages]
    assert without_stage == ["3.10"]
    assert "candidate/train.py" in recipe, "the log of the port's own training"


def test_the_changelog_knows_this_version():
    from paralign import __version__

    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


def tracked():
    import subprocess

    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    return [ROOT / line for line in done.stdout.splitlines() if (ROOT / line).is_file()]


def test_no_file_names_a_place_of_the_machine_that_it_was_written_on():
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout")
    pattern = re.compile(r"(?<![\w.$])/(?:work|root|opt/dev|home/\w+)/")
    wrong = [str(p.relative_to(ROOT)) for p in tracked() if p.suffix in {".py", ".md", ".toml", ".txt", ""} and p.name != Path(__file__).name
             and pattern.search(p.read_text(errors="ignore"))]  # fmt: skip
    assert wrong == []
