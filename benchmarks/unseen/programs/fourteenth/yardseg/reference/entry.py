import torch
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader

from terrain.config import cfg
from terrain.datasets import PhotoMasks, build_transforms
from terrain.datasets.transforms import Compose, ResizeShort, ToTensors
from terrain.losses import SegLoss
from terrain.metrics import segmentation_scores
from terrain.models import Segmentor
from terrain.solver import build_adam, build_onecycle, step

criterion = SegLoss(ignore=cfg.data.ignore, **cfg.loss)


def build_model():
    return Segmentor(cfg)


def transforms(split):
    return build_transforms(split, cfg.data)


def build_dataset(split):
    return PhotoMasks(cfg.data.root, split, transforms(split))


def build_dataloader(split):
    return DataLoader(build_dataset(split), batch_size=cfg.data.batch_size, shuffle=split == "train",
                      drop_last=split == "train")


def loss(outputs, labels):
    return criterion(outputs, labels)


def metric(outputs, labels):
    return segmentation_scores(outputs, labels, cfg.data.classes, cfg.data.ignore)


def build_optimizer(model):
    return build_adam(model, cfg.solver)


def build_scheduler(optimizer):
    return build_onecycle(optimizer, cfg.solver)


def train_step(model, optimizer, batch):
    return step(model, optimizer, batch, criterion, cfg.solver)


@torch.no_grad()
def predict(path, model):
    model.eval()
    image = Image.open(path).convert("RGB")
    prepare = Compose(ResizeShort(cfg.data.size), ToTensors(cfg.data.mean, cfg.data.std))
    x, _ = prepare(image, None)
    logits = model(x[None])["out"]
    logits = F.interpolate(logits, size=(image.height, image.width), mode="bilinear", align_corners=False)
    prob = logits.softmax(dim=1)[0]
    conf, label = prob.max(dim=0)
    share = torch.bincount(label.flatten(), minlength=cfg.data.classes).double() / label.numel()
    return {"prob": prob.numpy(), "share": share.numpy(), "confidence": conf.mean().item()}
