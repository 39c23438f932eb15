import json
from pathlib import Path

import numpy as np
import paddle
import paddle.nn.functional as F
from PIL import Image

from transfer import Transfer, moments

ART = Path(__file__).resolve().parent / "art"


def build_model():
    return Transfer()


def gram_matrix(f):
    b, c, h, w = f.shape
    return paddle.einsum("bchw,bdhw->bcd", f, f) / (c * h * w)


def loss(outputs, labels):
    made, style, goal = outputs["features"], outputs["style"], outputs["target"]
    weight = F.adaptive_avg_pool2d(labels, output_size=goal.shape[-2:])
    content = (weight * (made[-1] - goal).square().mean(axis=1, keepdim=True)).sum() / weight.sum()
    texture, stat = [], []
    for a, b in zip(made, style):
        texture.append((gram_matrix(a) - gram_matrix(b)).abs().mean())
        for p, q in zip(moments(a), moments(b)):
            stat.append(F.mse_loss(p, q))
    texture, stat = paddle.stack(texture).sum(), paddle.stack(stat).sum()
    img = outputs["image"]
    tv = paddle.diff(img, axis=2).abs().mean() + paddle.diff(img, axis=3).abs().mean()
    return {"loss": content + 10 * stat + 5 * texture + 0.1 * tv, "content": content, "moments": stat, "texture": texture, "tv": tv}


def metric(outputs, labels):
    gray = outputs["image"].mean(axis=1, keepdim=True)
    mean = F.avg_pool2d(gray, 3, stride=1)
    var = F.avg_pool2d(gray ** 2, 3, stride=1) - mean ** 2
    values = np.sort(gray.numpy().ravel())
    return {"brightness": float(mean.mean()), "local_variance": float(F.relu(var).mean()), "median": float(values[len(values) // 2 - 1])}


def build_optimizer(model):
    rate = paddle.optimizer.lr.InverseTimeDecay(learning_rate=1e-3, gamma=0.05)
    return paddle.optimizer.Adam(learning_rate=rate, parameters=model.painter.parameters())


def build_scheduler(optimizer):
    return optimizer._learning_rate


def square(name, n):
    im = Image.open(ART / name).convert("RGB")
    k = n / min(im.size)
    im = im.resize(tuple(round(s * k) for s in im.size), Image.Resampling.LANCZOS)
    a = np.array(im).astype("float32")
    y, x = (a.shape[0] - n) // 2, (a.shape[1] - n) // 2
    return np.ascontiguousarray(a[y:y + n, x:x + n].transpose(2, 0, 1) / 255)


class ArtPairs(paddle.io.Dataset):
    def __init__(self, part):
        self.list = json.loads((ART / f"{part}.json").read_text())
        line = (np.arange(20, dtype="float32") - 9.5) ** 2
        self.focus = np.exp(-(line[:, None] + line) / 80)[None]

    def __getitem__(self, i):
        content, style = self.list[i]
        return square(content, 20), square(style, 20), self.focus

    def __len__(self):
        return len(self.list)


def build_dataset(split):
    return ArtPairs(split)


def predict(path, model):
    job = json.loads(Path(path).read_text())
    dtype = model.painter.grow.weight.dtype
    c, s = [paddle.to_tensor(square(job[k], 24)[None], dtype=dtype) for k in ("content", "style")]
    with paddle.no_grad():
        return model(c, s, job["alpha"])["image"].squeeze(0)
