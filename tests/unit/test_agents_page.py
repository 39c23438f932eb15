"""The page for coding agents: its example, its calls in their order, its claims."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from paralign.agents.tools import OFFERS, Tools
from paralign.cli import parser

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("agents.md", "agents.zh.md")


def calls(page):
    blocks = re.findall(r"```json\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    return [found for block in blocks if "tool" in (found := json.loads(block))]


@pytest.mark.parametrize("page", PAGES)
def test_the_page_names_every_tool_and_a_command_that_is_there(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    assert [name for name in (offer.name for offer in OFFERS) if f"| `{name}` |" not in text] == []
    (settings,) = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL) if "mcpServers" in block]
    server = settings["mcpServers"]["paralign"]
    assert server["command"] == "paralign"
    assert parser().parse_args(server["args"]).seconds == 600
    assert calls(page) == calls("agents.md")


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.paddle
def test_the_example_goes_as_the_page_says(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("paddle")
    text = (DOCS / "agents.md").read_text(encoding="utf-8")
    (tmp_path / "port").mkdir()
    for name, body in re.findall(r"`(port/[\w.]+)`:\n\n```\w+\n(.*?)```", text, re.DOTALL):
        (tmp_path / name).write_text(body)
    tools = Tools(tmp_path, seconds=300)
    scanned, explained, converted, checked = (tools.call(each["tool"], each["arguments"]) for each in calls("agents.md"))
    first = scanned["to_do"][0]
    assert (first["status"], first["line"], first["source"]) == ("silent", 10, "self.pool = nn.AvgPool2d(2, padding=1)")
    assert "leaves padded zeros out of the average" in first["notes"][0]["text"]
    assert "avg-pool2d-padding" in [entry["id"] for entry in explained["entries"]]
    assert converted["counts"]["by hand"] == 0
    assert checked["verdict"] == "aligned"

    candidate = tmp_path / "port" / "candidate.py"
    assert ", exclusive=False" in candidate.read_text()
    candidate.write_text(candidate.read_text().replace(", exclusive=False", ""))
    found = tools.call("check", {"project": "port"})
    assert found["verdict"] == "diverged"
    guilty = found["stages"][1]["faults"][0]["candidate"]
    assert (guilty["file"], guilty["line"]) == ("port/candidate.py", 10)
