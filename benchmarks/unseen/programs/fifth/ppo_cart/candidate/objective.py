import paddle
import paddle.nn.functional as F


class PPOObjective:
    def __init__(self, clip=0.2, vf_clip=0.3, vf_coef=0.5, ent_coef=0.01):
        self.clip, self.vf_clip, self.vf_coef, self.ent_coef = clip, vf_clip, vf_coef, ent_coef

    def __call__(self, outputs, batch):
        logp_all = F.log_softmax(outputs["logits"], axis=-1)
        n_act = logp_all.shape[-1]
        chosen = paddle.sum(logp_all * F.one_hot(batch["action"], n_act).astype(logp_all.dtype), axis=-1)
        adv = batch["adv"]
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        ratio = paddle.exp(chosen - batch["logp"])
        bounded = paddle.clip(ratio, 1.0 - self.clip, 1.0 + self.clip)
        policy = -paddle.minimum(ratio * adv, bounded * adv).mean()

        value, anchor, target = outputs["value"], batch["value"], batch["ret"]
        near = anchor + paddle.clip(value - anchor, -self.vf_clip, self.vf_clip)
        value_term = 0.5 * paddle.maximum((value - target).square(), (near - target).square()).mean()
        entropy = -(logp_all.exp() * logp_all).sum(-1).mean()
        weight = 1.0 + paddle.tanh((target - value).abs()).detach()
        aux = (weight * (value - target).abs()).sum() / weight.sum()
        loss = policy + self.vf_coef * (value_term + 0.1 * aux) - self.ent_coef * entropy
        return {"loss": loss, "policy": policy, "value": value_term, "aux": aux, "entropy": entropy}
