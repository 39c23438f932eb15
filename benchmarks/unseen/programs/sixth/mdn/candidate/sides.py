import paddle

from .belief import optimizer_of
from .concrete import Concrete, batches
from .density import DensityNet, figures, objective


def build_model():
    return DensityNet()


def loss(outputs, labels):
    return objective(outputs, labels)


def metric(outputs, labels):
    return figures(outputs, labels)


def build_optimizer(model):
    return optimizer_of(model)


def build_dataset(split):
    return Concrete(split)


def build_dataloader(split):
    return batches(split)


def train(log, epochs=4):
    net = log.model(build_model())
    optimizer = log.optimizer(build_optimizer(net))
    learn, check = batches("train"), batches("val")
    for epoch in range(epochs):
        net.train()
        for _, (x, y) in log.batches(learn, epoch):
            cost = objective(net(x), y)
            cost.backward()
            optimizer.step()
            optimizer.clear_grad()
            log.step(samples=len(x), loss=float(cost))
        net.eval()
        with paddle.no_grad():
            errors = [float(figures(net(x), y)["rmse"]) for x, y in check]
        log.evaluation(epoch, rmse=sum(errors) / len(errors))
