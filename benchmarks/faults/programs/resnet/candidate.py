"""The port to Paddle of the small ResNet."""

import numpy as np
import paddle
from given import MEAN, STD, crops
from paddle import nn
from paddle.nn import functional as F
from PIL import Image

CLASSES = 10


class Block(nn.Layer):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1 = nn.Conv2D(inner, outer, 3, stride=stride, padding=1, bias_attr=False)
        self.bn1 = nn.BatchNorm2D(outer)
        self.conv2 = nn.Conv2D(outer, outer, 3, padding=1, bias_attr=False)
        self.bn2 = nn.BatchNorm2D(outer)
        self.pool = nn.AvgPool2D(3, stride=stride, padding=1, exclusive=False)
        self.project = nn.Conv2D(inner, outer, 1, bias_attr=False)
        self.bn3 = nn.BatchNorm2D(outer)

    def forward(self, x):
        shortcut = self.pool(x)
        shortcut = self.bn3(self.project(shortcut))
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.bn2(self.conv2(x))
        return F.relu(x + shortcut)


class ResNet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2D(3, 16, 7, stride=2, padding=3, bias_attr=False)
        self.bn = nn.BatchNorm2D(16)
        self.maxpool = nn.MaxPool2D(3, stride=2, padding=1)
        self.block1 = Block(16, 16, 1)
        self.block2 = Block(16, 32, 2)
        self.hidden = nn.Linear(32 * 4, 64)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(64, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        x = self.bn(x)
        x = F.relu(x)
        x = self.maxpool(x)
        x = self.block1(x)
        x = self.block2(x)
        x = F.adaptive_avg_pool2d(x, 2)
        x = paddle.flatten(x, 1)
        x = F.relu(self.hidden(x))
        x = self.drop(x)
        return self.head(x)


def build_model():
    return ResNet()


def loss(outputs, labels):
    target = F.label_smooth(F.one_hot(labels, CLASSES).astype(outputs.dtype), epsilon=0.1)
    return F.cross_entropy(outputs, target, soft_label=True)


def build_optimizer(model):
    schedule = paddle.optimizer.lr.CosineAnnealingDecay(0.05, T_max=10)
    return paddle.optimizer.Momentum(
        learning_rate=schedule,
        momentum=0.9,
        parameters=model.parameters(),
        use_nesterov=True,
        weight_decay=1e-3,
    )


# -- data ----------------------------------------------------------------------------------------------------------------------


def resize(image):
    return image.resize((48, 48), Image.BILINEAR)


def center_crop(image):
    return image.crop((4, 4, 44, 44))


def to_array(image):
    return np.asarray(image, "float32") / 255


def normalize(array):
    return (array - MEAN) / STD


def to_tensor(array):
    return paddle.to_tensor(array.transpose(2, 0, 1).copy())


def transforms(split):
    return [resize, center_crop, to_array, normalize, to_tensor]


class Compose:
    def __init__(self, steps):
        self.steps = steps

    def __call__(self, value):
        for step in self.steps:
            value = step(value)
        return value


class Crops(paddle.io.Dataset):
    def __init__(self, transform):
        self.pictures = crops(10, 96)
        self.transform = transform

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        image = Image.fromarray(self.pictures[index])
        label = index % CLASSES
        return self.transform(image), label


def build_dataset(split):
    return Crops(Compose(transforms(split)))


def build_dataloader(split):
    return paddle.io.DataLoader(build_dataset(split), batch_size=4, shuffle=False)
