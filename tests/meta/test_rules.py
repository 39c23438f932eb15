"""The page of line rules lists each rule with what it knows."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def registered(monkeypatch):
    """Rules by id as the benchmark that writes the page finds them."""
    folder = ROOT / "benchmarks" / "faults"
    monkeypatch.syspath_prepend(str(folder))
    spec = importlib.util.spec_from_file_location("rules_of_faults", folder / "rules.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module.registered()


def listed(page):
    """Id -> what the rule knows, as a page says."""
    return dict(re.findall(r"^\| `([\w-]+)` \| ([^|]*) \|", page, re.MULTILINE))


def test_every_rule_stands_on_its_page(monkeypatch):
    assert listed((ROOT / "docs" / "rules.md").read_text(encoding="utf-8")) == registered(monkeypatch)


def test_a_rule_without_words_would_be_seen():
    assert listed("| `stage` |  | 0 |\n| `call-site` | where it is called | 1 |") == {"stage": "", "call-site": "where it is called"}
