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


def test_the_two_readmes_have_the_same_parts():
    def shape(name):
        text = (ROOT / name).read_text()
        return (
            len(re.findall(r"^#+ ", text, re.MULTILINE)),
            len(re.findall(r"^```", text, re.MULTILINE)),
            len(re.findall(r"^\|", text, re.MULTILINE)),
        )

    assert shape("README.md") == shape("README.zh.md")


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
