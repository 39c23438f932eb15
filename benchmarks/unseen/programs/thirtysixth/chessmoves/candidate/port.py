"""Chess move scoring with PaddlePaddle."""
import json

import paddle
from paddle.nn import functional as F

from .board import Board
from .judging import measures, objective
from .network import MoveNet
from .recipe import solver, update
from .samples import SearchedPositions, batches

build_model = MoveNet
build_dataset = SearchedPositions
build_dataloader = batches
build_optimizer = solver
loss = objective
metric = measures


def train_step(model, optimizer, batch):
    return update(model, optimizer, batch)


def rate(study, model, dtype):
    board = Board(study["fen"])
    moves, legal = board.moves(study["moves"], len(study["moves"]))
    planes = paddle.to_tensor(board.planes()).astype(dtype)
    out = model(planes.unsqueeze(0), paddle.to_tensor(moves).unsqueeze(0), paddle.to_tensor(legal).unsqueeze(0))
    chance = F.softmax(out["wdl"], axis=-1)[0]
    expected = chance[0] + chance[1] / 2
    return {"score": float(expected), "moves": paddle.exp(out["policy"])[0].numpy()}


def predict(path, model):
    with open(path) as f:
        studies = json.load(f)
    with paddle.no_grad():
        return [rate(study, model, model.parameters()[0].dtype) for study in studies]
