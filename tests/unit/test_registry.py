"""Every stage is said once, in the registry, and has a file of its name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from paralign.registry import BY_NAME, SIGNATURES, STAGES

DOCS = Path(__file__).parents[2] / "docs"


def test_every_stage_has_a_folder_that_runs_it():
    for stage in STAGES:
        assert callable(import_module(f"paralign.stages.{stage.name}.stage").run), stage.name


def test_a_stage_follows_only_earlier_ones():
    names = list(BY_NAME)
    for stage in STAGES:
        assert set(stage.follows) <= set(names[: names.index(stage.name)])


def test_no_function_of_a_side_belongs_to_two_stages():
    assert len(SIGNATURES) == sum(len(stage.functions) for stage in STAGES)
    for name, signature in SIGNATURES.items():
        assert signature.startswith(f"{name}(")


def test_the_page_of_the_project_file_tells_of_every_function():
    page = (DOCS / "project.md").read_text()
    assert [name for name in SIGNATURES if f"{name}(" not in page] == []
