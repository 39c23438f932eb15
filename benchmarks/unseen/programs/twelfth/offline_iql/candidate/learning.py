"""Losses, the optimizers, and one update of everything."""
import paddle

from hyper import HYPER


def expectile(diff, level):
    sign = (diff > 0).astype(diff.dtype)
    return (paddle.abs(1 - level - sign) * diff * diff).mean()


def v_loss(out, hp=HYPER):
    return expectile(out["target_q"] - out["v"], hp.expectile)


def q_loss(out, labels, hp=HYPER):
    reward, done = labels[:, 0], labels[:, 1]
    goal = (reward + hp.gamma * (1 - done) * out["next_v"]).detach()
    return sum(((out["q"][:, i] - goal) ** 2).mean() for i in range(2))


def pi_loss(out, hp=HYPER):
    advantage = out["target_q"] - out["v"].detach()
    weight = paddle.clip(paddle.exp(hp.beta * advantage.detach()), max=hp.weight_cap)
    return -(weight * out["log_prob"]).mean()


def losses(out, labels):
    value, critic, actor = v_loss(out), q_loss(out, labels), pi_loss(out)
    return {"loss": value + critic + actor, "value": value, "critic": critic, "actor": actor}


class LaProp:
    def __init__(self, parameters, lr, betas, eps, decay):
        self.parameters = list(parameters)
        self.lr, self.betas, self.eps, self.decay = lr, betas, eps, decay
        self.count = 0
        self.memory = {}

    @paddle.no_grad()
    def step(self):
        self.count += 1
        b1, b2 = self.betas
        fix1, fix2 = 1 - b1 ** self.count, 1 - b2 ** self.count
        for p in self.parameters:
            g = p.grad
            if g is None:
                continue
            m, v = self.memory.get(p.name, (paddle.zeros_like(p), paddle.zeros_like(p)))
            v = b2 * v + (1 - b2) * g * g
            m = b1 * m + (1 - b1) * g / (paddle.sqrt(v / fix2) + self.eps)
            self.memory[p.name] = (m, v)
            shrink = self.lr * self.decay if p.ndim > 1 else 0.0
            p.set_value(p * (1 - shrink) - self.lr / fix1 * m)

    def clear_grad(self):
        for p in self.parameters:
            p.clear_gradient()


class Optimizers:
    def __init__(self, agent, hp=HYPER):
        self.critic = LaProp(agent.critic.parameters() + agent.value.parameters(),
                             hp.critic_lr, hp.critic_betas, hp.critic_eps, hp.critic_decay)
        self.rate = paddle.optimizer.lr.CosineAnnealingDecay(
            hp.actor_lr, T_max=hp.horizon, eta_min=hp.final * hp.actor_lr)
        self.actor = paddle.optimizer.Adam(self.rate, epsilon=hp.actor_eps, parameters=agent.policy.parameters())

    def step(self):
        for optimizer in (self.critic, self.actor):
            optimizer.step()

    def clear_grad(self):
        for optimizer in (self.critic, self.actor):
            optimizer.clear_grad()


@paddle.no_grad()
def clip_norm(parameters, limit):
    norm = paddle.sqrt(sum((p.grad ** 2).sum() for p in parameters))
    factor = paddle.clip(limit / (norm + 1e-6), max=1.0)
    for p in parameters:
        p.grad.set_value(p.grad * factor)
    return norm


def train_step(agent, optimizer, batch, hp=HYPER):
    agent.train()
    *pair, labels = batch
    out = agent(*pair)
    value, critic = v_loss(out), q_loss(out, labels)
    (value + critic).backward()
    optimizer.critic.step()
    optimizer.clear_grad()

    actor = pi_loss(agent(*pair))
    actor.backward()
    norm = clip_norm(agent.policy.parameters(), hp.actor_clip)
    optimizer.actor.step()
    optimizer.clear_grad()

    agent.track(hp.tau)
    return {"value": float(value), "critic": float(critic), "actor": float(actor), "norm": float(norm)}
