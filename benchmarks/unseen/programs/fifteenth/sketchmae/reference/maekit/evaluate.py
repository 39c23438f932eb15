import numpy as np
import torch
from PIL import Image

from .data import build_transform, random_order
from .data.masking import mask_from_order
from .training.losses import patch_statistics, patchify, unpatchify


def to_pixels(x, cfg):
    mean = torch.tensor(cfg.mean, dtype=x.dtype).view(3, 1, 1)
    std = torch.tensor(cfg.std, dtype=x.dtype).view(3, 1, 1)
    return (x * std + mean).clamp(0.0, 1.0)


def paste(pred, image, mask, patch):
    target = patchify(image, patch)
    mean, std = patch_statistics(target)
    mask = mask.unsqueeze(-1).to(pred.dtype)
    return unpatchify((pred * std + mean) * mask + target * (1 - mask), patch)


@torch.no_grad()
def reconstruction_metrics(pred, labels, cfg):
    image, mask = labels["image"], labels["mask"]
    filled = to_pixels(paste(pred, image, mask, cfg.mae.patch), cfg.picture)
    truth = to_pixels(image, cfg.picture)
    mse = (filled - truth).pow(2).mean(dim=(1, 2, 3))
    psnr = -10.0 * torch.log10(mse + 1e-8)
    return {"psnr": psnr.mean().item(), "mae": (filled - truth).abs().mean().item()}


@torch.no_grad()
def reconstruct(path, model, cfg):
    model.eval()
    img = Image.open(path).convert("RGB")
    image = build_transform(cfg.picture, train=False)(img, None).unsqueeze(0)
    order = random_order(model.num_patches, np.random.default_rng(cfg.picture.seed))
    mask = mask_from_order(order, cfg.mae.mask_ratio).unsqueeze(0)
    image = image.to(model.cls_token.dtype)
    pred = model(image, order.unsqueeze(0))
    filled = to_pixels(paste(pred, image, mask, cfg.mae.patch), cfg.picture)[0]
    return {
        "picture": (filled * 255).round().permute(1, 2, 0).to(torch.uint8).numpy(),
        "patch_norms": pred[0].norm(dim=-1).numpy(),
    }
