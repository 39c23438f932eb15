import numpy as np
import paddle
from PIL import Image

from segport import model as net
from segport import photos, score, train
from segport.options import PHOTOS


def transforms(split):
    return photos.VIEWS[split]


def build_dataset(split):
    return photos.Scenes(split, transforms(split))


def build_dataloader(split):
    training = split == "train"
    return paddle.io.DataLoader(build_dataset(split), batch_size=PHOTOS.batch, shuffle=training, drop_last=training)


def build_model():
    return net.SceneNet()


def loss(outputs, labels):
    return train.objective(outputs, labels)


def metric(outputs, labels):
    return score.quality(outputs, labels, PHOTOS.labels, PHOTOS.void)


def build_optimizer(model):
    return train.adam(model)


def build_scheduler(optimizer):
    return train.cycle_for(optimizer)


def train_step(model, optimizer, batch):
    return train.fit_batch(model, optimizer, batch)


def predict(path, model):
    model.eval()
    photo = photos.open_photo(path)
    x = photos.to_input(photos.short_side(photo, PHOTOS.side, Image.BILINEAR)).unsqueeze(0)
    with paddle.no_grad():
        logits = net.enlarge(model(x)["out"], (photo.height, photo.width))
        prob = paddle.nn.functional.softmax(logits, axis=1)[0].numpy()
    chosen = prob.argmax(axis=0)
    share = np.bincount(chosen.ravel(), minlength=PHOTOS.labels) / chosen.size
    return {"prob": prob, "share": share, "confidence": float(prob.max(axis=0).mean())}
