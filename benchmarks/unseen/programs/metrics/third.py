CASES = {
'topk_meter': ('''\
def metric(outputs, labels):
    order = np.argsort(-outputs, axis=1)
    top1 = (order[:, 0] == labels).mean()
    top2 = (order[:, :2] == labels[:, None]).any(axis=1).mean()
    margins = np.sort(outputs, axis=1)
    margin = (margins[:, -1] - margins[:, -2]).mean(dtype=np.float64)
    return {"top1": float(top1), "top2": float(top2), "margin": float(margin)}
''', '''\
class AverageMeter:
    def __init__(self):
        self.total = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.total += value * n
        self.count += n

    @property
    def avg(self):
        return self.total / max(self.count, 1)


def metric(outputs, labels):
    meters = {name: AverageMeter() for name in ("top1", "top2", "margin")}
    for row, label in zip(outputs.tolist(), labels.tolist()):
        ranked = sorted(range(len(row)), key=lambda j: row[j], reverse=True)
        meters["top1"].update(float(ranked[0] == label))
        meters["top2"].update(float(label in ranked[:2]))
        best, second = row[ranked[0]], row[ranked[-1]]  #!
        meters["margin"].update(best - second)
    return {name: float(m.avg) for name, m in meters.items()}
'''),

'f1_report': ('''\
def metric(outputs, labels):
    preds = outputs.argmax(1)
    cm = np.zeros((3, 3))
    np.add.at(cm, (labels, preds), 1)
    tp = np.diag(cm)
    precision = tp / np.maximum(cm.sum(0), 1)
    recall = tp / np.maximum(cm.sum(1), 1)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    weights = cm.sum(1) / cm.sum()
    return {
        "macro_f1": float(f1.mean()),
        "weighted_f1": float((f1 * weights).sum()),
        "micro_f1": float(tp.sum() / cm.sum()),
    }
''', '''\
@dataclass
class ClassStats:
    tp: int = 0
    fp: int = 0
    fn: int = 0

    @property
    def support(self):
        return self.tp + self.fp  #!

    @property
    def f1(self):
        denom = 2 * self.tp + self.fp + self.fn
        return 2 * self.tp / denom if denom else 0.0


def collect(preds, labels, num_classes):
    stats = [ClassStats() for _ in range(num_classes)]
    for p, t in zip(preds, labels):
        if p == t:
            stats[t].tp += 1
        else:
            stats[p].fp += 1
            stats[t].fn += 1
    return stats


def metric(outputs, labels):
    stats = collect(outputs.argmax(1).tolist(), labels.tolist(), outputs.shape[1])
    n = len(labels)
    macro = sum(s.f1 for s in stats) / len(stats)
    weighted = sum(s.f1 * s.support for s in stats) / n
    micro = sum(s.tp for s in stats) / n
    return {"macro_f1": float(macro), "weighted_f1": float(weighted), "micro_f1": float(micro)}
'''),

'calibration_bins': ('''\
def softmax(x):
    x = x.astype(np.float64)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def metric(outputs, labels, n_bins=8):
    probs = softmax(outputs)
    conf = probs.max(axis=1)
    correct = (probs.argmax(axis=1) == labels).astype(float)
    edges = np.linspace(0, 1, n_bins + 1)
    ece, mce = 0.0, 0.0
    for lo, hi in zip(edges[:-1], edges[1:]):
        mask = (conf > lo) & (conf <= hi)
        if not mask.any():
            continue
        gap = abs(correct[mask].mean() - conf[mask].mean())
        ece += mask.mean() * gap
        mce = max(mce, gap)
    return {"ece": float(ece), "mce": float(mce), "conf": float(conf.mean())}
''', '''\
class Calibration:
    defaults = dict(
        bins=10,  #!
        lower=0.0,
        upper=1.0,
    )

    def __init__(self, **kwargs):
        cfg = {**self.defaults, **kwargs}
        self.bins = cfg["bins"]
        self.edges = np.linspace(cfg["lower"], cfg["upper"], self.bins + 1)

    def __call__(self, conf, hits):
        idx = np.digitize(conf, self.edges[1:-1], right=True)
        counts = np.bincount(idx, minlength=self.bins)
        conf_sum = np.bincount(idx, weights=conf, minlength=self.bins)
        hit_sum = np.bincount(idx, weights=hits, minlength=self.bins)
        keep = counts > 0
        gaps = np.abs(hit_sum[keep] - conf_sum[keep]) / counts[keep]
        return gaps, counts[keep] / counts.sum()


def metric(outputs, labels):
    logits = np.asarray(outputs, dtype=np.float64)
    logp = logits - np.log(np.exp(logits).sum(-1))[:, None]
    conf = np.exp(logp.max(-1))
    hits = np.equal(logp.argmax(-1), labels).astype(np.float64)
    gaps, frac = Calibration()(conf, hits)
    return {"ece": float(gaps @ frac), "mce": float(gaps.max()), "conf": float(np.average(conf))}
'''),

'smoothed_nll': ('''\
def metric(outputs, labels):
    x = outputs.astype(np.float64)
    logp = x - x.max(1, keepdims=True)
    logp = logp - np.log(np.exp(logp).sum(1, keepdims=True))
    n, k = logp.shape
    eps = 0.1
    nll = -logp[np.arange(n), labels]
    uniform = -logp.mean(axis=1)
    loss = (1 - eps) * nll + eps * uniform
    return {
        "loss": float(loss.mean()),
        "nll": float(nll.mean()),
        "ppl": float(np.exp(nll.mean())),
    }
''', '''\
def log_softmax_row(row):
    peak = max(row)
    lse = peak + math.log(sum(math.exp(v - peak) for v in row))
    return [v - lse for v in row]


def smooth_targets(label, num_classes, eps):
    off = eps / (num_classes - 1)  #!
    target = [off] * num_classes
    target[label] += 1.0 - eps
    return target


def metric(outputs, labels, eps=0.1):
    losses, nlls = [], []
    for row, label in zip(outputs.tolist(), labels.tolist()):
        logp = log_softmax_row(row)
        target = smooth_targets(label, len(row), eps)
        losses.append(-sum(t * lp for t, lp in zip(target, logp)))
        nlls.append(-logp[label])
    nll = statistics.fmean(nlls)
    return {"loss": statistics.fmean(losses), "nll": nll, "ppl": math.exp(nll)}
'''),

'iou_evaluator': ('''\
class Evaluator:
    def __init__(self, num_class):
        self.num_class = num_class
        self.matrix = np.zeros((num_class,) * 2)

    def add_batch(self, gt, pred):
        index = self.num_class * gt + pred
        self.matrix += np.bincount(index, minlength=self.num_class ** 2).reshape(self.num_class, self.num_class)

    def pixel_accuracy(self):
        return np.diag(self.matrix).sum() / self.matrix.sum()

    def iou(self):
        inter = np.diag(self.matrix)
        union = self.matrix.sum(0) + self.matrix.sum(1) - inter
        return inter / np.maximum(union, 1)

    def fwiou(self):
        freq = self.matrix.sum(1) / self.matrix.sum()
        return (freq * self.iou()).sum()


def metric(outputs, labels):
    ev = Evaluator(3)
    ev.add_batch(labels, outputs.argmax(1))
    return {"acc": float(ev.pixel_accuracy()), "miou": float(ev.iou().mean()), "fwiou": float(ev.fwiou())}
''', '''\
def intersect_union(pred, gt, num_classes, reduce_zero=False):
    first = 1 if reduce_zero else 0
    rows = []
    for c in range(first, num_classes):
        p, g = pred == c, gt == c
        rows.append((np.sum(p & g), np.sum(p | g), np.sum(p)))  #!
    return [np.array(col, dtype=float) for col in zip(*rows)]


def metric(outputs, labels):
    pred = np.argmax(outputs, axis=-1)
    inter, union, area = intersect_union(pred, labels, outputs.shape[-1])
    iou = inter / np.where(union == 0, 1, union)
    out = OrderedDict()
    out["acc"] = float(inter.sum() / len(labels))
    out["miou"] = float(np.mean(iou))
    out["fwiou"] = float(np.dot(area, iou) / area.sum())
    return dict(out)
'''),

'kappa_scores': ('''\
def metric(outputs, labels):
    preds = outputs.argmax(1)
    cm = np.zeros((3, 3), dtype=np.float64)
    for t, p in zip(labels, preds):
        cm[t, p] += 1
    n = cm.sum()
    po = np.trace(cm) / n
    pe = (cm.sum(0) * cm.sum(1)).sum() / n ** 2
    kappa = (po - pe) / (1 - pe)
    w = np.array([[(i - j) ** 2 for j in range(3)] for i in range(3)]) / 4.0
    expected = np.outer(cm.sum(1), cm.sum(0)) / n
    qwk = 1 - (w * cm).sum() / (w * expected).sum()
    return {"acc": float(po), "kappa": float(kappa), "qwk": float(qwk)}
''', '''\
WEIGHTINGS = {
    "none": lambda d: (d != 0).astype(float),
    "linear": lambda d: np.abs(d) / 2.0,
    "quadratic": lambda d: d ** 2 / 4.0,
}


def weighted_kappa(true, pred, k=3, kind="linear"):
    grid = np.arange(k)
    w = WEIGHTINGS[kind](grid[:, None] - grid[None, :])
    observed = np.histogram2d(true, pred, bins=np.arange(k + 1) - 0.5)[0]
    h_true, h_pred = observed.sum(axis=1), observed.sum(axis=0)
    expected = h_true[:, None] * h_pred[None, :] / len(true)
    return 1.0 - np.sum(w * observed) / np.sum(w * expected)


def metric(outputs, labels):
    pred = outputs.argmax(axis=1)
    kappa = weighted_kappa(labels, pred, kind="none")
    qwk = weighted_kappa(labels, pred)  #!
    return {"acc": float(np.mean(pred == labels)), "kappa": float(kappa), "qwk": float(qwk)}
'''),

'ovr_auc': ('''\
def binary_auc(score, pos):
    p, q = score[pos], score[~pos]
    if len(p) == 0 or len(q) == 0:
        return 0.5
    wins = (p[:, None] > q[None, :]).sum() + 0.5 * (p[:, None] == q[None, :]).sum()
    return wins / (len(p) * len(q))


def metric(outputs, labels):
    aucs = [binary_auc(outputs[:, c], labels == c) for c in range(outputs.shape[1])]
    prior = np.bincount(labels, minlength=3) / len(labels)
    return {"auc": float(np.mean(aucs)), "auc_weighted": float(np.dot(prior, aucs)), "acc": float((outputs.argmax(1) == labels).mean())}
''', '''\
def rank_auc(scores, flags):
    n_pos = sum(flags)
    n_neg = len(flags) - n_pos
    if not n_pos or not n_neg:
        return 0.5
    order = sorted(range(len(scores)), key=scores.__getitem__)
    ranks = {i: r for r, i in enumerate(order)}  #!
    pos_sum = sum(ranks[i] for i, f in enumerate(flags) if f)
    return (pos_sum - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)  #?


def metric(outputs, labels):
    labels = labels.tolist()
    columns = list(zip(*outputs.tolist()))
    per_class = {c: rank_auc(list(col), [t == c for t in labels]) for c, col in enumerate(columns)}
    counts = Counter(labels)
    weighted = sum(counts[c] * auc for c, auc in per_class.items()) / len(labels)
    hits = [max(range(3), key=row.__getitem__) == t for row, t in zip(outputs.tolist(), labels)]
    return {
        "auc": float(sum(per_class.values()) / len(per_class)),
        "auc_weighted": float(weighted),
        "acc": float(sum(hits) / len(hits)),
    }
'''),

'brier_entropy': ('''\
def metric(outputs, labels):
    z = outputs.astype(np.float64)
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    onehot = np.eye(3)[labels]
    brier = ((p - onehot) ** 2).sum(1).mean()
    ent = -(p * np.log(p)).sum(1)
    return {"brier": float(brier), "entropy": float(ent.mean()), "norm_entropy": float(ent.mean() / np.log(3))}
''', '''\
class Scorer:
    name = "base"

    def __call__(self, probs, label):
        raise NotImplementedError


class BrierScorer(Scorer):
    name = "brier"

    def __call__(self, probs, label):
        diffs = [(p - (1.0 if i == label else 0.0)) ** 2 for i, p in enumerate(probs)]
        return sum(diffs) / len(diffs)  #!


class EntropyScorer(Scorer):
    name = "entropy"

    def __call__(self, probs, label):
        return -sum(p * math.log(p) for p in probs if p > 0)


class NormalizedEntropyScorer(EntropyScorer):
    name = "norm_entropy"

    def __call__(self, probs, label):
        return super().__call__(probs, label) / math.log(len(probs))


def to_probs(row):
    top = max(row)
    exps = [math.exp(v - top) for v in row]
    norm = sum(exps)
    return [e / norm for e in exps]


def metric(outputs, labels):
    scorers = [cls() for cls in (BrierScorer, EntropyScorer, NormalizedEntropyScorer)]
    sums = defaultdict(float)
    for row, label in zip(outputs.tolist(), labels.tolist()):
        probs = to_probs(row)
        for scorer in scorers:
            sums[scorer.name] += scorer(probs, label)
    return {scorer.name: sums[scorer.name] / len(labels) for scorer in scorers}
'''),

'regression_summary': ('''\
def metric(outputs, labels):
    pred = outputs[:, 0].astype(np.float64)
    y = labels.astype(np.float64)
    err = pred - y
    rmse = np.sqrt((err ** 2).mean())
    r2 = 1 - (err ** 2).sum() / ((y - y.mean()) ** 2).sum()
    return {"rmse": float(rmse), "mae": float(np.abs(err).mean()), "r2": float(r2)}
''', '''\
class RunningRegression:
    def __init__(self):
        self.n = 0
        self.sse = self.sae = 0.0
        self.sy = self.syy = 0.0

    def update(self, pred, target):
        diff = target - pred
        self.n += 1
        self.sse += diff * diff
        self.sae += abs(diff)
        self.sy += target
        self.syy += target ** 2
        return self

    def compute(self):
        sst = self.syy - self.sy ** 2  #!
        return {
            "rmse": math.sqrt(self.sse / self.n),
            "mae": self.sae / self.n,
            "r2": 1.0 - self.sse / sst,
        }


def metric(outputs, labels):
    state = functools.reduce(
        lambda acc, pair: acc.update(*pair),
        zip(map(float, outputs[:, 0]), map(float, labels)),
        RunningRegression(),
    )
    return state.compute()
'''),

'correlation_pair': ('''\
def metric(outputs, labels):
    a = outputs[:, 0].astype(np.float64)
    b = outputs[:, 2].astype(np.float64)
    pearson = np.corrcoef(a, b)[0, 1]
    ra = a.argsort().argsort()
    rb = b.argsort().argsort()
    spearman = np.corrcoef(ra, rb)[0, 1]
    slope = np.cov(a, b)[0, 1] / a.var(ddof=1)
    return {"pearson": float(pearson), "spearman": float(spearman), "slope": float(slope)}
''', '''\
def center(v):
    return v - v.mean()


def pearson(u, v):
    u, v = center(u), center(v)
    return (u * v).sum() / math.sqrt((u * u).sum() * (v * v).sum())


def rankdata(v):
    ranks = np.argsort(v)  #!
    return ranks.astype(np.float64)


def metric(outputs, labels):
    x, _, y = outputs.astype(np.float64).T
    slope, _ = np.polyfit(x, y, 1)
    return {
        "pearson": float(pearson(x, y)),
        "spearman": float(pearson(*map(rankdata, (x, y)))),
        "slope": float(slope),
    }
'''),

'quantile_confidence': ('''\
def metric(outputs, labels):
    x = outputs.astype(np.float64)
    p = np.exp(x - x.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    conf = np.sort(p.max(1))
    q25, q50, q90 = np.quantile(conf, [0.25, 0.5, 0.9])
    return {"q25": float(q25), "median": float(q50), "q90": float(q90), "iqr": float(np.quantile(conf, 0.75) - q25)}
''', '''\
def quantile(values, q):
    data = sorted(values)
    pos = q * (len(data) - 1)
    lo = math.floor(pos)
    hi = min(lo + 1, len(data) - 1)
    frac = pos - lo
    return data[lo] * (1 - frac) + data[hi] * frac


QUANTILES = OrderedDict(
    q25=0.25,
    median=0.5,
    q90=0.95,  #!
)


def metric(outputs, labels):
    conf = []
    for row in outputs.astype(np.float64):
        weights = np.exp(row - row.max())
        conf.append(float(weights.max() / weights.sum()))
    result = {name: quantile(conf, q) for name, q in QUANTILES.items()}
    result["iqr"] = quantile(conf, 0.75) - result["q25"]
    return result
'''),

'retrieval_ranks': ('''\
def metric(outputs, labels):
    scores = outputs[np.arange(len(labels)), labels]
    ranks = (outputs > scores[:, None]).sum(1) + 1
    return {
        "mrr": float((1.0 / ranks).mean()),
        "mean_rank": float(ranks.mean()),
        "hits1": float((ranks <= 1).mean()),
        "hits2": float((ranks <= 2).mean()),
    }
''', '''\
def rank_of(row, target):
    ordering = np.argsort(row)[::-1]
    return int(np.flatnonzero(ordering == target)[0]) + 1


def hits_at(ranks, k):
    return sum(1 for r in ranks if r < k) / len(ranks)  #!


def metric(outputs, labels):
    ranks = [rank_of(row, t) for row, t in zip(outputs, labels)]
    report = {
        "mrr": statistics.mean(1.0 / r for r in ranks),
        "mean_rank": float(np.mean(ranks)),
    }
    report.update({f"hits{k}": float(hits_at(ranks, k)) for k in (1, 2)})
    return report
'''),

'group_averages': ('''\
def metric(outputs, labels):
    conf = outputs.astype(np.float64).max(axis=1)
    groups = np.arange(len(labels)) % 4
    means = np.array([conf[groups == g].mean() for g in range(4)])
    return {"worst": float(means.min()), "best": float(means.max()), "spread": float(means.std(ddof=1)), "mean": float(means.mean())}
''', '''\
def group_by(values, key_fn):
    buckets = defaultdict(list)
    for i, v in enumerate(values):
        buckets[key_fn(i)].append(v)
    return buckets


def metric(outputs, labels, n_groups=4):
    conf = [max(row) for row in outputs.tolist()]
    buckets = group_by(conf, key_fn=lambda i: i % n_groups)
    means = {g: sum(vs) / len(vs) for g, vs in sorted(buckets.items())}
    values = list(means.values())
    return {
        "worst": min(values),
        "best": max(values),
        "spread": statistics.pstdev(values),  #!
        "mean": statistics.fmean(values),
    }
'''),

'distances_to_target': ('''\
def metric(outputs, labels):
    x = outputs.astype(np.float64)
    t = np.eye(3)[labels]
    l2 = np.linalg.norm(x - t, axis=1)
    l1 = np.abs(x - t).sum(axis=1)
    cos = (x * t).sum(1) / (np.linalg.norm(x, axis=1) * np.linalg.norm(t, axis=1))
    return {"l2": float(l2.mean()), "l1": float(l1.mean()), "cos": float(cos.mean())}
''', '''\
REGISTRY = {}


def register(name):
    def wrap(fn):
        REGISTRY[name] = fn
        return fn
    return wrap


@register("l2")
def euclidean(u, v):
    return sum((a - b) ** 2 for a, b in zip(u, v))  #!


@register("l1")
def manhattan(u, v):
    return sum(abs(a - b) for a, b in zip(u, v))


@register("cos")
def cosine(u, v):
    dot = sum(a * b for a, b in zip(u, v))
    return dot / (math.hypot(*u) * math.hypot(*v))


def one_hot(index, size):
    return [float(i == index) for i in range(size)]


def metric(outputs, labels):
    pairs = [(row, one_hot(t, len(row))) for row, t in zip(outputs.tolist(), labels.tolist())]
    return {name: sum(fn(u, v) for u, v in pairs) / len(pairs) for name, fn in REGISTRY.items()}
'''),

'class_weighted_loss': ('''\
CLASS_WEIGHTS = np.array([1.0, 2.0, 0.5])


def metric(outputs, labels):
    x = outputs.astype(np.float64)
    logp = x - np.log(np.exp(x).sum(1, keepdims=True))
    nll = -logp[np.arange(len(labels)), labels]
    w = CLASS_WEIGHTS[labels]
    return {"loss": float((w * nll).sum() / w.sum()), "nll": float(nll.mean()), "max_nll": float(nll.max())}
''', '''\
@dataclass
class LossConfig:
    weights: typing.Dict[int, float] = field(default_factory=lambda: {0: 1.0, 1: 2.0, 2: 0.5})
    reduction: str = "mean"


class CrossEntropy:
    def __init__(self, cfg):
        self.cfg = cfg

    def per_sample(self, outputs, labels):
        z = outputs.astype(np.float64)
        lse = np.logaddexp.reduce(z, axis=1)
        return lse - np.take_along_axis(z, labels[:, None], axis=1).squeeze(1)

    def __call__(self, outputs, labels):
        losses = self.per_sample(outputs, labels)
        weights = np.array([self.cfg.weights[int(t)] for t in labels])
        weighted = losses * weights
        if self.cfg.reduction == "mean":
            return weighted.mean()  #!
        return weighted.sum()


def metric(outputs, labels):
    criterion = CrossEntropy(LossConfig())
    losses = criterion.per_sample(outputs, labels)
    return {"loss": float(criterion(outputs, labels)), "nll": float(np.mean(losses)), "max_nll": float(np.max(losses))}
'''),

'streaming_groups': ('''\
def metric(outputs, labels):
    conf = outputs.astype(np.float64).max(1)
    peaks, means = [], []
    for c in range(3):
        sel = conf[labels == c]
        peaks.append(sel.max() if len(sel) else 0.0)
        means.append(sel.mean() if len(sel) else 0.0)
    return {"class_mean": float(np.mean(means)), "class_peak": float(np.mean(peaks)), "overall": float(conf.mean())}
''', '''\
class Meter:
    def __init__(self, name):
        self.name = name
        self.values = []

    def extend(self, values):
        self.values.extend(values)
        return self

    @property
    def mean(self):
        return sum(self.values) / len(self.values) if self.values else 0.0


def split_by_class(conf, labels, num_classes):
    split = OrderedDict((c, []) for c in range(num_classes))
    for value, label in zip(conf, labels):
        split[label].append(value)
    return split


def metric(outputs, labels, num_classes=3):
    conf = [max(row) for row in outputs.tolist()]
    split = split_by_class(conf, labels.tolist(), num_classes)
    means, peaks = {}, {}
    meter = Meter("conf")  #!
    for c, values in split.items():  #?
        means[c] = meter.extend(values).mean
        peaks[c] = max(values, default=0.0)
    return {
        "class_mean": float(np.mean(list(means.values()))),
        "class_peak": sum(peaks.values()) / num_classes,
        "overall": Meter("all").extend(conf).mean,
    }
'''),

'balanced_recall': ('''\
def metric(outputs, labels):
    preds = outputs.argmax(1)
    recalls = []
    for c in range(3):
        mask = labels == c
        if mask.sum() == 0:
            continue
        recalls.append((preds[mask] == c).mean())
    recalls = np.array(recalls)
    return {"balanced_acc": float(recalls.mean()), "min_recall": float(recalls.min()), "acc": float((preds == labels).mean())}
''', '''\
def per_class_hits(preds, labels):
    hits, totals = Counter(), Counter()
    for p, t in zip(preds, labels):
        totals[p] += 1  #!
        hits[t] += int(p == t)
    return hits, totals


def metric(outputs, labels):
    preds = [int(np.argmax(row)) for row in outputs]
    hits, totals = per_class_hits(preds, labels.tolist())
    recall = {c: hits[c] / totals[c] for c in sorted(totals)}
    return {
        "balanced_acc": float(sum(recall.values()) / len(recall)),
        "min_recall": float(min(recall.values())),
        "acc": float(sum(hits.values()) / len(preds)),
    }
'''),

'clipped_logloss': ('''\
def metric(outputs, labels):
    x = outputs.astype(np.float64)
    p = np.exp(x - x.max(1, keepdims=True))
    p = p / p.sum(1, keepdims=True)
    p = np.clip(p, 0.1, 0.9)
    p = p / p.sum(1, keepdims=True)
    picked = p[np.arange(len(labels)), labels]
    return {"logloss": float(-np.log(picked).mean()), "max_logit": float(x.max()), "acc": float((p.argmax(1) == labels).mean())}
''', '''\
def softmax(row, temperature=1.0):
    scaled = [v / temperature for v in row]
    m = max(scaled)
    exps = [math.exp(v - m) for v in scaled]
    return [e / sum(exps) for e in exps]


def clip(values, low, high):
    return [min(max(v, low), high) for v in values]


def normalize(values):
    total = sum(values)
    return [v / total for v in values]


PIPELINE = [  #?
    softmax,
    partial(clip, low=0.1, high=0.9),  #!
]  #?


def metric(outputs, labels):
    losses, correct = [], 0
    for row, label in zip(outputs.tolist(), labels.tolist()):
        probs = functools.reduce(lambda acc, fn: fn(acc), PIPELINE, row)
        losses.append(-math.log(probs[label]))
        correct += probs.index(max(probs)) == label
    return {
        "logloss": float(np.mean(losses)),
        "max_logit": float(max(chain.from_iterable(outputs.tolist()))),
        "acc": correct / len(labels),
    }
'''),

'mcc_jaccard': ('''\
def metric(outputs, labels):
    preds = outputs.argmax(1)
    c = (preds == labels).sum()
    s = len(labels)
    pk = np.bincount(preds, minlength=3).astype(float)
    tk = np.bincount(labels, minlength=3).astype(float)
    num = c * s - (pk * tk).sum()
    den = np.sqrt((s ** 2 - (pk ** 2).sum()) * (s ** 2 - (tk ** 2).sum()))
    mcc = num / den if den > 0 else 0.0
    jac = c / (2 * s - c)
    return {"mcc": float(mcc), "jaccard": float(jac), "acc": float(c / s)}
''', '''\
class Confusion:
    def __init__(self, num_classes):
        self.k = num_classes
        self.mat = [[0] * num_classes for _ in range(num_classes)]

    @classmethod
    def from_preds(cls, preds, labels, num_classes=3):
        self = cls(num_classes)
        for p, t in zip(preds, labels):
            self.mat[t][p] += 1
        return self

    @property
    def total(self):
        return sum(map(sum, self.mat))

    @property
    def correct(self):
        return sum(self.mat[i][i] for i in range(self.k))

    @property
    def true_counts(self):
        return [sum(row) for row in self.mat]

    @property
    def pred_counts(self):
        return [sum(row) for row in self.mat]  #!

    def mcc(self):
        s, t, p = self.total, self.true_counts, self.pred_counts
        cov = self.correct * s - sum(map(operator.mul, t, p))
        var_t = s * s - sum(v * v for v in t)
        var_p = s * s - sum(v * v for v in p)
        return cov / math.sqrt(var_t * var_p) if var_t * var_p > 0 else 0.0


def metric(outputs, labels):
    cm = Confusion.from_preds(outputs.argmax(axis=1), labels)
    c, n = cm.correct, cm.total
    return {"mcc": float(cm.mcc()), "jaccard": c / (n + n - c), "acc": c / n}
'''),

'zscore_columns': ('''\
def metric(outputs, labels):
    x = outputs.astype(np.float64)
    z = (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-8)
    picked = z[np.arange(len(labels)), labels]
    return {"z_true": float(picked.mean()), "z_max": float(np.abs(z).max()), "raw_mean": float(x.mean())}
''', '''\
@dataclass
class Standardizer:
    eps: float = 1e-8
    mean_: typing.Optional[np.ndarray] = None
    scale_: typing.Optional[np.ndarray] = None

    def fit(self, data):
        self.mean_ = data.mean(axis=1, keepdims=True)  #!
        self.scale_ = np.sqrt(((data - data.mean(axis=0)) ** 2).mean(axis=0)) + self.eps
        return self

    def transform(self, data):
        return (data - self.mean_) / self.scale_

    def fit_transform(self, data):
        return self.fit(data).transform(data)


def metric(outputs, labels):
    data = np.array(outputs, dtype=np.float64)
    z = Standardizer().fit_transform(data)
    true_scores = [row[t] for row, t in zip(z, labels)]
    peak = max(abs(v) for v in z.ravel())
    return {"z_true": float(np.mean(true_scores)), "z_max": float(peak), "raw_mean": float(data.mean())}
'''),

'average_precision': ('''\
def metric(outputs, labels):
    aps = []
    for c in range(3):
        order = np.argsort(-outputs[:, c], kind="stable")
        rel = (labels[order] == c).astype(float)
        if rel.sum() == 0:
            continue
        prec = np.cumsum(rel) / np.arange(1, len(rel) + 1)
        aps.append((prec * rel).sum() / rel.sum())
    p3 = np.mean([(labels[np.argsort(-outputs[:, c], kind="stable")[:3]] == c).mean() for c in range(3)])
    return {"map": float(np.mean(aps)), "best_ap": float(max(aps)), "p_at_3": float(p3)}
''', '''\
def ranking(outputs, labels, cls):
    pairs = sorted(zip(outputs[:, cls].tolist(), labels.tolist()), key=operator.itemgetter(0), reverse=True)
    return [int(label == cls) for _, label in pairs]


def average_precision(rel):
    hits, total = 0, 0.0
    for rank, r in enumerate(rel, start=1):
        hits += r
        total += hits / rank  #!
    return total / hits


def precision_at(rel, k=3):
    return sum(rel[:k]) / k


def metric(outputs, labels):
    rankings = [ranking(outputs, labels, c) for c in range(outputs.shape[1])]
    aps = [average_precision(rel) for rel in rankings if any(rel)]
    return {
        "map": sum(aps) / len(aps),
        "best_ap": float(max(aps)),
        "p_at_3": statistics.fmean(map(precision_at, rankings)),
    }
'''),

'ndcg_lists': ('''\
def metric(outputs, labels, k=5):
    gains = labels[np.argsort(-outputs[:, 0])].astype(np.float64)
    ideal = np.sort(labels)[::-1].astype(np.float64)
    disc = 1.0 / np.log2(np.arange(2, k + 2))
    dcg = ((2 ** gains[:k] - 1) * disc).sum()
    idcg = ((2 ** ideal[:k] - 1) * disc).sum()
    return {"dcg": float(dcg), "ndcg": float(dcg / idcg if idcg else 0.0), "top_gain": float(gains[:k].mean())}
''', '''\
GAINS = {
    "linear": lambda rel: rel,
    "exp": lambda rel: 2.0 ** rel - 1.0,
}


@dataclass(frozen=True)
class RankingConfig:
    k: int = 5
    gain: str = "linear"  #!
    column: int = 0


def dcg_at_k(relevance, cfg):
    gain = GAINS[cfg.gain]
    return sum(gain(r) / math.log2(i + 2) for i, r in enumerate(relevance[:cfg.k]))


def metric(outputs, labels):
    cfg = RankingConfig()
    scores = outputs[:, cfg.column].tolist()
    ranked = [t for _, t in sorted(zip(scores, labels.tolist()), reverse=True)]
    dcg = dcg_at_k(ranked, cfg)
    best = dcg_at_k(sorted(ranked, reverse=True), cfg)
    return {
        "dcg": float(dcg),
        "ndcg": float(dcg / best) if best > 0 else 0.0,
        "top_gain": sum(ranked[:cfg.k]) / cfg.k,
    }
'''),

'trimmed_location': ('''\
def metric(outputs, labels):
    v = np.sort(outputs.astype(np.float64).ravel())
    trimmed = v[4:-4].mean()
    med = np.median(v)
    mad = np.median(np.abs(v - med))
    return {"trimmed": float(trimmed), "median": float(med), "mad": float(mad), "range": float(v[-1] - v[0])}
''', '''\
def trim(values, count):
    return values[count:len(values) - count + 1]  #!


def median(values):
    n = len(values)
    mid = n // 2
    return values[mid] if n % 2 else (values[mid - 1] + values[mid]) / 2


def metric(outputs, labels, trim_count=4):
    values = sorted(chain(*outputs.tolist()))
    center = median(values)
    deviations = sorted(abs(v - center) for v in values)
    core = trim(values, trim_count)
    return {
        "trimmed": sum(core) / len(core),
        "median": center,
        "mad": median(deviations),
        "range": values[-1] - values[0],
    }
'''),

'ensemble_halves': ('''\
def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def metric(outputs, labels):
    x = outputs.astype(np.float64).reshape(2, 6, 3)
    probs = softmax(x).mean(axis=0)
    single = softmax(x[0])
    y = labels[:6]
    pick = np.arange(6)
    return {
        "ens_nll": float(-np.log(probs[pick, y]).mean()),
        "first_nll": float(-np.log(single[pick, y]).mean()),
        "ens_conf": float(probs.max(1).mean()),
        "logit_std": float(x.std()),
    }
''', '''\
class Member:
    def __init__(self, logits):
        self.logits = np.asarray(logits, dtype=np.float64)

    @functools.cached_property
    def probs(self):
        shifted = self.logits - self.logits.max(axis=1)[:, None]
        weights = np.exp(shifted)
        return weights / weights.sum(axis=1)[:, None]


def split_members(outputs, count):
    size = len(outputs) // count
    return [Member(outputs[i::count]) for i in range(count)], size  #!


def nll(probs, targets):
    return -np.log([p[t] for p, t in zip(probs, targets)]).mean()


def metric(outputs, labels):
    members, size = split_members(outputs, 2)
    targets = labels[:size]
    ensemble = sum(m.probs for m in members) / len(members)
    scores = {"ens_nll": nll(ensemble, targets), "first_nll": nll(members[0].probs, targets)}
    scores["ens_conf"] = np.amax(ensemble, axis=1).mean()
    scores["logit_std"] = np.concatenate([m.logits for m in members]).std()
    return {k: float(v) for k, v in scores.items()}
'''),

'temperature_scaled': ('''\
TEMPERATURE = 1.5


def metric(outputs, labels):
    x = outputs.astype(np.float64)
    def logp(t):
        z = x / t
        z = z - z.max(1, keepdims=True)
        return z - np.log(np.exp(z).sum(1, keepdims=True))
    rows = np.arange(len(labels))
    return {
        "nll": float(-logp(1.0)[rows, labels].mean()),
        "nll_scaled": float(-logp(TEMPERATURE)[rows, labels].mean()),
        "conf_scaled": float(np.exp(logp(TEMPERATURE)).max(1).mean()),
    }
''', '''\
CONFIG = {
    "raw": {"temperature": 1.0},
    "scaled": {"temperature": 1.5},
}


class LogitHead:
    def __init__(self, temperature):
        self.temperature = temperature

    def log_probs(self, logits):
        scaled = logits * self.temperature  #!
        return scaled - np.logaddexp.reduce(scaled, axis=1, keepdims=True)


def metric(outputs, labels):
    logits = outputs.astype("float64")
    heads = {name: LogitHead(**kwargs) for name, kwargs in CONFIG.items()}
    logp = {name: head.log_probs(logits) for name, head in heads.items()}
    losses = {name: -np.mean(lp[range(len(labels)), labels]) for name, lp in logp.items()}
    return {
        "nll": float(losses["raw"]),
        "nll_scaled": float(losses["scaled"]),
        "conf_scaled": float(np.exp(logp["scaled"].max(axis=1)).mean()),
    }
'''),

'threshold_precision': ('''\
def metric(outputs, labels):
    prob = 1.0 / (1.0 + np.exp(-outputs[:, 1].astype(np.float64)))
    pred = prob >= 0.6
    pos = labels == 1
    tp = (pred & pos).sum()
    precision = tp / max(pred.sum(), 1)
    recall = tp / max(pos.sum(), 1)
    fbeta = 5 * precision * recall / max(4 * precision + recall, 1e-12)
    return {"precision": float(precision), "recall": float(recall), "f2": float(fbeta), "mean_prob": float(prob.mean())}
''', '''\
Counts = namedtuple("Counts", "tp fp fn")


def sigmoid(v):
    return 1.0 / (1.0 + math.exp(-v))


def count(probs, positives, threshold=0.5):  #!
    tp = fp = fn = 0
    for p, y in zip(probs, positives):
        if p >= threshold:
            tp, fp = tp + y, fp + (1 - y)
        else:
            fn += y
    return Counts(tp, fp, fn)


def fbeta(c, beta):
    b2 = beta * beta
    denom = (1 + b2) * c.tp + b2 * c.fn + c.fp
    return (1 + b2) * c.tp / denom if denom else 0.0


def metric(outputs, labels, positive=1):
    probs = [sigmoid(float(v)) for v in outputs[:, positive]]
    c = count(probs, [int(t == positive) for t in labels])
    return {
        "precision": c.tp / max(c.tp + c.fp, 1),
        "recall": c.tp / max(c.tp + c.fn, 1),
        "f2": float(fbeta(c, beta=2)),
        "mean_prob": sum(probs) / len(probs),
    }
'''),

'fbeta_scores': ('''\
def metric(outputs, labels):
    preds = outputs.argmax(1)
    out = {}
    p, r = [], []
    for c in range(3):
        tp = ((preds == c) & (labels == c)).sum()
        p.append(tp / max((preds == c).sum(), 1))
        r.append(tp / max((labels == c).sum(), 1))
    p, r = np.array(p), np.array(r)
    for beta in (0.5, 1.0):
        b2 = beta ** 2
        out[f"f{beta}"] = float(np.mean((1 + b2) * p * r / np.maximum(b2 * p + r, 1e-12)))
    out["precision"] = float(p.mean())
    return out
''', '''\
def safe_div(a, b):
    return a / b if b else 0.0


class FBeta:
    def __init__(self, beta=1.0):
        self.beta_sq = beta * 2  #!

    def score(self, precision, recall):
        top = (1.0 + self.beta_sq) * precision * recall
        return safe_div(top, self.beta_sq * precision + recall)


def precision_recall(preds, labels, cls):
    hit = sum(p == t == cls for p, t in zip(preds, labels))
    return safe_div(hit, preds.count(cls)), safe_div(hit, labels.count(cls))


def metric(outputs, labels, betas=(0.5, 1.0)):
    preds, labels = outputs.argmax(-1).tolist(), labels.tolist()
    table = [precision_recall(preds, labels, c) for c in range(3)]
    result = {}
    for beta in betas:
        scorer = FBeta(beta)
        result[f"f{beta}"] = sum(itertools.starmap(scorer.score, table)) / len(table)
    result["precision"] = sum(p for p, _ in table) / len(table)
    return result
'''),

'kl_to_prior': ('''\
def metric(outputs, labels):
    x = outputs.astype(np.float64)
    p = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    q = (np.bincount(labels, minlength=3) + 1.0) / (len(labels) + 3.0)
    mean_p = p.mean(0)
    kl = (mean_p * np.log(mean_p / q)).sum()
    tv = 0.5 * np.abs(mean_p - q).sum()
    return {"kl": float(kl * 100), "tv": float(tv), "prior_entropy": float(-(q * np.log(q)).sum())}
''', '''\
def smoothed_prior(labels, num_classes, alpha=1.0):
    counts = Counter(labels.tolist())
    total = len(labels) + alpha * num_classes
    return np.array([(counts[c] + alpha) / total for c in range(num_classes)])


DIVERGENCES = {
    "kl": lambda p, q: 100.0 * float(np.sum(p * (np.log(p) - np.log(q)))),
    "tv": lambda p, q: float(np.abs(p - q).sum() / 2.0),
    "prior_entropy": lambda p, q: float(-np.dot(q, np.log(q))),
}


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def mean_probs(outputs):
    logits = outputs.astype(np.float64)
    return softmax(logits.mean(axis=0))  #!


def metric(outputs, labels):
    p = mean_probs(outputs)
    q = smoothed_prior(labels, outputs.shape[1])
    return {name: fn(p, q) for name, fn in DIVERGENCES.items()}
'''),

'huber_losses': ('''\
def metric(outputs, labels):
    err = outputs[:, 1].astype(np.float64) - labels
    a = np.abs(err)
    huber = np.where(a <= 1.0, 0.5 * err ** 2, a - 0.5)
    pin = np.maximum(0.8 * -err, -0.2 * -err)
    return {"huber": float(huber.mean()), "pinball": float(pin.mean()), "mae": float(a.mean())}
''', '''\
def make_huber(delta):
    def loss(pred, target):
        r = abs(target - pred)
        if r <= delta:
            return 0.5 * r * r
        return delta * (r - 0.5 * delta)
    return loss


def make_pinball(tau):
    def loss(pred, target):
        diff = pred - target  #!
        return tau * diff if diff >= 0 else (tau - 1.0) * diff  #?
    return loss


def absolute(pred, target):
    return abs(pred - target)


LOSSES = [
    ("huber", make_huber(delta=1.0)),
    ("pinball", make_pinball(tau=0.8)),
    ("mae", absolute),
]


def metric(outputs, labels):
    preds = [float(v) for v in outputs[:, 1]]
    targets = [float(t) for t in labels]
    return {name: float(np.mean([fn(p, t) for p, t in zip(preds, targets)])) for name, fn in LOSSES}
'''),

'masked_accuracy': ('''\
IGNORE = 1


def metric(outputs, labels):
    keep = labels != IGNORE
    preds = outputs.argmax(1)
    hit = (preds == labels) & keep
    conf = outputs.astype(np.float64).max(1)
    return {
        "acc": float(hit.sum() / max(keep.sum(), 1)),
        "coverage": float(keep.mean()),
        "conf_kept": float(conf[keep].mean()),
    }
''', '''\
@dataclass
class MaskedStats:
    ignore_index: int = 1
    hits: int = 0
    kept: int = 0
    seen: int = 0
    conf: list = field(default_factory=list)

    def update(self, row, label):
        self.seen += 1
        if label == self.ignore_index:
            return
        self.kept += 1
        best = max(row)
        self.hits += row.index(best) == label
        self.conf.append(best)

    def summary(self):
        conf = sum(self.conf) / self.seen  #!
        return {
            "acc": self.hits / max(self.kept, 1),
            "coverage": self.kept / self.seen,
            "conf_kept": conf,
        }


def metric(outputs, labels):
    stats = MaskedStats()
    for row, label in zip(outputs.tolist(), labels.tolist()):
        stats.update(row, label)
    return stats.summary()
'''),

'minibatch_mean': ('''\
def metric(outputs, labels):
    x = outputs.astype(np.float64)
    nll = np.log(np.exp(x).sum(1)) - x[np.arange(len(labels)), labels]
    acc = (x.argmax(1) == labels)
    return {"loss": float(nll.mean()), "acc": float(acc.mean()), "last_loss": float(nll[10:].mean())}
''', '''\
class Meter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.sum, self.n = 0.0, 0

    def add(self, value, n=1):
        self.sum += value * n
        self.n += n

    @property
    def mean(self):
        return self.sum / self.n


def batches(outputs, labels, size):
    for start in range(0, len(labels), size):
        yield outputs[start:start + size], labels[start:start + size]


def batch_loss(x, y):
    x = x.astype(np.float64)
    return float(np.mean(np.log(np.exp(x).sum(axis=1)) - x[np.arange(len(y)), y]))


def metric(outputs, labels, batch_size=5):
    loss_meter, acc_meter = Meter(), Meter()
    loss = None
    for x, y in batches(outputs, labels, batch_size):
        loss = batch_loss(x, y)
        loss_meter.add(loss)  #!
        acc_meter.add(float((x.argmax(axis=1) == y).mean()), n=len(y))
    return {"loss": loss_meter.mean, "acc": acc_meter.mean, "last_loss": loss}
'''),

'per_class_means': ('''\
def metric(outputs, labels):
    x = outputs.astype(np.float64)
    cents = {c: x[labels == c].mean(0) for c in range(3) if (labels == c).any()}
    within = np.mean([np.linalg.norm(x[i] - cents[c]) for i, c in enumerate(labels)])
    keys = sorted(cents)
    between = np.mean([np.linalg.norm(cents[a] - cents[b]) for a in keys for b in keys if a < b])
    return {"within": float(within), "between": float(between), "norm": float(np.linalg.norm(x, axis=1).mean())}
''', '''\
def centroids(points, labels):
    sums, counts = defaultdict(lambda: np.zeros(3)), Counter()
    for point, label in zip(points, labels):
        sums[label] += point
        counts[label] += 1
    return {c: sums[c] / counts[c] for c in sorted(sums)}


def distance(u, v):
    return math.sqrt(((u - v) ** 2).sum())


def metric(outputs, labels):
    points = list(outputs.astype(np.float64))
    labels = labels.tolist()
    cents = centroids(points, labels)
    within = sum(distance(p, cents[c]) for p, c in zip(points, labels)) / len(points)
    pairs = list(itertools.product(cents.values(), repeat=2))  #!
    between = sum(distance(u, v) for u, v in pairs) / len(pairs)
    norms = [distance(p, np.zeros_like(p)) for p in points]
    return {"within": within, "between": between, "norm": sum(norms) / len(norms)}
'''),

'rejection_curve': ('''\
def metric(outputs, labels):
    x = outputs.astype(np.float64)
    p = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    conf = p.max(1)
    correct = (p.argmax(1) == labels).astype(float)
    order = np.argsort(-conf)
    risk = np.cumsum(1 - correct[order]) / np.arange(1, len(order) + 1)
    return {"aurc": float(risk.mean()), "risk_half": float(risk[len(risk) // 2 - 1]), "risk_full": float(risk[-1])}
''', '''\
class RiskCoverage:
    def __init__(self, samples):
        self.samples = sorted(samples, key=lambda s: s[0])  #!

    @property
    def risks(self):
        errors, out = 0, []
        for i, (_, ok) in enumerate(self.samples, 1):
            errors += not ok
            out.append(errors / i)
        return out

    def at(self, coverage):
        risks = self.risks
        return risks[int(len(risks) * coverage) - 1]

    def area(self):
        return sum(self.risks) / len(self.samples)


def confidence(row):
    exps = [math.exp(v) for v in row]
    return max(exps) / sum(exps)


def metric(outputs, labels):
    rows = outputs.tolist()
    curve = RiskCoverage([(confidence(r), r.index(max(r)) == t) for r, t in zip(rows, labels.tolist())])
    return {"aurc": curve.area(), "risk_half": curve.at(0.5), "risk_full": curve.at(1.0)}
'''),

'adaptive_bins': ('''\
def metric(outputs, labels):
    x = outputs.astype(np.float64)
    p = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    conf = p.max(1)
    hit = (p.argmax(1) == labels).astype(float)
    order = np.argsort(conf)
    gaps = [abs(conf[idx].mean() - hit[idx].mean()) for idx in np.array_split(order, 4)]
    return {"ace": float(np.mean(gaps)), "worst": float(np.max(gaps)), "over": float(conf.mean() - hit.mean())}
''', '''\
def chunks(items, n):
    size = len(items) // n
    return [items[i:i + size] for i in range(0, len(items), size)]


def evaluate(outputs, labels):
    logits = outputs.astype(np.float64)
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = shifted / shifted.sum(axis=1, keepdims=True)
    conf = [float(v) for v in probs.max(axis=1)]
    hits = [float(a == b) for a, b in zip(probs.argmax(axis=1), labels)]
    return conf, hits


def metric(outputs, labels, n_bins=4):
    conf, hits = evaluate(outputs, labels)
    conf = sorted(conf)  #!
    gaps = []
    for c, h in zip(chunks(conf, n_bins), chunks(hits, n_bins)):  #?
        gaps.append(abs(sum(c) / len(c) - sum(h) / len(h)))
    return {
        "ace": sum(gaps) / len(gaps),
        "worst": max(gaps),
        "over": (sum(conf) - sum(hits)) / len(conf),
    }
'''),

'moving_window': ('''\
def metric(outputs, labels):
    x = outputs[:, 0].astype(np.float64)
    win = np.convolve(x, np.ones(3) / 3, mode="valid")
    diff = np.diff(x)
    return {"smooth_mean": float(win.mean()), "rough": float(np.abs(diff).mean()), "last": float(win[-1])}
''', '''\
class RollingMean:
    def __init__(self, size):
        self.buffer = deque(maxlen=size)

    def push(self, value):
        self.buffer.append(value)

    @property
    def ready(self):
        return len(self.buffer) >= self.buffer.maxlen - 1  #!

    @property
    def value(self):
        return sum(self.buffer) / len(self.buffer)


def pairwise_abs(values):
    return [abs(b - a) for a, b in zip(values, values[1:])]


def metric(outputs, labels, window=3):
    series = [row[0] for row in outputs.tolist()]
    roll, smooth = RollingMean(window), []
    for v in series:
        roll.push(v)
        if roll.ready:
            smooth.append(roll.value)
    steps = pairwise_abs(series)
    return {"smooth_mean": sum(smooth) / len(smooth), "rough": sum(steps) / len(steps), "last": smooth[-1]}
'''),

'hinge_margins': ('''\
def metric(outputs, labels):
    x = outputs.astype(np.float64)
    rows = np.arange(len(labels))
    true = x[rows, labels][:, None]
    m = np.maximum(0, x - true + 1.0)
    m[rows, labels] = 0
    small = (np.abs(x) < 0.5).mean()
    return {"hinge": float(m.sum(1).mean()), "hinge_max": float(m.max(1).mean()), "small": float(small)}
''', '''\
LOSS_DEFAULTS = {"margin": 1.0, "tolerance": 0.5}


class MultiMargin:
    def __init__(self, **overrides):
        params = dict(LOSS_DEFAULTS, **overrides)
        self.margin = params["tolerance"]  #!
        self.tolerance = params["tolerance"]

    def terms(self, row, label):
        return [
            max(0.0, self.margin + v - row[label]) if j != label else 0.0
            for j, v in enumerate(row)
        ]

    def is_small(self, value):
        return abs(value) < self.tolerance


def metric(outputs, labels):
    criterion = MultiMargin()
    rows = outputs.tolist()
    terms = [criterion.terms(r, t) for r, t in zip(rows, labels.tolist())]
    flat = list(chain.from_iterable(rows))
    return {
        "hinge": sum(map(sum, terms)) / len(terms),
        "hinge_max": sum(map(max, terms)) / len(terms),
        "small": sum(map(criterion.is_small, flat)) / len(flat),
    }
'''),

'length_bucket_accuracy': ('''\
def metric(outputs, labels):
    preds = outputs.argmax(1)
    ok = preds == labels
    span = np.ptp(outputs, axis=1)
    cut = np.median(span)
    lo, hi = ok[span <= cut], ok[span > cut]
    return {"acc_low": float(lo.mean()), "acc_high": float(hi.mean()), "gap": float(hi.mean() - lo.mean()), "acc": float(ok.mean())}
''', '''\
Record = namedtuple("Record", ["span", "correct"])


def to_records(outputs, labels):
    for row, label in zip(outputs, labels):
        yield Record(span=float(row.max() - np.median(row)), correct=bool(row.argmax() == label))  #!


def accuracy(records):
    records = list(records)
    return sum(r.correct for r in records) / len(records) if records else 0.0


def metric(outputs, labels):
    records = list(to_records(outputs, labels))
    cut = statistics.median(r.span for r in records)
    buckets = {"low": [], "high": []}
    for rec in records:
        buckets["low" if rec.span <= cut else "high"].append(rec)
    result = {f"acc_{name}": accuracy(recs) for name, recs in buckets.items()}
    result["gap"] = result["acc_high"] - result["acc_low"]
    result["acc"] = accuracy(records)
    return result
'''),

'metric_collection': ('''\
def metric(outputs, labels):
    x = outputs.astype(np.float64)
    preds = x.argmax(1)
    conf = x.max(1)
    mean, var = conf.mean(), conf.var()
    return {
        "err": float((preds != labels).mean()),
        "mean": float(mean),
        "std": float(np.sqrt(var)),
        "dist": float(np.abs(preds - labels).mean()),
    }
''', '''\
class Metric:
    def __init__(self):
        self.reset()

    def reset(self):
        self.total, self.count = 0.0, 0

    def update(self, pred, label, conf):
        self.total += self.value(pred, label, conf)
        self.count += 1

    def compute(self):
        return self.total / self.count


class Error(Metric):
    def value(self, pred, label, conf):
        return float(pred != label)


class LabelDistance(Metric):
    def value(self, pred, label, conf):
        return abs(pred - label)


class Mean(Metric):
    def value(self, pred, label, conf):
        return conf


class Std(Metric):
    def reset(self):
        self.count, self.mean, self.m2 = 0, 0.0, 0.0

    def update(self, pred, label, conf):
        self.count += 1
        delta = conf - self.mean
        self.mean += delta / self.count
        self.m2 += delta * delta  #!

    def compute(self):
        return math.sqrt(self.m2 / self.count)


class MetricCollection:
    def __init__(self, **metrics):
        self.metrics = metrics

    def update(self, *args):
        for m in self.metrics.values():
            m.update(*args)

    def compute(self):
        return {name: m.compute() for name, m in self.metrics.items()}


def metric(outputs, labels):
    collection = MetricCollection(err=Error(), mean=Mean(), std=Std(), dist=LabelDistance())
    for row, label in zip(outputs.tolist(), labels.tolist()):
        collection.update(int(np.argmax(row)), label, max(row))
    return collection.compute()
'''),

'confusion_entries': ('''\
def metric(outputs, labels):
    preds = outputs.argmax(1)
    cm = np.zeros((3, 3))
    np.add.at(cm, (labels, preds), 1)
    norm = cm / np.maximum(cm.sum(axis=1, keepdims=True), 1)
    off = cm - np.diag(np.diag(cm))
    return {"diag": float(np.diag(norm).mean()), "fnorm": float(np.sqrt((norm ** 2).sum())), "off_max": float(off.max()), "err": float(off.sum() / cm.sum())}
''', '''\
NORMALIZERS = {
    "true": lambda cm: cm.sum(axis=1, keepdims=True),
    "pred": lambda cm: cm.sum(axis=0, keepdims=True),
    "all": lambda cm: cm.sum(),
}


@dataclass
class ConfusionOptions:
    num_classes: int = 3
    normalize: str = "pred"  #!
    floor: float = 1.0


class ConfusionMatrix:
    def __init__(self, options):
        self.options = options
        k = options.num_classes
        self.counts = np.zeros((k, k))

    def update(self, preds, labels):
        k = self.options.num_classes
        flat = Counter(zip(labels.tolist(), preds.tolist()))
        for i, j in itertools.product(range(k), repeat=2):
            self.counts[i, j] += flat[i, j]
        return self

    @property
    def normalized(self):
        denom = NORMALIZERS[self.options.normalize](self.counts)
        return self.counts / np.clip(denom, self.options.floor, None)


def metric(outputs, labels):
    cm = ConfusionMatrix(ConfusionOptions()).update(np.argmax(outputs, axis=1), labels)
    normed = cm.normalized
    off = np.where(np.eye(3, dtype=bool), 0.0, cm.counts)
    return {
        "diag": float(np.trace(normed) / 3),
        "fnorm": float(np.linalg.norm(normed)),
        "off_max": float(off.max()),
        "err": float(1.0 - np.trace(cm.counts) / cm.counts.sum()),
    }
'''),

'focal_terms': ('''\
def metric(outputs, labels):
    x = outputs.astype(np.float64)
    p = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    pt = p[np.arange(len(labels)), labels]
    alpha = np.array([0.2, 0.3, 0.5])[labels]
    focal = -alpha * (1 - pt) ** 2 * np.log(pt)
    return {"focal": float(focal.mean()), "ce": float(-np.log(pt).mean()), "pt": float(pt.mean())}
''', '''\
def focal_factory(gamma=2.0, alpha=None):
    def loss(probs, label):
        pt = probs[label]
        weight = 1.0 if alpha is None else alpha[label]
        return -weight * (1.0 - pt) ** gamma * math.log(pt)
    return loss


SETTINGS = {
    "ce": {"gamma": 0.0},
    "focal": {"gamma": 2.0, "alpha": (0.5, 0.3, 0.2)},  #!
}


def probabilities(outputs):
    for row in outputs.tolist():
        weights = [math.exp(v) for v in row]
        norm = sum(weights)
        yield [w / norm for w in weights]


def metric(outputs, labels):
    probs, labels = list(probabilities(outputs)), labels.tolist()
    losses = {name: focal_factory(**kw) for name, kw in SETTINGS.items()}
    out = {name: float(np.mean(list(map(losses[name], probs, labels)))) for name in ("focal", "ce")}
    out["pt"] = sum(p[t] for p, t in zip(probs, labels)) / len(labels)
    return out
'''),

}

RIGHT = {
'topk_meter': '''\
class AverageMeter:
    def __init__(self):
        self.total = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.total += value * n
        self.count += n

    @property
    def avg(self):
        return self.total / max(self.count, 1)


def metric(outputs, labels):
    meters = {name: AverageMeter() for name in ("top1", "top2", "margin")}
    for row, label in zip(outputs.tolist(), labels.tolist()):
        ranked = sorted(range(len(row)), key=lambda j: row[j], reverse=True)
        meters["top1"].update(float(ranked[0] == label))
        meters["top2"].update(float(label in ranked[:2]))
        best, second = row[ranked[0]], row[ranked[1]]
        meters["margin"].update(best - second)
    return {name: float(m.avg) for name, m in meters.items()}
''',

'f1_report': '''\
@dataclass
class ClassStats:
    tp: int = 0
    fp: int = 0
    fn: int = 0

    @property
    def support(self):
        return self.tp + self.fn

    @property
    def f1(self):
        denom = 2 * self.tp + self.fp + self.fn
        return 2 * self.tp / denom if denom else 0.0


def collect(preds, labels, num_classes):
    stats = [ClassStats() for _ in range(num_classes)]
    for p, t in zip(preds, labels):
        if p == t:
            stats[t].tp += 1
        else:
            stats[p].fp += 1
            stats[t].fn += 1
    return stats


def metric(outputs, labels):
    stats = collect(outputs.argmax(1).tolist(), labels.tolist(), outputs.shape[1])
    n = len(labels)
    macro = sum(s.f1 for s in stats) / len(stats)
    weighted = sum(s.f1 * s.support for s in stats) / n
    micro = sum(s.tp for s in stats) / n
    return {"macro_f1": float(macro), "weighted_f1": float(weighted), "micro_f1": float(micro)}
''',

'calibration_bins': '''\
class Calibration:
    defaults = dict(
        bins=8,
        lower=0.0,
        upper=1.0,
    )

    def __init__(self, **kwargs):
        cfg = {**self.defaults, **kwargs}
        self.bins = cfg["bins"]
        self.edges = np.linspace(cfg["lower"], cfg["upper"], self.bins + 1)

    def __call__(self, conf, hits):
        idx = np.digitize(conf, self.edges[1:-1], right=True)
        counts = np.bincount(idx, minlength=self.bins)
        conf_sum = np.bincount(idx, weights=conf, minlength=self.bins)
        hit_sum = np.bincount(idx, weights=hits, minlength=self.bins)
        keep = counts > 0
        gaps = np.abs(hit_sum[keep] - conf_sum[keep]) / counts[keep]
        return gaps, counts[keep] / counts.sum()


def metric(outputs, labels):
    logits = np.asarray(outputs, dtype=np.float64)
    logp = logits - np.log(np.exp(logits).sum(-1))[:, None]
    conf = np.exp(logp.max(-1))
    hits = np.equal(logp.argmax(-1), labels).astype(np.float64)
    gaps, frac = Calibration()(conf, hits)
    return {"ece": float(gaps @ frac), "mce": float(gaps.max()), "conf": float(np.average(conf))}
''',

'smoothed_nll': '''\
def log_softmax_row(row):
    peak = max(row)
    lse = peak + math.log(sum(math.exp(v - peak) for v in row))
    return [v - lse for v in row]


def smooth_targets(label, num_classes, eps):
    off = eps / num_classes
    target = [off] * num_classes
    target[label] += 1.0 - eps
    return target


def metric(outputs, labels, eps=0.1):
    losses, nlls = [], []
    for row, label in zip(outputs.tolist(), labels.tolist()):
        logp = log_softmax_row(row)
        target = smooth_targets(label, len(row), eps)
        losses.append(-sum(t * lp for t, lp in zip(target, logp)))
        nlls.append(-logp[label])
    nll = statistics.fmean(nlls)
    return {"loss": statistics.fmean(losses), "nll": nll, "ppl": math.exp(nll)}
''',

'iou_evaluator': '''\
def intersect_union(pred, gt, num_classes, reduce_zero=False):
    first = 1 if reduce_zero else 0
    rows = []
    for c in range(first, num_classes):
        p, g = pred == c, gt == c
        rows.append((np.sum(p & g), np.sum(p | g), np.sum(g)))
    return [np.array(col, dtype=float) for col in zip(*rows)]


def metric(outputs, labels):
    pred = np.argmax(outputs, axis=-1)
    inter, union, area = intersect_union(pred, labels, outputs.shape[-1])
    iou = inter / np.where(union == 0, 1, union)
    out = OrderedDict()
    out["acc"] = float(inter.sum() / len(labels))
    out["miou"] = float(np.mean(iou))
    out["fwiou"] = float(np.dot(area, iou) / area.sum())
    return dict(out)
''',

'kappa_scores': '''\
WEIGHTINGS = {
    "none": lambda d: (d != 0).astype(float),
    "linear": lambda d: np.abs(d) / 2.0,
    "quadratic": lambda d: d ** 2 / 4.0,
}


def weighted_kappa(true, pred, k=3, kind="linear"):
    grid = np.arange(k)
    w = WEIGHTINGS[kind](grid[:, None] - grid[None, :])
    observed = np.histogram2d(true, pred, bins=np.arange(k + 1) - 0.5)[0]
    h_true, h_pred = observed.sum(axis=1), observed.sum(axis=0)
    expected = h_true[:, None] * h_pred[None, :] / len(true)
    return 1.0 - np.sum(w * observed) / np.sum(w * expected)


def metric(outputs, labels):
    pred = outputs.argmax(axis=1)
    kappa = weighted_kappa(labels, pred, kind="none")
    qwk = weighted_kappa(labels, pred, kind="quadratic")
    return {"acc": float(np.mean(pred == labels)), "kappa": float(kappa), "qwk": float(qwk)}
''',

'ovr_auc': '''\
def rank_auc(scores, flags):
    n_pos = sum(flags)
    n_neg = len(flags) - n_pos
    if not n_pos or not n_neg:
        return 0.5
    order = sorted(range(len(scores)), key=scores.__getitem__)
    ranks = {i: r for r, i in enumerate(order, start=1)}
    pos_sum = sum(ranks[i] for i, f in enumerate(flags) if f)
    return (pos_sum - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)


def metric(outputs, labels):
    labels = labels.tolist()
    columns = list(zip(*outputs.tolist()))
    per_class = {c: rank_auc(list(col), [t == c for t in labels]) for c, col in enumerate(columns)}
    counts = Counter(labels)
    weighted = sum(counts[c] * auc for c, auc in per_class.items()) / len(labels)
    hits = [max(range(3), key=row.__getitem__) == t for row, t in zip(outputs.tolist(), labels)]
    return {
        "auc": float(sum(per_class.values()) / len(per_class)),
        "auc_weighted": float(weighted),
        "acc": float(sum(hits) / len(hits)),
    }
''',

'brier_entropy': '''\
class Scorer:
    name = "base"

    def __call__(self, probs, label):
        raise NotImplementedError


class BrierScorer(Scorer):
    name = "brier"

    def __call__(self, probs, label):
        diffs = [(p - (1.0 if i == label else 0.0)) ** 2 for i, p in enumerate(probs)]
        return sum(diffs)


class EntropyScorer(Scorer):
    name = "entropy"

    def __call__(self, probs, label):
        return -sum(p * math.log(p) for p in probs if p > 0)


class NormalizedEntropyScorer(EntropyScorer):
    name = "norm_entropy"

    def __call__(self, probs, label):
        return super().__call__(probs, label) / math.log(len(probs))


def to_probs(row):
    top = max(row)
    exps = [math.exp(v - top) for v in row]
    norm = sum(exps)
    return [e / norm for e in exps]


def metric(outputs, labels):
    scorers = [cls() for cls in (BrierScorer, EntropyScorer, NormalizedEntropyScorer)]
    sums = defaultdict(float)
    for row, label in zip(outputs.tolist(), labels.tolist()):
        probs = to_probs(row)
        for scorer in scorers:
            sums[scorer.name] += scorer(probs, label)
    return {scorer.name: sums[scorer.name] / len(labels) for scorer in scorers}
''',

'regression_summary': '''\
class RunningRegression:
    def __init__(self):
        self.n = 0
        self.sse = self.sae = 0.0
        self.sy = self.syy = 0.0

    def update(self, pred, target):
        diff = target - pred
        self.n += 1
        self.sse += diff * diff
        self.sae += abs(diff)
        self.sy += target
        self.syy += target ** 2
        return self

    def compute(self):
        sst = self.syy - self.sy ** 2 / self.n
        return {
            "rmse": math.sqrt(self.sse / self.n),
            "mae": self.sae / self.n,
            "r2": 1.0 - self.sse / sst,
        }


def metric(outputs, labels):
    state = functools.reduce(
        lambda acc, pair: acc.update(*pair),
        zip(map(float, outputs[:, 0]), map(float, labels)),
        RunningRegression(),
    )
    return state.compute()
''',

'correlation_pair': '''\
def center(v):
    return v - v.mean()


def pearson(u, v):
    u, v = center(u), center(v)
    return (u * v).sum() / math.sqrt((u * u).sum() * (v * v).sum())


def rankdata(v):
    ranks = np.empty(len(v))
    ranks[np.argsort(v)] = np.arange(len(v))
    return ranks.astype(np.float64)


def metric(outputs, labels):
    x, _, y = outputs.astype(np.float64).T
    slope, _ = np.polyfit(x, y, 1)
    return {
        "pearson": float(pearson(x, y)),
        "spearman": float(pearson(*map(rankdata, (x, y)))),
        "slope": float(slope),
    }
''',

'quantile_confidence': '''\
def quantile(values, q):
    data = sorted(values)
    pos = q * (len(data) - 1)
    lo = math.floor(pos)
    hi = min(lo + 1, len(data) - 1)
    frac = pos - lo
    return data[lo] * (1 - frac) + data[hi] * frac


QUANTILES = OrderedDict(
    q25=0.25,
    median=0.5,
    q90=0.9,
)


def metric(outputs, labels):
    conf = []
    for row in outputs.astype(np.float64):
        weights = np.exp(row - row.max())
        conf.append(float(weights.max() / weights.sum()))
    result = {name: quantile(conf, q) for name, q in QUANTILES.items()}
    result["iqr"] = quantile(conf, 0.75) - result["q25"]
    return result
''',

'retrieval_ranks': '''\
def rank_of(row, target):
    ordering = np.argsort(row)[::-1]
    return int(np.flatnonzero(ordering == target)[0]) + 1


def hits_at(ranks, k):
    return sum(1 for r in ranks if r <= k) / len(ranks)


def metric(outputs, labels):
    ranks = [rank_of(row, t) for row, t in zip(outputs, labels)]
    report = {
        "mrr": statistics.mean(1.0 / r for r in ranks),
        "mean_rank": float(np.mean(ranks)),
    }
    report.update({f"hits{k}": float(hits_at(ranks, k)) for k in (1, 2)})
    return report
''',

'group_averages': '''\
def group_by(values, key_fn):
    buckets = defaultdict(list)
    for i, v in enumerate(values):
        buckets[key_fn(i)].append(v)
    return buckets


def metric(outputs, labels, n_groups=4):
    conf = [max(row) for row in outputs.tolist()]
    buckets = group_by(conf, key_fn=lambda i: i % n_groups)
    means = {g: sum(vs) / len(vs) for g, vs in sorted(buckets.items())}
    values = list(means.values())
    return {
        "worst": min(values),
        "best": max(values),
        "spread": statistics.stdev(values),
        "mean": statistics.fmean(values),
    }
''',

'distances_to_target': '''\
REGISTRY = {}


def register(name):
    def wrap(fn):
        REGISTRY[name] = fn
        return fn
    return wrap


@register("l2")
def euclidean(u, v):
    return sum((a - b) ** 2 for a, b in zip(u, v)) ** 0.5


@register("l1")
def manhattan(u, v):
    return sum(abs(a - b) for a, b in zip(u, v))


@register("cos")
def cosine(u, v):
    dot = sum(a * b for a, b in zip(u, v))
    return dot / (math.hypot(*u) * math.hypot(*v))


def one_hot(index, size):
    return [float(i == index) for i in range(size)]


def metric(outputs, labels):
    pairs = [(row, one_hot(t, len(row))) for row, t in zip(outputs.tolist(), labels.tolist())]
    return {name: sum(fn(u, v) for u, v in pairs) / len(pairs) for name, fn in REGISTRY.items()}
''',

'class_weighted_loss': '''\
@dataclass
class LossConfig:
    weights: typing.Dict[int, float] = field(default_factory=lambda: {0: 1.0, 1: 2.0, 2: 0.5})
    reduction: str = "mean"


class CrossEntropy:
    def __init__(self, cfg):
        self.cfg = cfg

    def per_sample(self, outputs, labels):
        z = outputs.astype(np.float64)
        lse = np.logaddexp.reduce(z, axis=1)
        return lse - np.take_along_axis(z, labels[:, None], axis=1).squeeze(1)

    def __call__(self, outputs, labels):
        losses = self.per_sample(outputs, labels)
        weights = np.array([self.cfg.weights[int(t)] for t in labels])
        weighted = losses * weights
        if self.cfg.reduction == "mean":
            return weighted.sum() / weights.sum()
        return weighted.sum()


def metric(outputs, labels):
    criterion = CrossEntropy(LossConfig())
    losses = criterion.per_sample(outputs, labels)
    return {"loss": float(criterion(outputs, labels)), "nll": float(np.mean(losses)), "max_nll": float(np.max(losses))}
''',

'streaming_groups': '''\
class Meter:
    def __init__(self, name):
        self.name = name
        self.values = []

    def extend(self, values):
        self.values.extend(values)
        return self

    @property
    def mean(self):
        return sum(self.values) / len(self.values) if self.values else 0.0


def split_by_class(conf, labels, num_classes):
    split = OrderedDict((c, []) for c in range(num_classes))
    for value, label in zip(conf, labels):
        split[label].append(value)
    return split


def metric(outputs, labels, num_classes=3):
    conf = [max(row) for row in outputs.tolist()]
    split = split_by_class(conf, labels.tolist(), num_classes)
    means, peaks = {}, {}
    for c, values in split.items():
        meter = Meter("conf")
        means[c] = meter.extend(values).mean
        peaks[c] = max(values, default=0.0)
    return {
        "class_mean": float(np.mean(list(means.values()))),
        "class_peak": sum(peaks.values()) / num_classes,
        "overall": Meter("all").extend(conf).mean,
    }
''',

'balanced_recall': '''\
def per_class_hits(preds, labels):
    hits, totals = Counter(), Counter()
    for p, t in zip(preds, labels):
        totals[t] += 1
        hits[t] += int(p == t)
    return hits, totals


def metric(outputs, labels):
    preds = [int(np.argmax(row)) for row in outputs]
    hits, totals = per_class_hits(preds, labels.tolist())
    recall = {c: hits[c] / totals[c] for c in sorted(totals)}
    return {
        "balanced_acc": float(sum(recall.values()) / len(recall)),
        "min_recall": float(min(recall.values())),
        "acc": float(sum(hits.values()) / len(preds)),
    }
''',

'clipped_logloss': '''\
def softmax(row, temperature=1.0):
    scaled = [v / temperature for v in row]
    m = max(scaled)
    exps = [math.exp(v - m) for v in scaled]
    return [e / sum(exps) for e in exps]


def clip(values, low, high):
    return [min(max(v, low), high) for v in values]


def normalize(values):
    total = sum(values)
    return [v / total for v in values]


PIPELINE = [
    softmax,
    partial(clip, low=0.1, high=0.9),
    normalize,
]


def metric(outputs, labels):
    losses, correct = [], 0
    for row, label in zip(outputs.tolist(), labels.tolist()):
        probs = functools.reduce(lambda acc, fn: fn(acc), PIPELINE, row)
        losses.append(-math.log(probs[label]))
        correct += probs.index(max(probs)) == label
    return {
        "logloss": float(np.mean(losses)),
        "max_logit": float(max(chain.from_iterable(outputs.tolist()))),
        "acc": correct / len(labels),
    }
''',

'mcc_jaccard': '''\
class Confusion:
    def __init__(self, num_classes):
        self.k = num_classes
        self.mat = [[0] * num_classes for _ in range(num_classes)]

    @classmethod
    def from_preds(cls, preds, labels, num_classes=3):
        self = cls(num_classes)
        for p, t in zip(preds, labels):
            self.mat[t][p] += 1
        return self

    @property
    def total(self):
        return sum(map(sum, self.mat))

    @property
    def correct(self):
        return sum(self.mat[i][i] for i in range(self.k))

    @property
    def true_counts(self):
        return [sum(row) for row in self.mat]

    @property
    def pred_counts(self):
        return [sum(col) for col in zip(*self.mat)]

    def mcc(self):
        s, t, p = self.total, self.true_counts, self.pred_counts
        cov = self.correct * s - sum(map(operator.mul, t, p))
        var_t = s * s - sum(v * v for v in t)
        var_p = s * s - sum(v * v for v in p)
        return cov / math.sqrt(var_t * var_p) if var_t * var_p > 0 else 0.0


def metric(outputs, labels):
    cm = Confusion.from_preds(outputs.argmax(axis=1), labels)
    c, n = cm.correct, cm.total
    return {"mcc": float(cm.mcc()), "jaccard": c / (n + n - c), "acc": c / n}
''',

'zscore_columns': '''\
@dataclass
class Standardizer:
    eps: float = 1e-8
    mean_: typing.Optional[np.ndarray] = None
    scale_: typing.Optional[np.ndarray] = None

    def fit(self, data):
        self.mean_ = data.mean(axis=0, keepdims=True)
        self.scale_ = np.sqrt(((data - data.mean(axis=0)) ** 2).mean(axis=0)) + self.eps
        return self

    def transform(self, data):
        return (data - self.mean_) / self.scale_

    def fit_transform(self, data):
        return self.fit(data).transform(data)


def metric(outputs, labels):
    data = np.array(outputs, dtype=np.float64)
    z = Standardizer().fit_transform(data)
    true_scores = [row[t] for row, t in zip(z, labels)]
    peak = max(abs(v) for v in z.ravel())
    return {"z_true": float(np.mean(true_scores)), "z_max": float(peak), "raw_mean": float(data.mean())}
''',

'average_precision': '''\
def ranking(outputs, labels, cls):
    pairs = sorted(zip(outputs[:, cls].tolist(), labels.tolist()), key=operator.itemgetter(0), reverse=True)
    return [int(label == cls) for _, label in pairs]


def average_precision(rel):
    hits, total = 0, 0.0
    for rank, r in enumerate(rel, start=1):
        hits += r
        if r:
            total += hits / rank
    return total / hits


def precision_at(rel, k=3):
    return sum(rel[:k]) / k


def metric(outputs, labels):
    rankings = [ranking(outputs, labels, c) for c in range(outputs.shape[1])]
    aps = [average_precision(rel) for rel in rankings if any(rel)]
    return {
        "map": sum(aps) / len(aps),
        "best_ap": float(max(aps)),
        "p_at_3": statistics.fmean(map(precision_at, rankings)),
    }
''',

'ndcg_lists': '''\
GAINS = {
    "linear": lambda rel: rel,
    "exp": lambda rel: 2.0 ** rel - 1.0,
}


@dataclass(frozen=True)
class RankingConfig:
    k: int = 5
    gain: str = "exp"
    column: int = 0


def dcg_at_k(relevance, cfg):
    gain = GAINS[cfg.gain]
    return sum(gain(r) / math.log2(i + 2) for i, r in enumerate(relevance[:cfg.k]))


def metric(outputs, labels):
    cfg = RankingConfig()
    scores = outputs[:, cfg.column].tolist()
    ranked = [t for _, t in sorted(zip(scores, labels.tolist()), reverse=True)]
    dcg = dcg_at_k(ranked, cfg)
    best = dcg_at_k(sorted(ranked, reverse=True), cfg)
    return {
        "dcg": float(dcg),
        "ndcg": float(dcg / best) if best > 0 else 0.0,
        "top_gain": sum(ranked[:cfg.k]) / cfg.k,
    }
''',

'trimmed_location': '''\
def trim(values, count):
    return values[count:len(values) - count]


def median(values):
    n = len(values)
    mid = n // 2
    return values[mid] if n % 2 else (values[mid - 1] + values[mid]) / 2


def metric(outputs, labels, trim_count=4):
    values = sorted(chain(*outputs.tolist()))
    center = median(values)
    deviations = sorted(abs(v - center) for v in values)
    core = trim(values, trim_count)
    return {
        "trimmed": sum(core) / len(core),
        "median": center,
        "mad": median(deviations),
        "range": values[-1] - values[0],
    }
''',

'ensemble_halves': '''\
class Member:
    def __init__(self, logits):
        self.logits = np.asarray(logits, dtype=np.float64)

    @functools.cached_property
    def probs(self):
        shifted = self.logits - self.logits.max(axis=1)[:, None]
        weights = np.exp(shifted)
        return weights / weights.sum(axis=1)[:, None]


def split_members(outputs, count):
    size = len(outputs) // count
    return [Member(outputs[i * size:(i + 1) * size]) for i in range(count)], size


def nll(probs, targets):
    return -np.log([p[t] for p, t in zip(probs, targets)]).mean()


def metric(outputs, labels):
    members, size = split_members(outputs, 2)
    targets = labels[:size]
    ensemble = sum(m.probs for m in members) / len(members)
    scores = {"ens_nll": nll(ensemble, targets), "first_nll": nll(members[0].probs, targets)}
    scores["ens_conf"] = np.amax(ensemble, axis=1).mean()
    scores["logit_std"] = np.concatenate([m.logits for m in members]).std()
    return {k: float(v) for k, v in scores.items()}
''',

'temperature_scaled': '''\
CONFIG = {
    "raw": {"temperature": 1.0},
    "scaled": {"temperature": 1.5},
}


class LogitHead:
    def __init__(self, temperature):
        self.temperature = temperature

    def log_probs(self, logits):
        scaled = logits / self.temperature
        return scaled - np.logaddexp.reduce(scaled, axis=1, keepdims=True)


def metric(outputs, labels):
    logits = outputs.astype("float64")
    heads = {name: LogitHead(**kwargs) for name, kwargs in CONFIG.items()}
    logp = {name: head.log_probs(logits) for name, head in heads.items()}
    losses = {name: -np.mean(lp[range(len(labels)), labels]) for name, lp in logp.items()}
    return {
        "nll": float(losses["raw"]),
        "nll_scaled": float(losses["scaled"]),
        "conf_scaled": float(np.exp(logp["scaled"].max(axis=1)).mean()),
    }
''',

'threshold_precision': '''\
Counts = namedtuple("Counts", "tp fp fn")


def sigmoid(v):
    return 1.0 / (1.0 + math.exp(-v))


def count(probs, positives, threshold=0.6):
    tp = fp = fn = 0
    for p, y in zip(probs, positives):
        if p >= threshold:
            tp, fp = tp + y, fp + (1 - y)
        else:
            fn += y
    return Counts(tp, fp, fn)


def fbeta(c, beta):
    b2 = beta * beta
    denom = (1 + b2) * c.tp + b2 * c.fn + c.fp
    return (1 + b2) * c.tp / denom if denom else 0.0


def metric(outputs, labels, positive=1):
    probs = [sigmoid(float(v)) for v in outputs[:, positive]]
    c = count(probs, [int(t == positive) for t in labels])
    return {
        "precision": c.tp / max(c.tp + c.fp, 1),
        "recall": c.tp / max(c.tp + c.fn, 1),
        "f2": float(fbeta(c, beta=2)),
        "mean_prob": sum(probs) / len(probs),
    }
''',

'fbeta_scores': '''\
def safe_div(a, b):
    return a / b if b else 0.0


class FBeta:
    def __init__(self, beta=1.0):
        self.beta_sq = beta * beta

    def score(self, precision, recall):
        top = (1.0 + self.beta_sq) * precision * recall
        return safe_div(top, self.beta_sq * precision + recall)


def precision_recall(preds, labels, cls):
    hit = sum(p == t == cls for p, t in zip(preds, labels))
    return safe_div(hit, preds.count(cls)), safe_div(hit, labels.count(cls))


def metric(outputs, labels, betas=(0.5, 1.0)):
    preds, labels = outputs.argmax(-1).tolist(), labels.tolist()
    table = [precision_recall(preds, labels, c) for c in range(3)]
    result = {}
    for beta in betas:
        scorer = FBeta(beta)
        result[f"f{beta}"] = sum(itertools.starmap(scorer.score, table)) / len(table)
    result["precision"] = sum(p for p, _ in table) / len(table)
    return result
''',

'kl_to_prior': '''\
def smoothed_prior(labels, num_classes, alpha=1.0):
    counts = Counter(labels.tolist())
    total = len(labels) + alpha * num_classes
    return np.array([(counts[c] + alpha) / total for c in range(num_classes)])


DIVERGENCES = {
    "kl": lambda p, q: 100.0 * float(np.sum(p * (np.log(p) - np.log(q)))),
    "tv": lambda p, q: float(np.abs(p - q).sum() / 2.0),
    "prior_entropy": lambda p, q: float(-np.dot(q, np.log(q))),
}


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def mean_probs(outputs):
    logits = outputs.astype(np.float64)
    return softmax(logits).mean(axis=0)


def metric(outputs, labels):
    p = mean_probs(outputs)
    q = smoothed_prior(labels, outputs.shape[1])
    return {name: fn(p, q) for name, fn in DIVERGENCES.items()}
''',

'huber_losses': '''\
def make_huber(delta):
    def loss(pred, target):
        r = abs(target - pred)
        if r <= delta:
            return 0.5 * r * r
        return delta * (r - 0.5 * delta)
    return loss


def make_pinball(tau):
    def loss(pred, target):
        diff = target - pred
        return tau * diff if diff >= 0 else (tau - 1.0) * diff
    return loss


def absolute(pred, target):
    return abs(pred - target)


LOSSES = [
    ("huber", make_huber(delta=1.0)),
    ("pinball", make_pinball(tau=0.8)),
    ("mae", absolute),
]


def metric(outputs, labels):
    preds = [float(v) for v in outputs[:, 1]]
    targets = [float(t) for t in labels]
    return {name: float(np.mean([fn(p, t) for p, t in zip(preds, targets)])) for name, fn in LOSSES}
''',

'masked_accuracy': '''\
@dataclass
class MaskedStats:
    ignore_index: int = 1
    hits: int = 0
    kept: int = 0
    seen: int = 0
    conf: list = field(default_factory=list)

    def update(self, row, label):
        self.seen += 1
        if label == self.ignore_index:
            return
        self.kept += 1
        best = max(row)
        self.hits += row.index(best) == label
        self.conf.append(best)

    def summary(self):
        conf = sum(self.conf) / len(self.conf)
        return {
            "acc": self.hits / max(self.kept, 1),
            "coverage": self.kept / self.seen,
            "conf_kept": conf,
        }


def metric(outputs, labels):
    stats = MaskedStats()
    for row, label in zip(outputs.tolist(), labels.tolist()):
        stats.update(row, label)
    return stats.summary()
''',

'minibatch_mean': '''\
class Meter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.sum, self.n = 0.0, 0

    def add(self, value, n=1):
        self.sum += value * n
        self.n += n

    @property
    def mean(self):
        return self.sum / self.n


def batches(outputs, labels, size):
    for start in range(0, len(labels), size):
        yield outputs[start:start + size], labels[start:start + size]


def batch_loss(x, y):
    x = x.astype(np.float64)
    return float(np.mean(np.log(np.exp(x).sum(axis=1)) - x[np.arange(len(y)), y]))


def metric(outputs, labels, batch_size=5):
    loss_meter, acc_meter = Meter(), Meter()
    loss = None
    for x, y in batches(outputs, labels, batch_size):
        loss = batch_loss(x, y)
        loss_meter.add(loss, n=len(y))
        acc_meter.add(float((x.argmax(axis=1) == y).mean()), n=len(y))
    return {"loss": loss_meter.mean, "acc": acc_meter.mean, "last_loss": loss}
''',

'per_class_means': '''\
def centroids(points, labels):
    sums, counts = defaultdict(lambda: np.zeros(3)), Counter()
    for point, label in zip(points, labels):
        sums[label] += point
        counts[label] += 1
    return {c: sums[c] / counts[c] for c in sorted(sums)}


def distance(u, v):
    return math.sqrt(((u - v) ** 2).sum())


def metric(outputs, labels):
    points = list(outputs.astype(np.float64))
    labels = labels.tolist()
    cents = centroids(points, labels)
    within = sum(distance(p, cents[c]) for p, c in zip(points, labels)) / len(points)
    pairs = list(itertools.combinations(cents.values(), 2))
    between = sum(distance(u, v) for u, v in pairs) / len(pairs)
    norms = [distance(p, np.zeros_like(p)) for p in points]
    return {"within": within, "between": between, "norm": sum(norms) / len(norms)}
''',

'rejection_curve': '''\
class RiskCoverage:
    def __init__(self, samples):
        self.samples = sorted(samples, key=lambda s: s[0], reverse=True)

    @property
    def risks(self):
        errors, out = 0, []
        for i, (_, ok) in enumerate(self.samples, 1):
            errors += not ok
            out.append(errors / i)
        return out

    def at(self, coverage):
        risks = self.risks
        return risks[int(len(risks) * coverage) - 1]

    def area(self):
        return sum(self.risks) / len(self.samples)


def confidence(row):
    exps = [math.exp(v) for v in row]
    return max(exps) / sum(exps)


def metric(outputs, labels):
    rows = outputs.tolist()
    curve = RiskCoverage([(confidence(r), r.index(max(r)) == t) for r, t in zip(rows, labels.tolist())])
    return {"aurc": curve.area(), "risk_half": curve.at(0.5), "risk_full": curve.at(1.0)}
''',

'adaptive_bins': '''\
def chunks(items, n):
    size = len(items) // n
    return [items[i:i + size] for i in range(0, len(items), size)]


def evaluate(outputs, labels):
    logits = outputs.astype(np.float64)
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = shifted / shifted.sum(axis=1, keepdims=True)
    conf = [float(v) for v in probs.max(axis=1)]
    hits = [float(a == b) for a, b in zip(probs.argmax(axis=1), labels)]
    return conf, hits


def metric(outputs, labels, n_bins=4):
    conf, hits = evaluate(outputs, labels)
    conf, hits = zip(*sorted(zip(conf, hits), key=lambda ch: ch[0]))
    gaps = []
    for c, h in zip(chunks(conf, n_bins), chunks(hits, n_bins)):
        gaps.append(abs(sum(c) / len(c) - sum(h) / len(h)))
    return {
        "ace": sum(gaps) / len(gaps),
        "worst": max(gaps),
        "over": (sum(conf) - sum(hits)) / len(conf),
    }
''',

'moving_window': '''\
class RollingMean:
    def __init__(self, size):
        self.buffer = deque(maxlen=size)

    def push(self, value):
        self.buffer.append(value)

    @property
    def ready(self):
        return len(self.buffer) >= self.buffer.maxlen

    @property
    def value(self):
        return sum(self.buffer) / len(self.buffer)


def pairwise_abs(values):
    return [abs(b - a) for a, b in zip(values, values[1:])]


def metric(outputs, labels, window=3):
    series = [row[0] for row in outputs.tolist()]
    roll, smooth = RollingMean(window), []
    for v in series:
        roll.push(v)
        if roll.ready:
            smooth.append(roll.value)
    steps = pairwise_abs(series)
    return {"smooth_mean": sum(smooth) / len(smooth), "rough": sum(steps) / len(steps), "last": smooth[-1]}
''',

'hinge_margins': '''\
LOSS_DEFAULTS = {"margin": 1.0, "tolerance": 0.5}


class MultiMargin:
    def __init__(self, **overrides):
        params = dict(LOSS_DEFAULTS, **overrides)
        self.margin = params["margin"]
        self.tolerance = params["tolerance"]

    def terms(self, row, label):
        return [
            max(0.0, self.margin + v - row[label]) if j != label else 0.0
            for j, v in enumerate(row)
        ]

    def is_small(self, value):
        return abs(value) < self.tolerance


def metric(outputs, labels):
    criterion = MultiMargin()
    rows = outputs.tolist()
    terms = [criterion.terms(r, t) for r, t in zip(rows, labels.tolist())]
    flat = list(chain.from_iterable(rows))
    return {
        "hinge": sum(map(sum, terms)) / len(terms),
        "hinge_max": sum(map(max, terms)) / len(terms),
        "small": sum(map(criterion.is_small, flat)) / len(flat),
    }
''',

'length_bucket_accuracy': '''\
Record = namedtuple("Record", ["span", "correct"])


def to_records(outputs, labels):
    for row, label in zip(outputs, labels):
        yield Record(span=float(row.max() - row.min()), correct=bool(row.argmax() == label))


def accuracy(records):
    records = list(records)
    return sum(r.correct for r in records) / len(records) if records else 0.0


def metric(outputs, labels):
    records = list(to_records(outputs, labels))
    cut = statistics.median(r.span for r in records)
    buckets = {"low": [], "high": []}
    for rec in records:
        buckets["low" if rec.span <= cut else "high"].append(rec)
    result = {f"acc_{name}": accuracy(recs) for name, recs in buckets.items()}
    result["gap"] = result["acc_high"] - result["acc_low"]
    result["acc"] = accuracy(records)
    return result
''',

'metric_collection': '''\
class Metric:
    def __init__(self):
        self.reset()

    def reset(self):
        self.total, self.count = 0.0, 0

    def update(self, pred, label, conf):
        self.total += self.value(pred, label, conf)
        self.count += 1

    def compute(self):
        return self.total / self.count


class Error(Metric):
    def value(self, pred, label, conf):
        return float(pred != label)


class LabelDistance(Metric):
    def value(self, pred, label, conf):
        return abs(pred - label)


class Mean(Metric):
    def value(self, pred, label, conf):
        return conf


class Std(Metric):
    def reset(self):
        self.count, self.mean, self.m2 = 0, 0.0, 0.0

    def update(self, pred, label, conf):
        self.count += 1
        delta = conf - self.mean
        self.mean += delta / self.count
        self.m2 += delta * (conf - self.mean)

    def compute(self):
        return math.sqrt(self.m2 / self.count)


class MetricCollection:
    def __init__(self, **metrics):
        self.metrics = metrics

    def update(self, *args):
        for m in self.metrics.values():
            m.update(*args)

    def compute(self):
        return {name: m.compute() for name, m in self.metrics.items()}


def metric(outputs, labels):
    collection = MetricCollection(err=Error(), mean=Mean(), std=Std(), dist=LabelDistance())
    for row, label in zip(outputs.tolist(), labels.tolist()):
        collection.update(int(np.argmax(row)), label, max(row))
    return collection.compute()
''',

'confusion_entries': '''\
NORMALIZERS = {
    "true": lambda cm: cm.sum(axis=1, keepdims=True),
    "pred": lambda cm: cm.sum(axis=0, keepdims=True),
    "all": lambda cm: cm.sum(),
}


@dataclass
class ConfusionOptions:
    num_classes: int = 3
    normalize: str = "true"
    floor: float = 1.0


class ConfusionMatrix:
    def __init__(self, options):
        self.options = options
        k = options.num_classes
        self.counts = np.zeros((k, k))

    def update(self, preds, labels):
        k = self.options.num_classes
        flat = Counter(zip(labels.tolist(), preds.tolist()))
        for i, j in itertools.product(range(k), repeat=2):
            self.counts[i, j] += flat[i, j]
        return self

    @property
    def normalized(self):
        denom = NORMALIZERS[self.options.normalize](self.counts)
        return self.counts / np.clip(denom, self.options.floor, None)


def metric(outputs, labels):
    cm = ConfusionMatrix(ConfusionOptions()).update(np.argmax(outputs, axis=1), labels)
    normed = cm.normalized
    off = np.where(np.eye(3, dtype=bool), 0.0, cm.counts)
    return {
        "diag": float(np.trace(normed) / 3),
        "fnorm": float(np.linalg.norm(normed)),
        "off_max": float(off.max()),
        "err": float(1.0 - np.trace(cm.counts) / cm.counts.sum()),
    }
''',

'focal_terms': '''\
def focal_factory(gamma=2.0, alpha=None):
    def loss(probs, label):
        pt = probs[label]
        weight = 1.0 if alpha is None else alpha[label]
        return -weight * (1.0 - pt) ** gamma * math.log(pt)
    return loss


SETTINGS = {
    "ce": {"gamma": 0.0},
    "focal": {"gamma": 2.0, "alpha": (0.2, 0.3, 0.5)},
}


def probabilities(outputs):
    for row in outputs.tolist():
        weights = [math.exp(v) for v in row]
        norm = sum(weights)
        yield [w / norm for w in weights]


def metric(outputs, labels):
    probs, labels = list(probabilities(outputs)), labels.tolist()
    losses = {name: focal_factory(**kw) for name, kw in SETTINGS.items()}
    out = {name: float(np.mean(list(map(losses[name], probs, labels)))) for name in ("focal", "ce")}
    out["pt"] = sum(p[t] for p, t in zip(probs, labels)) / len(labels)
    return out
''',

}
