import torch

from . import settings
from .losses import actor_loss, critic_loss, value_loss


def train_step(agent, optimizer, batch, cfg=settings.algorithm):
    """Critics and value first, then the actor with the new value, then the target."""
    obs, act, next_obs, labels = batch
    agent.train()
    out = agent(obs, act, next_obs)
    loss_v, loss_q = value_loss(out), critic_loss(out, labels)
    optimizer.critic.zero_grad()
    (loss_v + loss_q).backward()
    optimizer.critic.step()

    out = agent(obs, act, next_obs)
    loss_pi = actor_loss(out)
    optimizer.actor.zero_grad()
    loss_pi.backward()
    norm = torch.nn.utils.clip_grad_norm_(agent.actor.parameters(), cfg["actor_clip"])
    optimizer.actor.step()

    agent.follow(cfg["tau"])
    return {"value": loss_v.item(), "critic": loss_q.item(), "actor": loss_pi.item(), "norm": norm.item()}
