"""The documentation as a site (`make docs`): its navigation names every page once, and nothing in it comes from elsewhere."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SETTINGS = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def named(settings):
    return re.findall(r"^ +- \"[^\"\n]+\": ([\w./-]+\.md)$", settings.partition("\nnav:\n")[2], re.MULTILINE)


def test_the_navigation_names_every_page_once():
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    missing = sorted(pages - set(named(SETTINGS)))
    assert missing == [], f"name these pages under `nav:` in mkdocs.yml: {missing}"
    assert sorted(set(named(SETTINGS)) - pages) == []
    assert [page for page, count in Counter(named(SETTINGS)).items() if count > 1] == []


def test_a_page_that_is_not_named_would_be_seen():
    assert "guide.md" in named(SETTINGS)
    assert "guide.md" not in named(SETTINGS.replace(": guide.md", ": other.md"))


def test_chinese_pages_stand_under_their_own_heading():
    english, _, chinese = SETTINGS.partition('"中文":')
    assert [page for page in named(english) if page.endswith(".zh.md")] == []
    assert [page for page in re.findall(r": ([\w.-]+\.md)$", chinese, re.MULTILINE) if not page.endswith(".zh.md")] == []


def test_nothing_comes_from_elsewhere_and_warnings_are_errors():
    assert "://" not in SETTINGS
    assert "\nstrict: true\n" in SETTINGS
    assert "\n  font: false\n" in SETTINGS  # the theme would ask a host for its fonts
    assert not re.search(r"^```mermaid", "".join(path.read_text() for path in (ROOT / "docs").glob("*.md")), re.MULTILINE)  # as above


def test_links_out_of_the_documentation_become_paths():
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "site_hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (
        module.on_page_markdown("see [`base.py`](../src/base.py) and [this](guide.md)")
        == "see `base.py` (`src/base.py`) and [this](guide.md)"
    )


def test_names_of_the_interface_are_there():
    from importlib import import_module

    found = re.findall(r"^::: ([\w.]+)\.(\w+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    assert len(found) > 5
    assert [name for home, name in found if not hasattr(import_module(home), name)] == []
