import paddle
from paddle import nn
from paddle.nn import functional as F


class EfronLoss(nn.Layer):
    """Cox partial likelihood, ties after Efron, without a loop over times."""

    def forward(self, risk, time, event):
        n = risk.shape[0]
        died = event > 0
        risk = risk - paddle.max(risk).detach()
        hazard = paddle.exp(risk)
        at_risk = (time.unsqueeze(0) >= time.unsqueeze(1)).astype(risk.dtype)          # row i: who is there at time i
        tied = ((time.unsqueeze(0) == time.unsqueeze(1)) & died.unsqueeze(0)).astype(risk.dtype)
        earlier = paddle.tril(paddle.ones([n, n], dtype=risk.dtype), diagonal=-1)
        rank = (tied * earlier).sum(axis=1)
        count = paddle.clip(tied.sum(axis=1), min=1.0)
        inside = paddle.matmul(at_risk, hazard) - rank / count * paddle.matmul(tied, hazard)
        inside = paddle.where(died, inside, paddle.ones_like(inside))
        loglik = ((risk - paddle.log(inside)) * event).sum()
        return -loglik / paddle.clip(event.sum(), min=1.0)


class HazardLoss(nn.Layer):
    def __init__(self, edges):
        super().__init__()
        self.edges = edges

    def forward(self, logits, time, event):
        edges = paddle.to_tensor(self.edges, dtype=time.dtype)
        last = (time.unsqueeze(1) > edges).astype("int64").sum(axis=1, keepdim=True)
        index = paddle.arange(logits.shape[1]).unsqueeze(0)
        lived = (index < last).astype(logits.dtype)
        ended = (index == last).astype(logits.dtype) * event.unsqueeze(1)
        nll = lived * F.softplus(logits) + ended * F.softplus(-logits)
        return nll.sum(axis=1).mean()


class TenureCriterion(nn.Layer):
    def __init__(self, edges, hazard_weight=0.5, centre_weight=0.01):
        super().__init__()
        self.partial, self.hazard = EfronLoss(), HazardLoss(edges)
        self.hazard_weight, self.centre_weight = hazard_weight, centre_weight

    def forward(self, outputs, labels):
        time, event = paddle.unbind(labels, axis=1)
        partial = self.partial(outputs["risk"], time, event)
        hazard = self.hazard(outputs["hazard"], time, event)
        centre = paddle.mean(outputs["risk"]) ** 2
        total = partial + self.hazard_weight * hazard + self.centre_weight * centre
        return {"loss": total, "partial": partial, "hazard": hazard}
