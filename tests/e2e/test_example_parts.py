"""The parts of examples/mobilenetv3 for themselves: the port is right, and each planted mistake is one. No command is run."""

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from paralign.trainlog import TrainLog

EXAMPLE = Path(__file__).parents[2] / "examples" / "mobilenetv3"
BREAKS_FILE = EXAMPLE / "candidate" / "mobilenetv3_paddle" / "breaks.py"
NAMES = list(runpy.run_path(str(BREAKS_FILE))["BREAKS"])
OWN = ("reference", "candidate", "prepare", "mobilenetv3", "mobilenetv3_paddle")


def forget():
    for name in [name for name in sys.modules if name.split(".")[0] in OWN]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """Both side modules, over an image folder of 2 x 5 noise images."""
    for module in ("torch", "paddle", "PIL"):
        pytest.importorskip(module)
    from PIL import Image

    project = tmp_path_factory.mktemp("example")
    rng = np.random.default_rng(1)
    for folder in ("china", "flower"):
        (project / "data" / "val" / folder).mkdir(parents=True)
        for number in range(5):
            height, width = rng.integers(60, 330, size=2)
            coarse = Image.fromarray(rng.integers(0, 256, (12, 12, 3), dtype=np.uint8))
            coarse.resize((int(width), int(height))).save(project / "data" / "val" / folder / f"{number:02}.png")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PARALIGN_BREAK", raising=False)
        patch.syspath_prepend(EXAMPLE / "reference")
        patch.syspath_prepend(EXAMPLE / "candidate")
        forget()
        import candidate
        import reference
        from mobilenetv3_paddle import breaks

        patch.setattr(reference, "PROJECT", project)
        patch.setattr(candidate, "PROJECT", project)
        yield SimpleNamespace(reference=reference, candidate=candidate, breaks=breaks, project=project)
    forget()


@pytest.fixture
def plant(sides, monkeypatch):
    def chosen(name):
        monkeypatch.setattr(sides.breaks, "CHOSEN", name)

    return chosen


@pytest.fixture(scope="module")
def weights(sides):
    """A state of the reference whose BatchNorm statistics are those of real activations, and images to run it on."""
    import torch

    torch.manual_seed(0)
    model = sides.reference.MobileNetV3Small()
    images = torch.randn(4, 3, 64, 64)
    sides.reference.training.recalibrate(model, [(images, None)])
    return model.double().eval(), images.double()


def port(model, sides):
    """The candidate with the reference's weights, by the guide's rule: Linear transposed, BatchNorm renamed, counters dropped."""
    import paddle
    import torch

    linear = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    ported = sides.candidate.build_model()
    ported.to(dtype="float64")
    state, mapped = ported.state_dict(), set()
    for name, tensor in model.state_dict().items():
        if name.endswith("num_batches_tracked"):
            continue
        twin = name.replace("running_mean", "_mean").replace("running_var", "_variance")
        values = tensor.T if name in linear else tensor
        state[twin].set_value(paddle.to_tensor(values.numpy().copy()))
        mapped.add(twin)
    assert mapped == set(state)
    ported.eval()
    return ported


def distance(reference, candidate):
    return float(np.linalg.norm(reference - candidate) / np.linalg.norm(reference))


@pytest.mark.parametrize("name", NAMES)
def test_each_mistake_is_planted_somewhere_and_explained(name):
    sources = [path.read_text() for path in (EXAMPLE / "candidate").rglob("*.py")]
    assert any(f'broken("{name}")' in source for source in sources)
    assert f"| `{name}` |" in (EXAMPLE / "README.md").read_text()


def test_an_unknown_mistake_is_refused_with_the_choices(monkeypatch):
    monkeypatch.setenv("PARALIGN_BREAK", "avg_pool")
    with pytest.raises(ValueError, match=r"PARALIGN_BREAK='avg_pool' is no planted mistake; choose one of: avgpool, epsilon, .*export"):
        runpy.run_path(str(BREAKS_FILE))


def test_asking_for_a_mistake_that_does_not_exist_is_an_error():
    with pytest.raises(ValueError, match="'avg_pool' is no planted mistake"):
        runpy.run_path(str(BREAKS_FILE))["broken"]("avg_pool")


def outputs(weights, sides):
    import paddle
    import torch

    model, images = weights
    with torch.no_grad(), paddle.no_grad():
        return model(images).numpy(), port(model, sides)(paddle.to_tensor(images.numpy())).numpy()


def test_the_port_is_the_same_model(weights, sides):
    reference, candidate = outputs(weights, sides)
    assert reference.std() > 1e-3
    assert distance(reference, candidate) < 1e-6


@pytest.mark.parametrize("name", ["avgpool", "epsilon", "hardsigmoid", "hardswish"])
def test_a_mistake_in_the_model_changes_its_outputs(name, weights, sides, plant):
    plant(name)
    reference, candidate = outputs(weights, sides)
    assert distance(reference, candidate) > 1e-4


def test_squeeze_excite_without_bias_leaves_weights_without_a_twin(weights, sides, plant):
    plant("bias")
    with pytest.raises(KeyError, match=r"blocks\.0\.se\.reduce\.bias"):
        port(weights[0], sides)


def batches(side):
    return [tuple(np.asarray(part.numpy()) for part in batch) for batch in side.build_dataloader("val")]


def test_both_sides_read_the_same_batches_to_the_bit(sides):
    reference, candidate = batches(sides.reference), batches(sides.candidate)
    assert [images.shape for images, _ in candidate] == [(8, 3, 224, 224), (2, 3, 224, 224)]
    assert candidate[0][1].tolist() == [0, 1, 0, 1, 0, 1, 0, 1]
    for expected, got in zip(reference, candidate, strict=True):
        assert [part.dtype for part in got] == ["float32", "int64"]
        assert all(map(np.array_equal, expected, got))


@pytest.mark.parametrize("name", ["resize", "bgr", "normalize"])
def test_a_mistake_in_the_preprocessing_changes_the_images(name, sides, plant):
    plant(name)
    assert distance(batches(sides.reference)[0][0], batches(sides.candidate)[0][0]) > 1e-3


def test_drop_last_loses_the_partial_batch(sides, plant):
    plant("drop_last")
    assert [len(labels) for _, labels in batches(sides.candidate)] == [8]


def test_each_transform_gives_what_its_twin_gives(sides):
    from PIL import Image

    expected = got = Image.open(sides.project / "data" / "val" / "china" / "00.png")
    for reference, candidate in zip(sides.reference.transforms("val"), sides.candidate.transforms("val"), strict=True):
        expected, got = reference(expected), candidate(got)
        assert np.array_equal(np.asarray(expected), np.asarray(got)), type(reference).__name__


@pytest.fixture(scope="module")
def scored():
    rng = np.random.default_rng(2)
    return rng.normal(size=(50, 8)).astype("float32") * 3, rng.integers(0, 8, size=50)


def on_both(function, scored, sides):
    import paddle
    import torch

    arrays = [np.array(part) for part in scored]
    return [
        getattr(sides.reference, function)(*map(torch.from_numpy, arrays)),
        getattr(sides.candidate, function)(*map(paddle.to_tensor, arrays)),
    ]


def test_metrics_agree_and_count_what_they_say(scored, sides):
    reference, candidate = ({name: float(value) for name, value in side.items()} for side in on_both("metric", scored, sides))
    ranks = (-scored[0]).argsort(1)
    assert reference["acc_top1"] == pytest.approx((ranks[:, 0] == scored[1]).mean())
    assert reference["acc_top5"] == pytest.approx((ranks[:, :5] == scored[1][:, None]).any(1).mean())
    assert candidate == pytest.approx(reference)


def test_the_metric_mistake_divides_top5_by_five(scored, sides, plant):
    plant("metric")
    reference, candidate = on_both("metric", scored, sides)
    assert float(candidate["acc_top1"]) == pytest.approx(float(reference["acc_top1"]))
    assert float(candidate["acc_top5"]) == pytest.approx(float(reference["acc_top5"]) / 5)


def test_losses_agree_until_softmax_is_applied_twice(scored, sides, plant):
    reference, candidate = map(float, on_both("loss", scored, sides))
    assert candidate == pytest.approx(reference, rel=1e-6)
    plant("loss")
    assert abs(float(on_both("loss", scored, sides)[1]) - reference) > 0.1


def updates(side, parameter, gradient):
    """A parameter and its learning rate after each of four updates with one gradient."""
    optimizer = side.build_optimizer(SimpleNamespace(parameters=lambda: [parameter]))
    scheduler = side.build_scheduler(optimizer)
    for _ in range(4):
        (parameter * gradient).sum().backward()
        optimizer.step()
        (optimizer.zero_grad if hasattr(optimizer, "zero_grad") else optimizer.clear_grad)()
        rate = optimizer.get_lr() if hasattr(optimizer, "get_lr") else optimizer.param_groups[0]["lr"]
        scheduler.step()
        yield parameter.detach().numpy().copy(), rate


def trajectories(sides):
    import paddle
    import torch

    start, gradient = np.random.default_rng(3).normal(size=(2, 6))
    candidate = paddle.create_parameter([6], "float64", default_initializer=paddle.nn.initializer.Assign(start))
    return [
        list(updates(sides.reference, torch.nn.Parameter(torch.tensor(start)), torch.tensor(gradient))),
        list(updates(sides.candidate, candidate, paddle.to_tensor(gradient))),
    ]


def test_optimizers_agree(sides):
    reference, candidate = trajectories(sides)
    assert [rate for _, rate in candidate] == pytest.approx([0.01, 0.01, 0.001, 0.001])
    for (expected, rate), (got, its_rate) in zip(reference, candidate, strict=True):
        assert its_rate == pytest.approx(rate)
        assert distance(expected, got) < 1e-8


@pytest.mark.parametrize(("name", "least"), [("momentum", 1e-3), ("weight_decay", 1e-7), ("schedule", 1e-3)])
def test_a_mistake_in_the_optimizer_changes_the_updates(name, least, sides, plant):
    plant(name)
    reference, candidate = trajectories(sides)
    assert distance(reference[-1][0], candidate[-1][0]) > least
    assert (candidate[-1][1] == pytest.approx(0.01)) is (name == "schedule")


def test_batchnorm_momentum_is_the_complement_unless_it_is_copied(sides, plant):
    assert sides.candidate.build_model().stem.bn._momentum == pytest.approx(1 - 0.01)
    plant("bn_momentum")
    assert sides.candidate.build_model().stem.bn._momentum == pytest.approx(0.01)


def test_predictions_agree_until_the_crop_is_forgotten(weights, sides, plant):
    model = weights[0]
    path = max((sides.project / "data" / "val").glob("*/*.png"), key=lambda path: path.stat().st_size)
    expected = sides.reference.predict(path, model.float())
    twin = port(model.double(), sides)
    twin.to(dtype="float32")
    got = sides.candidate.predict(path, twin)
    assert {**got, "probabilities": None} == {**expected, "probabilities": None}
    assert distance(expected["probabilities"].numpy(), got["probabilities"].numpy()) < 1e-5
    plant("predict")
    assert distance(expected["probabilities"].numpy(), sides.candidate.predict(path, twin)["probabilities"].numpy()) > 1e-4


def test_the_exported_program_ends_where_the_model_ends(sides, plant, tmp_path):
    import paddle

    model = sides.candidate.build_model()
    images = paddle.rand([2, 3, 224, 224])
    for name in ("", "export"):
        plant(name)
        path = sides.candidate.export(model, str(tmp_path / f"program{name}"))
        program = paddle.jit.load(path)
        program.eval()
        with paddle.no_grad():
            logits = model(images)
            expected = paddle.nn.functional.softmax(logits) if name else logits
            assert distance(expected.numpy(), program(images).numpy()) < 1e-4


class Log(TrainLog):
    """As the stage ``train`` hands it over: it is shown the model and the optimizer."""

    def __init__(self):
        super().__init__(None, every=1, show=False, rank=0, synchronize=lambda: None)
        self.shown = []

    def model(self, model):
        self.shown.append(model)
        return model

    def optimizer(self, optimizer, scheduler=None):
        self.shown.append(optimizer)
        return optimizer


def test_both_sides_train_for_the_stage_train(sides, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # a log without a folder leaves its checkpoints here
    for side in (sides.reference, sides.candidate):
        dataset = side.in_double("val")
        log = Log()
        with monkeypatch.context() as patch:
            patch.setattr(side, "in_double", lambda _, dataset=dataset: dataset)
            patch.setattr(side, "EPOCHS", 1)
            side.train(log)
        assert len(log.shown) == 2
        assert [(row.kind, row.samples) for row in log.rows] == [("TRAIN", 10.0), ("EVAL", 0.0)]
        assert log.rows[0].values["lr"] == pytest.approx(0.005)
        assert set(log.rows[1].values) == {"acc_top1", "acc_top5"}


def test_a_resumed_training_has_its_rate_unless_its_optimizer_is_not_loaded(sides, plant, tmp_path):
    model = sides.candidate.build_model()
    optimizer = sides.candidate.training.build_optimizer(model, 0.05)
    for _ in range(2):
        sides.candidate.build_scheduler(optimizer).step()
    sides.candidate.training.save(str(tmp_path / "latest"), model, optimizer)
    rates = []
    for name in ("", "resume"):
        plant(name)
        again = sides.candidate.training.build_optimizer(model, 0.05)
        sides.candidate.training.load(str(tmp_path / "latest"), model, again)
        rates.append(again.get_lr())
    assert rates == pytest.approx([0.005, 0.05])


def test_missing_weights_say_how_to_make_them(sides):
    with pytest.raises(FileNotFoundError, match=r"mobilenet_v3_small\.pth is not there: run .*prepare\.py first"):
        sides.reference.build_model()


@pytest.fixture
def prepare(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    pytest.importorskip("PIL")
    monkeypatch.syspath_prepend(EXAMPLE)
    forget()
    import prepare

    (tmp_path / "prepare.py").write_text("# sources")
    monkeypatch.setattr(prepare, "PROJECT", tmp_path)
    monkeypatch.setattr(prepare, "WEIGHTS", tmp_path / "mobilenet_v3_small.pth")
    monkeypatch.setattr(prepare, "STAMP", tmp_path / "data" / "prepared.json")
    monkeypatch.setattr(prepare, "train_weights", lambda path: path.write_bytes(b"weights"))
    yield prepare
    forget()


def pictures(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.png")}


def test_prepare_cuts_the_same_patches_every_time(prepare, tmp_path):
    prepare.cut_patches(tmp_path / "one")
    prepare.cut_patches(tmp_path / "two")
    one = pictures(tmp_path / "one")
    assert one == pictures(tmp_path / "two")
    assert len(one) == len(set(one.values())) == 2 * (40 + 11)
    assert {"val/china/00.png", "val/flower/10.png", "train/flower/39.png"} <= set(one)


@pytest.mark.parametrize("spoil", ["image", "weights", "sources", "stamp", None])
def test_prepare_works_again_only_when_something_changed(prepare, tmp_path, capsys, spoil):
    prepare.main()
    targets = {
        "image": tmp_path / "data/val/china/03.png",
        "weights": tmp_path / "mobilenet_v3_small.pth",
        "sources": tmp_path / "prepare.py",
        "stamp": prepare.STAMP,
    }
    if spoil:
        targets[spoil].write_bytes(b"spoilt")
    prepare.main()
    assert ("up to date" in capsys.readouterr().out) is (spoil is None)
    prepare.main()
    assert "up to date" in capsys.readouterr().out
