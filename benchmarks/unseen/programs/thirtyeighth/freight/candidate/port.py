"""Entry points of the Paddle port of the freight matcher."""
import numpy as np
import paddle
import paddle.nn.functional as F
from scipy.optimize import linear_sum_assignment

from . import net  # noqa: F401  (its classes enter the catalog)
from .catalog import entry, make, settings
from .feed import IGNORED, NOBODY, batches, exchange_days, to_batch

SETTINGS = settings()


def build_dataset(split):
    return exchange_days(SETTINGS["feed"], split)


def build_dataloader(split):
    return batches(SETTINGS["feed"], split)


def build_model():
    return make("net", SETTINGS["net"], equipment=len(SETTINGS["feed"]["equipment"]))


@entry("pace", "ramp_then_root")
def ramp_then_root(base, ramp, least):
    def share(step):
        done = step + 1
        return done / ramp if done <= ramp else max(least, (ramp / done) ** 0.5)

    return paddle.optimizer.lr.LambdaDecay(base, share)


@entry("solver", "adamw")
def make_adamw(model, rate, learning_rate, beta1, beta2, epsilon, decay, max_norm):
    decayed = {p.name for p in model.parameters() if len(p.shape) > 1}
    return paddle.optimizer.AdamW(
        learning_rate=rate,
        beta1=beta1,
        beta2=beta2,
        epsilon=epsilon,
        weight_decay=decay,
        apply_decay_param_fun=decayed.__contains__,
        parameters=model.parameters(),
    )


def build_optimizer(model):
    rate = make("pace", SETTINGS["pace"], SETTINGS["solver"]["learning_rate"])
    return make("solver", SETTINGS["solver"], model, rate)


def build_scheduler(optimizer):
    return optimizer._learning_rate


@entry("objective", "assignment_nll")
def assignment_nll(plan, labels, slack_weight, idle_weight):
    trucks = plan.shape[1] - 1
    real = labels != IGNORED
    has_truck = labels >= 0
    goal = F.one_hot(paddle.where(has_truck, labels, paddle.full_like(labels, trucks)), trucks + 1)
    goal = goal.astype(plan.dtype).transpose([0, 2, 1])
    chosen = (goal * plan[:, :, :-1]).sum(axis=1)
    weight = has_truck.astype(plan.dtype) + slack_weight * (real & ~has_truck).astype(plan.dtype)
    of_loads = -(weight * chosen).sum() / weight.sum()

    busy = goal[:, :-1].sum(axis=2) > 0
    exists = plan[:, :-1].max(axis=2) > -29.0
    idle = (exists & ~busy).astype(plan.dtype)
    of_trucks = -(idle * plan[:, :-1, -1]).sum() / paddle.clip(idle.sum(), min=1.0)
    return of_loads + idle_weight * of_trucks


def loss(outputs, labels):
    return make("objective", SETTINGS["objective"], outputs, labels)


def metric(outputs, labels):
    def share(right, among):
        return (right & among).astype("float32").sum() / paddle.clip(among.astype("float32").sum(), min=1.0)

    chosen = paddle.argmax(outputs[:, :, :-1], axis=1)
    return {
        "hit": share(chosen == labels, labels >= 0),
        "left_over": share(chosen == outputs.shape[1] - 1, labels == NOBODY),
        "idle_trucks": paddle.exp(outputs[:, :-1, -1]).sum(axis=1).mean(),
    }


def train_step(model, optimizer, batch):
    batch = dict(batch)
    labels = batch.pop("labels")
    value = loss(model(**batch), labels)
    value.backward()
    paddle.nn.utils.clip_grad_norm_(model.parameters(), SETTINGS["solver"]["max_norm"])
    optimizer.step()
    optimizer.clear_grad()
    return value.detach()


def predict(path, model):
    batch = to_batch([build_dataset(path)[0]])
    del batch["labels"]
    precision = model.parameters()[0].dtype
    for name in ("trucks", "loads"):
        batch[name] = batch[name].astype(precision)
    with paddle.no_grad():
        plan = model(**batch)[0].numpy().astype("float64")
    gain = plan[:-1, :-1] - plan[-1, :-1] - plan[:-1, -1:]
    carrier = np.full(gain.shape[1], NOBODY, dtype="int64")
    for truck, load in zip(*linear_sum_assignment(np.maximum(gain, 0.0), maximize=True)):
        if gain[truck, load] > 0:
            carrier[load] = truck
    return {"carrier": carrier, "sure": np.exp(plan[:, :-1]).max(axis=0)}
