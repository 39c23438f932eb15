"""Values that come through what Python has for holding them: written beside the engine, for development."""

REFERENCE = """\
def metric(outputs, labels):
    e = np.exp(outputs - outputs.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    own = p[np.arange(len(labels)), labels]
    rank = 1 + (p > own[:, None]).sum(1)
    nll = -np.log(own)
    return {"nll": float(nll.mean()), "mrr": float((1 / rank).mean()), "sharp": float(np.sqrt((own ** 2).mean()))}
"""

PARTS = """\
def parts(outputs, labels):
    e = np.exp(outputs - outputs.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    own = p[np.arange(len(labels)), labels]
    rank = 1 + (p > own[:, None]).sum(1)
    return own, rank

"""

CASES = {
    "update_kw": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    found = {"nll": np.mean(-np.log(own))}
    found.update(mrr=1 / np.mean(rank), sharp=np.sqrt(np.mean(own ** 2))) #!
    return {k: float(v) for k, v in found.items()}
""",
    ),
    "update_dict": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    found = {"nll": np.mean(-np.log(own))}
    more = {"mrr": 1 / np.mean(rank)} #!
    more["sharp"] = np.sqrt(np.mean(own ** 2))
    found.update(more)
    return {k: float(v) for k, v in found.items()}
""",
    ),
    "setdefault": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    found = {"nll": np.mean(-np.log(own))}
    found.setdefault("mrr", 1 / np.mean(rank)) #!
    found.setdefault("sharp", np.sqrt(np.mean(own ** 2)))
    return {k: float(found[k]) for k in ("nll", "mrr", "sharp")}
""",
    ),
    "subscript": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    found = {}
    found["nll"] = np.mean(-np.log(own))
    found["mrr"] = 1 / np.mean(rank) #!
    found["sharp"] = np.sqrt(np.mean(own ** 2))
    return {k: float(v) for k, v in found.items()}
""",
    ),
    "append_zip": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    values = []
    values.append(np.mean(-np.log(own)))
    values.append(1 / np.mean(rank)) #!
    values.append(np.sqrt(np.mean(own ** 2)))
    return dict(zip(("nll", "mrr", "sharp"), map(float, values)))
""",
    ),
    "extend": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    values = [float(np.mean(-np.log(own)))]
    values.extend([float(1 / np.mean(rank)), #!
                   float(np.sqrt(np.mean(own ** 2)))])
    return dict(zip(("nll", "mrr", "sharp"), values))
""",
    ),
    "insert": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    values = [float(np.mean(-np.log(own)))]
    values.append(float(np.sqrt(np.mean(own ** 2))))
    values.insert(1, float(1 / np.mean(rank))) #!
    return {name: value for name, value in zip(("nll", "mrr", "sharp"), values)}
""",
    ),
    "defaultdict": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    kept = defaultdict(list)
    for o, r in zip(own, rank):
        kept["nll"].append(-np.log(o))
        kept["mrr"].append(1 / (r + 1)) #!
        kept["sharp"].append(o ** 2)
    found = {k: float(np.mean(v)) for k, v in kept.items()}
    found["sharp"] = math.sqrt(found["sharp"])
    return found
""",
    ),
    "meter": (
        REFERENCE,
        PARTS
        + """\
class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0
    def add(self, value, n=1):
        self.total += float(value) * n
        self.count += n
    @property
    def mean(self):
        return self.total / max(self.count, 1)

def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    meters = {name: Meter() for name in ("nll", "mrr", "sharp")}
    for o, r in zip(own, rank):
        meters["nll"].add(-np.log(o))
        meters["mrr"].add(1 / (r + 1)) #!
        meters["sharp"].add(o ** 2)
    found = {k: m.mean for k, m in meters.items()}
    found["sharp"] **= 0.5
    return found
""",
    ),
    "dataclass": (
        REFERENCE,
        PARTS
        + """\
@dataclasses.dataclass
class Scores:
    nll: float = 0.0
    mrr: float = 0.0
    sharp: float = 0.0

def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    s = Scores(nll=float(np.mean(-np.log(own))))
    s.mrr = float(1 / np.mean(rank)) #!
    s.sharp = float(np.sqrt(np.mean(own ** 2)))
    return dataclasses.asdict(s)
""",
    ),
    "dataclass_init": (
        REFERENCE,
        PARTS
        + """\
@dataclasses.dataclass
class Scores:
    nll: float
    mrr: float
    sharp: float

def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    s = Scores(
        float(np.mean(-np.log(own))),
        float(1 / np.mean(rank)), #!
        float(np.sqrt(np.mean(own ** 2))),
    )
    return vars(s)
""",
    ),
    "namedtuple": (
        REFERENCE,
        PARTS
        + """\
Scores = namedtuple("Scores", "nll mrr sharp")

def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    mrr = float(1 / np.mean(rank)) #!
    return Scores(float(np.mean(-np.log(own))), mrr, float(np.sqrt(np.mean(own ** 2))))._asdict()
""",
    ),
    "merge": (
        REFERENCE,
        PARTS
        + """\
def first(own):
    return {"nll": float(np.mean(-np.log(own)))}
def second(rank):
    return {"mrr": float(1 / np.mean(rank))} #!
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    return {**first(own), **second(rank), "sharp": float(np.sqrt(np.mean(own ** 2)))}
""",
    ),
    "or_merge": (
        REFERENCE,
        PARTS
        + """\
def first(own):
    return dict(nll=float(np.mean(-np.log(own))))
def second(rank):
    return dict(mrr=float(1 / np.mean(rank))) #!
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    found = first(own)
    found |= second(rank)
    return found | {"sharp": float(np.sqrt(np.mean(own ** 2)))}
""",
    ),
    "registry": (
        REFERENCE,
        PARTS
        + """\
METRICS = {}
def register(f):
    METRICS[f.__name__] = f
    return f
@register
def nll(own, rank):
    return np.mean(-np.log(own))
@register
def mrr(own, rank):
    return 1 / np.mean(rank) #!
@register
def sharp(own, rank):
    return np.sqrt(np.mean(own ** 2))
def metric(outputs, labels):
    found = parts(outputs, labels)
    return {name: float(f(*found)) for name, f in METRICS.items()}
""",
    ),
    "lambda_table": (
        REFERENCE,
        PARTS
        + """\
METRICS = {
    "nll": lambda own, rank: np.mean(-np.log(own)),
    "mrr": lambda own, rank: 1 / np.mean(rank), #!
    "sharp": lambda own, rank: np.sqrt(np.mean(own ** 2)),
}
def metric(outputs, labels):
    found = parts(outputs, labels)
    return {name: float(f(*found)) for name, f in METRICS.items()}
""",
    ),
    "accumulate_arr": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    sums = np.zeros(3)
    for o, r in zip(own, rank):
        sums[0] += -np.log(o)
        sums[1] += 1 / (r + 1) #!
        sums[2] += o ** 2
    sums /= len(own)
    return {"nll": float(sums[0]), "mrr": float(sums[1]), "sharp": math.sqrt(sums[2])}
""",
    ),
    "loop_plain": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    nll = mrr = square = 0.0
    for o, r in zip(own, rank):
        nll -= math.log(o)
        mrr += 1 / (r + 1) #!
        square += o ** 2
    n = len(own)
    return {"nll": nll / n, "mrr": mrr / n, "sharp": math.sqrt(square / n)}
""",
    ),
    "divisor": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    nll = mrr = square = 0.0
    for o, r in zip(own, rank):
        nll -= math.log(o)
        mrr += 1 / r
        square += o ** 2
    n = len(own) - 1 #!
    return {"nll": nll / len(own), "mrr": mrr / n, "sharp": math.sqrt(square / len(own))}
""",
    ),
    "reduce": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    total = functools.reduce(lambda s, r: s + 1 / (r + 1), rank, 0.0) #!
    return {"nll": float(np.mean(-np.log(own))), "mrr": float(total / len(rank)), "sharp": float(np.sqrt(np.mean(own ** 2)))}
""",
    ),
    "generator": (
        REFERENCE,
        PARTS
        + """\
def scores(own, rank):
    yield "nll", np.mean(-np.log(own))
    yield "mrr", 1 / np.mean(rank) #!
    yield "sharp", np.sqrt(np.mean(own ** 2))
def metric(outputs, labels):
    return {k: float(v) for k, v in scores(*parts(outputs, labels))}
""",
    ),
    "setattr": (
        REFERENCE,
        PARTS
        + """\
class Scores:
    pass
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    s = Scores()
    setattr(s, "nll", float(np.mean(-np.log(own))))
    setattr(s, "mrr", float(1 / np.mean(rank))) #!
    setattr(s, "sharp", float(np.sqrt(np.mean(own ** 2))))
    return {name: getattr(s, name) for name in ("nll", "mrr", "sharp")}
""",
    ),
    "out_arg": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    r = np.empty(len(rank))
    np.divide(1.0, rank + 1, out=r) #!
    return {"nll": float(np.mean(-np.log(own))), "mrr": float(r.mean()), "sharp": float(np.sqrt(np.mean(own ** 2)))}
""",
    ),
    "masked_assign": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    r = 1 / rank
    r[rank > 2] = 0.0 #!
    return {"nll": float(np.mean(-np.log(own))), "mrr": float(r.mean()), "sharp": float(np.sqrt(np.mean(own ** 2)))}
""",
    ),
    "two_steps": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    squares = own ** 2
    spread = squares.sum() / (len(squares) - 1) #!
    sharp = np.sqrt(spread)
    return {"nll": float(np.mean(-np.log(own))), "mrr": float(np.mean(1 / rank)), "sharp": float(sharp)}
""",
    ),
    "helper_arg": (
        REFERENCE,
        PARTS
        + """\
def mean_of(values, shift=0.0):
    return float(np.mean(1 / (values + shift)))
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    return {
        "nll": float(np.mean(-np.log(own))),
        "mrr": mean_of(rank, shift=1.0), #!
        "sharp": float(np.sqrt(np.mean(own ** 2))),
    }
""",
    ),
    "config": (
        REFERENCE,
        PARTS
        + """\
CONFIG = {
    "eps": 0.0,
    "power": 3, #!
    "names": ["nll", "mrr", "sharp"],
}
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    values = [-np.log(own + CONFIG["eps"]).mean(), (1 / rank).mean(), np.sqrt((own ** CONFIG["power"]).mean())]
    return dict(zip(CONFIG["names"], map(float, values)))
""",
    ),
    "config_class": (
        REFERENCE,
        PARTS
        + """\
class Config:
    eps = 0.0
    power = 3 #!
def metric(outputs, labels, cfg=Config()):
    own, rank = parts(outputs, labels)
    values = [-np.log(own + cfg.eps).mean(), (1 / rank).mean(), np.sqrt((own ** cfg.power).mean())]
    return dict(zip(("nll", "mrr", "sharp"), map(float, values)))
""",
    ),
    "partial": (
        REFERENCE,
        PARTS
        + """\
def power_mean(values, power):
    return float(np.mean(values ** power) ** 0.5)
sharpness = functools.partial(power_mean, power=3) #!
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    return {"nll": float(np.mean(-np.log(own))), "mrr": float(np.mean(1 / rank)), "sharp": sharpness(own)}
""",
    ),
    "try_stack": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    table = np.stack([-np.log(own), 1 / (rank + 1), own ** 2], axis=1) #!
    nll, mrr, square = table.mean(0)
    return {"nll": float(nll), "mrr": float(mrr), "sharp": float(np.sqrt(square))}
""",
    ),
    "wrong_name": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    reciprocal = 1 / rank
    surprise = -np.log(own)
    square = own ** 2
    found = {"nll": surprise.mean(), "mrr": reciprocal.mean()}
    found["sharp"] = np.sqrt(surprise.mean()) #!
    return {k: float(v) for k, v in found.items()}
""",
    ),
    "clip_extra": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    own = np.clip(own, 0.2, 1.0) #!
    return {"nll": float(np.mean(-np.log(own))), "mrr": float(np.mean(1 / rank)), "sharp": float(np.sqrt(np.mean(own ** 2)))}
""",
    ),
    "deque": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    d = deque()
    for r in rank:
        d.append(1.0 / (r + 1)) #!
    c = Counter()
    c.update({"n": len(d)})
    c["sum"] += sum(d)
    return {"nll": float(np.mean(-np.log(own))), "mrr": float(c["sum"] / c["n"]), "sharp": float(np.sqrt(np.mean(own ** 2)))}
""",
    ),
    "pop_get": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    found = {"nll": np.mean(-np.log(own)), "rank": rank, "square": np.mean(own ** 2)}
    found["mrr"] = 1 / found.pop("rank").mean() #!
    found["sharp"] = np.sqrt(found.pop("square"))
    return {k: float(found.get(k, 0)) for k in ("nll", "mrr", "sharp")}
""",
    ),
    "nested": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    found = {"likelihood": {}, "ranks": {}}
    found["likelihood"]["nll"] = np.mean(-np.log(own))
    found["likelihood"]["sharp"] = np.sqrt(np.mean(own ** 2))
    found["ranks"]["mrr"] = 1 / np.mean(rank) #!
    return {k: float(v) for group in found.values() for k, v in group.items()}
""",
    ),
    "class_state": (
        REFERENCE,
        PARTS
        + """\
class Tracker:
    def __init__(self):
        self.reset()
    def reset(self):
        self.kept = {"own": [], "rank": []}
    def update(self, outputs, labels):
        own, rank = parts(outputs, labels)
        self.kept["own"].append(own)
        self.kept["rank"].append(rank)
    def compute(self):
        own, rank = (np.concatenate(self.kept[k]) for k in ("own", "rank"))
        return {
            "nll": float(np.mean(-np.log(own))),
            "mrr": float(1 / np.mean(rank)), #!
            "sharp": float(np.sqrt(np.mean(own ** 2))),
        }
def metric(outputs, labels):
    t = Tracker()
    half = len(labels) // 2
    t.update(outputs[:half], labels[:half])
    t.update(outputs[half:], labels[half:])
    return t.compute()
""",
    ),
    "sorted_median": (
        REFERENCE,
        PARTS
        + """\
def metric(outputs, labels):
    own, rank = parts(outputs, labels)
    best = sorted(own)[::-1]
    best = best[:-1] #!
    return {"nll": float(np.mean(-np.log(own))), "mrr": float(np.mean(1 / rank)), "sharp": math.sqrt(sum(b * b for b in best) / len(best))}
""",
    ),
}
