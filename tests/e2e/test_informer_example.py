"""examples/informer: the port is right, each planted mistake is one, and the engine finds where. On a table of noise and seasons."""

import math
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from paralign.trainlog import TrainLog

EXAMPLE = Path(__file__).parents[2] / "examples" / "informer"
BREAKS_FILE = EXAMPLE / "candidate" / "informer_paddle" / "breaks.py"
BREAKS = runpy.run_path(str(BREAKS_FILE))["BREAKS"]
OWN = ("reference", "candidate", "untrained", "prepare", "informer", "informer_paddle")
ROWS = 720


def forget():
    for name in [name for name in sys.modules if name.split(".")[0] in OWN]:
        del sys.modules[name]


def write_table(path):
    """``ROWS`` weeks of three columns, which rise, turn and shake."""
    rng, weeks = np.random.default_rng(1), np.arange(ROWS)
    values = np.stack([20 + 0.01 * weeks, 3 * np.sin(weeks / 8.3), np.cos(weeks / 3)], 1) + 0.3 * rng.normal(size=(ROWS, 3))
    dates = np.datetime64("1990-01-06") + 7 * weeks
    lines = [",".join([str(date), *(f"{value:.3f}" for value in row)]) for date, row in zip(dates, values, strict=True)]
    path.write_text("\n".join(["date,sea,growth,OT", *lines]) + "\n")


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """Both side modules over one small table; the reference's weights are untrained ones."""
    for module in ("torch", "paddle"):
        pytest.importorskip(module)
    import torch

    project = tmp_path_factory.mktemp("informer")
    (project / "data").mkdir()
    write_table(project / "data" / "weekly.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PARALIGN_BREAK", raising=False)
        patch.syspath_prepend(EXAMPLE / "reference")
        patch.syspath_prepend(EXAMPLE / "candidate")
        forget()
        import candidate
        import reference
        from informer_paddle import breaks

        patch.setattr(reference, "PROJECT", project)
        patch.setattr(candidate, "PROJECT", project)
        torch.manual_seed(0)
        model = reference.Informer()
        for parameter in model.parameters():  # as in a trained model no norm is the identity
            parameter.data += 0.1 * torch.randn_like(parameter)
        torch.save(model.state_dict(), project / "checkpoint.pth")
        yield SimpleNamespace(reference=reference, candidate=candidate, breaks=breaks, project=project)
    forget()


@pytest.fixture
def plant(sides, monkeypatch):
    def chosen(name):
        monkeypatch.setattr(sides.breaks, "CHOSEN", name)

    return chosen


# -- what is planted ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BREAKS)
def test_each_mistake_is_planted_somewhere_and_explained(name):
    sources = [path.read_text() for path in (EXAMPLE / "candidate").rglob("*.py")]
    assert any(f'broken("{name}")' in source for source in sources)
    for page in ("README.md", "README.zh.md"):
        assert f"| `{name}` |" in (EXAMPLE / page).read_text()


def test_an_unknown_mistake_is_refused_with_the_choices(monkeypatch):
    monkeypatch.setenv("PARALIGN_BREAK", "circle")
    with pytest.raises(ValueError, match=r"PARALIGN_BREAK='circle' is no planted mistake; choose one of: days, circular, .*eval_left"):
        runpy.run_path(str(BREAKS_FILE))


# -- the engine ----------------------------------------------------------------------------------------------------------------

NAMES = ("build_dataset", "build_dataloader", "metric", "loss", "build_optimizer", "build_scheduler", "predict")


def judged(sides, *stages, fixed=False, windows=4):
    """The stages' results for live models of both sides."""
    from paralign import Side, check

    window = [
        np.stack([part.numpy() for part in parts])
        for parts in zip(*(sides.reference.build_dataset("val")[i] for i in range(windows)), strict=True)
    ]
    models = [side.build_model() for side in (sides.reference, sides.candidate)]
    if fixed:
        for side, model in zip((sides.reference, sides.candidate), models, strict=True):
            side.fix_keys(model, 0)
    both = [
        Side(model=model, functions={name: getattr(side, name) for name in NAMES})
        for side, model in zip((sides.reference, sides.candidate), models, strict=True)
    ]
    result = check(
        *both, inputs=tuple(window[:-1]), labels=window[-1], stages=list(stages), paths=[str(sides.project / "data" / "weekly.csv")]
    )
    return {stage.name: stage for stage in result.stages}


def test_the_port_is_aligned_although_each_side_draws_its_own_keys(sides):
    found = judged(sides, "weights", "forward", "data", "metric", "loss")
    assert {name: stage.verdict for name, stage in found.items()} == dict.fromkeys(
        ("weights", "forward", "data", "metric", "loss"), "aligned"
    )
    assert any("3 drew what the reference drew" in note for note in found["forward"].notes)


FOUND = {
    "days": ("weights", None),
    "circular": ("forward", "embedding.py"),
    "leak": ("data", None),
    "border": ("data", None),
    "months": ("data", None),
    "metric": ("metric", None),
    "loss": ("loss", "train.py"),
}


@pytest.mark.parametrize("name", FOUND)
def test_the_engine_finds_the_mistake_in_its_stage(name, sides, plant):
    plant(name)
    stage, file = FOUND[name]
    result = judged(sides, stage)[stage]
    assert result.verdict == "diverged"
    if file is not None:
        assert f"informer_paddle/{file}:" in str(result.divergence)


# -- data ----------------------------------------------------------------------------------------------------------------------


def test_both_sides_cut_the_same_windows(sides):
    for split, count in (("train", 444), ("val", 62), ("test", 133)):
        expected, got = sides.reference.build_dataset(split), sides.candidate.build_dataset(split)
        assert len(expected) == len(got) == count
        for index in (0, count - 1):
            for one, other in zip(expected[index], got[index], strict=True):
                assert np.array_equal(one.numpy(), other)
                assert one.numpy().dtype == other.dtype


def test_a_window_beyond_the_end_is_refused(sides):
    for side in (sides.reference, sides.candidate):
        with pytest.raises(IndexError):
            side.build_dataset("val")[62]


def test_ddof_and_restore_change_what_they_say(sides, plant):
    plant("ddof")
    expected, got = (side.build_dataset("train").scaler for side in (sides.reference, sides.candidate))
    assert expected.std.tolist() != got.std.tolist()
    assert got.std == pytest.approx(expected.std * math.sqrt(503 / 502))
    plant("restore")
    assert sides.candidate.build_dataset("train").scaler.restore(1.5) == 1.5


# -- predictions ---------------------------------------------------------------------------------------------------------------


def ported(sides):
    """Both models with equal weights and one sample of keys, by the guide's rule for weights."""
    import paddle
    import torch

    model = sides.reference.build_model().eval()
    candidate = sides.candidate.build_model()
    candidate.eval()
    linear = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    state = candidate.state_dict()
    for name, tensor in model.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            twin = name.replace("running_mean", "_mean").replace("running_var", "_variance")
            state[twin].set_value(paddle.to_tensor((tensor.T if name in linear else tensor).numpy().copy()))
    return model, candidate


@pytest.mark.parametrize(
    ("name", "least"), [("scale", 1e-3), ("measure", 1e-6), ("cumsum", 1e-2), ("gelu", 1e-5), ("norm", 1e-2), ("circular", 1e-3)]
)
def test_a_mistake_in_the_model_changes_its_forecast(name, least, sides, plant):
    import paddle

    window = [part[None] for part in sides.candidate.build_dataset("val")[0][:-1]]
    _, right = ported(sides)
    plant(name)
    _, wrong = ported(sides)
    outputs = []
    for model, chosen in ((right, ""), (wrong, name)):
        plant(chosen)
        sides.candidate.fix_keys(model, 0)
        outputs.append(model(*map(paddle.to_tensor, window)).numpy())
    assert np.linalg.norm(outputs[0] - outputs[1]) / np.linalg.norm(outputs[0]) > least


def test_both_programs_forecast_alike_and_twice_the_same(sides):
    path = sides.project / "data" / "weekly.csv"
    rows = path.read_text().splitlines()
    short = sides.project / "short.csv"
    short.write_text("\n".join([rows[0], *rows[-60:]]) + "\n")
    model, candidate = ported(sides)
    expected, got = sides.reference.predict(short, model)["forecast"], sides.candidate.predict(str(short), candidate)["forecast"]
    assert expected.shape == got.shape == (12, 3)
    assert expected == pytest.approx(got, abs=1e-4)
    assert expected[:, 0].mean() > 15  # in units of the file, where the first column is about 20
    assert np.array_equal(expected, sides.reference.predict(short, model)["forecast"])


# -- training --------------------------------------------------------------------------------------------------------------


class Log(TrainLog):
    """As the stage ``train`` hands it over: it is shown the model and the optimizer."""

    def __init__(self):
        super().__init__(None, every=1, show=False, rank=0, synchronize=lambda: None)
        self.modes = []

    def model(self, model):
        self.watched = model
        return model

    def optimizer(self, optimizer, scheduler=None):
        return optimizer

    def step(self, samples, **values):
        self.modes.append(self.watched.training)
        super().step(samples, **values)


class Few:
    """The first batches of a loader."""

    def __init__(self, loader, count):
        self.loader, self.count = loader, count

    def __iter__(self):
        for _, batch in zip(range(self.count), self.loader, strict=False):
            yield batch


def trained(side, monkeypatch):
    """The log of two epochs of three batches."""
    build = side.build_dataloader
    with monkeypatch.context() as patch:
        patch.setattr(side, "build_dataloader", lambda split: Few(build(split), 3))
        log = Log()
        side.train(log)
    return log


def rates(log):
    return [row.values["lr"] for row in log.rows if row.kind == "TRAIN"]


def test_both_sides_train_with_one_schedule(sides, monkeypatch):
    for side in (sides.reference, sides.candidate):
        log = trained(side, monkeypatch)
        assert rates(log) == pytest.approx([1e-3] * 3 + [5e-4] * 3)
        assert all(log.modes)
        first, last = (row.values for row in log.rows if row.kind == "EVAL")
        assert set(first) == {"mse", "mae"}
        assert first != last


def test_mistakes_that_only_training_shows(sides, monkeypatch, plant):
    plant("per_iteration")
    assert rates(trained(sides.candidate, monkeypatch)) == pytest.approx([1e-3 / 2**step for step in range(6)])
    plant("eval_left")
    assert trained(sides.candidate, monkeypatch).modes == [True] * 3 + [False] * 3


def test_the_training_loader_shuffles_until_that_is_forgotten(sides, plant):
    import torch

    def shuffled(side):
        first = next(iter(side.build_dataloader("train")))[0].numpy()
        return not np.array_equal(first[0], np.asarray(side.build_dataset("train")[0][0]))

    torch.manual_seed(1)
    assert shuffled(sides.reference)
    assert shuffled(sides.candidate)
    plant("shuffle")
    assert not shuffled(sides.candidate)


def test_early_stopping_keeps_the_best_epoch_and_ends_after_three_worse(sides):
    for training in (sides.reference.training, sides.candidate.training):
        stopping = training.EarlyStopping(patience=3)
        assert [stopping.better(value) for value in (3.0, 2.0, 2.0, 2.5)] == [True, True, False, False]
        assert not stopping.over
        assert not stopping.better(2.1)
        assert stopping.over


def test_settings_of_optimizer_batchnorm_and_initial_weights(sides, plant):
    for name, rate, algorithm, momentum in (
        ("", 5e-4, "Adam", 0.9),
        ("gamma", 1e-4, "Adam", 0.9),
        ("adamw", 5e-4, "AdamW", 0.9),
        ("bn_momentum", 5e-4, "Adam", 0.1),
    ):
        plant(name)
        model = sides.candidate.build_model()
        optimizer = sides.candidate.build_optimizer(model)
        sides.candidate.build_scheduler(optimizer).step()
        assert optimizer.get_lr() == pytest.approx(rate)
        assert type(optimizer).__name__ == algorithm
        assert model.distilling[0].norm._momentum == momentum
    plant("init")
    ours = sides.candidate.build_model().encoder[0].attention.query.bias
    assert float(ours.abs().max()) == 0.0  # Paddle's biases start at zero
    plant("")
    assert float(sides.candidate.build_model().encoder[0].attention.query.bias.abs().max()) > 0.05


def test_missing_weights_say_how_to_make_them(sides, monkeypatch, tmp_path):
    monkeypatch.setattr(sides.reference, "PROJECT", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"checkpoint\.pth is not there: run .*prepare\.py first"):
        sides.reference.build_model()


# -- the real series -----------------------------------------------------------------------------------------------------------


def test_prepare_writes_the_same_real_series_every_time(tmp_path, monkeypatch):
    pytest.importorskip("statsmodels")
    monkeypatch.syspath_prepend(EXAMPLE)
    forget()
    import prepare

    tables = []
    for name in ("one", "two"):
        monkeypatch.setattr(prepare, "TABLE", tmp_path / name / "weekly.csv")
        monkeypatch.setattr(prepare, "WINDOW", tmp_path / name / "window.csv")
        prepare.write_tables()
        tables.append((tmp_path / name / "weekly.csv").read_text())
    forget()
    assert tables[0] == tables[1]
    header, *rows = tables[0].splitlines()
    assert header == "date,sea,growth,OT"
    assert len(rows) == 2207
    assert rows[0] == "1959-03-28,26.806,0.6,0.943"
    assert (tmp_path / "two" / "window.csv").read_text().splitlines() == [header, *rows[-60:]]
