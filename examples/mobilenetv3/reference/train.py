"""Train MobileNetV3-small on an image folder, in one process or, with train_dist.sh, in several.

python train.py --data-path ../data --epochs 2 --output-dir output
"""

import argparse
import os
from pathlib import Path

import numpy as np
import torch
from mobilenetv3 import data, parallel, train
from mobilenetv3.metric import accuracy
from mobilenetv3.model import MobileNetV3Small

from paralign.compat.reprod_log import ReprodLogger
from paralign.trainlog import TrainLog

PROJECT = Path(__file__).resolve().parents[1]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-path", type=Path, default=PROJECT / "data", help="a folder with train/ and val/")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16, help="of one process")
    parser.add_argument("--lr", type=float, default=0.05, help="for all processes: with N times the samples a step, give N times the rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--print-freq", type=int, default=5, help="batches between two lines of the log")
    parser.add_argument("--pretrained", type=Path, help="weights to start from (.pth)")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint in the output folder")
    parser.add_argument("--output-dir", type=Path, default=Path("output"))
    return parser.parse_args()


def metric(outputs, labels):
    return dict(zip(("acc_top1", "acc_top5"), accuracy(outputs, labels), strict=True))


def validate(model, path):
    samples = parallel.share(data.ImageFolder(path, data.preprocessing()))
    _, found = train.evaluate(model, data.build_dataloader(samples), metric)
    return parallel.averaged(found, len(samples))


def main(args):
    torch.manual_seed(args.seed)
    model = MobileNetV3Small()
    if args.pretrained:
        model.load_state_dict(torch.load(args.pretrained, weights_only=True))
    optimizer = train.build_optimizer(model, args.lr)
    scheduler = train.build_scheduler(optimizer)
    network = parallel.wrap(model)
    loader = parallel.training_loader(data.ImageFolder(args.data_path / "train", data.preprocessing()), args.batch_size)
    with TrainLog(
        args.output_dir / "train.log", every=args.print_freq, style="print", folder=str(args.output_dir), resume=args.resume
    ) as log:
        first = log.resume(lambda stem: train.load(stem, model, optimizer, scheduler))
        for epoch in range(first, args.epochs):
            if hasattr(loader.sampler, "set_epoch"):
                loader.sampler.set_epoch(epoch)
            train.train_one_epoch(network, loader, optimizer, log, epoch)
            scheduler.step()
            found = validate(model, args.data_path / "val")
            log.evaluation(epoch, **found)
            log.checkpoint(epoch, lambda stem: train.save(stem, model, optimizer, scheduler))
    if parallel.rank() == 0 and first < args.epochs:
        logger = ReprodLogger()
        for name, value in found.items():
            logger.add(name, np.array([float(value)]))
        logger.save(str(args.output_dir / "train_align_benchmark.npy"))


if __name__ == "__main__":
    parallel.begin(int(os.environ.get("WORLD_SIZE", "1")))
    main(arguments())
    parallel.end()
