"""A data-parallel program that needs numpy alone, its launcher, and what it can do wrong."""

from __future__ import annotations

#: starts N processes as mpirun does, each with its number in the environment and a log of its own; ends all where one fails
LAUNCH = """
import os, subprocess, sys, tempfile, time
count, logs, program = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
place = tempfile.mkdtemp(dir=logs)
found = []
for rank in range(count):
    env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(count), LOCAL_RANK=str(rank), MEETING=place)
    log = open(os.path.join(logs, "workerlog.%d" % rank), "w")
    found.append(subprocess.Popen(program, env=env, stdout=log, stderr=log, start_new_session=True))
while any(p.poll() is None for p in found) and not any(p.poll() for p in found):
    time.sleep(0.02)
if any(p.poll() for p in found):
    time.sleep(0.2)
    print("ABORT!!! Out of all %d trainers, the trainer process with rank=[%s] was aborted. Please check its log."
          % (count, ", ".join(str(r) for r, p in enumerate(found) if p.poll())))
    for p in found:
        if p.poll() is None:
            p.terminate()
    sys.exit(1)
"""

SIDE = '''
import os
import time
import numpy as np

FAULT = os.environ.get("FAULT", "").split(",")
RANK, SIZE = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
_calls = [0]


def exchange(value):
    """The values of all ranks: each leaves its own in the folder where they meet."""
    _calls[0] += 1
    place = os.path.join(os.environ["MEETING"], "%d-%%d.npy" % _calls[0])
    np.save(place % RANK + ".tmp.npy", value)
    os.rename(place % RANK + ".tmp.npy", place % RANK)
    found = []
    for rank in range(SIZE):
        while not os.path.exists(place % rank):
            time.sleep(0.002)
        found.append(np.load(place % rank))
    return found


class Model:
    def __init__(self):
        self.parameters = {"weight": np.random.randn(5, 2), "bias": np.zeros(2)}
        self.running_mean = np.zeros(5)

    def __call__(self, x):
        return x @ self.parameters["weight"] + self.parameters["bias"]


def build_model():
    return Model()


def distribute(model):
    if "seeds" in FAULT:
        np.random.seed(7)
    if "start" in FAULT:
        return model
    for value in model.parameters.values():
        value[...] = exchange(value)[0]
    return model


class SGD:
    def __init__(self, model):
        self.model, self.rate = model, 0.1 * (SIZE if "rate" in FAULT else 1)

    def get_lr(self):
        return self.rate


def build_optimizer(model):
    return SGD(model)


def train_step(model, optimizer, batch):
    x, y = batch
    if "raises" in FAULT and RANK == 1:
        raise ValueError("sample 3 has no label")
    if "dies" in FAULT and RANK == 1:
        os._exit(9)
    if "hangs" in FAULT and RANK == 1:
        time.sleep(1000)
    if "absent" in FAULT and SIZE > 1:
        asleep = os.path.join(os.environ["MEETING"], "asleep")
        if RANK == 1:
            open(asleep, "w").close()
            time.sleep(1000)
        while not os.path.exists(asleep):
            time.sleep(0.002)
        raise RuntimeError("gloo: TIMEOUT, peer 1")
    if "still" not in FAULT:
        np.random.rand()  # as dropout does, without a trace
    mean = x.mean(0)
    wrong = model(x) - y
    gradients = {"weight": 2 * x.T @ wrong / wrong.size, "bias": 2 * wrong.sum(0) / wrong.size}
    if SIZE > 1:
        if "alone" not in FAULT:
            gradients = {n: sum(exchange(g)) / (1 if "sum" in FAULT else SIZE) for n, g in gradients.items()}
        if "statistics" not in FAULT:
            mean = sum(exchange(mean)) / SIZE
    model.running_mean[...] = 0.9 * model.running_mean + 0.1 * mean
    for name, value in gradients.items():
        model.parameters[name] -= optimizer.get_lr() * value
    if RANK == 0 or "prints" in FAULT:
        print("a step")
    if "log" in FAULT:
        with open("train.log", "a") as file:
            file.write("a step\\n")
    return float((wrong ** 2).mean())


class Data:
    def __init__(self, count):
        self.x = np.random.RandomState(3).randn(count, 5)
        self.y = self.x[:, :2] ** 2

    def __len__(self):
        return len(self.x)


class Loader:
    def __init__(self, dataset, size, ranks):
        numbers = list(range(len(dataset)))
        numbers += numbers[: -len(numbers) % ranks]
        mine = numbers[RANK % ranks :: ranks]
        self.dataset = dataset
        self.batch_sampler = [mine[at : at + size] for at in range(0, len(mine), size)]

    def __iter__(self):
        if "ahead" in FAULT:  # as a loader that reads the first samples at once
            np.random.rand()
        return self.batches()

    def batches(self):
        for numbers in self.batch_sampler:
            yield self.dataset.x[numbers], self.dataset.y[numbers]


def build_dataloader(split):
    if split == "val":
        count = 9
        loader = Loader(Data(count), 4, 1)
        if SIZE > 1:  # no sample twice
            loader.batch_sampler = [list(range(RANK, count, SIZE))]
        return loader
    if "loader" in FAULT:
        np.random.rand()
    return Loader(Data(25), 4, 1 if "sampler" in FAULT else SIZE)


def metric(outputs, labels):
    return {"error": float(np.abs(outputs - labels).mean())}


def evaluate(model):
    total = count = 0
    for x, y in build_dataloader("val"):
        total, count = total + np.abs(model(x) - y).mean() * len(x), count + len(x)
    if SIZE == 1:
        return {"error": total / count}
    if "metric" in FAULT:
        return {"error": np.mean(exchange(total / count))}
    return {"error": sum(exchange(total)) / sum(exchange(count))}


def save(model, folder):
    if RANK == 0 or "saves" in FAULT:
        np.savez(os.path.join(folder, "model.npz"), **model.parameters)
'''

SETTINGS = """
timeout = 60
stages = ["distributed"]
[reference]
module = "reference.py"
framework = "numpy"
[candidate]
module = "candidate.py"
framework = "numpy"
env = {{ FAULT = "{fault}" }}
[inputs]
shape = [4, 5]
[distributed]
nproc = 2
timeout = {timeout}
command = "{{python}} launch.py {{nproc}} {{logs}} {{program}}"
"""


def write(folder, fault="", timeout=60, reference=SIDE, candidate=SIDE):
    """A project of two such sides; the candidate has a fault."""
    for name, text in (("launch", LAUNCH), ("reference", reference), ("candidate", candidate)):
        (folder / f"{name}.py").write_text(text)
    (folder / "paralign.toml").write_text(SETTINGS.format(fault=fault, timeout=timeout))
    return folder
