"""The tools for coding agents: what they answer, what they refuse; the protocol itself where the package mcp is installed."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from paralign import cli
from paralign.agents import brief as bounds
from paralign.agents.brief import brief
from paralign.agents.commanding import Commands, TimedOut
from paralign.agents.confined import Root
from paralign.agents.tools import OFFERS, SCHEME, Tools
from paralign.errors import ParalignError, UsageError
from paralign.registry import STAGES

SIDE = """
import numpy as np


class Net:
    def __init__(self):
        random = np.random.RandomState({seed})
        self.parameters = {{"weight": random.randn(4, 3).astype("float32"), "bias": random.randn(4).astype("float32")}}

    def __call__(self, x):
        return x @ self.parameters["weight"].T {sign} self.parameters["bias"]


def build_model():
    return Net()
"""

PROJECT = """
stages = ["weights", "forward"]
[reference]
framework = "numpy"
module = "reference.py"
[candidate]
framework = "numpy"
module = "candidate.py"
[inputs]
shape = [5, 3]
"""

TORCH = "import torch\n\n\ndef pool(x):\n    return torch.nn.functional.avg_pool2d(x, 2, padding=1)\n"


def project(folder, sign="+"):
    folder.mkdir()
    (folder / "paralign.toml").write_text(PROJECT)
    (folder / "reference.py").write_text(SIDE.format(seed=0, sign="+"))
    (folder / "candidate.py").write_text(SIDE.format(seed=1, sign=sign))
    return folder


@pytest.fixture
def root(tmp_path):
    home = tmp_path / "root"
    home.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.py").write_text("import torch\n")
    return home


def test_a_check_says_what_a_person_would_read_and_leaves_a_report(root):
    project(root / "port")
    tools = Tools(root)
    found = tools.call("check", {"project": "port"})
    assert found["verdict"] == "aligned"
    assert [(stage["name"], stage["values_judged"] > 0) for stage in found["stages"]] == [("weights", True), ("forward", True)]
    assert found["page"] == "./port/result/report.html"
    assert (root / "port" / "result" / "report.html").exists()
    assert found["report"] == f"{SCHEME}port/result"
    assert "paralign: aligned" in tools.report(found["report"])

    project(root / "wrong", sign="-")
    found = tools.call("check", {"project": "wrong", "stages": ["forward"], "seconds": 60})
    assert found["verdict"] == "diverged"
    (stage,) = found["stages"]
    assert stage["values_not_aligned"] == 1
    assert stage["worst"][0]["ratio"] != 0
    json.dumps(found, allow_nan=False)
    assert tools.reports.keys() == {f"{SCHEME}port/result", f"{SCHEME}wrong/result"}

    (root / "wrong" / "candidate.py").write_text("raise RuntimeError('no \\x1b[2J model')\n")
    found = tools.call("check", {"project": "wrong"})
    assert found["verdict"] == "error"
    assert "no \\u001b[2J model" in json.dumps(found).replace("\\\\", "\\")
    assert "\x1b" not in json.dumps(found)


LOSS = """
import numpy as np


def build_model():
    return lambda x: x


def metric(outputs, labels):
    return {{"error": float(np.abs(outputs).mean()) * {factor}}}
"""


def mistaken(folder, factor="0.3"):
    """A project whose candidate has one wrong number."""
    project(folder)
    (folder / "paralign.toml").write_text(PROJECT.replace('["weights", "forward"]', '["metric"]') + "[labels]\nshape = [5]\nhigh = 2\n")
    (folder / "reference.py").write_text(LOSS.format(factor="0.7"))
    (folder / "candidate.py").write_text(LOSS.format(factor=factor))
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_repair_is_a_patch_that_is_told_and_never_applied(root):
    folder = mistaken(root / "port")
    before = contents(folder)
    found = Tools(root).call("repair", {"project": "port", "search": 60})
    assert contents(folder) == before, "nothing of the user's is touched"
    (edit,) = found["edits"]
    assert (found["verdict"], found["aligned_with_the_patch"], found["patch"]) == ("diverged", True, "./port/result/repair.patch")
    assert (edit["stage"], edit["proven"]) == ("metric", True)
    assert [line for line in edit["patch"] if line[:2] in ("- ", "+ ")] == [
        '-    return {"error": float(np.abs(outputs).mean()) * 0.3}',
        '+    return {"error": float(np.abs(outputs).mean()) * 0.7}',
    ]
    assert (root / "port" / "result" / "repair.patch").read_text().splitlines() == edit["patch"]


def test_where_nothing_is_wrong_or_nothing_helps_no_patch_is_told(root):
    mistaken(root / "right", factor="0.7")
    found = Tools(root).call("repair", {"project": "right"})
    assert (found["verdict"], found["edits"], found["patch"], found["aligned_with_the_patch"]) == ("aligned", [], None, True)
    folder = mistaken(root / "wrong")
    text = (folder / "candidate.py").read_text().replace("np.abs(outputs).mean()", "sum(v * n for n, v in enumerate(outputs.ravel()))")
    (folder / "candidate.py").write_text(text)
    found = Tools(root).call("repair", {"project": "wrong", "search": 5})
    assert (found["verdict"], found["edits"], found["patch"], found["aligned_with_the_patch"]) == ("diverged", [], None, False)


def test_the_search_takes_at_most_half_of_a_call(root, monkeypatch):
    mistaken(root / "port", factor="0.7")
    given = []

    def run(words, seconds):
        given.append((words, seconds))
        raise ParalignError("stop")

    tools = Tools(root, seconds=100)
    monkeypatch.setattr(tools._commands, "run", run)
    for arguments in ({}, {"search": 500}, {"search": 7, "seconds": 40}, {"seconds": 40}):
        with pytest.raises(ParalignError, match="stop"):
            tools.call("repair", {"project": "port", **arguments})
    assert [(words[words.index("--seconds") + 1], seconds) for words, seconds in given] == [("50", 100), ("50", 100), ("7", 40), ("20", 40)]
    assert not [words for words, _ in given if "--apply" in words]


def test_source_is_scanned_explained_and_converted(root):
    (root / "net.py").write_text(TORCH)
    tools = Tools(root)
    found = tools.call("scan", {"paths": ["net.py"]})
    (call,) = found["to_do"]
    assert (call["path"], call["line"], call["name"]) == ("net.py", 5, "torch.nn.functional.avg_pool2d")
    assert call["notes"]
    assert tools.call("explain", {"api": call["name"]})["entries"]
    with pytest.raises(ParalignError, match="no call of this name is known"):
        tools.call("explain", {"api": "torch.nothing_of_this"})
    found = tools.call("convert", {"source": "net.py", "destination": "port.py"})
    assert "import paddle" in (root / "port.py").read_text()
    assert sum(found["counts"].values()) > 0
    with pytest.raises(ParalignError, match="the destination is there already"):
        tools.call("convert", {"source": "net.py", "destination": "port.py"})


def test_weights_are_converted(root):
    import numpy as np

    np.savez(root / "a.npz", **{"fc.weight": np.ones((2, 3), "float32")})
    found = Tools(root).call("convert", {"source": "a.npz", "destination": "b.safetensors", "what": "weights"})
    assert found["verdict"] == "kept"
    assert (root / "b.safetensors").exists()


HOSTILE = [
    ("scan", {"paths": ["../outside"]}, "leads out of the root"),
    ("scan", {"paths": ["/etc"]}, "leads out of the root"),
    ("scan", {"paths": ["link"]}, "leads out of the root"),
    ("scan", {"paths": ["a\x00b"]}, "control characters"),
    ("scan", {"paths": ["a\x1b[2J"]}, "control characters"),
    ("scan", {"paths": ["x" * 5000]}, "at most 4096"),
    ("scan", {"paths": ["x"] * 1000}, "at most 64"),
    ("scan", {"paths": "net.py"}, "must be a list"),
    ("scan", {"paths": [{"a": 1}]}, "must be a text"),
    ("scan", {}, "needs the argument 'paths'"),
    ("scan", {"paths": [""]}, "is empty"),
    ("scan", ["net.py"], "must be an object"),
    ("scan", {"paths": ["nowhere"]}, "no such"),
    ("check", {"project": "port", "stage": "forward"}, "did you mean 'stages'"),
    ("check", {"project": "port", "stages": ["forwrad"]}, "did you mean 'forward'"),
    ("check", {"project": "port", "stages": ["--out=/tmp/x"]}, "does not know"),
    ("check", {"project": "port", "fresh": "yes"}, "true or false"),
    ("check", {"project": "port", "seconds": -1}, "must lie above 0"),
    ("check", {"project": "port", "seconds": True}, "must be a number"),
    ("check", {"project": "empty"}, "paralign.toml"),
    ("check", {"project": "elsewhere"}, "the project's output folder leads out of the root"),
    ("explain", {"api": "--help"}, "no name of a call"),
    ("explain", {"api": "x" * 10**6}, "at most 200"),
    ("explain", {"api": 7}, "must be a text"),
    ("convert", {"source": "net.py", "destination": "../outside/x.py"}, "leads out of the root"),
    ("convert", {"source": "net.py", "destination": "x.py", "what": "models"}, "choose: code, weights"),
    ("convert", {"source": "net.py", "destination": "x.py", "project": "port"}, "belongs to what='weights'"),
    ("locate", {"result": "empty"}, "no capture of operations"),
    ("repair", {"project": "port", "apply": True}, "repair has no argument 'apply'"),
    ("repair", {"project": "../outside"}, "leads out of the root"),
    ("repair", {"project": "elsewhere"}, "the project's output folder leads out of the root"),
    ("repair", {"project": "port", "stages": ["--apply"]}, "does not know"),
    ("repair", {"project": "port", "search": 0}, "must lie above 0"),
    ("repair", {"project": "empty"}, "paralign.toml"),
    ("repair", {}, "needs the argument 'project'"),
    ("verify", {"port": "port", "specification": "port", "rounds": 10**9}, "at most 100"),
    ("verify", {"port": "port", "specification": "port", "sizes": ["2"]}, "must be a number"),
    ("shell", {"command": "id"}, "there is no tool 'shell'"),
]


@pytest.fixture
def tools(root):
    (root / "net.py").write_text(TORCH)
    (root / "empty").mkdir()
    (root / "link").symlink_to(root.parent / "outside")
    project(root / "port")
    project(root / "elsewhere")
    (root / "elsewhere" / "paralign.toml").write_text('out = "../../outside"\n' + PROJECT)
    return Tools(root)


@pytest.mark.parametrize(("name", "arguments", "said"), HOSTILE, ids=lambda value: str(value)[:40])
def test_what_is_refused_is_told_in_bounds(tools, name, arguments, said):
    with pytest.raises(ParalignError) as caught:
        tools.call(name, arguments)
    text = str(caught.value)
    assert said in text
    assert len(text) < 3000
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (SCHEME + "../outside", "leads out"),
        (SCHEME + "%2e%2e/outside", "leads out"),
        (SCHEME + "port", "no report"),
        ("file:///etc/passwd", "no address of a report"),
        (SCHEME + "port%00", "control characters"),
        (SCHEME + "empty", "a link that leads out"),
        (SCHEME, "is empty"),
    ],
)
def test_reports_are_read_below_the_root_alone(tools, address, said):
    (tools.root.folder / "empty" / "report.json").symlink_to(tools.root.folder.parent / "outside" / "secret.py")
    with pytest.raises(ParalignError, match=said):
        tools.report(address)


def test_a_check_that_takes_too_long_is_ended_with_all_that_it_started(root):
    folder = project(root / "port")
    (folder / "candidate.py").write_text(f"import os, time\nopen({str(root / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n")
    began = time.monotonic()
    with pytest.raises(TimedOut, match="took longer than 8 s and was ended"):
        Tools(root, seconds=8).call("check", {"project": "port", "seconds": 100})
    assert time.monotonic() - began < 100
    worker = int((root / "pid").read_text())
    for _ in range(100):
        if not Path(f"/proc/{worker}").exists():
            break
        time.sleep(0.1)
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_nothing_is_imported_from_the_agents_folder(root):
    for name in ("numpy", "paralign", "json"):
        (root / f"{name}.py").write_text("raise SystemExit('imported')\n")
    done = Commands(root).run(["--version"], 60)
    assert done.code == 0
    assert done.output.startswith("paralign ")


def test_answers_stay_in_bounds_and_say_what_they_lack():
    long = {"calls": [{"text": "x" * 5000, "n": n, "bad": float("nan")} for n in range(3000)], "\x1bkey": "a\nb"}
    found = brief(long)
    assert len(json.dumps(found, allow_nan=False)) <= bounds.WHOLE
    assert found["calls_omitted"] == 3000 - len(found["calls"])
    assert found["\\u001bkey"] == "a\\u000ab"
    assert brief({"a": [1, 2]}) == {"a": [1, 2]}


def test_offers_are_schemas_that_refuse_what_is_not_named():
    for offer in OFFERS:
        schema = offer.schema()
        assert schema["additionalProperties"] is False
        assert set(schema["required"]) <= set(schema["properties"])
        assert all(each["description"] for each in schema["properties"].values())
    check = next(offer for offer in OFFERS if offer.name == "check").schema()
    assert check["properties"]["stages"]["items"]["enum"] == [stage.name for stage in STAGES]


def test_a_root_has_to_be_a_folder(tmp_path):
    with pytest.raises(UsageError, match="the root is no folder"):
        Root(tmp_path / "nowhere")


def test_without_the_package_the_command_says_how_to_get_it(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("paralign.agents.server.find_spec", lambda _: None)
    assert cli.main(["mcp", str(tmp_path)]) == 2
    assert "pip install 'paralign[mcp]'" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore")
def test_an_agent_speaks_with_it_over_standard_input_and_output(root):
    pytest.importorskip("mcp_types", reason="the protocol needs the package mcp (the extra `mcp`)")
    import anyio
    from mcp import Client, MCPError, StdioServerParameters, stdio_client

    project(root / "port")
    (root / "net.py").write_text(TORCH)
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "paralign", "mcp", str(root), "--seconds", "100"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )  # fmt: skip

    async def talk():
        async with Client(stdio_client(server)) as client:
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == [offer.name for offer in OFFERS]
            checked = await client.call_tool("check", {"project": "port"})
            assert not checked.is_error
            assert checked.structured_content["verdict"] == "aligned"
            resources = (await client.list_resources()).resources
            assert [resource.uri for resource in resources] == [f"{SCHEME}port/result"]
            report = await client.read_resource(resources[0].uri)
            assert "paralign: aligned" in report.contents[0].text
            scanned = await client.call_tool("scan", {"paths": ["net.py"]})
            assert scanned.structured_content["to_do"][0]["line"] == 5
            refused = await client.call_tool("scan", {"paths": ["../outside"]})
            assert refused.is_error
            assert "leads out of the root" in refused.content[0].text
            with pytest.raises(MCPError, match="leads out"):
                await client.read_resource(f"{SCHEME}%2e%2e/outside")

    anyio.run(talk)


def test_links_that_lead_out_of_the_root_are_not_read_nor_written(root, tools):
    outside = root.parent / "beyond"
    outside.mkdir()
    (outside / "secret.py").write_text("import torch\nKEY = 'secret'\n")
    source = root / "linked"
    source.mkdir()
    (source / "net.py").write_text("import torch\n")
    (source / "leak.py").symlink_to(outside / "secret.py")
    for name, arguments in (("scan", {"paths": ["linked"]}), ("convert", {"source": "linked", "destination": "made"})):
        with pytest.raises(UsageError, match="a link leads out of the root"):
            tools.call(name, arguments)
    (source / "leak.py").unlink()
    (root / "made").mkdir()
    (root / "made" / "net.py").symlink_to(outside / "made.py")
    with pytest.raises(ParalignError, match="a link stands where a file shall be written"):
        tools.call("convert", {"source": "linked", "destination": "made"})
    assert not (outside / "made.py").exists()
