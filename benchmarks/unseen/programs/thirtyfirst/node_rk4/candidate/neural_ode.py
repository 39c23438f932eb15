import json
import os
from collections import namedtuple

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import Normal, TruncatedNormal, Uniform

DATA_DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
Setting = namedtuple("Setting", "past future dt latent width ema batch lr decay clip energy delta gamma")
S = Setting(6, 9, 0.25, 5, 20, 0.9, 7, 1e-2, 1e-3, 1.0, 0.01, 0.5, 0.95)


class SeriesDataset(paddle.io.Dataset):
    def __init__(self, mode):
        self.data = np.load(os.path.join(DATA_DIR, f"{mode}.npy"))
        self.grid = (np.arange(S.future) + 1).astype("float32") * np.float32(S.dt)

    def __getitem__(self, index):
        past, future = np.split(self.data[index], [S.past])
        return past, self.grid, future

    def __len__(self):
        return self.data.shape[0]


class WNLinear(nn.Layer):
    """Linear with weight normalisation per output; the direction is kept as [in, out]."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.bias = self.create_parameter([n_out], default_initializer=Uniform(-0.05, 0.05))
        self.direction = self.create_parameter([n_in, n_out], default_initializer=Normal(0.0, 0.3))
        length = paddle.linalg.norm(self.direction.detach(), axis=0)
        self.length = self.create_parameter([n_out], default_initializer=nn.initializer.Assign(length.numpy()))

    def forward(self, x):
        return paddle.matmul(x, F.normalize(self.direction, axis=0) * self.length) + self.bias


class Dynamics(nn.Layer):
    def __init__(self):
        super().__init__()
        sizes = [S.latent + 2, S.width, S.width, S.latent]
        self.layers = nn.LayerList([WNLinear(i, o) for i, o in zip(sizes, sizes[1:])])

    def forward(self, z, t):
        first, second, last = self.layers
        h = paddle.tanh(first(paddle.concat([z, paddle.sin(t), paddle.cos(t)], axis=-1)))
        return last(h + F.softplus(second(h)) - 0.5)


class RungeKutta:
    nodes = (0.0, 0.5, 0.5, 1.0)
    weights = (1 / 6, 1 / 3, 1 / 3, 1 / 6)

    def __init__(self, field):
        self.field = field

    def __call__(self, z, t, dt):
        slopes = []
        for c in self.nodes:
            at = z + c * dt * slopes[-1] if slopes else z
            slopes.append(self.field(at, t + c * dt))
        return z + dt * sum(w * k for w, k in zip(self.weights, slopes)), slopes[0]


def small_linear(i, o):
    return nn.Linear(i, o, weight_attr=TruncatedNormal(std=0.2, a=-0.4, b=0.4), bias_attr=nn.initializer.Constant(0.0))


class OdeNet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.decode = small_linear(S.latent, 2)
        self.dynamics = Dynamics()
        self.enc_in, self.enc_out = small_linear(S.past * 2, S.width), small_linear(S.width, S.latent)

    def forward(self, past, times):
        solver = RungeKutta(self.dynamics)
        z = self.enc_out(F.gelu(self.enc_in(past.flatten(1)), approximate=True))
        starts = paddle.concat([paddle.zeros_like(times[:, :1]), times[:, :-1]], axis=1)
        path, speeds = [], []
        for t0, t1 in zip(starts.split(starts.shape[1], axis=1), times.split(times.shape[1], axis=1)):
            z, v = solver(z, t0, t1 - t0)
            path.append(z)
            speeds.append(v)
        energy = paddle.square(paddle.stack(speeds, 1)).mean(axis=[1, 2])
        return self.decode(paddle.stack(path, 1)) + past[:, -1:], energy


class AveragedModel(nn.Layer):
    def __init__(self):
        super().__init__()
        self.shadow, self.online = OdeNet(), OdeNet()
        self.shadow.set_state_dict(self.online.state_dict())
        for p in self.shadow.parameters():
            p.stop_gradient = True

    def forward(self, past, times):
        return self.online(past, times)

    @paddle.no_grad()
    def track(self):
        new = self.online.state_dict()
        for key, old in self.shadow.state_dict().items():
            old.set_value(S.ema * old + (1 - S.ema) * new[key])


class AdaBelief(paddle.optimizer.Optimizer):
    """Decoupled decay; eps inside the second moment and beside its root, as in the authors' code."""

    def __init__(self, learning_rate, parameters, beta1=0.9, beta2=0.99, epsilon=1e-6, decay=0.0, grad_clip=None):
        super().__init__(learning_rate=learning_rate, parameters=parameters, weight_decay=None, grad_clip=grad_clip)
        self.type = "adabelief"
        self._beta1, self._beta2, self._epsilon, self._decay = beta1, beta2, epsilon, decay

    def _create_accumulators(self, block, parameters):
        for p in parameters:
            self._add_accumulator("mean", p)
            self._add_accumulator("belief", p)
            self._add_accumulator("beta1_pow", p, fill_value=1.0, shape=[1])
            self._add_accumulator("beta2_pow", p, fill_value=1.0, shape=[1])

    def _append_optimize_op(self, block, param_and_grad):
        p, g = param_and_grad
        m, s, b1, b2 = (self._get_accumulator(k, p) for k in ("mean", "belief", "beta1_pow", "beta2_pow"))
        lr = self.get_lr()
        m.set_value(self._beta1 * m + (1 - self._beta1) * g)
        s.set_value(self._beta2 * s + (1 - self._beta2) * paddle.square(g - m) + self._epsilon)
        b1.set_value(b1 * self._beta1)
        b2.set_value(b2 * self._beta2)
        step = (m / (1 - b1)) / (paddle.sqrt(s / (1 - b2)) + self._epsilon)
        p.set_value(p * (1 - lr * self._decay) - lr * step)


def build_model():
    return AveragedModel()


def build_dataset(split):
    return SeriesDataset(split)


def build_dataloader(split):
    return paddle.io.DataLoader(SeriesDataset(split), batch_size=S.batch, shuffle=split == "train")


def loss(outputs, labels):
    traj, energy = outputs
    huber = F.smooth_l1_loss(traj, labels, reduction="none", delta=S.delta) / S.delta
    discount = paddle.to_tensor((S.gamma ** np.arange(labels.shape[1])).astype("float32"))
    fit = paddle.mean(huber.mean(axis=[0, 2]) * discount)
    return {"fit": fit, "loss": fit + S.energy * energy.mean()}


def metric(outputs, labels):
    err = outputs[0].numpy() - labels.numpy()
    return {"energy": float(outputs[1].mean()), "final_mae": float(np.abs(err[:, -1]).mean()), "rmse": float(np.sqrt((err ** 2).mean()))}


def build_optimizer(model):
    rate = paddle.optimizer.lr.OneCycleLR(max_learning_rate=S.lr, total_steps=120, divide_factor=10.0,
                                          end_learning_rate=S.lr / 10 / 100, phase_pct=0.25)
    return AdaBelief(rate, model.online.parameters(), decay=S.decay, grad_clip=nn.ClipGradByGlobalNorm(S.clip))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    *inputs, future = batch
    parts = loss(model(*inputs), future)
    parts["loss"].backward()
    optimizer.step()
    optimizer.clear_grad()
    model.track()
    return {name: float(v) for name, v in parts.items()}


def predict(path, model):
    model.eval()
    with open(path) as f:
        query = json.load(f)
    past = paddle.to_tensor(query["series"], dtype="float32")
    steps = int(query["until"] / S.dt)
    times = paddle.tile(paddle.arange(1, steps + 1, dtype="float32") * S.dt, [past.shape[0], 1])
    with paddle.no_grad():
        traj, energy = model.shadow(past, times)
    return {"energy": energy.numpy().tolist(), "trajectory": traj.numpy()}
