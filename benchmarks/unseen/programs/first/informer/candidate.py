import paddle
import paddle.nn.functional as F
from paddle.io import DataLoader

from forecast import Forecaster
from series import Window


def build_model():
    return Forecaster(width=12, heads=2, hidden=20, horizon=6)


def build_dataset(split):
    return Window(split)


def build_dataloader(split):
    # the last item of a batch is what is to be predicted
    return DataLoader(Window(split), batch_size=4, drop_last=True)


def loss(out, y):
    beta = 0.5
    d = paddle.abs(out - y)
    return paddle.where(d < beta, d * d / (2 * beta), d - beta / 2).mean()


def metric(out, y):
    gap = out - y
    spread = (y - y.mean()).norm()
    return {"mse": float(gap.square().mean()), "mae": float(gap.abs().mean()), "rse": float(gap.norm() / spread)}


def build_optimizer(model):
    rate = paddle.optimizer.lr.StepDecay(1e-4, step_size=1, gamma=0.5)
    return paddle.optimizer.Adam(learning_rate=rate, parameters=model.parameters())


def build_scheduler(optimizer):
    return optimizer._learning_rate
