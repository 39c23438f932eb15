import torch
import torch.nn.functional as F


def charbonnier(a, b, eps=1e-2):
    return torch.sqrt((a - b) ** 2 + eps**2).mean()


def edges(x):
    return x[..., 1:, :] - x[..., :-1, :], x[..., 1:] - x[..., :-1]


def vq_loss(out, target, beta=0.25, edge=0.3):
    rec = charbonnier(out["recon"], target)
    sharp = sum(F.l1_loss(a, b) for a, b in zip(edges(out["recon"]), edges(target)))
    commit = F.mse_loss(out["latent"], out["quant"])
    return {"loss": rec + edge * sharp + beta * commit, "rec": rec, "edge": sharp, "commit": commit}


def perplexity(codes, n):
    hot = F.one_hot(codes.transpose(0, 1).flatten(1), n).double().mean(1)  # groups x codes
    return torch.exp(-(hot * torch.log(hot + 1e-10)).sum(-1)).mean()


def ssim(a, b, window=7, c1=0.01**2, c2=0.03**2):
    pool = lambda x: F.avg_pool2d(x, window, stride=1)
    n = window**2
    ma, mb = pool(a), pool(b)
    va, vb, cab = (n / (n - 1) * v for v in (pool(a * a) - ma * ma, pool(b * b) - mb * mb, pool(a * b) - ma * mb))
    return (((2 * ma * mb + c1) * (2 * cab + c2)) / ((ma**2 + mb**2 + c1) * (va + vb + c2))).mean()


def vq_metrics(out, target, n=24):
    a = ((out["recon"].double() + 1) / 2).clamp(0, 1)
    b = (target.double() + 1) / 2
    mse = ((a - b) ** 2).mean(dim=(1, 2, 3))
    used = torch.stack([torch.tensor(float(g.unique().numel()) / n) for g in out["codes"].transpose(0, 1)])
    return {"psnr": (-10 * torch.log10(mse + 1e-8)).mean(), "ssim": ssim(a, b), "perplexity": perplexity(out["codes"], n), "usage": used.mean()}
