import torch


def ppo_loss(out, batch, cfg):
    dist = torch.distributions.Categorical(logits=out["logits"])
    logp = dist.log_prob(batch["action"])
    adv = batch["adv"]
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    log_ratio = logp - batch["logp"]
    ratio = log_ratio.exp()
    surr = torch.max(-adv * ratio, -adv * ratio.clamp(1 - cfg["clip"], 1 + cfg["clip"])).mean()

    v, v_old, ret = out["value"], batch["value"], batch["ret"]
    v_clipped = v_old + (v - v_old).clamp(-cfg["vf_clip"], cfg["vf_clip"])
    v_loss = 0.5 * torch.max((v - ret) ** 2, (v_clipped - ret) ** 2).mean()
    entropy = dist.entropy().mean()
    # optimism weights: samples whose value is far off speak louder, but do not push the critic twice
    w = 1.0 + (ret - v).detach().abs().tanh()
    aux = (w * (v - ret).abs()).sum() / w.sum()
    total = surr + cfg["vf_coef"] * (v_loss + 0.1 * aux) - cfg["ent_coef"] * entropy
    return {"loss": total, "policy": surr, "value": v_loss, "aux": aux, "entropy": entropy}
