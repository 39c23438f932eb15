"""A training as people write it: seeds, loaders, groups, a warm-up with a cosine, clipping, an average of weights, checkpoints."""

import argparse
import copy
import json
import logging
import math
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.data import DataLoader, Dataset

logger = logging.getLogger(__name__)


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


class Points(Dataset):
    def __init__(self, size, split="train"):
        generator = np.random.RandomState(0 if split == "train" else 1)
        self.x = generator.randn(size, 1, 8, 8).astype(np.float32)
        self.y = (self.x.mean((1, 2, 3)) > 0).astype(np.int64) + (self.x[:, 0, 0, 0] > 0.5).astype(np.int64)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return torch.from_numpy(self.x[index]), int(self.y[index])


class Block(nn.Module):
    def __init__(self, channels, drop=0.0):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(channels)
        self.act = nn.GELU()
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        return x + self.drop(self.act(self.bn(self.conv(x))))


class Net(nn.Module):
    def __init__(self, width=8, depth=2, classes=3):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(width, classes)
        self.apply(self._init)

    def _init(self, m):
        if isinstance(m, nn.Conv2d):
            nn.init.constant_(m.weight, 0.05)
            if m.bias is not None:
                nn.init.zeros_(m.bias)
        elif isinstance(m, nn.Linear):
            nn.init.constant_(m.weight, 0.1)
            nn.init.zeros_(m.bias)

    def forward(self, x):
        x = F.relu(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return self.fc(self.pool(x).flatten(1))


class AverageMeter:
    def __init__(self, name):
        self.name = name
        self.reset()

    def reset(self):
        self.sum = self.count = self.val = self.avg = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        maxk = max(topk)
        batch_size = target.size(0)
        _, pred = output.topk(maxk, 1, True, True)
        pred = pred.t()
        correct = pred.eq(target.view(1, -1).expand_as(pred))
        res = []
        for k in topk:
            correct_k = correct[:k].reshape(-1).float().sum(0, keepdim=True)
            res.append(correct_k.mul_(100.0 / batch_size))
        return res


class ModelEMA:
    def __init__(self, model, decay=0.9):
        self.module = copy.deepcopy(model).eval()
        for p in self.module.parameters():
            p.requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for e, m in zip(self.module.parameters(), model.parameters()):
            e.copy_(self.decay * e + (1 - self.decay) * m)


def build_optimizer(model, args):
    decay, no_decay = [], []
    for name, param in model.named_parameters():
        if not param.requires_grad:
            continue
        if param.ndim <= 1 or name.endswith(".bias"):
            no_decay.append(param)
        else:
            decay.append(param)
    groups = [{"params": decay, "weight_decay": args.weight_decay}, {"params": no_decay, "weight_decay": 0.0}]
    if args.opt == "sgd":
        return optim.SGD(groups, lr=args.lr, momentum=0.9, nesterov=True)
    return optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.95))


def build_scheduler(optimizer, args, steps):
    warm = args.warmup * steps
    total = args.epochs * steps

    def rule(step):
        if step < warm:
            return (step + 1) / max(1, warm)
        return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, total - warm)))

    return optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=rule)


def train_one_epoch(model, ema, loader, criterion, optimizer, scheduler, device, args, epoch):
    model.train()
    losses, top1 = AverageMeter("loss"), AverageMeter("acc")
    start = time.time()
    for i, (images, targets) in enumerate(loader):
        images = images.to(device, non_blocking=True)
        targets = targets.to(device, non_blocking=True)
        output = model(images)
        loss = criterion(output, targets) / args.accumulate
        loss.backward()
        if (i + 1) % args.accumulate == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            ema.update(model)
        scheduler.step()
        acc1, acc2 = accuracy(output, targets, topk=(1, 2))
        losses.update(loss.item(), images.size(0))
        top1.update(acc1.item(), images.size(0))
        if i % args.print_freq == 0:
            lr = optimizer.param_groups[0]["lr"]
            logger.info(f"epoch {epoch} {i}/{len(loader)} loss {losses.avg:.4f} acc {top1.avg:.2f} lr {lr:.2e} {time.time() - start:.1f}s")
    return losses.avg, top1.avg


@torch.no_grad()
def evaluate(model, loader, criterion, device):
    model.eval()
    losses = AverageMeter("loss")
    predictions, labels = [], []
    for images, targets in loader:
        images, targets = images.to(device), targets.to(device)
        output = model(images)
        losses.update(criterion(output, targets).item(), images.size(0))
        predictions.append(output.argmax(dim=1).cpu())
        labels.append(targets.cpu())
    predictions, labels = torch.cat(predictions), torch.cat(labels)
    return losses.avg, (predictions == labels).float().mean().item()


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--opt", default="adamw")
    parser.add_argument("--weight-decay", type=float, default=0.05)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--print-freq", type=int, default=2)
    parser.add_argument("--output", default="out")
    parser.add_argument("--resume", default="")
    args = parser.parse_args(argv)
    os.makedirs(args.output, exist_ok=True)
    set_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = DataLoader(Points(40), batch_size=args.batch_size, shuffle=False, num_workers=0, pin_memory=True, drop_last=True)
    val = DataLoader(Points(20, "val"), batch_size=args.batch_size, shuffle=False)
    model = Net().to(device)
    ema = ModelEMA(model)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1).to(device)
    optimizer = build_optimizer(model, args)
    scheduler = build_scheduler(optimizer, args, len(train))
    first, best = 0, 0.0
    if args.resume:
        checkpoint = torch.load(args.resume, map_location="cpu")
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        scheduler.load_state_dict(checkpoint["scheduler"])
        first, best = checkpoint["epoch"] + 1, checkpoint["best"]
    history = []
    for epoch in range(first, args.epochs):
        loss, acc = train_one_epoch(model, ema, train, criterion, optimizer, scheduler, device, args, epoch)
        val_loss, val_acc = evaluate(model, val, criterion, device)
        ema_loss, _ = evaluate(ema.module, val, criterion, device)
        history.append([loss, acc, val_loss, val_acc, ema_loss])
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(), "epoch": epoch, "best": best}
        torch.save(state, os.path.join(args.output, "last.pt"))
        if val_acc > best:
            best = val_acc
            torch.save(model.state_dict(), os.path.join(args.output, "best.pt"))
    total = sum(p.numel() for p in model.parameters() if p.requires_grad)
    with open(os.path.join(args.output, "history.json"), "w") as f:
        json.dump({"history": history, "parameters": total}, f)


if __name__ == "__main__":
    main()
