import paddle
import paddle.nn.functional as F

from .config import CFG

S = CFG.solver


class AdaBelief:
    """belief in observed gradients; decay apart from the gradient"""

    def __init__(self, parameters, learning_rate, beta1, beta2, epsilon=1e-10, weight_decay=0.0):
        self.parameters = list(parameters)
        self.lr, self.beta1, self.beta2 = learning_rate, beta1, beta2
        self.epsilon, self.decay = epsilon, weight_decay
        self.count = 0
        self.mean = [paddle.zeros_like(p) for p in self.parameters]
        self.belief = [paddle.zeros_like(p) for p in self.parameters]

    def get_lr(self):
        return self.lr

    @paddle.no_grad()
    def step(self):
        self.count += 1
        for k, p in enumerate(self.parameters):
            if p.grad is None:
                continue
            g = p.grad
            mean = self.beta1 * self.mean[k] + (1 - self.beta1) * g
            belief = self.beta2 * self.belief[k] + (1 - self.beta2) * (g - mean) ** 2 + self.epsilon
            self.mean[k], self.belief[k] = mean, belief
            unbiased = mean / (1 - self.beta1 ** self.count)
            scale = paddle.sqrt(belief / (1 - self.beta2 ** self.count)) + self.epsilon
            p.set_value(p * (1 - self.lr * self.decay) - self.lr * unbiased / scale)

    def clear_grad(self):
        for p in self.parameters:
            p.clear_gradient(False)


class Solver:
    """both optimizers behind one face"""

    def __init__(self, model):
        b1, b2 = S.betas
        self.painter = paddle.optimizer.Adam(S.lr_g, beta1=b1, beta2=b2, parameters=model.painter.parameters())
        self.critic = AdaBelief([p for p in model.critic.parameters() if p.trainable], S.lr_d, b1, b2, weight_decay=S.decay_d)

    def get_lr(self):
        return [self.painter.get_lr(), self.critic.get_lr()]

    def step(self):
        self.painter.step()
        self.critic.step()

    def clear_grad(self):
        self.painter.clear_grad()
        self.critic.clear_grad()


def slope_penalty(critic, image):
    image = image.detach().clone()
    image.stop_gradient = False
    adv = critic(image)[0]
    slope = paddle.grad(adv.sum(), image, create_graph=True)[0]
    return (slope ** 2).sum(axis=[1, 2, 3]).mean()


def critic_update(model, solver, noise, wanted, image, labels):
    with paddle.no_grad():
        fake = model.painter(noise, wanted)
    adv, aux, _ = model.critic(image)
    fake_adv = model.critic(fake)[0]
    value = F.softplus(-adv).mean() + F.softplus(fake_adv).mean() + S.aux * F.cross_entropy(aux, labels)
    value = value + 0.5 * S.r1 * slope_penalty(model.critic, image)
    value.backward()
    solver.critic.step()
    solver.clear_grad()
    return value


def painter_update(model, solver, noise, wanted, image):
    adv, aux, feature = model.critic(model.painter(noise, wanted))
    with paddle.no_grad():
        goal = model.critic(image)[2].mean(axis=0)
    matching = F.l1_loss(feature.mean(axis=0), goal)
    value = F.softplus(-adv).mean() + S.aux * F.cross_entropy(aux, wanted) + S.match * matching
    value.backward()
    solver.painter.step()
    solver.clear_grad()
    return value


@paddle.no_grad()
def follow(average, painter, keep=S.ema):
    source = painter.state_dict()
    for name, slow in average.state_dict().items():
        fast = source[name]
        running = name.endswith(("_mean", "_variance"))
        slow.set_value(fast if running else keep * slow + (1 - keep) * fast)
