"""The watcher is not between Paddle's internals and functions that look at their caller: ``enable_compat`` with a scope, warnings."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.paddle

IN_SCOPE = """
def sine(x):
    import torch
    return torch.sin(x), hasattr(torch, "to_tensor")
"""

PROGRAM = '''
import inspect, json, warnings
import paddle

paddle.enable_compat(scope={"port_in_scope"})
import port_in_scope as within


def asked():
    """Who calls it, as the caller's frame says."""
    return inspect.currentframe().f_back.f_code.co_name


class Net(paddle.nn.Layer):
    def forward(self, x):
        self.caller = asked()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            warnings.warn("here", stacklevel=1)
        self.line = seen[0].filename.rpartition("/")[2]
        y, self.name = within.sine(x)
        return y + paddle.ones_like(x)


def facts(net, x):
    y = net(x)
    return [y.numpy().tolist(), net.caller, net.name, net.line]


class Sink:
    count = 0

    def __getattr__(self, name):
        def noted(*arguments, **keywords):
            Sink.count += 1
        return noted


from paralign.adapters.paddle import create
adapter, net, x = create(), Net(), paddle.to_tensor([0.5, 1.0])
plain = facts(net, x)
with adapter.operations(Sink(), net):
    watched = facts(net, x)
print(json.dumps({"plain": plain, "watched": watched, "seen": Sink.count}))
'''


def test_what_looks_at_its_caller_sees_the_same_when_watched(tmp_path):
    (tmp_path / "port_in_scope.py").write_text(IN_SCOPE)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert told["seen"] > 0, "the watcher saw nothing: the test shows nothing"
    assert told["plain"][1] == "forward"
    assert told["plain"][2] is True, "torch is Paddle in the scope"
    assert told["plain"] == told["watched"]
