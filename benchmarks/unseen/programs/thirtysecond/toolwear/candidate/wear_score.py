"""Loss and figures of merit."""
import numpy as np
import paddle
import paddle.nn.functional as F
from scipy import stats

from wear_config import cfg

N = len(cfg.limits.um)


def loss(outputs, labels):
    c = cfg.criterion
    grade = labels["grade"]
    target = paddle.stack([(grade > k).astype("float32") for k in range(N)], axis=1)
    raw = F.binary_cross_entropy_with_logits(outputs["above"], target, reduction="none")
    ordinal = (raw * paddle.to_tensor(c.importance, dtype="float32")).mean()
    wear = ((outputs["wear"] - labels["wear"]) ** 2).mean()
    worse = (grade.unsqueeze(1) > grade.unsqueeze(0)).astype("float32")
    lead = outputs["score"].unsqueeze(1) - outputs["score"].unsqueeze(0)
    rank = (F.softplus(c.margin - lead) * worse).sum() / paddle.clip(worse.sum(), min=1.0)
    return {"loss": ordinal + c.wear * wear + c.rank * rank, "ordinal": ordinal, "wear": wear, "rank": rank}


def metric(outputs, labels):
    above, score, wear = (outputs[k].numpy() for k in ("above", "score", "wear"))
    grade, true = labels["grade"].numpy(), labels["wear"].numpy()
    guess = (above > 0).sum(axis=1)
    gap = grade - guess
    a, b = (np.bincount(v, minlength=N + 1) for v in (grade, guess))
    levels = np.arange(N + 1)
    chance = (np.subtract.outer(levels, levels) ** 2 * np.outer(a, b)).sum() / len(grade)
    rank = stats.rankdata(score)
    worn = grade >= cfg.limits.worn
    n1, n0 = worn.sum(), (~worn).sum()
    auc = (rank[worn].sum() - n1 * (n1 + 1) / 2) / (n1 * n0) if n1 and n0 else 0.5
    return {"kappa": float(1 - (gap ** 2).sum() / max(chance, 1e-9)),
            "off": float(np.abs(gap).mean()),
            "within_one": float((np.abs(gap) <= 1).mean()),
            "spearman": float(np.corrcoef(rank, stats.rankdata(true))[0, 1]),
            "worn_auc": float(auc),
            "wear_mape": float(100 * np.mean(np.abs(wear - true) / true))}
