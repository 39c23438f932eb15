import numpy as np
import paddle

from agent import ActorCritic
from figures import figures
from learning import Optimizers, losses, train_step
from replay import Replay, make_loader, read, scaling

build_dataset = Replay
build_dataloader = make_loader
build_optimizer = Optimizers


def build_model():
    return ActorCritic()


def loss(outputs, labels):
    return losses(outputs, labels)


def metric(outputs, labels):
    return figures(outputs, labels)


def build_scheduler(optimizer):
    return optimizer.rate


def predict(path, model):
    mean, std, _ = scaling()
    starts = np.array([(part["obs"][0] - mean) / std for part in read(path).values()])
    with paddle.no_grad():
        starts = paddle.to_tensor(starts).astype(model.policy.log_std.dtype)
        action = paddle.clip(model.policy(starts), -0.95, 0.95)
        return {"action": action.numpy(), "value": model.state_value(starts).numpy()}
