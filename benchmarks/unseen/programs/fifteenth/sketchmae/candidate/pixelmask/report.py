import numpy as np
import paddle

from .images import draw_mask, prepare, read
from .patches import fill_in


def visible_colours(images, options):
    shape = [3, 1, 1]
    std = paddle.to_tensor(options.std, dtype=images.dtype).reshape(shape)
    mean = paddle.to_tensor(options.mean, dtype=images.dtype).reshape(shape)
    return paddle.clip(images * std + mean, 0.0, 1.0)


def quality(predicted, labels, options):
    with paddle.no_grad():
        filled = fill_in(predicted, labels["image"], labels["mask"], options.patch)
        difference = visible_colours(filled, options.pictures) - visible_colours(
            labels["image"], options.pictures
        )
        squared = (difference ** 2).flatten(1).mean(axis=1)
        psnr = 10.0 * paddle.log10(1.0 / (squared + 1e-8))
        return {"psnr": float(psnr.mean()), "mae": float(difference.abs().mean())}


def complete(path, model, options):
    model.eval()
    image = prepare(read(path), options.pictures)
    rng = np.random.default_rng(options.pictures.seed)
    order, hidden = draw_mask(rng, options.n_patches, options.n_seen)
    kind = model.encoder.summary.dtype
    with paddle.no_grad():
        image = paddle.to_tensor(image[None]).astype(kind)
        predicted = model(image, paddle.to_tensor(order[None]))
        filled = fill_in(predicted, image, paddle.to_tensor(hidden[None]), options.patch)
        colours = visible_colours(filled, options.pictures)[0] * 255
        norms = paddle.linalg.norm(predicted[0], axis=-1)
    return {
        "picture": np.rint(colours.numpy()).astype("uint8").transpose(1, 2, 0),
        "patch_norms": norms.numpy(),
    }
