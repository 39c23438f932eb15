"""One framework on both sides: the example of docs/adapters.md."""

from __future__ import annotations

from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"


@pytest.mark.torch
def test_another_element_type_of_the_same_framework(capsys):
    pytest.importorskip("torch")
    code = PAGE.read_text().partition("## One framework on both sides")[2].partition("```python\n")[2].partition("```")[0]
    exec(code, {})
    said = code.rpartition("# ")[2].strip()
    assert said.startswith("diverged ")
    assert capsys.readouterr().out.strip() == said


@pytest.mark.torch
def test_a_kernel_of_recurrent_layers_is_no_branch_on_the_element_type():
    torch = pytest.importorskip("torch")
    from paralign import Side, check

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = torch.nn.LSTM(6, 5, batch_first=True)  # in float32 one kernel on a CPU, in float64 step by step

        def forward(self, x):
            return self.lstm(x)[0]

    class Branching(Net):
        def forward(self, x):
            x = self.lstm(x)[0]
            return x * 1.0000001 if x.dtype == torch.float32 else x

    inputs = torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(0)).numpy()
    for model, told in ((Net, False), (Branching, True)):
        sides = [Side(framework="torch", model=model()) for _ in range(2)]
        notes = check(*sides, inputs=inputs, stages=["weights", "forward"])["forward"].notes
        assert any("computes otherwise in float64" in note for note in notes) is told
