"""The port to Paddle of the MobileNetV3-like network, with an optimizer of its own that keeps epsilon outside the root."""

import paddle
from paddle import nn
from paddle.nn import functional as F

CLASSES = 6


class SqueezeExcite(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.reduce = nn.Conv2D(width, width // 4, 1)
        self.expand = nn.Conv2D(width // 4, width, 1)

    def forward(self, x):
        gate = x.mean([2, 3], keepdim=True)
        gate = F.relu(self.reduce(gate))
        gate = F.hardsigmoid(self.expand(gate), slope=1 / 6)
        return x * gate


class Inverted(nn.Layer):
    def __init__(self, inner, wide, outer, kernel, stride, hard):
        super().__init__()
        self.expand = nn.Conv2D(inner, wide, 1, bias_attr=False)
        self.bn1 = nn.BatchNorm2D(wide, epsilon=1e-3, momentum=0.99)
        self.depthwise = nn.Conv2D(wide, wide, kernel, stride, kernel // 2, groups=wide, bias_attr=False)
        self.bn2 = nn.BatchNorm2D(wide, epsilon=1e-3, momentum=0.99)
        self.excite = SqueezeExcite(wide)
        self.project = nn.Conv2D(wide, outer, 1, bias_attr=False)
        self.bn3 = nn.BatchNorm2D(outer, epsilon=1e-3, momentum=0.99)
        self.act = nn.Hardswish() if hard else nn.ReLU()
        self.skip = inner == outer and stride == 1

    def forward(self, x):
        y = self.act(self.bn1(self.expand(x)))
        y = self.act(self.bn2(self.depthwise(y)))
        y = self.excite(y)
        y = self.bn3(self.project(y))
        return x + y if self.skip else y


class MobileNet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2D(3, 16, 3, stride=2, bias_attr=False)
        self.bn = nn.BatchNorm2D(16, epsilon=1e-3, momentum=0.99)
        self.blocks = nn.Sequential(
            Inverted(16, 32, 16, 3, 1, False),
            Inverted(16, 48, 24, 5, 2, True),
            Inverted(24, 72, 24, 5, 1, True),
        )
        self.neck = nn.Linear(24, 48)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(48, CLASSES)

    def forward(self, x):
        x = F.pad(x, [0, 1, 0, 1])
        x = self.stem(x)
        x = F.hardswish(self.bn(x))
        x = self.blocks(x)
        x = x.mean([2, 3])
        x = F.hardswish(self.neck(x))
        x = self.dropout(x)
        return self.head(x)


def build_model():
    return MobileNet()


def loss(outputs, labels):
    chosen = paddle.take_along_axis(F.log_softmax(outputs, 1), labels.unsqueeze(1), 1)[:, 0]
    focus = (1 - chosen.exp()) ** 2
    return -(focus * chosen).mean()


class RMSprop(paddle.optimizer.Optimizer):
    """RMSprop as PyTorch computes it: epsilon is added to the root, and momentum gathers the scaled gradients."""

    def __init__(self, learning_rate, parameters, rho, epsilon, momentum):
        super().__init__(learning_rate, parameters)
        self.rho, self.epsilon, self.momentum = rho, epsilon, momentum
        self.square, self.velocity = {}, {}

    @paddle.no_grad()
    def step(self):
        for parameter in self._parameter_list:
            if parameter.stop_gradient or parameter.grad is None:
                continue
            gradient, name = parameter.grad, parameter.name
            before = self.square.get(name, paddle.zeros_like(gradient))
            square = self.rho * before + (1 - self.rho) * gradient * gradient
            scaled = gradient / (paddle.sqrt(square) + self.epsilon)
            velocity = self.momentum * self.velocity.get(name, 0.0) + scaled
            self.square[name], self.velocity[name] = square, velocity
            parameter.set_value(parameter - self.get_lr() * velocity)


def build_optimizer(model):
    schedule = paddle.optimizer.lr.ExponentialDecay(2e-3, gamma=0.97)
    return RMSprop(schedule, model.parameters(), rho=0.9, epsilon=1e-3, momentum=0.9)
