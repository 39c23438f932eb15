import paddle

from field import fitting
from field.constants import NETWORK
from field.molecules import Molecules, as_graph, loader, merge, molecules_in, scale
from field.network import Field

build_dataset = Molecules
build_dataloader = loader
build_optimizer = fitting.momentum
build_scheduler = fitting.per_epoch
loss = fitting.objective
metric = fitting.errors
train_step = fitting.fit_batch


def build_model():
    return Field(**NETWORK)


def predict(path, model):
    molecule = molecules_in(path)[0]
    graph = merge([as_graph(molecule.kinds, molecule.places)])
    graph["vectors"] = graph["vectors"].astype(model.base.weight.dtype)
    model.eval()
    with paddle.no_grad():
        out = model(graph)
    mean, std = scale()
    return {
        "energy": float(out["energy"][0]) * std + mean * len(molecule.kinds),
        "forces": out["forces"].numpy() * std,
    }
