import numpy as np


def horizontal_flip(image, boxes):
    """image: H x W x 3; boxes: N x 4 as x0, y0, x1, y1 in pixels."""
    width = image.shape[1]
    image = image[:, ::-1]
    flipped = boxes.copy()
    flipped[:, 0] = width - boxes[:, 2]
    flipped[:, 2] = width - boxes[:, 0]
    return image, flipped


def color_jitter(image, rng, brightness, contrast):
    """Brightness first, then contrast around the grey mean, as in torchvision."""
    image = image * rng.uniform(1 - brightness, 1 + brightness)
    grey = (image @ np.array([0.299, 0.587, 0.114])).mean()
    factor = rng.uniform(1 - contrast, 1 + contrast)
    image = factor * image + (1 - factor) * grey
    return image.clip(0.0, 1.0)


def normalize(image, mean, std):
    image = (image - np.asarray(mean)) / np.asarray(std)
    return np.ascontiguousarray(image.transpose(2, 0, 1), dtype=np.float32)


def letterbox(picture, size, fill=114):
    """Fits a PIL picture into a square; returns it with the scale and the padding of the left and the top."""
    from PIL import Image

    scale = size / max(picture.size)
    width, height = (int(round(side * scale)) for side in picture.size)
    left, top = (size - width) // 2, (size - height) // 2
    canvas = Image.new("RGB", (size, size), (fill,) * 3)
    canvas.paste(picture.resize((width, height), Image.BILINEAR), (left, top))
    return canvas, scale, (left, top)
