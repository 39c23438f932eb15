CASES = {}
RIGHT = {}

CASES['f1_table'] = (r'''def metric(outputs, labels):
    pred = outputs.argmax(1)
    f1s, sup = [], []
    for c in range(3):
        tp = ((pred == c) & (labels == c)).sum()
        fp = ((pred == c) & (labels != c)).sum()
        fn = ((pred != c) & (labels == c)).sum()
        d = 2 * tp + fp + fn
        f1s.append(2 * tp / d if d else 0.0)
        sup.append((labels == c).sum())
    f1s, sup = np.array(f1s, float), np.array(sup, float)
    return {"macro": float(f1s.mean()), "weighted": float((f1s * sup).sum() / sup.sum()),
            "accuracy": float((pred == labels).mean())}
''',
r'''class Table:
    def __init__(self, k):
        self.m = np.zeros((k, k))

    def add(self, truth, guess):
        np.add.at(self.m, (truth, guess), 1)
        return self

    @property
    def hits(self):
        return np.diag(self.m)

    @property
    def support(self):
        return self.m.sum(axis=0) #!

    @property
    def f1(self):
        den = self.m.sum(axis=0) + self.m.sum(axis=1)
        return np.divide(2 * self.hits, den, out=np.zeros(len(den)), where=den > 0)


def metric(outputs, labels):
    t = Table(outputs.shape[1]).add(labels, np.argmax(outputs, axis=-1))
    f1 = t.f1
    return dict(macro=float(np.mean(f1)),
                weighted=float(np.average(f1, weights=t.support)), #?
                accuracy=float(t.hits.sum() / t.m.sum()))
''')

RIGHT['f1_table'] = r'''class Table:
    def __init__(self, k):
        self.m = np.zeros((k, k))

    def add(self, truth, guess):
        np.add.at(self.m, (truth, guess), 1)
        return self

    @property
    def hits(self):
        return np.diag(self.m)

    @property
    def support(self):
        return self.m.sum(axis=1)

    @property
    def f1(self):
        den = self.m.sum(axis=0) + self.m.sum(axis=1)
        return np.divide(2 * self.hits, den, out=np.zeros(len(den)), where=den > 0)


def metric(outputs, labels):
    t = Table(outputs.shape[1]).add(labels, np.argmax(outputs, axis=-1))
    f1 = t.f1
    return dict(macro=float(np.mean(f1)),
                weighted=float(np.average(f1, weights=t.support)),
                accuracy=float(t.hits.sum() / t.m.sum()))
'''

CASES['calib_report'] = (r'''def metric(outputs, labels):
    z = outputs.astype(np.float64)
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    conf, pred = p.max(1), p.argmax(1)
    ok = (pred == labels).astype(float)
    edges = np.linspace(0, 1, 11)
    ece = mce = 0.0
    for lo, hi in zip(edges[:-1], edges[1:]):
        m = (conf > lo) & (conf <= hi)
        if m.any():
            gap = abs(ok[m].mean() - conf[m].mean())
            ece += m.mean() * gap
            mce = max(mce, gap)
    return {"ece": float(ece), "mce": float(mce), "acc": float(ok.mean()), "conf": float(conf.mean())}
''',
r'''@dataclass(frozen=True)
class CalibCfg:
    bins: int = 15 #!
    low: float = 0.0
    high: float = 1.0

    def edges(self):
        return np.linspace(self.low, self.high, self.bins + 1)


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def gaps(conf, hit, cfg):
    idx = np.digitize(conf, cfg.edges()[1:-1], right=True)
    for b in np.unique(idx):
        sel = idx == b
        yield sel.sum(), abs(hit[sel].mean() - conf[sel].mean())


def metric(outputs, labels, cfg=CalibCfg()):
    prob = softmax(outputs.astype("f8"))
    conf = np.max(prob, axis=1)
    hit = np.equal(prob.argmax(axis=1), labels).astype("f8")
    rows = list(gaps(conf, hit, cfg))
    n = len(labels)
    return {
        "ece": float(sum(c * g for c, g in rows) / n),
        "mce": float(max(g for _, g in rows)),
        "acc": float(hit.mean()),
        "conf": float(conf.mean()),
    }
''')

RIGHT['calib_report'] = r'''@dataclass(frozen=True)
class CalibCfg:
    bins: int = 10
    low: float = 0.0
    high: float = 1.0

    def edges(self):
        return np.linspace(self.low, self.high, self.bins + 1)


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def gaps(conf, hit, cfg):
    idx = np.digitize(conf, cfg.edges()[1:-1], right=True)
    for b in np.unique(idx):
        sel = idx == b
        yield sel.sum(), abs(hit[sel].mean() - conf[sel].mean())


def metric(outputs, labels, cfg=CalibCfg()):
    prob = softmax(outputs.astype("f8"))
    conf = np.max(prob, axis=1)
    hit = np.equal(prob.argmax(axis=1), labels).astype("f8")
    rows = list(gaps(conf, hit, cfg))
    n = len(labels)
    return {
        "ece": float(sum(c * g for c, g in rows) / n),
        "mce": float(max(g for _, g in rows)),
        "acc": float(hit.mean()),
        "conf": float(conf.mean()),
    }
'''

CASES['kappa_pair'] = (r'''def metric(outputs, labels):
    pred = outputs.argmax(1)
    o = np.zeros((3, 3))
    for a, b in zip(labels, pred):
        o[a, b] += 1
    o /= o.sum()
    e = np.outer(o.sum(1), o.sum(0))
    i, j = np.indices((3, 3))
    w1 = (i != j).astype(float)
    w2 = (i - j) ** 2 / 4.0
    return {"kappa": float(1 - (w1 * o).sum() / (w1 * e).sum()),
            "qwk": float(1 - (w2 * o).sum() / (w2 * e).sum()),
            "agree": float(np.trace(o))}
''',
r'''WEIGHTS = {
    "none": lambda i, j: float(i != j),
    "linear": lambda i, j: abs(i - j) / 2,
    "quadratic": lambda i, j: (i - j) ** 2 / 4,
}
PLAN = [
    ("kappa", "none"),
    ("qwk", "linear"), #!
]


def kappa(counts, scheme):
    fn = WEIGHTS[scheme]
    n = sum(counts.values())
    rows, cols = Counter(), Counter()
    for (i, j), c in counts.items():
        rows[i] += c
        cols[j] += c
    num = sum(fn(i, j) * c for (i, j), c in counts.items()) / n
    den = sum(fn(i, j) * rows[i] * cols[j] for i in rows for j in cols) / n ** 2
    return 1.0 - num / den


def metric(outputs, labels):
    counts = Counter(zip(labels.tolist(), outputs.argmax(axis=1).tolist()))
    res = {name: float(kappa(counts, scheme)) for name, scheme in PLAN}
    res["agree"] = float(sum(c for (i, j), c in counts.items() if i == j) / len(labels))
    return res
''')

RIGHT['kappa_pair'] = r'''WEIGHTS = {
    "none": lambda i, j: float(i != j),
    "linear": lambda i, j: abs(i - j) / 2,
    "quadratic": lambda i, j: (i - j) ** 2 / 4,
}
PLAN = [
    ("kappa", "none"),
    ("qwk", "quadratic"),
]


def kappa(counts, scheme):
    fn = WEIGHTS[scheme]
    n = sum(counts.values())
    rows, cols = Counter(), Counter()
    for (i, j), c in counts.items():
        rows[i] += c
        cols[j] += c
    num = sum(fn(i, j) * c for (i, j), c in counts.items()) / n
    den = sum(fn(i, j) * rows[i] * cols[j] for i in rows for j in cols) / n ** 2
    return 1.0 - num / den


def metric(outputs, labels):
    counts = Counter(zip(labels.tolist(), outputs.argmax(axis=1).tolist()))
    res = {name: float(kappa(counts, scheme)) for name, scheme in PLAN}
    res["agree"] = float(sum(c for (i, j), c in counts.items() if i == j) / len(labels))
    return res
'''

CASES['nll_trio'] = (r'''def metric(outputs, labels):
    z = outputs.astype(np.float64)
    m = z.max(1)
    lse = m + np.log(np.exp(z - m[:, None]).sum(1))
    lp = z - lse[:, None]
    nll = -lp[np.arange(len(labels)), labels]
    q = np.full(z.shape, 0.1 / 3)
    q[np.arange(len(labels)), labels] += 0.9
    return {"nll": float(nll.mean()), "smooth": float(-(q * lp).sum(1).mean()),
            "ppl": float(np.exp(nll.mean()))}
''',
r'''def log_softmax(row):
    top = max(row)
    norm = top + math.log(sum(math.exp(v - top) for v in row))
    return [v - norm for v in row]


def targets(label, k, eps):
    off = eps / (k - 1) #!
    return [(1 - eps) + off if c == label else off for c in range(k)]


def cross(logp, target):
    return -sum(map(operator.mul, logp, target))


def metric(outputs, labels, eps=0.1):
    k = outputs.shape[1]
    hard, soft = 0.0, 0.0
    for row, y in zip(outputs.tolist(), labels.tolist()):
        lp = log_softmax(row)
        hard += cross(lp, targets(y, k, 0.0))
        soft += cross(lp, targets(y, k, eps))
    n = len(labels)
    return {"nll": hard / n, "smooth": soft / n, "ppl": math.exp(hard / n)}
''')

RIGHT['nll_trio'] = r'''def log_softmax(row):
    top = max(row)
    norm = top + math.log(sum(math.exp(v - top) for v in row))
    return [v - norm for v in row]


def targets(label, k, eps):
    off = eps / k
    return [(1 - eps) + off if c == label else off for c in range(k)]


def cross(logp, target):
    return -sum(map(operator.mul, logp, target))


def metric(outputs, labels, eps=0.1):
    k = outputs.shape[1]
    hard, soft = 0.0, 0.0
    for row, y in zip(outputs.tolist(), labels.tolist()):
        lp = log_softmax(row)
        hard += cross(lp, targets(y, k, 0.0))
        soft += cross(lp, targets(y, k, eps))
    n = len(labels)
    return {"nll": hard / n, "smooth": soft / n, "ppl": math.exp(hard / n)}
'''

CASES['auc_trio'] = (r'''def metric(outputs, labels):
    aucs = []
    for c in range(3):
        pos = outputs[labels == c, c].astype(float)
        neg = outputs[labels != c, c].astype(float)
        if len(pos) and len(neg):
            d = pos[:, None] - neg[None, :]
            aucs.append(((d > 0) + 0.5 * (d == 0)).mean())
    return {"auc": float(np.mean(aucs)), "best": float(max(aucs)), "worst": float(min(aucs)),
            "acc": float((outputs.argmax(1) == labels).mean())}
''',
r'''def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    r = [0] * len(values)
    for pos, i in enumerate(order): #!
        r[i] = pos
    return r


def rank_auc(scores, flags):
    p = sum(flags)
    q = len(flags) - p
    if not p or not q:
        return None
    s = sum(itertools.compress(ranks(scores), flags))
    return (s - p * (p + 1) / 2) / (p * q) #?


def metric(outputs, labels):
    truth = labels.tolist()
    cols = outputs.T.tolist()
    vals = [rank_auc(col, [t == c for t in truth]) for c, col in enumerate(cols)]
    vals = [v for v in vals if v is not None]
    hits = sum(max(range(3), key=row.__getitem__) == t for row, t in zip(outputs.tolist(), truth))
    return {"auc": sum(vals) / len(vals), "best": max(vals), "worst": min(vals), "acc": hits / len(truth)}
''')

RIGHT['auc_trio'] = r'''def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    r = [0] * len(values)
    for pos, i in enumerate(order, start=1):
        r[i] = pos
    return r


def rank_auc(scores, flags):
    p = sum(flags)
    q = len(flags) - p
    if not p or not q:
        return None
    s = sum(itertools.compress(ranks(scores), flags))
    return (s - p * (p + 1) / 2) / (p * q)


def metric(outputs, labels):
    truth = labels.tolist()
    cols = outputs.T.tolist()
    vals = [rank_auc(col, [t == c for t in truth]) for c, col in enumerate(cols)]
    vals = [v for v in vals if v is not None]
    hits = sum(max(range(3), key=row.__getitem__) == t for row, t in zip(outputs.tolist(), truth))
    return {"auc": sum(vals) / len(vals), "best": max(vals), "worst": min(vals), "acc": hits / len(truth)}
'''

CASES['mcc_multi'] = (r'''def metric(outputs, labels):
    pred = outputs.argmax(1)
    cm = np.zeros((3, 3))
    np.add.at(cm, (labels, pred), 1)
    t, p, n = cm.sum(1), cm.sum(0), cm.sum()
    c = np.trace(cm)
    num = c * n - t @ p
    den = np.sqrt((n * n - p @ p) * (n * n - t @ t))
    return {"mcc": float(num / den) if den else 0.0, "acc": float(c / n),
            "bal": float(np.mean(np.diag(cm) / np.maximum(t, 1)))}
''',
r'''Totals = namedtuple("Totals", "n correct true pred")


def tally(pred, truth, k=3):
    tr = np.bincount(truth, minlength=k).astype(float)
    pr = np.bincount(pred, minlength=k).astype(float)
    return Totals(float(len(pred)), float(np.count_nonzero(pred == truth)), tr, pr)


def cov(n, a, b, joint=None):
    if joint is None:
        joint = n
    return joint * n - np.dot(a, b)


def mcc(t):
    xy = cov(t.n, t.true, t.pred, t.correct)
    xx = cov(t.n, t.true, t.true)
    yy = cov(t.n, t.pred, t.true) #!
    if xx * yy <= 0:
        return 0.0
    return xy / math.sqrt(xx * yy)


def metric(outputs, labels):
    pred = outputs.argmax(axis=1)
    t = tally(pred, labels)
    recalls = [np.mean(pred[labels == c] == c) if t.true[c] else 0.0 for c in range(3)]
    return {"mcc": float(mcc(t)), "acc": t.correct / t.n, "bal": float(sum(recalls) / 3)}
''')

RIGHT['mcc_multi'] = r'''Totals = namedtuple("Totals", "n correct true pred")


def tally(pred, truth, k=3):
    tr = np.bincount(truth, minlength=k).astype(float)
    pr = np.bincount(pred, minlength=k).astype(float)
    return Totals(float(len(pred)), float(np.count_nonzero(pred == truth)), tr, pr)


def cov(n, a, b, joint=None):
    if joint is None:
        joint = n
    return joint * n - np.dot(a, b)


def mcc(t):
    xy = cov(t.n, t.true, t.pred, t.correct)
    xx = cov(t.n, t.true, t.true)
    yy = cov(t.n, t.pred, t.pred)
    if xx * yy <= 0:
        return 0.0
    return xy / math.sqrt(xx * yy)


def metric(outputs, labels):
    pred = outputs.argmax(axis=1)
    t = tally(pred, labels)
    recalls = [np.mean(pred[labels == c] == c) if t.true[c] else 0.0 for c in range(3)]
    return {"mcc": float(mcc(t)), "acc": t.correct / t.n, "bal": float(sum(recalls) / 3)}
'''

CASES['topk_rank'] = (r'''def metric(outputs, labels):
    order = np.argsort(-outputs, axis=1, kind="stable")
    pos = (order == labels[:, None]).argmax(1)
    return {"top1": float((pos < 1).mean()), "top2": float((pos < 2).mean()),
            "mrr": float((1 / (pos + 1)).mean()), "rank": float((pos + 1).mean())}
''',
r'''class Ranker:
    registry = {}

    @classmethod
    def register(cls, name):
        def deco(fn):
            cls.registry[name] = fn
            return fn
        return deco

    def __call__(self, outputs, labels):
        own = np.take_along_axis(outputs, labels[:, None], axis=1)
        above = np.count_nonzero(outputs > own, axis=1)
        return {name: float(np.mean(fn(above))) for name, fn in self.registry.items()}


@Ranker.register("top1")
def top1(above):
    return above == 0


@Ranker.register("top2")
def top2(above):
    return above <= 1


@Ranker.register("mrr")
def mrr(above):
    return 1.0 / np.maximum(above, 1) #!


@Ranker.register("rank")
def rank(above):
    return above + 1


def metric(outputs, labels):
    return Ranker()(outputs, labels)
''')

RIGHT['topk_rank'] = r'''class Ranker:
    registry = {}

    @classmethod
    def register(cls, name):
        def deco(fn):
            cls.registry[name] = fn
            return fn
        return deco

    def __call__(self, outputs, labels):
        own = np.take_along_axis(outputs, labels[:, None], axis=1)
        above = np.count_nonzero(outputs > own, axis=1)
        return {name: float(np.mean(fn(above))) for name, fn in self.registry.items()}


@Ranker.register("top1")
def top1(above):
    return above == 0


@Ranker.register("top2")
def top2(above):
    return above <= 1


@Ranker.register("mrr")
def mrr(above):
    return 1.0 / (above + 1)


@Ranker.register("rank")
def rank(above):
    return above + 1


def metric(outputs, labels):
    return Ranker()(outputs, labels)
'''

CASES['entropy_margin'] = (r'''def metric(outputs, labels):
    z = outputs.astype(float)
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    h = -(p * np.log(p)).sum(1) / np.log(3)
    s = np.sort(p, 1)
    margin = s[:, -1] - s[:, -2]
    return {"entropy": float(h.mean()), "margin": float(margin.mean()), "peak": float(s[:, -1].mean())}
''',
r'''def pipeline(*steps):
    return lambda x: functools.reduce(lambda acc, f: f(acc), steps, x)


def to_probs(row):
    e = [math.exp(v) for v in row]
    return [v / sum(e) for v in e]


def entropy(p, base=math.e):
    return -sum(v * math.log(v, base) for v in p)


def margin(p):
    first, second, *_ = sorted(p, reverse=True)
    return first - second


STATS = {
    "entropy": pipeline(to_probs, partial(entropy, base=2)), #!
    "margin": pipeline(to_probs, margin),
    "peak": pipeline(to_probs, max),
}


def metric(outputs, labels):
    rows = outputs.tolist()
    return {k: statistics.fmean(map(f, rows)) for k, f in STATS.items()}
''')

RIGHT['entropy_margin'] = r'''def pipeline(*steps):
    return lambda x: functools.reduce(lambda acc, f: f(acc), steps, x)


def to_probs(row):
    e = [math.exp(v) for v in row]
    return [v / sum(e) for v in e]


def entropy(p, base=math.e):
    return -sum(v * math.log(v, base) for v in p)


def margin(p):
    first, second, *_ = sorted(p, reverse=True)
    return first - second


STATS = {
    "entropy": pipeline(to_probs, partial(entropy, base=3)),
    "margin": pipeline(to_probs, margin),
    "peak": pipeline(to_probs, max),
}


def metric(outputs, labels):
    rows = outputs.tolist()
    return {k: statistics.fmean(map(f, rows)) for k, f in STATS.items()}
'''

CASES['brier_skill'] = (r'''def metric(outputs, labels):
    z = outputs.astype(float)
    p = np.exp(z - z.max(1, keepdims=True))
    p = p / p.sum(1, keepdims=True)
    y = np.eye(3)[labels]
    b = ((p - y) ** 2).sum(1).mean()
    base = y.mean(0)
    ref = ((base - y) ** 2).sum(1).mean()
    return {"brier": float(b), "ref": float(ref), "skill": float(1 - b / ref)}
''',
r'''class Score:
    def __init__(self, k=3):
        self.onehot = np.identity(k)

    def loss(self, p, y):
        return float(np.mean(np.sum(np.square(p - self.onehot[y]), axis=-1)))


class Skill(Score):
    def baseline(self, y):
        prior = np.full(len(self.onehot), 1 / len(self.onehot)) #!
        return np.broadcast_to(prior, (len(y), len(prior)))

    def __call__(self, p, y):
        got, ref = self.loss(p, y), self.loss(self.baseline(y), y)
        return {"brier": got, "ref": ref, "skill": 1 - got / ref}


def metric(outputs, labels):
    x = np.array(outputs, dtype=np.float64)
    x -= x.max(axis=1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=1, keepdims=True)
    return Skill()(x, labels)
''')

RIGHT['brier_skill'] = r'''class Score:
    def __init__(self, k=3):
        self.onehot = np.identity(k)

    def loss(self, p, y):
        return float(np.mean(np.sum(np.square(p - self.onehot[y]), axis=-1)))


class Skill(Score):
    def baseline(self, y):
        prior = np.bincount(y, minlength=len(self.onehot)) / len(y)
        return np.broadcast_to(prior, (len(y), len(prior)))

    def __call__(self, p, y):
        got, ref = self.loss(p, y), self.loss(self.baseline(y), y)
        return {"brier": got, "ref": ref, "skill": 1 - got / ref}


def metric(outputs, labels):
    x = np.array(outputs, dtype=np.float64)
    x -= x.max(axis=1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=1, keepdims=True)
    return Skill()(x, labels)
'''

CASES['trim_stats'] = (r'''def metric(outputs, labels):
    v = np.sort(outputs.astype(float).max(1))
    n = len(v)
    k = int(n * 0.1)
    t = v[k:n - k]
    w = v.copy()
    w[:k] = v[k]
    w[n - k:] = v[n - k - 1]
    return {"mean": float(v.mean()), "trimmed": float(t.mean()), "winsor": float(w.mean()),
            "median": float(np.median(v))}
''',
r'''OPTIONS = {
    "trimmed": {"cut": 0.1, "mode": "drop"},
    "winsor": {"cut": 0.2, "mode": "clip"}, #!
}


def robust(values, *, cut, mode):
    s = sorted(values)
    k = math.floor(len(s) * cut)
    core = s[k:len(s) - k]
    if mode == "drop":
        return statistics.fmean(core)
    lo, hi = core[0], core[-1]
    return statistics.fmean(min(max(v, lo), hi) for v in s)


def metric(outputs, labels):
    peaks = [max(r) for r in outputs.tolist()]
    out = {"mean": statistics.fmean(peaks), "median": statistics.median(peaks)}
    for name, opt in OPTIONS.items():
        out[name] = robust(peaks, **opt)
    return out
''')

RIGHT['trim_stats'] = r'''OPTIONS = {
    "trimmed": {"cut": 0.1, "mode": "drop"},
    "winsor": {"cut": 0.1, "mode": "clip"},
}


def robust(values, *, cut, mode):
    s = sorted(values)
    k = math.floor(len(s) * cut)
    core = s[k:len(s) - k]
    if mode == "drop":
        return statistics.fmean(core)
    lo, hi = core[0], core[-1]
    return statistics.fmean(min(max(v, lo), hi) for v in s)


def metric(outputs, labels):
    peaks = [max(r) for r in outputs.tolist()]
    out = {"mean": statistics.fmean(peaks), "median": statistics.median(peaks)}
    for name, opt in OPTIONS.items():
        out[name] = robust(peaks, **opt)
    return out
'''

CASES['running_moments'] = (r'''def metric(outputs, labels):
    v = outputs.astype(float)[np.arange(len(labels)), labels]
    return {"mean": float(v.mean()), "std": float(v.std(ddof=1)), "var0": float(v.var()),
            "sem": float(v.std(ddof=1) / np.sqrt(len(v)))}
''',
r'''class Welford:
    def __init__(self):
        self.n = 0
        self.mu = 0.0
        self.m2 = 0.0

    def __iadd__(self, x):
        self.n += 1
        delta = x - self.mu
        self.mu += delta / self.n
        self.m2 += delta * (x - self.mu)
        return self

    def var(self, ddof=0):
        return self.m2 / (self.n - ddof)

    @property
    def std(self):
        return math.sqrt(self.var(ddof=1))

    @property
    def sem(self):
        return math.sqrt(self.var() / self.n) #!


def metric(outputs, labels):
    w = Welford()
    for row, y in zip(outputs.tolist(), labels):
        w += row[y]
    return {"mean": w.mu, "std": w.std, "var0": w.var(), "sem": w.sem}
''')

RIGHT['running_moments'] = r'''class Welford:
    def __init__(self):
        self.n = 0
        self.mu = 0.0
        self.m2 = 0.0

    def __iadd__(self, x):
        self.n += 1
        delta = x - self.mu
        self.mu += delta / self.n
        self.m2 += delta * (x - self.mu)
        return self

    def var(self, ddof=0):
        return self.m2 / (self.n - ddof)

    @property
    def std(self):
        return math.sqrt(self.var(ddof=1))

    @property
    def sem(self):
        return math.sqrt(self.var(ddof=1) / self.n)


def metric(outputs, labels):
    w = Welford()
    for row, y in zip(outputs.tolist(), labels):
        w += row[y]
    return {"mean": w.mu, "std": w.std, "var0": w.var(), "sem": w.sem}
'''

CASES['ema_track'] = (r'''def metric(outputs, labels):
    hit = (outputs.argmax(1) == labels).astype(float)
    peak = outputs.astype(float).max(1)
    a, b = hit[0], peak[0]
    for i in range(1, len(hit)):
        a = 0.9 * a + 0.1 * hit[i]
        b = 0.9 * b + 0.1 * peak[i]
    return {"ema_hit": float(a), "ema_peak": float(b), "last": float(peak[-1])}
''',
r'''def ema(decay):
    state = None

    def step(x):
        nonlocal state
        if state is None:
            state = x * (1 - decay) #!
        else:
            state = decay * state + (1 - decay) * x
        return state

    return step


def final(stream, step):
    *_, last = map(step, stream)
    return last


def hits(outputs, labels):
    for row, y in zip(outputs.tolist(), labels.tolist()):
        yield float(row.index(max(row)) == y)


def metric(outputs, labels, decay=0.9):
    peaks = [max(r) for r in outputs.tolist()]
    return {"ema_hit": final(hits(outputs, labels), ema(decay)),
            "ema_peak": final(peaks, ema(decay)),
            "last": peaks[-1]}
''')

RIGHT['ema_track'] = r'''def ema(decay):
    state = None

    def step(x):
        nonlocal state
        if state is None:
            state = x
        else:
            state = decay * state + (1 - decay) * x
        return state

    return step


def final(stream, step):
    *_, last = map(step, stream)
    return last


def hits(outputs, labels):
    for row, y in zip(outputs.tolist(), labels.tolist()):
        yield float(row.index(max(row)) == y)


def metric(outputs, labels, decay=0.9):
    peaks = [max(r) for r in outputs.tolist()]
    return {"ema_hit": final(hits(outputs, labels), ema(decay)),
            "ema_peak": final(peaks, ema(decay)),
            "last": peaks[-1]}
'''

CASES['quantile_set'] = (r'''def metric(outputs, labels):
    z = outputs.astype(float)
    m = z.max(1) - z.min(1)
    q25, q50, q75 = np.quantile(m, [0.25, 0.5, 0.75])
    return {"q25": float(q25), "q50": float(q50), "q75": float(q75), "iqr": float(q75 - q25)}
''',
r'''class Quantiles:
    def __init__(self, values):
        self.v = sorted(values)

    def __len__(self):
        return len(self.v)

    def __getitem__(self, q):
        h = q * (len(self) - 1)
        i = int(h)
        j = min(i + 1, len(self) - 1)
        return self.v[i] + (h - i) * (self.v[j] - self.v[i])

    def spread(self, lo=0.2, hi=0.75): #!
        return self[hi] - self[lo]


def metric(outputs, labels):
    q = Quantiles(max(r) - min(r) for r in outputs.tolist())
    res = {f"q{p}": q[p / 100] for p in (25, 50, 75)}
    res["iqr"] = q.spread()
    return res
''')

RIGHT['quantile_set'] = r'''class Quantiles:
    def __init__(self, values):
        self.v = sorted(values)

    def __len__(self):
        return len(self.v)

    def __getitem__(self, q):
        h = q * (len(self) - 1)
        i = int(h)
        j = min(i + 1, len(self) - 1)
        return self.v[i] + (h - i) * (self.v[j] - self.v[i])

    def spread(self, lo=0.25, hi=0.75):
        return self[hi] - self[lo]


def metric(outputs, labels):
    q = Quantiles(max(r) - min(r) for r in outputs.tolist())
    res = {f"q{p}": q[p / 100] for p in (25, 50, 75)}
    res["iqr"] = q.spread()
    return res
'''

CASES['col_corr'] = (r'''def metric(outputs, labels):
    a = outputs[:, 0].astype(float)
    b = outputs[:, 1].astype(float)
    ra, rb = a.argsort().argsort(), b.argsort().argsort()
    return {"pearson": float(np.corrcoef(a, b)[0, 1]), "spearman": float(np.corrcoef(ra, rb)[0, 1]),
            "slope": float(np.cov(a, b)[0, 1] / a.var(ddof=1))}
''',
r'''@dataclass
class Pair:
    x: np.ndarray
    y: np.ndarray

    def centered(self):
        return self.x - self.x.mean(), self.y - self.y.mean()

    def ranked(self):
        return Pair(*(np.argsort(np.argsort(v)) for v in (self.x, self.y)))

    def pearson(self):
        u, v = self.centered()
        return float(u @ v / math.sqrt((u @ u) * (v @ v)))

    def slope(self):
        v, u = self.centered() #!
        return float(u @ v / (u @ u)) #?


def metric(outputs, labels):
    x, y, _ = outputs.T.astype(np.float64)
    pair = Pair(x, y)
    return {"pearson": pair.pearson(), "spearman": pair.ranked().pearson(), "slope": pair.slope()}
''')

RIGHT['col_corr'] = r'''@dataclass
class Pair:
    x: np.ndarray
    y: np.ndarray

    def centered(self):
        return self.x - self.x.mean(), self.y - self.y.mean()

    def ranked(self):
        return Pair(*(np.argsort(np.argsort(v)) for v in (self.x, self.y)))

    def pearson(self):
        u, v = self.centered()
        return float(u @ v / math.sqrt((u @ u) * (v @ v)))

    def slope(self):
        u, v = self.centered()
        return float(u @ v / (u @ u))


def metric(outputs, labels):
    x, y, _ = outputs.T.astype(np.float64)
    pair = Pair(x, y)
    return {"pearson": pair.pearson(), "spearman": pair.ranked().pearson(), "slope": pair.slope()}
'''

CASES['class_losses'] = (r'''def metric(outputs, labels):
    z = outputs.astype(float)
    lp = z - np.log(np.exp(z).sum(1, keepdims=True))
    l = -lp[np.arange(len(labels)), labels]
    w = np.array([1.0, 2.0, 0.5])[labels]
    return {"mean": float(l.mean()), "weighted": float((w * l).sum() / w.sum()), "max": float(l.max())}
''',
r'''CFG = {"weights": {0: 1.0, 1: 2.0, 2: 0.5}, "reduce": ("mean", "weighted", "max")}


def losses(outputs, labels):
    x = outputs.astype(np.float64)
    norm = np.logaddexp.reduce(x, axis=1)
    return norm - np.choose(labels, x.T)


def reduce_mean(loss, w):
    return np.mean(loss)


def reduce_weighted(loss, w):
    total = loss @ w
    return total / len(w) #!


def reduce_max(loss, w):
    return np.max(loss)


def metric(outputs, labels):
    loss = losses(outputs, labels)
    w = np.array([CFG["weights"][int(y)] for y in labels])
    return {r: float(globals()["reduce_" + r](loss, w)) for r in CFG["reduce"]}
''')

RIGHT['class_losses'] = r'''CFG = {"weights": {0: 1.0, 1: 2.0, 2: 0.5}, "reduce": ("mean", "weighted", "max")}


def losses(outputs, labels):
    x = outputs.astype(np.float64)
    norm = np.logaddexp.reduce(x, axis=1)
    return norm - np.choose(labels, x.T)


def reduce_mean(loss, w):
    return np.mean(loss)


def reduce_weighted(loss, w):
    total = loss @ w
    return total / np.sum(w)


def reduce_max(loss, w):
    return np.max(loss)


def metric(outputs, labels):
    loss = losses(outputs, labels)
    w = np.array([CFG["weights"][int(y)] for y in labels])
    return {r: float(globals()["reduce_" + r](loss, w)) for r in CFG["reduce"]}
'''

CASES['hist_div'] = (r'''def metric(outputs, labels):
    edges = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    v = np.clip(outputs.astype(float), -1.999, 1.999)
    a = np.histogram(v[:, 0], edges)[0] / len(v)
    b = np.histogram(v[:, 2], edges)[0] / len(v)
    m = (a + b) / 2
    def kl(p, q):
        k = p > 0
        return (p[k] * np.log(p[k] / q[k])).sum()
    return {"js": float(0.5 * kl(a, m) + 0.5 * kl(b, m)), "tv": float(0.5 * np.abs(a - b).sum()),
            "emd": float(np.abs(np.cumsum(a - b)).sum())}
''',
r'''def bucket(x):
    x = min(max(x, -1.999), 1.999)
    return math.floor(x) + 2


def freq(col):
    c = Counter(map(bucket, col))
    n = sum(c.values())
    return [c[i] / n for i in range(4)]


def kl(p, q):
    return sum(a * math.log(a / b) for a, b in zip(p, q) if a > 0)


def js(p, q):
    mid = [(a + b) / 2 for a, b in zip(p, q)]
    return (kl(p, mid) + kl(q, mid)) / 2


def tv(p, q):
    return sum(abs(a - b) for a, b in zip(p, q)) #!


def emd(p, q):
    return sum(map(abs, itertools.accumulate(a - b for a, b in zip(p, q))))


def metric(outputs, labels):
    cols = outputs.T.tolist()
    p, q = freq(cols[0]), freq(cols[2])
    return {fn.__name__: float(fn(p, q)) for fn in (js, tv, emd)}
''')

RIGHT['hist_div'] = r'''def bucket(x):
    x = min(max(x, -1.999), 1.999)
    return math.floor(x) + 2


def freq(col):
    c = Counter(map(bucket, col))
    n = sum(c.values())
    return [c[i] / n for i in range(4)]


def kl(p, q):
    return sum(a * math.log(a / b) for a, b in zip(p, q) if a > 0)


def js(p, q):
    mid = [(a + b) / 2 for a, b in zip(p, q)]
    return (kl(p, mid) + kl(q, mid)) / 2


def tv(p, q):
    return sum(abs(a - b) for a, b in zip(p, q)) / 2


def emd(p, q):
    return sum(map(abs, itertools.accumulate(a - b for a, b in zip(p, q))))


def metric(outputs, labels):
    cols = outputs.T.tolist()
    p, q = freq(cols[0]), freq(cols[2])
    return {fn.__name__: float(fn(p, q)) for fn in (js, tv, emd)}
'''

CASES['distance_suite'] = (r'''def metric(outputs, labels):
    z = outputs.astype(float)
    y = np.eye(3)[labels]
    d = z - y
    cos = (z * y).sum(1) / (np.linalg.norm(z, axis=1) * np.linalg.norm(y, axis=1))
    return {"l1": float(np.abs(d).sum(1).mean()), "l2": float(np.sqrt((d ** 2).sum(1)).mean()),
            "linf": float(np.abs(d).max(1).mean()), "cos": float(1 - cos.mean())}
''',
r'''def minkowski(p):
    def dist(u, v):
        gaps = [abs(a - b) for a, b in zip(u, v)]
        if math.isinf(p):
            return max(gaps)
        return sum(g ** p for g in gaps) #!
    return dist


def cosine(u, v):
    dot = sum(map(operator.mul, u, v))
    return 1 - dot / (math.hypot(*u) * math.hypot(*v))


DIST = OrderedDict(l1=minkowski(1), l2=minkowski(2), linf=minkowski(math.inf), cos=cosine)


def metric(outputs, labels):
    pairs = [(row, [float(c == y) for c in range(3)]) for row, y in zip(outputs.tolist(), labels.tolist())]
    return {k: sum(itertools.starmap(d, pairs)) / len(pairs) for k, d in DIST.items()}
''')

RIGHT['distance_suite'] = r'''def minkowski(p):
    def dist(u, v):
        gaps = [abs(a - b) for a, b in zip(u, v)]
        if math.isinf(p):
            return max(gaps)
        return sum(g ** p for g in gaps) ** (1 / p)
    return dist


def cosine(u, v):
    dot = sum(map(operator.mul, u, v))
    return 1 - dot / (math.hypot(*u) * math.hypot(*v))


DIST = OrderedDict(l1=minkowski(1), l2=minkowski(2), linf=minkowski(math.inf), cos=cosine)


def metric(outputs, labels):
    pairs = [(row, [float(c == y) for c in range(3)]) for row, y in zip(outputs.tolist(), labels.tolist())]
    return {k: sum(itertools.starmap(d, pairs)) / len(pairs) for k, d in DIST.items()}
'''

CASES['temp_curve'] = (r'''def metric(outputs, labels):
    res = {}
    for t in (0.5, 1.0, 2.0):
        z = outputs.astype(float) / t
        lp = z - np.log(np.exp(z).sum(1, keepdims=True))
        res["nll_%g" % t] = float(-lp[np.arange(len(labels)), labels].mean())
    return res
''',
r'''class Scaled:
    def __init__(self, logits, temperature=1.0):
        self.logits = logits
        self.temperature = temperature

    def __truediv__(self, t):
        return Scaled(self.logits / t, t)

    def __getitem__(self, y):
        z = self.logits
        return float(np.mean(np.log(np.sum(np.exp(z), axis=1)) - z[np.arange(len(y)), y]))


def sweep(base, temps):
    cur = base
    for t in temps:
        cur = cur / t #!
        yield f"nll_{t:g}", cur


def metric(outputs, labels):
    base = Scaled(outputs.astype(np.float64))
    return {name: s[labels] for name, s in sweep(base, (0.5, 1.0, 2.0))}
''')

RIGHT['temp_curve'] = r'''class Scaled:
    def __init__(self, logits, temperature=1.0):
        self.logits = logits
        self.temperature = temperature

    def __truediv__(self, t):
        return Scaled(self.logits / t, t)

    def __getitem__(self, y):
        z = self.logits
        return float(np.mean(np.log(np.sum(np.exp(z), axis=1)) - z[np.arange(len(y)), y]))


def sweep(base, temps):
    cur = base
    for t in temps:
        cur = base / t
        yield f"nll_{t:g}", cur


def metric(outputs, labels):
    base = Scaled(outputs.astype(np.float64))
    return {name: s[labels] for name, s in sweep(base, (0.5, 1.0, 2.0))}
'''

CASES['fbeta_set'] = (r'''def metric(outputs, labels):
    pred = outputs.argmax(1)
    P, R = [], []
    for c in range(3):
        tp = np.sum((pred == c) & (labels == c))
        P.append(tp / max(np.sum(pred == c), 1))
        R.append(tp / max(np.sum(labels == c), 1))
    P, R = np.array(P), np.array(R)
    def f(b):
        return float(np.mean((1 + b * b) * P * R / (b * b * P + R + 1e-12)))
    return {"f1": f(1.0), "f2": f(2.0), "f05": f(0.5)}
''',
r'''PR = namedtuple("PR", ["precision", "recall"])


def per_class(pred, truth, c):
    hit = sum(p == t == c for p, t in zip(pred, truth))
    return PR(hit / max(pred.count(c), 1), hit / max(truth.count(c), 1))


def fbeta(pr, beta):
    p, r = pr
    b2 = beta ** 2
    return (1 + b2) * p * r / (p + b2 * r + 1e-12) #!


def metric(outputs, labels):
    pred, truth = outputs.argmax(axis=1).tolist(), labels.tolist()
    prs = [per_class(pred, truth, c) for c in range(3)]
    betas = {"f1": 1.0, "f2": 2.0, "f05": 0.5}
    return {name: statistics.fmean(fbeta(pr, b) for pr in prs) for name, b in betas.items()}
''')

RIGHT['fbeta_set'] = r'''PR = namedtuple("PR", ["precision", "recall"])


def per_class(pred, truth, c):
    hit = sum(p == t == c for p, t in zip(pred, truth))
    return PR(hit / max(pred.count(c), 1), hit / max(truth.count(c), 1))


def fbeta(pr, beta):
    p, r = pr
    b2 = beta ** 2
    return (1 + b2) * p * r / (b2 * p + r + 1e-12)


def metric(outputs, labels):
    pred, truth = outputs.argmax(axis=1).tolist(), labels.tolist()
    prs = [per_class(pred, truth, c) for c in range(3)]
    betas = {"f1": 1.0, "f2": 2.0, "f05": 0.5}
    return {name: statistics.fmean(fbeta(pr, b) for pr in prs) for name, b in betas.items()}
'''

CASES['focal_terms'] = (r'''def metric(outputs, labels):
    z = outputs.astype(float)
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    pt = p[np.arange(len(labels)), labels]
    ce = -np.log(pt)
    a = np.where(labels == 0, 0.25, 0.75)
    return {"ce": float(ce.mean()), "focal": float(((1 - pt) ** 2 * ce).mean()),
            "alpha": float((a * (1 - pt) ** 2 * ce).mean())}
''',
r'''class Loss:
    def __init__(self, **kw):
        self.opts = {"gamma": 0.0, "alpha": None, **kw}

    def modulate(self, pt):
        return (1.0 - pt) ** self.opts["gamma"]

    def balance(self, y):
        alpha = self.opts["alpha"]
        if alpha is None:
            return np.ones(len(y))
        return np.where(y != 0, alpha, 1 - alpha) #?

    def __call__(self, pt, y):
        return float(np.mean(self.balance(y) * self.modulate(pt) * -np.log(pt)))


LOSSES = {
    "ce": Loss(),
    "focal": Loss(gamma=2.0),
    "alpha": Loss(gamma=2.0, alpha=0.25), #!
}


def metric(outputs, labels):
    e = np.exp(outputs.astype(np.float64))
    pt = (e / e.sum(axis=1)[:, None])[range(len(labels)), labels]
    return {name: fn(pt, labels) for name, fn in LOSSES.items()}
''')

RIGHT['focal_terms'] = r'''class Loss:
    def __init__(self, **kw):
        self.opts = {"gamma": 0.0, "alpha": None, **kw}

    def modulate(self, pt):
        return (1.0 - pt) ** self.opts["gamma"]

    def balance(self, y):
        alpha = self.opts["alpha"]
        if alpha is None:
            return np.ones(len(y))
        return np.where(y != 0, alpha, 1 - alpha)

    def __call__(self, pt, y):
        return float(np.mean(self.balance(y) * self.modulate(pt) * -np.log(pt)))


LOSSES = {
    "ce": Loss(),
    "focal": Loss(gamma=2.0),
    "alpha": Loss(gamma=2.0, alpha=0.75),
}


def metric(outputs, labels):
    e = np.exp(outputs.astype(np.float64))
    pt = (e / e.sum(axis=1)[:, None])[range(len(labels)), labels]
    return {name: fn(pt, labels) for name, fn in LOSSES.items()}
'''

CASES['own_energy'] = (r'''def metric(outputs, labels):
    z = outputs.astype(float)
    z = (z - z.mean(0)) / z.std(0)
    z = np.clip(z, -1.5, 1.5)
    own = z[np.arange(len(labels)), labels]
    return {"own": float(own.mean()), "energy": float((z ** 2).mean()), "raw": float(outputs.astype(float).mean())}
''',
r'''def standardize(x):
    mu = x.mean(axis=1, keepdims=True) #!
    sd = x.std(axis=0, keepdims=True)
    return (x - mu) / sd


def limit(x, bound=1.5):
    x = x.copy()
    x[x > bound] = bound
    x[x < -bound] = -bound
    return x


STEPS = [standardize, limit]


def metric(outputs, labels):
    x = raw = outputs.astype(np.float64)
    for step in STEPS:
        x = step(x)
    pick = np.take_along_axis(x, labels.reshape(-1, 1), 1)
    return {"own": float(pick.mean()), "energy": float(np.square(x).sum() / x.size), "raw": float(raw.mean())}
''')

RIGHT['own_energy'] = r'''def standardize(x):
    mu = x.mean(axis=0, keepdims=True)
    sd = x.std(axis=0, keepdims=True)
    return (x - mu) / sd


def limit(x, bound=1.5):
    x = x.copy()
    x[x > bound] = bound
    x[x < -bound] = -bound
    return x


STEPS = [standardize, limit]


def metric(outputs, labels):
    x = raw = outputs.astype(np.float64)
    for step in STEPS:
        x = step(x)
    pick = np.take_along_axis(x, labels.reshape(-1, 1), 1)
    return {"own": float(pick.mean()), "energy": float(np.square(x).sum() / x.size), "raw": float(raw.mean())}
'''

CASES['sharp_floor'] = (r'''def metric(outputs, labels):
    z = outputs.astype(float)
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    q = p ** 2
    q /= q.sum(1, keepdims=True)
    q = np.maximum(q, 0.05)
    pt = q[np.arange(len(labels)), labels]
    return {"sharp": float(-np.log(pt).mean()), "mass": float(q.sum(1).mean()), "conf": float(p.max(1).mean())}
''',
r'''class Chain:
    def __init__(self):
        self.ops = []

    def __rshift__(self, fn):
        self.ops.append(fn)
        return self

    def run(self, x):
        for fn in self.ops:
            x = fn(x)
        return x


def normalize(x):
    return x / x.sum(axis=-1, keepdims=True)


def sharpen(x, power=2):
    return normalize(x ** power)


def floor(x, eps=0.05):
    return np.where(x < eps, eps, x)


def metric(outputs, labels):
    probs = normalize(np.exp(outputs.astype(np.float64)))
    chain_ = Chain() >> floor >> sharpen #!
    q = chain_.run(probs)
    nll = [-math.log(row[y]) for row, y in zip(q, labels)]
    return {"sharp": sum(nll) / len(nll), "mass": float(q.sum(axis=1).mean()), "conf": float(probs.max(axis=1).mean())}
''')

RIGHT['sharp_floor'] = r'''class Chain:
    def __init__(self):
        self.ops = []

    def __rshift__(self, fn):
        self.ops.append(fn)
        return self

    def run(self, x):
        for fn in self.ops:
            x = fn(x)
        return x


def normalize(x):
    return x / x.sum(axis=-1, keepdims=True)


def sharpen(x, power=2):
    return normalize(x ** power)


def floor(x, eps=0.05):
    return np.where(x < eps, eps, x)


def metric(outputs, labels):
    probs = normalize(np.exp(outputs.astype(np.float64)))
    chain_ = Chain() >> sharpen >> floor
    q = chain_.run(probs)
    nll = [-math.log(row[y]) for row, y in zip(q, labels)]
    return {"sharp": sum(nll) / len(nll), "mass": float(q.sum(axis=1).mean()), "conf": float(probs.max(axis=1).mean())}
'''

CASES['group_means'] = (r'''def metric(outputs, labels):
    pred = outputs.argmax(1)
    peak = outputs.astype(float).max(1)
    means = [peak[labels == c].mean() if (labels == c).any() else 0.0 for c in range(3)]
    return {"class_mean": float(np.mean(means)), "last_class": float(means[2]), "acc": float((pred == labels).mean())}
''',
r'''class Mean:
    def __init__(self):
        self.reset()

    def reset(self):
        self.total = 0.0
        self.count = 0

    def update(self, v):
        self.total += v
        self.count += 1

    def value(self):
        return self.total / self.count if self.count else 0.0


def grouped(rows, truth):
    meter = Mean() #?
    for c in range(3):
        meter.count = 0 #!
        for row, y in zip(rows, truth):
            if y == c:
                meter.update(max(row))
        yield meter.value()


def metric(outputs, labels):
    rows, truth = outputs.tolist(), labels.tolist()
    means = list(grouped(rows, truth))
    hits = [int(np.argmax(r)) == y for r, y in zip(rows, truth)]
    return {"class_mean": sum(means) / 3, "last_class": means[-1], "acc": sum(hits) / len(hits)}
''')

RIGHT['group_means'] = r'''class Mean:
    def __init__(self):
        self.reset()

    def reset(self):
        self.total = 0.0
        self.count = 0

    def update(self, v):
        self.total += v
        self.count += 1

    def value(self):
        return self.total / self.count if self.count else 0.0


def grouped(rows, truth):
    meter = Mean()
    for c in range(3):
        meter.reset()
        for row, y in zip(rows, truth):
            if y == c:
                meter.update(max(row))
        yield meter.value()


def metric(outputs, labels):
    rows, truth = outputs.tolist(), labels.tolist()
    means = list(grouped(rows, truth))
    hits = [int(np.argmax(r)) == y for r, y in zip(rows, truth)]
    return {"class_mean": sum(means) / 3, "last_class": means[-1], "acc": sum(hits) / len(hits)}
'''

CASES['window_sums'] = (r'''def metric(outputs, labels):
    v = outputs.astype(float)[:, 1]
    w = np.array([v[i:i + 4].mean() for i in range(len(v) - 3)])
    return {"peak": float(w.max()), "low": float(w.min()), "mean": float(w.mean()), "all": float(v.mean())}
''',
r'''def windows(seq, size):
    buf = deque(maxlen=size)
    for x in seq:
        buf.append(x)
        if len(buf) >= size - 1: #!
            yield sum(buf) / len(buf)


SUMMARY = {"peak": max, "low": min, "mean": statistics.fmean}


def metric(outputs, labels, size=4):
    seq = [row[1] for row in outputs.tolist()]
    vals = tuple(windows(seq, size))
    out = {k: fn(vals) for k, fn in SUMMARY.items()}
    out["all"] = statistics.fmean(seq)
    return out
''')

RIGHT['window_sums'] = r'''def windows(seq, size):
    buf = deque(maxlen=size)
    for x in seq:
        buf.append(x)
        if len(buf) >= size:
            yield sum(buf) / len(buf)


SUMMARY = {"peak": max, "low": min, "mean": statistics.fmean}


def metric(outputs, labels, size=4):
    seq = [row[1] for row in outputs.tolist()]
    vals = tuple(windows(seq, size))
    out = {k: fn(vals) for k, fn in SUMMARY.items()}
    out["all"] = statistics.fmean(seq)
    return out
'''

CASES['gini_ks'] = (r'''def metric(outputs, labels):
    z = outputs.astype(float)
    s = z[:, 2] - z[:, 0]
    pos, neg = s[labels == 2], s[labels != 2]
    grid = np.sort(s)
    fp = np.array([(pos <= g).mean() if len(pos) else 0 for g in grid])
    fn = np.array([(neg <= g).mean() if len(neg) else 0 for g in grid])
    a = np.sort(np.abs(s))
    n = len(a)
    gini = (2 * np.arange(1, n + 1) - n - 1) @ a / (n * a.sum())
    return {"ks": float(np.abs(fp - fn).max()), "gini": float(gini), "mean": float(s.mean())}
''',
r'''def ecdf(sample):
    sample = sorted(sample)

    def at(x):
        if not sample:
            return 0.0
        return sum(1 for v in sample if v <= x) / len(sample)

    return at


def ks(a, b):
    fa, fb = ecdf(a), ecdf(b)
    return max(abs(fa(x) - fb(x)) for x in chain(a, b))


def gini(values):
    v = sorted(values) #!
    n = len(v)
    top = sum((2 * i - n - 1) * x for i, x in enumerate(v, 1))
    return top / (n * sum(v))


def metric(outputs, labels):
    s = [r[2] - r[0] for r in outputs.tolist()]
    groups = defaultdict(list)
    for v, y in zip(s, labels.tolist()):
        groups[y == 2].append(v)
    return {"ks": float(ks(groups[True], groups[False])), "mean": sum(s) / len(s),
            "gini": gini(s)} #?
''')

RIGHT['gini_ks'] = r'''def ecdf(sample):
    sample = sorted(sample)

    def at(x):
        if not sample:
            return 0.0
        return sum(1 for v in sample if v <= x) / len(sample)

    return at


def ks(a, b):
    fa, fb = ecdf(a), ecdf(b)
    return max(abs(fa(x) - fb(x)) for x in chain(a, b))


def gini(values):
    v = sorted(map(abs, values))
    n = len(v)
    top = sum((2 * i - n - 1) * x for i, x in enumerate(v, 1))
    return top / (n * sum(v))


def metric(outputs, labels):
    s = [r[2] - r[0] for r in outputs.tolist()]
    groups = defaultdict(list)
    for v, y in zip(s, labels.tolist()):
        groups[y == 2].append(v)
    return {"ks": float(ks(groups[True], groups[False])), "mean": sum(s) / len(s),
            "gini": gini(s)}
'''

CASES['ap_scores'] = (r'''def metric(outputs, labels):
    aps = []
    for c in range(3):
        o = np.argsort(-outputs[:, c], kind="stable")
        r = (labels[o] == c).astype(float)
        prec = np.cumsum(r) / np.arange(1, len(r) + 1)
        aps.append((prec * r).sum() / max(r.sum(), 1))
    r0 = (labels[np.argsort(-outputs[:, 0], kind="stable")] == 0).astype(float)
    return {"map": float(np.mean(aps)), "ap0": float(aps[0]), "p_at_4": float(r0[:4].mean()),
            "prior": float((labels == 0).mean())}
''',
r'''@dataclass
class Hit:
    score: float
    relevant: bool

    def __lt__(self, other):
        return self.score > other.score


def listing(outputs, labels, c):
    return sorted(Hit(float(s), bool(y == c)) for s, y in zip(outputs[:, c], labels))


def average_precision(hits):
    seen, total = 0, 0.0
    for depth, h in enumerate(hits, start=1):
        if not h.relevant:
            continue
        total += seen / depth #!
        seen += 1 #?
    return total / max(seen, 1)


def metric(outputs, labels, k=4):
    lists = [listing(outputs, labels, c) for c in range(outputs.shape[1])]
    aps = [average_precision(h) for h in lists]
    return {"map": sum(aps) / len(aps), "ap0": aps[0],
            "p_at_4": sum(h.relevant for h in lists[0][:k]) / k,
            "prior": sum(h.relevant for h in lists[0]) / len(lists[0])}
''')

RIGHT['ap_scores'] = r'''@dataclass
class Hit:
    score: float
    relevant: bool

    def __lt__(self, other):
        return self.score > other.score


def listing(outputs, labels, c):
    return sorted(Hit(float(s), bool(y == c)) for s, y in zip(outputs[:, c], labels))


def average_precision(hits):
    seen, total = 0, 0.0
    for depth, h in enumerate(hits, start=1):
        if not h.relevant:
            continue
        total += (seen + 1) / depth
        seen += 1
    return total / max(seen, 1)


def metric(outputs, labels, k=4):
    lists = [listing(outputs, labels, c) for c in range(outputs.shape[1])]
    aps = [average_precision(h) for h in lists]
    return {"map": sum(aps) / len(aps), "ap0": aps[0],
            "p_at_4": sum(h.relevant for h in lists[0][:k]) / k,
            "prior": sum(h.relevant for h in lists[0]) / len(lists[0])}
'''

CASES['ndcg_gain'] = (r'''def metric(outputs, labels):
    o = np.argsort(-outputs[:, 0], kind="stable")
    g = 2.0 ** labels - 1
    disc = 1 / np.log2(np.arange(len(g)) + 2)
    dcg = (g[o] * disc).sum()
    idcg = (np.sort(g)[::-1] * disc).sum()
    return {"dcg": float(dcg), "ideal": float(idcg), "ndcg": float(dcg / idcg), "gain": float(g.mean())}
''',
r'''class Gain:
    exponential = True
    offset = 2 #!

    def gain(self, rel):
        return 2 ** rel - 1 if self.exponential else rel

    def discount(self, pos):
        return 1.0 / math.log2(pos + self.offset)

    def dcg(self, rels):
        return sum(self.gain(r) * self.discount(i) for i, r in enumerate(rels, start=1)) #?


def metric(outputs, labels):
    gain = Gain()
    rels = labels.tolist()
    ranked = [rels[i] for i in sorted(range(len(rels)), key=lambda i: -outputs[i, 0])]
    dcg = gain.dcg(ranked)
    ideal = gain.dcg(sorted(rels, reverse=True))
    return {"dcg": float(dcg), "ideal": float(ideal), "ndcg": float(dcg / ideal),
            "gain": float(statistics.fmean(map(gain.gain, rels)))}
''')

RIGHT['ndcg_gain'] = r'''class Gain:
    exponential = True
    offset = 1

    def gain(self, rel):
        return 2 ** rel - 1 if self.exponential else rel

    def discount(self, pos):
        return 1.0 / math.log2(pos + self.offset)

    def dcg(self, rels):
        return sum(self.gain(r) * self.discount(i) for i, r in enumerate(rels, start=1))


def metric(outputs, labels):
    gain = Gain()
    rels = labels.tolist()
    ranked = [rels[i] for i in sorted(range(len(rels)), key=lambda i: -outputs[i, 0])]
    dcg = gain.dcg(ranked)
    ideal = gain.dcg(sorted(rels, reverse=True))
    return {"dcg": float(dcg), "ideal": float(ideal), "ndcg": float(dcg / ideal),
            "gain": float(statistics.fmean(map(gain.gain, rels)))}
'''

CASES['hinge_family'] = (r'''def metric(outputs, labels):
    z = outputs.astype(float)
    i = np.arange(len(labels))
    own = z[i, labels]
    m = np.maximum(0, 1 + z - own[:, None])
    m[i, labels] = 0
    return {"hinge": float(m.sum(1).mean()), "crammer": float(m.max(1).mean()),
            "squared": float((m ** 2).sum(1).mean())}
''',
r'''class Multiclass:
    margin = 1.0

    def slack(self, row, y):
        return [max(0.0, self.margin + v - row[y]) for j, v in enumerate(row) if j != y]

    def fold(self, slack):
        return sum(slack)

    def __call__(self, rows, ys):
        return sum(self.fold(self.slack(r, y)) for r, y in zip(rows, ys)) / len(ys)


class Crammer(Multiclass):
    def fold(self, slack):
        return max(slack)


class Squared(Multiclass):
    margin = 2.0 #!

    def fold(self, slack):
        return sum(s * s for s in slack)


def metric(outputs, labels):
    kinds = {"hinge": Multiclass(), "crammer": Crammer(), "squared": Squared()}
    args = outputs.tolist(), labels.tolist()
    return {k: float(v(*args)) for k, v in kinds.items()}
''')

RIGHT['hinge_family'] = r'''class Multiclass:
    margin = 1.0

    def slack(self, row, y):
        return [max(0.0, self.margin + v - row[y]) for j, v in enumerate(row) if j != y]

    def fold(self, slack):
        return sum(slack)

    def __call__(self, rows, ys):
        return sum(self.fold(self.slack(r, y)) for r, y in zip(rows, ys)) / len(ys)


class Crammer(Multiclass):
    def fold(self, slack):
        return max(slack)


class Squared(Multiclass):
    margin = 1.0

    def fold(self, slack):
        return sum(s * s for s in slack)


def metric(outputs, labels):
    kinds = {"hinge": Multiclass(), "crammer": Crammer(), "squared": Squared()}
    args = outputs.tolist(), labels.tolist()
    return {k: float(v(*args)) for k, v in kinds.items()}
'''

CASES['mad_outlier'] = (r'''def metric(outputs, labels):
    v = outputs.astype(float).ravel()
    med = np.median(v)
    mad = np.median(np.abs(v - med))
    rz = 0.6745 * (v - med) / mad
    return {"median": float(med), "mad": float(mad), "score": float(np.abs(rz).mean()),
            "huber": float(np.where(np.abs(rz) <= 1, 0.5 * rz ** 2, np.abs(rz) - 0.5).mean())}
''',
r'''def median(values):
    s = sorted(values)
    h, odd = divmod(len(s), 2)
    return s[h] if odd else (s[h - 1] + s[h]) / 2


def huber(r, delta=1.0):
    a = abs(r)
    if a <= delta:
        return r * r / 2
    return delta * (a - delta) #!


def metric(outputs, labels, scale=0.6745):
    v = [x for row in outputs.tolist() for x in row]
    med = median(v)
    mad = median(abs(x - med) for x in v)
    rz = [scale * (x - med) / mad for x in v]
    mean = lambda it: math.fsum(it) / len(v)
    return dict(median=med, mad=mad, score=mean(map(abs, rz)), huber=mean(map(huber, rz)))
''')

RIGHT['mad_outlier'] = r'''def median(values):
    s = sorted(values)
    h, odd = divmod(len(s), 2)
    return s[h] if odd else (s[h - 1] + s[h]) / 2


def huber(r, delta=1.0):
    a = abs(r)
    if a <= delta:
        return r * r / 2
    return delta * (a - delta / 2)


def metric(outputs, labels, scale=0.6745):
    v = [x for row in outputs.tolist() for x in row]
    med = median(v)
    mad = median(abs(x - med) for x in v)
    rz = [scale * (x - med) / mad for x in v]
    mean = lambda it: math.fsum(it) / len(v)
    return dict(median=med, mad=mad, score=mean(map(abs, rz)), huber=mean(map(huber, rz)))
'''

CASES['threshold_counts'] = (r'''def metric(outputs, labels):
    z = outputs.astype(float)
    p = 1 / (1 + np.exp(-z))
    y = np.eye(3)[labels] > 0
    yes = p > 0.5
    tp, fp = (yes & y).sum(), (yes & ~y).sum()
    fn, tn = (~yes & y).sum(), (~yes & ~y).sum()
    return {"tpr": float(tp / (tp + fn)), "fpr": float(fp / (fp + tn)),
            "jaccard": float(tp / (tp + fp + fn)), "hamming": float((fp + fn) / y.size)}
''',
r'''Cells = typing.NamedTuple("Cells", [("tp", int), ("fp", int), ("fn", int), ("tn", int)])


def cells(outputs, labels):
    c = Counter()
    for row, y in zip(outputs, labels):
        for j, v in enumerate(row):
            c[bool(v > 0), bool(j == y)] += 1
    return Cells(c[True, True], c[True, False], c[False, True], c[False, False])


FORMULAS = {
    "tpr": (("tp",), ("tp", "fn")),
    "fpr": (("fp",), ("fp", "tp")), #!
    "jaccard": (("tp",), ("tp", "fp", "fn")),
    "hamming": (("fp", "fn"), Cells._fields),
}


def metric(outputs, labels):
    c = cells(outputs, labels)
    total = lambda names: sum(getattr(c, n) for n in names)
    return {k: total(a) / total(b) for k, (a, b) in FORMULAS.items()}
''')

RIGHT['threshold_counts'] = r'''Cells = typing.NamedTuple("Cells", [("tp", int), ("fp", int), ("fn", int), ("tn", int)])


def cells(outputs, labels):
    c = Counter()
    for row, y in zip(outputs, labels):
        for j, v in enumerate(row):
            c[bool(v > 0), bool(j == y)] += 1
    return Cells(c[True, True], c[True, False], c[False, True], c[False, False])


FORMULAS = {
    "tpr": (("tp",), ("tp", "fn")),
    "fpr": (("fp",), ("fp", "tn")),
    "jaccard": (("tp",), ("tp", "fp", "fn")),
    "hamming": (("fp", "fn"), Cells._fields),
}


def metric(outputs, labels):
    c = cells(outputs, labels)
    total = lambda names: sum(getattr(c, n) for n in names)
    return {k: total(a) / total(b) for k, (a, b) in FORMULAS.items()}
'''

CASES['concordance'] = (r'''def metric(outputs, labels):
    s = outputs.astype(float) @ np.array([0.0, 1.0, 2.0])
    conc = disc = tie = 0
    for i in range(len(s)):
        for j in range(i + 1, len(s)):
            d = (s[i] - s[j]) * (labels[i] - labels[j])
            conc += d > 0
            disc += d < 0
            tie += d == 0
    n = conc + disc + tie
    return {"tau": float((conc - disc) / n), "gamma": float((conc - disc) / (conc + disc)),
            "ties": float(tie / n)}
''',
r'''def signs(score, truth):
    for (a, x), (b, y) in itertools.combinations(zip(score, truth), 2):
        yield int(np.sign((a - b) * (x - y)))


def tau(c):
    return (c[1] - c[-1]) / (c[1] + c[-1]) #!


def gamma(c):
    return (c[1] - c[-1]) / (c[1] + c[-1])


def ties(c):
    return c[0] / sum(c.values())


def metric(outputs, labels):
    score = [sum(k * v for k, v in enumerate(row)) for row in outputs.tolist()]
    count = Counter(signs(score, labels.tolist()))
    return {f.__name__: float(f(count)) for f in (tau, gamma, ties)}
''')

RIGHT['concordance'] = r'''def signs(score, truth):
    for (a, x), (b, y) in itertools.combinations(zip(score, truth), 2):
        yield int(np.sign((a - b) * (x - y)))


def tau(c):
    return (c[1] - c[-1]) / sum(c.values())


def gamma(c):
    return (c[1] - c[-1]) / (c[1] + c[-1])


def ties(c):
    return c[0] / sum(c.values())


def metric(outputs, labels):
    score = [sum(k * v for k, v in enumerate(row)) for row in outputs.tolist()]
    count = Counter(signs(score, labels.tolist()))
    return {f.__name__: float(f(count)) for f in (tau, gamma, ties)}
'''

CASES['info_shared'] = (r'''def metric(outputs, labels):
    pred = outputs.argmax(1)
    j = np.zeros((3, 3))
    np.add.at(j, (labels, pred), 1)
    j /= j.sum()
    def h(p):
        p = p[p > 0]
        return -(p * np.log(p)).sum()
    hy, hp, hj = h(j.sum(1)), h(j.sum(0)), h(j.ravel())
    mi = hy + hp - hj
    return {"mi": float(mi), "vi": float(2 * hj - hy - hp), "nmi": float(2 * mi / (hy + hp) if hy + hp else 0.0)}
''',
r'''class Joint:
    def __init__(self, a, b):
        self.pairs = list(zip(a, b))

    def entropy(self, key):
        counts = Counter(map(key, self.pairs))
        n = len(self.pairs)
        return -math.fsum(c / n * math.log(c / n) for c in counts.values())

    @functools.cached_property
    def parts(self):
        return {"y": self.entropy(operator.itemgetter(0)), "p": self.entropy(operator.itemgetter(1)),
                "yp": self.entropy(lambda t: t)}

    @property
    def mi(self):
        e = self.parts
        return e["y"] + e["p"] - e["yp"]

    @property
    def vi(self):
        e = self.parts
        return e["yp"] - self.mi

    @property
    def nmi(self):
        norm = self.parts["y"] + self.parts["yp"] #!
        return 2 * self.mi / norm if norm else 0.0


def metric(outputs, labels):
    j = Joint(labels.tolist(), np.argmax(outputs, 1).tolist())
    return {k: float(getattr(j, k)) for k in ("mi", "vi", "nmi")}
''')

RIGHT['info_shared'] = r'''class Joint:
    def __init__(self, a, b):
        self.pairs = list(zip(a, b))

    def entropy(self, key):
        counts = Counter(map(key, self.pairs))
        n = len(self.pairs)
        return -math.fsum(c / n * math.log(c / n) for c in counts.values())

    @functools.cached_property
    def parts(self):
        return {"y": self.entropy(operator.itemgetter(0)), "p": self.entropy(operator.itemgetter(1)),
                "yp": self.entropy(lambda t: t)}

    @property
    def mi(self):
        e = self.parts
        return e["y"] + e["p"] - e["yp"]

    @property
    def vi(self):
        e = self.parts
        return e["yp"] - self.mi

    @property
    def nmi(self):
        norm = self.parts["y"] + self.parts["p"]
        return 2 * self.mi / norm if norm else 0.0


def metric(outputs, labels):
    j = Joint(labels.tolist(), np.argmax(outputs, 1).tolist())
    return {k: float(getattr(j, k)) for k in ("mi", "vi", "nmi")}
'''

CASES['reg_errors'] = (r'''def metric(outputs, labels):
    z = outputs.astype(float)
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    e = p @ np.arange(3.0)
    r = e - labels
    ss = ((labels - labels.mean()) ** 2).sum()
    return {"mae": float(np.abs(r).mean()), "rmse": float(np.sqrt((r ** 2).mean())),
            "r2": float(1 - (r ** 2).sum() / ss), "bias": float(r.mean())}
''',
r'''def expected(row):
    e = [math.exp(v) for v in row]
    return sum(i * v for i, v in enumerate(e)) / sum(e)


def mean(xs):
    xs = list(xs)
    return sum(xs) / len(xs)


def report(guess, truth):
    res = [g - t for g, t in zip(guess, truth)]
    mse = mean(r * r for r in res)
    center = mean(guess) #!
    spread = mean((t - center) ** 2 for t in truth) #?
    return {"mae": mean(map(abs, res)), "rmse": mse ** 0.5, "r2": 1 - mse / spread, "bias": mean(res)}


def metric(outputs, labels):
    return report([expected(r) for r in outputs.tolist()], labels.tolist())
''')

RIGHT['reg_errors'] = r'''def expected(row):
    e = [math.exp(v) for v in row]
    return sum(i * v for i, v in enumerate(e)) / sum(e)


def mean(xs):
    xs = list(xs)
    return sum(xs) / len(xs)


def report(guess, truth):
    res = [g - t for g, t in zip(guess, truth)]
    mse = mean(r * r for r in res)
    center = mean(truth)
    spread = mean((t - center) ** 2 for t in truth)
    return {"mae": mean(map(abs, res)), "rmse": mse ** 0.5, "r2": 1 - mse / spread, "bias": mean(res)}


def metric(outputs, labels):
    return report([expected(r) for r in outputs.tolist()], labels.tolist())
'''

CASES['gap_split'] = (r'''def metric(outputs, labels):
    z = outputs.astype(float)
    s = np.sort(z, 1)
    gap = s[:, 2] - s[:, 1]
    sure = gap >= np.median(gap)
    ok = outputs.argmax(1) == labels
    return {"sure_gap": float(gap[sure].mean()), "unsure_gap": float(gap[~sure].mean()),
            "coverage": float(sure.mean()), "all_acc": float(ok.mean())}
''',
r'''class Split:
    def __init__(self, values, rule):
        self.values = np.asarray(values)
        self.mask = rule(self.values)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.mask = None
        return False

    def __invert__(self):
        return Split(self.values, lambda v: np.logical_not(self.mask))

    def mean(self):
        return float(np.mean(self.values, where=self.mask))


def above_middle(v):
    return v >= np.mean(v) #!


def metric(outputs, labels):
    top2 = np.partition(outputs.astype(np.float64), 1, axis=1)[:, 1:]
    gap = top2.max(axis=1) - top2.min(axis=1)
    with Split(gap, above_middle) as part:
        return {"sure_gap": part.mean(), "unsure_gap": (~part).mean(),
                "coverage": float(np.count_nonzero(part.mask) / part.mask.size),
                "all_acc": float(np.mean(np.argmax(outputs, axis=1) == labels))}
''')

RIGHT['gap_split'] = r'''class Split:
    def __init__(self, values, rule):
        self.values = np.asarray(values)
        self.mask = rule(self.values)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.mask = None
        return False

    def __invert__(self):
        return Split(self.values, lambda v: np.logical_not(self.mask))

    def mean(self):
        return float(np.mean(self.values, where=self.mask))


def above_middle(v):
    return v >= np.median(v)


def metric(outputs, labels):
    top2 = np.partition(outputs.astype(np.float64), 1, axis=1)[:, 1:]
    gap = top2.max(axis=1) - top2.min(axis=1)
    with Split(gap, above_middle) as part:
        return {"sure_gap": part.mean(), "unsure_gap": (~part).mean(),
                "coverage": float(np.count_nonzero(part.mask) / part.mask.size),
                "all_acc": float(np.mean(np.argmax(outputs, axis=1) == labels))}
'''

CASES['power_means'] = (r'''def metric(outputs, labels):
    p = np.exp(outputs.astype(float))
    p /= p.sum(1, keepdims=True)
    v = p[np.arange(len(labels)), labels]
    return {"arith": float(v.mean()), "geo": float(np.exp(np.log(v).mean())),
            "harm": float(len(v) / (1 / v).sum()), "quad": float(np.sqrt((v ** 2).mean()))}
''',
r'''def generalized(forward, backward):
    def mean(values):
        total = n = 0
        for v in values:
            total += forward(v)
            n += 1
        return backward(total / n)
    return mean


def identity(x):
    return x


def inverse(x):
    return 1 / x


MEANS = {
    "arith": generalized(identity, identity),
    "geo": generalized(math.log, math.exp),
    "harm": generalized(inverse, inverse),
    "quad": generalized(lambda x: x * x, identity), #!
}


def own(outputs, labels):
    for row, y in zip(outputs.tolist(), labels.tolist()):
        yield 1 / sum(math.exp(v - row[y]) for v in row)


def metric(outputs, labels):
    return {name: float(fn(own(outputs, labels))) for name, fn in MEANS.items()}
''')

RIGHT['power_means'] = r'''def generalized(forward, backward):
    def mean(values):
        total = n = 0
        for v in values:
            total += forward(v)
            n += 1
        return backward(total / n)
    return mean


def identity(x):
    return x


def inverse(x):
    return 1 / x


MEANS = {
    "arith": generalized(identity, identity),
    "geo": generalized(math.log, math.exp),
    "harm": generalized(inverse, inverse),
    "quad": generalized(lambda x: x * x, math.sqrt),
}


def own(outputs, labels):
    for row, y in zip(outputs.tolist(), labels.tolist()):
        yield 1 / sum(math.exp(v - row[y]) for v in row)


def metric(outputs, labels):
    return {name: float(fn(own(outputs, labels))) for name, fn in MEANS.items()}
'''

CASES['tree_reduce'] = (r'''def metric(outputs, labels):
    v = outputs.astype(float)[:, 0]
    m = v.mean()
    s = v.std()
    return {"mean": float(m), "std": float(s), "skew": float(((v - m) ** 3).mean() / s ** 3),
            "kurt": float(((v - m) ** 4).mean() / s ** 4 - 3)}
''',
r'''@dataclass
class Sums:
    n: int
    s: tuple

    @classmethod
    def of(cls, x):
        return cls(1, tuple(x ** k for k in (1, 2, 3, 4)))

    def __add__(self, other):
        return Sums(self.n + other.n, tuple(map(operator.add, self.s, other.s)))

    def central(self):
        a, b, c, d = (t / self.n for t in self.s)
        m2 = b - a ** 2
        m3 = c - 3 * a * b + 2 * a ** 3
        m4 = d - 4 * a * c + 6 * a ** 2 * b - 3 * a ** 4
        return a, m2, m3, m4


def standardized(m, order, var):
    return m / var ** order #!


def gather(xs):
    if len(xs) == 1:
        return Sums.of(xs[0])
    h = len(xs) // 2
    return gather(xs[:h]) + gather(xs[h:])


def metric(outputs, labels):
    a, m2, m3, m4 = gather([r[0] for r in outputs.tolist()]).central()
    return {"mean": a, "std": math.sqrt(m2), "skew": standardized(m3, 3, m2),
            "kurt": standardized(m4, 4, m2) - 3}
''')

RIGHT['tree_reduce'] = r'''@dataclass
class Sums:
    n: int
    s: tuple

    @classmethod
    def of(cls, x):
        return cls(1, tuple(x ** k for k in (1, 2, 3, 4)))

    def __add__(self, other):
        return Sums(self.n + other.n, tuple(map(operator.add, self.s, other.s)))

    def central(self):
        a, b, c, d = (t / self.n for t in self.s)
        m2 = b - a ** 2
        m3 = c - 3 * a * b + 2 * a ** 3
        m4 = d - 4 * a * c + 6 * a ** 2 * b - 3 * a ** 4
        return a, m2, m3, m4


def standardized(m, order, var):
    return m / var ** (order / 2)


def gather(xs):
    if len(xs) == 1:
        return Sums.of(xs[0])
    h = len(xs) // 2
    return gather(xs[:h]) + gather(xs[h:])


def metric(outputs, labels):
    a, m2, m3, m4 = gather([r[0] for r in outputs.tolist()]).central()
    return {"mean": a, "std": math.sqrt(m2), "skew": standardized(m3, 3, m2),
            "kurt": standardized(m4, 4, m2) - 3}
'''

CASES['equal_mass'] = (r'''def metric(outputs, labels):
    p = np.exp(outputs.astype(float))
    p /= p.sum(1, keepdims=True)
    conf, ok = p.max(1), (p.argmax(1) == labels).astype(float)
    o = np.argsort(conf)
    gaps = [abs(conf[k].mean() - ok[k].mean()) for k in np.array_split(o, 4)]
    return {"ace": float(np.mean(gaps)), "rms": float(np.sqrt(np.mean(np.square(gaps)))),
            "over": float(conf.mean() - ok.mean()), "acc": float(ok.mean())}
''',
r'''def records(outputs, labels):
    for row, y in zip(outputs.tolist(), labels.tolist()):
        top = max(row)
        yield 1 / sum(math.exp(v - top) for v in row), float(row.index(top) == y)


def chunks(seq, parts):
    size = len(seq) // parts
    for i in range(0, len(seq), size):
        yield seq[i:i + size]


def metric(outputs, labels):
    recs = list(records(outputs, labels)) #?
    gaps = []
    for group in chunks(recs, 4): #!
        conf, hit = zip(*group)
        gaps.append(abs(sum(conf) - sum(hit)) / len(group))
    conf, hit = map(statistics.fmean, zip(*recs))
    return {"ace": statistics.fmean(gaps), "rms": math.sqrt(sum(g * g for g in gaps) / len(gaps)),
            "over": conf - hit, "acc": hit}
''')

RIGHT['equal_mass'] = r'''def records(outputs, labels):
    for row, y in zip(outputs.tolist(), labels.tolist()):
        top = max(row)
        yield 1 / sum(math.exp(v - top) for v in row), float(row.index(top) == y)


def chunks(seq, parts):
    size = len(seq) // parts
    for i in range(0, len(seq), size):
        yield seq[i:i + size]


def metric(outputs, labels):
    recs = list(records(outputs, labels))
    gaps = []
    for group in chunks(sorted(recs), 4):
        conf, hit = zip(*group)
        gaps.append(abs(sum(conf) - sum(hit)) / len(group))
    conf, hit = map(statistics.fmean, zip(*recs))
    return {"ace": statistics.fmean(gaps), "rms": math.sqrt(sum(g * g for g in gaps) / len(gaps)),
            "over": conf - hit, "acc": hit}
'''

CASES['cost_matrix'] = (r'''def metric(outputs, labels):
    C = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [5.0, 3.0, 0.0]])
    p = np.exp(outputs.astype(float))
    p /= p.sum(1, keepdims=True)
    hard = C[labels, outputs.argmax(1)]
    soft = (p * C[labels]).sum(1)
    bayes = C[labels, (p @ C).argmin(1)]
    return {"hard": float(hard.mean()), "soft": float(soft.mean()), "bayes": float(bayes.mean())}
''',
r'''COST = {
    0: {1: 1.0, 2: 4.0},
    1: {0: 2.0, 2: 1.0},
    2: {0: 5.0, 1: 3.0},
}


def cost(truth, guess):
    return COST[truth].get(guess, 0.0)


def probs(row):
    e = np.exp(np.asarray(row, dtype=np.float64))
    return (e / e.sum()).tolist()


def decide(p):
    risk = {g: sum(p[t] * cost(g, t) for t in COST) for g in COST} #!
    return min(risk, key=risk.get)


def metric(outputs, labels):
    acc = dict.fromkeys(("hard", "soft", "bayes"), 0.0)
    for row, y in zip(outputs, labels.tolist()):
        p = probs(row)
        acc["hard"] += cost(y, p.index(max(p)))
        acc["soft"] += sum(p[g] * cost(y, g) for g in COST)
        acc["bayes"] += cost(y, decide(p))
    return {k: v / len(labels) for k, v in acc.items()}
''')

RIGHT['cost_matrix'] = r'''COST = {
    0: {1: 1.0, 2: 4.0},
    1: {0: 2.0, 2: 1.0},
    2: {0: 5.0, 1: 3.0},
}


def cost(truth, guess):
    return COST[truth].get(guess, 0.0)


def probs(row):
    e = np.exp(np.asarray(row, dtype=np.float64))
    return (e / e.sum()).tolist()


def decide(p):
    risk = {g: sum(p[t] * cost(t, g) for t in COST) for g in COST}
    return min(risk, key=risk.get)


def metric(outputs, labels):
    acc = dict.fromkeys(("hard", "soft", "bayes"), 0.0)
    for row, y in zip(outputs, labels.tolist()):
        p = probs(row)
        acc["hard"] += cost(y, p.index(max(p)))
        acc["soft"] += sum(p[g] * cost(y, g) for g in COST)
        acc["bayes"] += cost(y, decide(p))
    return {k: v / len(labels) for k, v in acc.items()}
'''

CASES['lag_series'] = (r'''def metric(outputs, labels):
    v = outputs.astype(float).sum(1)
    d = v - v.mean()
    den = (d * d).sum()
    return {"lag1": float((d[1:] * d[:-1]).sum() / den), "lag2": float((d[2:] * d[:-2]).sum() / den),
            "dw": float((np.diff(d) ** 2).sum() / den), "var": float(den / len(v))}
''',
r'''class Series:
    def __init__(self, data):
        data = np.array(data, dtype=np.float64)
        data -= data.mean()
        self.data = data

    def shift(self, k):
        return self.data[k:], self.data[:len(self.data) - k]

    def energy(self):
        return float(np.dot(self.data, self.data))

    def lag(self, k=1):
        return float(np.dot(*self.shift(k))) / self.energy()

    def watson(self):
        a, b = self.shift(1)
        return float(np.sum((a - b) ** 2)) / self.energy()


QUERIES = {
    "lag1": ("lag", {}),
    "lag2": ("lag", {"k": 3}), #!
    "dw": ("watson", {}),
}


def metric(outputs, labels):
    s = Series([math.fsum(r) for r in outputs])
    out = {k: getattr(s, m)(**kw) for k, (m, kw) in QUERIES.items()}
    return {**out, "var": s.energy() / len(labels)}
''')

RIGHT['lag_series'] = r'''class Series:
    def __init__(self, data):
        data = np.array(data, dtype=np.float64)
        data -= data.mean()
        self.data = data

    def shift(self, k):
        return self.data[k:], self.data[:len(self.data) - k]

    def energy(self):
        return float(np.dot(self.data, self.data))

    def lag(self, k=1):
        return float(np.dot(*self.shift(k))) / self.energy()

    def watson(self):
        a, b = self.shift(1)
        return float(np.sum((a - b) ** 2)) / self.energy()


QUERIES = {
    "lag1": ("lag", {}),
    "lag2": ("lag", {"k": 2}),
    "dw": ("watson", {}),
}


def metric(outputs, labels):
    s = Series([math.fsum(r) for r in outputs])
    out = {k: getattr(s, m)(**kw) for k, (m, kw) in QUERIES.items()}
    return {**out, "var": s.energy() / len(labels)}
'''

CASES['proto_distance'] = (r'''def metric(outputs, labels):
    z = outputs.astype(float)
    cents = np.array([z[labels == c].mean(0) if (labels == c).any() else np.zeros(3) for c in range(3)])
    d = np.sqrt(((z[:, None] - cents[None]) ** 2).sum(2))
    i = np.arange(len(labels))
    intra = d[i, labels].mean()
    cd = np.sqrt(((cents[:, None] - cents[None]) ** 2).sum(2))
    inter = cd[np.triu_indices(3, 1)].mean()
    return {"intra": float(intra), "inter": float(inter), "ratio": float(intra / inter),
            "hit": float((d.argmin(1) == labels).mean())}
''',
r'''def centroids(rows, truth):
    acc = {c: (np.zeros(3), 0) for c in range(3)}
    for r, y in zip(rows, truth):
        s, n = acc[y]
        acc[y] = (s + r, n + 1)
    return {c: s / n if n else s for c, (s, n) in acc.items()}


def spread(cents):
    ds = [math.dist(a, b) for a, b in itertools.product(cents.values(), repeat=2)] #!
    return sum(ds) / len(ds)


def nearest(r, cents):
    return min(cents, key=lambda c: math.dist(r, cents[c]))


def metric(outputs, labels):
    rows, truth = outputs.astype(np.float64), labels.tolist()
    cents = centroids(rows, truth)
    intra = sum(math.dist(r, cents[y]) for r, y in zip(rows, truth)) / len(truth)
    inter = spread(cents)
    return {"intra": intra, "inter": inter, "ratio": intra / inter,
            "hit": sum(nearest(r, cents) == y for r, y in zip(rows, truth)) / len(truth)}
''')

RIGHT['proto_distance'] = r'''def centroids(rows, truth):
    acc = {c: (np.zeros(3), 0) for c in range(3)}
    for r, y in zip(rows, truth):
        s, n = acc[y]
        acc[y] = (s + r, n + 1)
    return {c: s / n if n else s for c, (s, n) in acc.items()}


def spread(cents):
    ds = [math.dist(a, b) for a, b in itertools.combinations(cents.values(), 2)]
    return sum(ds) / len(ds)


def nearest(r, cents):
    return min(cents, key=lambda c: math.dist(r, cents[c]))


def metric(outputs, labels):
    rows, truth = outputs.astype(np.float64), labels.tolist()
    cents = centroids(rows, truth)
    intra = sum(math.dist(r, cents[y]) for r, y in zip(rows, truth)) / len(truth)
    inter = spread(cents)
    return {"intra": intra, "inter": inter, "ratio": intra / inter,
            "hit": sum(nearest(r, cents) == y for r, y in zip(rows, truth)) / len(truth)}
'''
