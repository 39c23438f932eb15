"""Two-level anchor detector (RetinaNet style): focal loss, GIoU, class-wise NMS, AP."""
import math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

STRIDES, RATIOS, SCALES, NC = (8, 16), (0.5, 1.0, 2.0), (1.0, 1.5874), 3
IMG = (32, 40)


def make_anchors():
    out = []
    for s in STRIDES:
        base = 2.0 * s
        for i in range(math.ceil(IMG[0] / s)):
            for j in range(math.ceil(IMG[1] / s)):
                cx, cy = (j + 0.5) * s, (i + 0.5) * s
                for r in RATIOS:
                    for sc in SCALES:
                        w, h = base * sc / math.sqrt(r), base * sc * math.sqrt(r)
                        out.append([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2])
    return torch.tensor(out)


def area(b):
    return (b[..., 2] - b[..., 0]).clamp(min=0) * (b[..., 3] - b[..., 1]).clamp(min=0)


def iou_matrix(a, b):
    lt = torch.max(a[:, None, :2], b[None, :, :2])
    rb = torch.min(a[:, None, 2:], b[None, :, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[..., 0] * wh[..., 1]
    return inter / (area(a)[:, None] + area(b)[None] - inter)


class Scenes(torch.utils.data.Dataset):
    def __init__(self, split):
        self.n, self.seed = (12, 100) if split == "train" else (7, 500)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = np.random.default_rng(self.seed + i)
        img = g.random((*IMG, 3)).astype(np.float32)
        boxes = np.full((4, 5), -1, np.float32)
        for k in range(int(g.integers(1, 5))):
            c = int(g.integers(NC))
            x, y = g.integers(0, IMG[1] - 12), g.integers(0, IMG[0] - 12)
            w, h = g.integers(8, 24, 2)
            x2, y2 = min(x + w, IMG[1]), min(y + h, IMG[0])
            img[y:y2, x:x2, c] += 1
            boxes[k] = [x, y, x2, y2, c]
        img -= 0.5
        img /= 0.3
        return torch.from_numpy(img).permute(2, 0, 1).contiguous(), torch.from_numpy(boxes)


def build_dataset(split):
    return Scenes(split)


def build_dataloader(split):
    return torch.utils.data.DataLoader(Scenes(split), batch_size=3)


def cbl(a, b, s=1):
    return nn.Sequential(nn.Conv2d(a, b, 3, s, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.1, inplace=True))


class Detector(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.stem = nn.Sequential(cbl(3, w, 2), cbl(w, w, 2))
        self.c3 = cbl(w, 2 * w, 2)
        self.c4 = cbl(2 * w, 2 * w, 2)
        self.lat3 = nn.Conv2d(2 * w, w, 1)
        self.lat4 = nn.Conv2d(2 * w, w, 1)
        self.smooth = nn.Conv2d(w, w, 3, padding=1)
        A = len(RATIOS) * len(SCALES)
        self.cls_tower = nn.Sequential(nn.Conv2d(w, w, 3, padding=1), nn.GroupNorm(2, w), nn.ReLU())
        self.reg_tower = nn.Sequential(nn.Conv2d(w, w, 3, padding=1), nn.GroupNorm(2, w), nn.ReLU())
        self.cls = nn.Conv2d(w, A * NC, 3, padding=1)
        self.reg = nn.Conv2d(w, A * 4, 3, padding=1)
        self.scale = nn.Parameter(torch.ones(len(STRIDES)))
        nn.init.constant_(self.cls.bias, -math.log((1 - 0.1) / 0.1))
        self.register_buffer("anchors", make_anchors())

    def decode(self, d):
        a = self.anchors
        wh = a[:, 2:] - a[:, :2]
        c = a[:, :2] + 0.5 * wh
        d = d.clone()
        d[..., :2] *= 0.1
        d[..., 2:] *= 0.2
        d[..., 2:].clamp_(max=math.log(1000.0 / 16))
        pc = d[..., :2] * wh + c
        ps = d[..., 2:].exp() * wh
        return torch.cat([pc - 0.5 * ps, pc + 0.5 * ps], -1)

    def forward(self, x):
        c3 = self.c3(self.stem(x))
        c4 = self.c4(c3)
        p4 = self.lat4(c4)
        p3 = self.lat3(c3)
        p3 += F.interpolate(p4, size=p3.shape[-2:], mode="nearest")
        cls, reg = [], []
        for l, p in enumerate((self.smooth(p3), p4)):
            flat = lambda t, k: t.permute(0, 2, 3, 1).reshape(t.shape[0], -1, k)
            cls.append(flat(self.cls(self.cls_tower(p)), NC))
            reg.append(flat(self.reg(self.reg_tower(p)) * self.scale[l], 4))
        cls, reg = torch.cat(cls, 1), torch.cat(reg, 1)
        return {"cls": cls, "reg": reg, "boxes": self.decode(reg), "anchors": self.anchors}


def build_model():
    return Detector()


@torch.no_grad()
def assign(anchors, gt):
    """-> class target per anchor (NC background, -1 ignored) and matched box index"""
    gt = gt[gt[:, 4] >= 0]
    iou = iou_matrix(anchors, gt[:, :4])
    best, idx = iou.max(1)
    cls = torch.full((len(anchors),), -1, dtype=torch.long)
    cls[best < 0.4] = NC
    pos = best >= 0.5
    cls[pos] = gt[idx[pos], 4].long()
    force = iou.argmax(0)
    cls[force] = gt[:, 4].long()
    idx[force] = torch.arange(len(gt))
    return cls, gt[idx, :4]


def giou(a, b):
    lt, rb = torch.max(a[:, :2], b[:, :2]), torch.min(a[:, 2:], b[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[:, 0] * wh[:, 1]
    union = area(a) + area(b) - inter
    hull = torch.cat([torch.min(a[:, :2], b[:, :2]), torch.max(a[:, 2:], b[:, 2:])], 1)
    ha = area(hull)
    return inter / union - (ha - union) / ha


def loss(out, gts):
    total_cls = total_box = 0.0
    npos = 0
    for b in range(len(gts)):
        cls, box = assign(out["anchors"], gts[b].to(out["anchors"].dtype))
        keep, pos = cls >= 0, (cls >= 0) & (cls < NC)
        t = F.one_hot(cls[keep], NC + 1)[:, :NC].to(out["cls"].dtype)
        logit = out["cls"][b][keep]
        p = logit.sigmoid()
        ce = F.binary_cross_entropy_with_logits(logit, t, reduction="none")
        pt = p * t + (1 - p) * (1 - t)
        alpha = 0.25 * t + 0.75 * (1 - t)
        total_cls = total_cls + (alpha * (1 - pt) ** 2 * ce).sum()
        total_box = total_box + (1 - giou(out["boxes"][b][pos], box[pos])).sum()
        npos += int(pos.sum())
    n = max(npos, 1)
    return {"loss": (total_cls + 2.0 * total_box) / n, "cls": total_cls / n, "box": total_box / n}


def nms(boxes, scores, thr):
    order = scores.argsort(descending=True, stable=True)
    keep = []
    while len(order):
        i = order[0]
        keep.append(int(i))
        if len(order) == 1:
            break
        iou = iou_matrix(boxes[i][None], boxes[order[1:]])[0]
        order = order[1:][iou <= thr]
    return keep


def detect(cls, boxes, score_thr=0.12, top=40, thr=0.45, most=20):
    """boxes [N, 4] and logits [N, C] of one image -> rows (x1, y1, x2, y2, score, class), best first"""
    res = []
    p = cls.sigmoid()
    boxes = boxes.clone()
    boxes[:, 0::2].clamp_(0, IMG[1])
    boxes[:, 1::2].clamp_(0, IMG[0])
    for c in range(NC):
        s = p[:, c]
        k = torch.where(s > score_thr)[0]
        k = k[s[k].argsort(descending=True, stable=True)[:top]]
        keep = nms(boxes[k], s[k], thr)
        k = k[keep]
        res.append(torch.cat([boxes[k], s[k, None], torch.full_like(s[k, None], c)], 1))
    res = torch.cat(res)
    return res[res[:, 4].argsort(descending=True, stable=True)[:most]]


def metric(out, gts):
    """mean recall and 11-point AP at IoU 0.3 over classes, detections of all images pooled"""
    aps, recs = [], []
    dets = [detect(out["cls"][b].detach(), out["boxes"][b].detach()) for b in range(len(gts))]
    for c in range(NC):
        rows, total = [], 0
        for b, d in enumerate(dets):
            g = gts[b][gts[b][:, 4] == c][:, :4].to(d.dtype)
            total += len(g)
            used = set()
            for r in d[d[:, 5] == c]:
                hit = 0
                if len(g):
                    iou = iou_matrix(r[None, :4], g)[0]
                    j = int(iou.argmax())
                    if iou[j] >= 0.3 and j not in used:
                        used.add(j)
                        hit = 1
                rows.append((float(r[4]), hit))
        if total == 0:
            continue
        rows.sort(key=lambda x: -x[0])
        tp = np.cumsum([h for _, h in rows]) if rows else np.zeros(1)
        rec, prec = tp / total, tp / np.arange(1, len(tp) + 1)
        aps.append(np.mean([prec[rec >= t].max() if (rec >= t).any() else 0.0 for t in np.linspace(0, 1, 11)]))
        recs.append(rec[-1])
    return {"map": float(np.mean(aps)), "recall": float(np.mean(recs))}


def build_optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.01, lr_decay=0.0, initial_accumulator_value=0.1)


@torch.no_grad()
def predict(path, model):
    x = torch.from_numpy(np.load(path)).permute(2, 0, 1)[None].to(model.anchors.dtype)
    x = (x - 0.5) / 0.3
    out = model(x)
    return detect(out["cls"][0], out["boxes"][0]).numpy()
