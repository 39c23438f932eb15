"""Focal loss with class weights; a price on attention that looks at one sentence only."""
import torch
from torch.nn import functional as F


class FocalLoss:
    def __init__(self, gamma, class_weights, concentration):
        self.gamma = gamma
        self.class_weights = class_weights
        self.concentration = concentration

    def focal(self, logits, labels):
        log_p = F.log_softmax(logits, dim=-1).gather(1, labels[:, None]).squeeze(1)
        modulation = (1.0 - log_p.exp()) ** self.gamma
        alpha = torch.tensor(self.class_weights, dtype=logits.dtype)[labels]
        return -(alpha * modulation * log_p).sum() / alpha.sum()

    def __call__(self, outputs, labels):
        focal = self.focal(outputs["logits"], labels)
        concentrated = outputs["sentence_attention"].pow(2).sum(dim=-1).mean()
        return {"loss": focal + self.concentration * concentrated, "focal": focal, "concentrated": concentrated}
