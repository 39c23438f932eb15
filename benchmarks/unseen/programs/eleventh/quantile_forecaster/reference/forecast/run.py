from .config import Config
from .criterion import ForecastLoss, evaluate
from .model import QuantileForecaster
from .optim import WarmStep, Yogi, groups
from .series import Windows
from .series import loader as make_loader

CONFIG = Config()


def build_model():
    return QuantileForecaster(CONFIG)


def build_dataset(split):
    return Windows(CONFIG.data, split)


def build_dataloader(split):
    return make_loader(CONFIG.data, split)


def loss(outputs, labels):
    return ForecastLoss(CONFIG.loss)(outputs, labels)


def metric(outputs, labels):
    return evaluate(outputs, labels, CONFIG.loss.quantiles)


def build_optimizer(model):
    o = CONFIG.optim
    return Yogi(groups(model, o.weight_decay), o.lr, o.betas, o.eps, o.weight_decay, o.max_norm)


def build_scheduler(optimizer):
    o = CONFIG.optim
    return WarmStep(optimizer, o.warmup, o.warmup_start, o.step_size, o.gamma)
