"""Right ports whose containers are built otherwise, with foreign names and equal shapes: the operations tell which tensor is which."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED

torch = pytest.importorskip("torch")

SIZE = 6
INPUTS = np.random.RandomState(3).randn(5, SIZE).astype("float32")


def drawn(*shape):
    return torch.nn.Parameter(0.4 * torch.randn(*shape))


def checked(reference, candidate):
    torch.manual_seed(1)
    sides = [Side(framework="torch", functions={"build_model": build}) for build in (reference, candidate)]
    return check(*sides, inputs=INPUTS, stages=["weights", "forward"])


def mapped(result):
    return {p.key: p.candidate.name for p in result["weights"].pairs if p.candidate is not None}


# -- one list of modules against a list for each kind ------------------------------------------------------------------------


class Shift(torch.nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.names = first, second
        for name in self.names:
            setattr(self, name, drawn(SIZE))

    def forward(self, x):
        add, power = (getattr(self, name) for name in self.names)
        return (x + add) * power.exp()


class Triangles(torch.nn.Module):
    def __init__(self, *names, table=False):
        super().__init__()
        self.names = names
        if table:
            self.register_buffer("ones", torch.ones(SIZE, SIZE))
        for name in names:
            setattr(self, name, drawn(*((SIZE,) if name == names[2] else (SIZE, SIZE))))

    def forward(self, x):
        lower, upper, diagonal = (getattr(self, name) for name in self.names)
        return x @ (lower.tril(-1) @ upper.triu(1) + torch.diag(diagonal.exp()))


class Squash(torch.nn.Module):
    def __init__(self, name, faulty=False):
        super().__init__()
        self.name, self.faulty = name, faulty
        setattr(self, name, drawn(SIZE))

    def forward(self, x):
        factor = getattr(self, self.name)
        return torch.tanh(x) + factor if self.faulty else torch.tanh(x) * factor


class Interleaved(torch.nn.Module):
    def __init__(self):
        super().__init__()
        kinds = [(Shift("loc", "log_scale"), Triangles("l", "u", "log_s", table=True), Squash("rescale")) for _ in range(3)]
        self.steps = torch.nn.ModuleList([module for triple in kinds for module in triple])

    def forward(self, x):
        for step in self.steps:
            x = step(x)
        return x


class Grouped(torch.nn.Module):
    """Without the table of ones that the other registers and never needs."""

    def __init__(self, faulty=False):
        super().__init__()
        self.curb = torch.nn.ModuleList([Squash("beta", faulty) for _ in range(3)])
        self.mix = torch.nn.ModuleList([Triangles("below", "above", "middle") for _ in range(3)])
        self.affine = torch.nn.ModuleList([Shift("offset", "gain") for _ in range(3)])

    def forward(self, x):
        for triple in zip(self.affine, self.mix, self.curb, strict=True):
            for module in triple:
                x = module.forward(x)
        return x


def test_modules_in_one_list_against_a_list_for_each_kind():
    result = checked(Interleaved, Grouped)
    assert result.verdict == ALIGNED
    assert mapped(result)["steps.4.log_s"] == "mix.1.middle"
    assert mapped(result)["steps.6.loc"] == "affine.2.offset"


def test_a_wrong_port_of_such_a_model_diverges_at_its_line_under_the_likeliest_places():
    result = checked(Interleaved, lambda: Grouped(faulty=True))
    assert [s.verdict for s in result.stages] == [UNDERPOWERED, DIVERGED]
    assert mapped(result)["steps.4.log_s"] == "mix.1.middle"
    assert any("places are guessed by order and use" in warning for warning in result["weights"].warnings)
    assert any("places are guessed by order and use" in doubt for doubt in result["weights"].doubts)
    assert any("weights are guessed (see `weights`)" in warning for warning in result["forward"].warnings)
    assert not result["forward"].doubts
    assert "factor" in result["forward"].divergence.candidate.code
    (told,) = (w for w in result["forward"].warnings if w.startswith("the places of "))
    count, whole = int(told.split()[3]), int(told.split()[5])
    assert 2 <= count <= whole
    assert not result["forward"].divergence.confirmed
    assert any("whose place is guessed" in note for note in result["forward"].divergence.notes)


def test_a_fault_that_takes_no_guessed_weight_stays_confirmed():
    """Equal branches whose places nothing proves, and a fault before them at an operation without weights."""

    class Branches(torch.nn.Module):
        def __init__(self, names, factor):
            super().__init__()
            self.factor = factor
            for name in names:
                setattr(self, name, torch.nn.Linear(SIZE, SIZE))
            self.names = names

        def forward(self, x):
            x = torch.exp(x * self.factor)
            first, second = (getattr(self, name) for name in self.names)
            return torch.tanh(second(torch.relu(first(x))))

    result = checked(lambda: Branches(("one", "two"), 0.5), lambda: Branches(("left", "right"), 0.25))
    assert [s.verdict for s in result.stages] == [UNDERPOWERED, DIVERGED]
    divergence = result["forward"].divergence
    assert divergence.confirmed
    assert not any("whose place is guessed" in note for note in divergence.notes)


# -- lists of parameters, one against several, used in another order of lines ------------------------------------------------


class OneList(torch.nn.Module):
    """Of every three: a bias, a scale under an exponential, a gate."""

    def __init__(self):
        super().__init__()
        self.p = torch.nn.ParameterList([drawn(SIZE) for _ in range(9)])

    def forward(self, x):
        for n in range(0, 9, 3):
            x = torch.tanh(x + self.p[n])
            x = x * self.p[n + 1].exp()
            x = x - x.flip(-1) * torch.sigmoid(self.p[n + 2])
        return x


class SeveralLists(torch.nn.Module):
    """The same, gates and scales worked out before the bias is added."""

    def __init__(self):
        super().__init__()
        self.gates, self.gains, self.offsets = (torch.nn.ParameterList([drawn(SIZE) for _ in range(3)]) for _ in range(3))

    def forward(self, x):
        for offset, gain, gate in zip(self.offsets, self.gains, self.gates, strict=True):
            open_, factor = torch.sigmoid(gate), gain.exp()
            x = factor * torch.tanh(offset + x)
            x = x - open_ * x.flip(-1)
        return x


def test_one_list_of_parameters_against_several_that_are_read_in_another_order():
    result = checked(OneList, SeveralLists)
    assert result.verdict == ALIGNED
    assert [mapped(result)[f"p.{n}"] for n in range(3, 6)] == ["offsets.1", "gains.1", "gates.1"]


# -- all matrices of one kind made before the first of the other is used -----------------------------------------------------


class Rotate(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name
        setattr(self, name, drawn(SIZE, SIZE))

    def matrix(self):
        free = getattr(self, self.name)
        return torch.matrix_exp(free - free.T)

    def forward(self, x):
        return x @ self.matrix()


class Mix(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name
        setattr(self, name, drawn(SIZE, SIZE))

    def forward(self, x):
        return torch.tanh(x @ getattr(self, self.name))


class Alternating(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(*(module for _ in range(3) for module in (Mix("w"), Rotate("a"))))

    def forward(self, x):
        return self.body(x)


class Prepared(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.turns = torch.nn.ModuleDict({name: Rotate("skew") for name in ("first", "second", "third")})
        self.kernels = torch.nn.ParameterList([drawn(SIZE, SIZE) for _ in range(3)])

    def forward(self, x):
        for kernel, turn in zip(self.kernels, [t.matrix() for t in self.turns.values()], strict=True):
            x = torch.tanh(x @ kernel) @ turn
        return x


def test_matrices_that_are_all_prepared_before_the_first_is_used():
    result = checked(Alternating, Prepared)
    assert result.verdict == ALIGNED
    assert [mapped(result)[f"body.{n}.{leaf}"] for n, leaf in ((2, "w"), (3, "a"))] == ["kernels.1", "turns.second.skew"]


# -- names that tell are not overruled in silence ----------------------------------------------------------------------------


class Named(torch.nn.Module):
    """Two layers of equal names on both sides, beside parameters whose names tell nothing."""

    def __init__(self, free, swapped=False):
        super().__init__()
        self.swapped = swapped
        self.inner, self.outer = Squash("beta"), Squash("beta")
        for name in free:
            setattr(self, name, drawn(SIZE))
        self.free = free

    def forward(self, x):
        for number, name in enumerate(self.free):
            x = x + getattr(self, name) if number % 2 else x * getattr(self, name).exp()
        first, second = (self.outer, self.inner) if self.swapped else (self.inner, self.outer)
        return second(first(x))


@pytest.mark.parametrize("swapped", [False, True])
def test_layers_of_equal_names_that_are_exchanged_in_use_are_told(swapped):
    result = checked(lambda: Named("abcd"), lambda: Named("klmn", swapped))
    told = result.verdict == DIVERGED or any("against what names say" in warning for warning in result["weights"].warnings)
    assert told is swapped


class Swapping(torch.nn.Module):
    """Two parameters of one module, equally named on both sides."""

    def __init__(self, free, swapped=False):
        super().__init__()
        self.scale, self.shift = drawn(SIZE), drawn(SIZE)
        for name in free:
            setattr(self, name, drawn(SIZE))
        self.free, self.swapped = free, swapped

    def forward(self, x):
        for number, name in enumerate(self.free):
            x = x + getattr(self, name) if number % 2 else x * getattr(self, name).exp()
        scale, shift = (self.shift, self.scale) if self.swapped else (self.scale, self.shift)
        return torch.tanh(x * scale + shift)


@pytest.mark.parametrize(("swapped", "verdict"), [(False, ALIGNED), (True, DIVERGED)])
def test_parameters_of_equal_names_that_are_exchanged_in_use_diverge(swapped, verdict):
    assert checked(lambda: Swapping("abcd"), lambda: Swapping("klmn", swapped)).verdict == verdict
