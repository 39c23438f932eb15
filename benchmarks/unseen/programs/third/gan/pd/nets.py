import paddle
import paddle.nn.functional as F
from paddle import nn

from .config import CFG
from .layers import ClassBatchNorm, SNConv, SNLinear, batch_deviation, pixel_norm


class Painter(nn.Layer):
    def __init__(self, c):
        super().__init__()
        wide, narrow = c.g_width
        self.words = nn.Embedding(c.classes, c.label_width)
        self.seed = nn.Linear(c.noise + c.label_width, 9 * wide)
        self.norm1 = ClassBatchNorm(wide, c.classes, c.bn_momentum)
        self.grow = nn.Conv2DTranspose(wide, narrow, 4, stride=2, padding=1, bias_attr=False)
        self.norm2 = ClassBatchNorm(narrow, c.classes, c.bn_momentum)
        self.paint = nn.Conv2D(narrow, 1, 3)

    def forward(self, noise, wanted):
        h = paddle.concat([pixel_norm(noise), self.words(wanted)], axis=1)
        h = self.seed(h).reshape([noise.shape[0], -1, 3, 3])
        h = self.grow(F.relu(self.norm1(h, wanted)))
        h = F.relu(self.norm2(h, wanted))
        h = F.interpolate(h, scale_factor=2, mode="bilinear", align_corners=False)
        h = F.pad(h, [1, 1, 1, 1], mode="replicate")
        return F.tanh(self.paint(h))


class Critic(nn.Layer):
    def __init__(self, c):
        super().__init__()
        a, b, d = c.d_width
        n = c.power_iterations
        self.see = SNConv(1, a, 3, iterations=n)
        self.halve = SNConv(a, b, 4, stride=2, iterations=n)
        self.mix = SNConv(b + 1, d, 3, iterations=n)
        self.verdict = SNLinear(d, 1, iterations=n)
        self.classify = SNLinear(d, c.classes, iterations=n)
        self.leak = c.leak

    def forward(self, image):
        h = F.leaky_relu(self.see(image), self.leak)
        h = batch_deviation(F.leaky_relu(self.halve(h), self.leak))
        h = F.leaky_relu(self.mix(h), self.leak)
        pooled = h.sum(axis=[2, 3]) / 6.0
        return self.verdict(pooled).squeeze(-1), self.classify(pooled), pooled


class GlyphGAN(nn.Layer):
    def __init__(self):
        super().__init__()
        self.painter = Painter(CFG.net)
        self.critic = Critic(CFG.net)
        self.average = Painter(CFG.net)
        self.average.set_state_dict(self.painter.state_dict())
        for p in self.average.parameters():
            p.stop_gradient = True

    def forward(self, noise, wanted, image):
        fake = self.painter(noise, wanted)
        real = self.critic(image)
        made = self.critic(fake)
        return dict(fake=fake, real=image, real_adv=real[0], fake_adv=made[0], real_aux=real[1], fake_aux=made[1],
                    feature=made[2])
