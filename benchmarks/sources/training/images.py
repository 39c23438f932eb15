"""Images: each function gives the pixels that come out, or what of them does not depend on what is drawn."""

import os
import tempfile

import numpy as np
import torch
import torchvision.transforms as T
import torchvision.transforms.functional as TF
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from torchvision.transforms import InterpolationMode


def _image(height=37, width=52):
    generator = np.random.RandomState(0)
    return Image.fromarray(generator.randint(0, 255, (height, width, 3)).astype("uint8"))


def _gradient(size=64):
    row = np.arange(size, dtype="uint8") * 4
    return Image.fromarray(np.stack([np.tile(row, (size, 1)), np.tile(row[:, None], (1, size)), np.zeros((size, size), "uint8")], 2))


def _pixels(image):
    return np.asarray(image).astype("float32")


def evaluation():
    convert = T.Compose([T.Resize(24), T.CenterCrop(20), T.ToTensor(), T.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])])
    return convert(_image()), convert(_image(60, 41))


def resize_in_each_way():
    image = _image()
    ways = [transforms.Resize((19, 23)), T.Resize(16, interpolation=InterpolationMode.BICUBIC), T.Resize([50, 70], T.InterpolationMode.NEAREST)]
    return [_pixels(way(image)) for way in ways + [T.Resize(20, InterpolationMode.LANCZOS, antialias=True), T.Resize((9, 9), InterpolationMode.BOX)]]


def resize_of_a_tensor():
    image = torch.arange(48).reshape(3, 4, 4).float()
    return T.Resize((2, 2))(image), T.Resize((7, 7))(image)


def center_crop_that_pads():
    return _pixels(T.CenterCrop(60)(_image())), _pixels(T.CenterCrop((11, 20))(_image()))


def pad_in_each_way():
    image = _image()
    return [_pixels(way(image)) for way in (T.Pad(3), T.Pad((1, 2)), T.Pad((1, 2, 3, 4)), T.Pad(2, padding_mode="reflect"), T.Pad(2, padding_mode="edge"))]


def pad_in_a_colour():
    return _pixels(T.Pad(1, fill=7)(_image()))


def _tensor(height=9, width=12):
    return torch.arange(3 * height * width).reshape(3, height, width).float() / 400


def crops_of_a_tensor():
    image = _tensor()
    return T.CenterCrop((5, 6))(image), T.CenterCrop(14)(image), T.RandomCrop((9, 12))(image)


def pads_of_a_tensor():
    image = _tensor()
    return [way(image) for way in (T.Pad(2), T.Pad((1, 2)), T.Pad((1, 2, 3, 4)), T.Pad(2, padding_mode="reflect"), T.Pad(2, padding_mode="edge"))]


def flips_of_a_tensor():
    image = _tensor()
    return T.RandomHorizontalFlip(1.0)(image), T.RandomVerticalFlip(p=1.0)(image), TF.hflip(image), TF.vflip(image), TF.crop(image, 1, 2, 3, 4)


def gray_of_a_tensor():
    return T.Grayscale()(_tensor()), T.Grayscale(3)(_tensor())


def normalized_tensor():
    return T.Normalize([0.5, 0.4, 0.3], [0.2, 0.2, 0.1])(_tensor()), TF.normalize(_tensor(), (0.5,), (0.25,))


def normalized_by_one_number():
    gray = _image().convert("L")
    ways = [T.Normalize(0.5, 0.25), T.Normalize((0.5,), (0.25,)), T.Normalize(mean=0, std=1), T.Normalize(np.float64(0.3), np.array([0.2]))]
    found = [way(TF.to_tensor(image)) for way in ways for image in (gray, _image())]
    batch = torch.stack([TF.to_tensor(gray), TF.to_tensor(gray)])
    return found, TF.normalize(TF.to_tensor(gray), 0.5, 0.25), TF.normalize(batch, 0.5, 0.25), [each.dtype == torch.float32 for each in found]


def crops_over_the_edge():
    boxes = [(-2, 3, 6, 6), (5, 8, 9, 9), (-1, -2, 12, 16), (-4, 0, 4, 5), (9, 12, 2, 3), (20, 1, 2, 3), (0, 0, 9, 12)]
    images = [_tensor(), (_tensor() * 100).to(torch.uint8), torch.stack([_tensor(), _tensor()])]
    found = [TF.crop(image, *box) for image in images for box in boxes]
    return [each.float() for each in found], [_pixels(TF.crop(_image(9, 12), *box)) for box in boxes]


def crop_before_the_image():
    return TF.crop(_tensor(), -6, 0, 4, 5).shape[0]


def symmetric_pads():
    images = [_tensor(), (_tensor() * 100).to(torch.uint8)]
    ways = [T.Pad(each, padding_mode="symmetric") for each in (2, [3], (1, 2), (1, 2, 3, 4), (0, 0, 0, 9))]
    cut = T.Pad((-1, 2), padding_mode="symmetric")(_tensor())
    found = [way(image).float() for way in ways for image in images]
    return found, cut, [_pixels(way(_image())) for way in ways], TF.pad(_tensor(), [1, 2], padding_mode="symmetric"), TF.pad(_tensor(), [2])


def symmetric_random_crop_of_a_tensor():
    return T.RandomCrop(9, padding=2, padding_mode="symmetric")(_tensor()).shape[0]


def sizes_of_one_number():
    image = _image()
    ways = [T.Resize([24]), T.Resize((24,)), T.CenterCrop([20]), T.Pad([2]), T.RandomCrop([37], padding=[0])]
    cropped = T.RandomResizedCrop([16], scale=(1.0, 1.0), ratio=(1.0, 1.0))(_gradient())
    return [_pixels(way(image)) for way in ways[:4]], ways[4](image).size, _pixels(cropped), _pixels(TF.resize(image, [24]))


def interpolation_by_number():
    image = _image()
    found = [_pixels(T.Resize(24, number)(image)) for number in range(6)]
    ways = [T.Resize((20, 30), Image.BICUBIC), T.RandomRotation((30, 30), interpolation=2)]
    cropped = T.RandomResizedCrop(16, (1.0, 1.0), (1.0, 1.0), Image.NEAREST)(_gradient())
    return found, [_pixels(way(image)) for way in ways], _pixels(cropped), _pixels(TF.resize(image, 24, 3))


def rotation_of_a_tensor():
    return T.RandomRotation((30, 30))(_tensor())


def jitter_of_a_tensor():
    return T.ColorJitter(brightness=0.2)(_tensor()).shape[0]


def gray():
    return _pixels(T.Grayscale()(_image())), _pixels(T.Grayscale(3)(_image())), T.ToTensor()(T.Grayscale()(_image()))


def flips():
    image = _image()
    ways = [T.RandomHorizontalFlip(p=1.0), T.RandomHorizontalFlip(0), T.RandomVerticalFlip(1.0)]
    return [_pixels(way(image)) for way in ways]


def crop_of_all():
    return _pixels(T.RandomCrop((37, 52))(_image())), T.RandomCrop(64, pad_if_needed=True)(_image()).size


def crop_anywhere():
    image = _gradient(8)
    corners = {tuple(_pixels(T.RandomCrop(6)(image))[0, 0]) for _ in range(300)}
    padded = {tuple(_pixels(T.RandomCrop(8, padding=1)(image))[3, 3]) for _ in range(300)}
    return sorted(corners), sorted(padded)


def resized_crop_of_all():
    way = T.RandomResizedCrop(16, scale=(1.0, 1.0), ratio=(1.0, 1.0))
    other = T.RandomResizedCrop((16, 12), (1.0, 1.0), (1.0, 1.0), InterpolationMode.BICUBIC)
    return _pixels(way(_gradient())), _pixels(other(_gradient()))


def resized_crop_on_the_average():
    way = T.RandomResizedCrop(2, scale=(0.08, 1.0))
    values = np.stack([_pixels(way(_gradient())) for _ in range(3000)])
    spread = values[:, 0, 1, 0] - values[:, 0, 0, 0]
    return round(float(values[..., 0].mean()) / 20), round(float(spread.mean()) / 12), round(float(spread.std()) / 12)


def rotation():
    image = _gradient()
    ways = [T.RandomRotation((30, 30)), T.RandomRotation((-20, -20), InterpolationMode.BILINEAR, fill=9), T.RandomRotation((45, 45), expand=True)]
    return [_pixels(way(image)) for way in ways]


def jitter():
    image = _image()
    ways = [T.ColorJitter(brightness=(1.5, 1.5)), T.ColorJitter(contrast=(0.5, 0.5)), T.ColorJitter(saturation=(1.7, 1.7)), T.ColorJitter(hue=(0.1, 0.1)), T.ColorJitter(), T.ColorJitter(0, [1.5, 1.5]), T.ColorJitter(contrast=(1, 1))]
    return [_pixels(way(image)) for way in ways]


def _spread(way, image):
    values = np.stack([_pixels(way(image)) for _ in range(2000)])
    return [round(float(each) / 10) for each in (np.mean(values), np.min(values), np.max(values), np.mean(np.std(values, 0)))]


def jitter_on_the_average():
    image = _gradient(8)
    return [_spread(way, image) for way in (T.ColorJitter(0.4), T.ColorJitter(contrast=0.5), T.ColorJitter(contrast=(0.5, 1.2)), T.ColorJitter(saturation=0.8), T.ColorJitter(hue=0.2))]


def own_steps():
    convert = transforms.Compose([transforms.ToTensor(), transforms.Lambda(lambda x: x * 2 - 1), T.Normalize((0.5,), (0.5,))])
    return convert(_image())


def calls_on_images():
    image = _image()
    tensor = TF.to_tensor(image)
    parts = [TF.resize(image, [20, 30]), TF.center_crop(image, [20, 30]), TF.crop(image, 3, 4, 10, 12), TF.hflip(image), TF.vflip(image), TF.pad(image, 2)]
    return tensor, TF.normalize(tensor, [0.5, 0.4, 0.3], [0.2, 0.2, 0.1]), [_pixels(part) for part in parts]


def a_folder_a_class():
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(("cat", "dog", "ant")):
            os.mkdir(os.path.join(folder, name))
            for each in range(2):
                _image(8 + number, 9 + each).save(os.path.join(folder, name, f"{each}.png"))
        data = datasets.ImageFolder(folder, transform=T.Compose([T.Resize((8, 8)), T.ToTensor()]))
        batch, labels = next(iter(DataLoader(data, batch_size=6)))
        return len(data), batch, labels, [data.class_to_idx[name] for name in ("ant", "cat", "dog")]


def a_grayscale_file():
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "a"))
        _image().convert("L").save(os.path.join(folder, "a", "0.png"))
        return datasets.ImageFolder(root=folder, transform=T.ToTensor())[0][0]


def erased():
    return T.RandomErasing(p=1.0, value=0)(torch.ones(3, 8, 8)).shape[0]
