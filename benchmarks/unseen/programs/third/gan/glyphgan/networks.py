import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class SpectralNorm(nn.Module):
    """divides the weight of a layer by its largest singular value, power iteration by hand"""

    def __init__(self, layer, n_iter=1, eps=1e-12):
        super().__init__()
        self.layer, self.n_iter, self.eps = layer, n_iter, eps
        self.register_buffer("u", F.normalize(torch.randn(layer.weight.size(0)), dim=0))

    def weight(self):
        w = self.layer.weight
        mat = w.flatten(1)
        with torch.no_grad():
            u = self.u
            v = F.normalize(mat.t() @ u, dim=0, eps=self.eps)
            if self.training:
                for _ in range(self.n_iter):
                    u = F.normalize(mat @ v, dim=0, eps=self.eps)
                    v = F.normalize(mat.t() @ u, dim=0, eps=self.eps)
                self.u.copy_(u)
            u, v = u.clone(), v.clone()
        sigma = torch.dot(u, mat @ v)
        return w / sigma

    def forward(self, x):
        l = self.layer
        if isinstance(l, nn.Conv2d):
            return F.conv2d(x, self.weight(), l.bias, l.stride, l.padding)
        return F.linear(x, self.weight(), l.bias)


class ConditionalBN(nn.Module):
    def __init__(self, c, n_class):
        super().__init__()
        self.bn = nn.BatchNorm2d(c, affine=False, momentum=0.2)
        self.embed = nn.Embedding(n_class, 2 * c)
        self.embed.weight.data[:, :c].normal_(1, 0.05)
        self.embed.weight.data[:, c:].normal_(0, 0.05)

    def forward(self, x, y):
        gamma, beta = self.embed(y)[:, :, None, None].chunk(2, 1)
        return gamma * self.bn(x) + beta


class Generator(nn.Module):
    def __init__(self, z=12, n_class=3, c=(32, 24)):
        super().__init__()
        self.label = nn.Embedding(n_class, 6)
        self.fc = nn.Linear(z + 6, c[0] * 9)
        self.cbn1 = ConditionalBN(c[0], n_class)
        self.up1 = nn.ConvTranspose2d(c[0], c[1], 4, 2, 1, bias=False)
        self.cbn2 = ConditionalBN(c[1], n_class)
        self.up2 = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.out = nn.Conv2d(c[1], 1, 3, padding=1, padding_mode="replicate")

    def forward(self, z, y):
        z = z / z.pow(2).mean(1, keepdim=True).add(1e-8).sqrt()
        h = self.fc(torch.cat([z, self.label(y)], 1)).view(z.size(0), -1, 3, 3)
        h = self.up1(F.relu(self.cbn1(h, y)))
        h = self.up2(F.relu(self.cbn2(h, y)))
        return torch.tanh(self.out(h))


class MinibatchStd(nn.Module):
    """appends the mean over features of the standard deviation over the batch as one more channel"""

    def forward(self, x):
        s = (x.var(0, unbiased=False) + 1e-8).sqrt().mean()
        return torch.cat([x, s.expand(x.size(0), 1, *x.shape[2:])], 1)


class Discriminator(nn.Module):
    def __init__(self, n_class=3, c=(16, 24, 32)):
        super().__init__()
        self.conv1 = SpectralNorm(nn.Conv2d(1, c[0], 3, 1, 1))
        self.conv2 = SpectralNorm(nn.Conv2d(c[0], c[1], 4, 2, 1))
        self.std = MinibatchStd()
        self.conv3 = SpectralNorm(nn.Conv2d(c[1] + 1, c[2], 3, 1, 1))
        self.adv = SpectralNorm(nn.Linear(c[2], 1))
        self.aux = SpectralNorm(nn.Linear(c[2], n_class))

    def forward(self, x):
        h = F.leaky_relu(self.conv1(x), 0.1)
        h = F.leaky_relu(self.conv2(h), 0.1)
        h = F.leaky_relu(self.conv3(self.std(h)), 0.1)
        f = h.sum((2, 3)) / 6
        return self.adv(f).squeeze(1), self.aux(f), f


class GAN(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = Generator()
        self.discriminator = Discriminator()
        self.ema = copy.deepcopy(self.generator).requires_grad_(False)

    def forward(self, noise, wanted, image):
        fake = self.generator(noise, wanted)
        real_adv, real_aux, _ = self.discriminator(image)
        fake_adv, fake_aux, feature = self.discriminator(fake)
        return {"fake": fake, "real": image, "real_adv": real_adv, "fake_adv": fake_adv, "real_aux": real_aux,
                "fake_aux": fake_aux, "feature": feature}
