import numpy as np
import paddle
import paddle.nn.functional as F

from homes import config, fit, prep, records
from homes.judge import judge
from homes.nets import TabularTransformer


def build_dataset(split):
    return records.Listings(split)


def build_dataloader(split):
    return records.batches(split)


def build_model():
    return TabularTransformer(len(config.NUMERIC), prep.fitted().sizes(), len(config.SPEED), **config.network)


def build_optimizer(model):
    return fit.optimizer_for(model)


def build_scheduler(optimizer):
    return fit.schedule_for(optimizer)


train_step = fit.learn
loss = fit.both_tasks


def metric(outputs, labels):
    return judge(outputs, labels, prep.fitted().spread)


def predict(path, model):
    model.eval()
    learned = prep.fitted()
    x = [paddle.to_tensor(a) for a in learned.encode(prep.table(path))]
    with paddle.no_grad():
        out = model(*x)
    price = np.exp(out["price"].numpy() * learned.spread + learned.centre)
    return {"speed": F.softmax(out["speed"], axis=-1).numpy(), "price": price}
