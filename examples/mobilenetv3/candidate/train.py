"""Train the port of MobileNetV3-small on an image folder, in one process or, with train_dist.sh, in several.

python train.py --data-path ../data --epochs 2 --output-dir output
"""

import argparse
from pathlib import Path

import numpy as np
import paddle
from mobilenetv3_paddle import data, parallel, train
from mobilenetv3_paddle.metric import accuracy
from mobilenetv3_paddle.model import MobileNetV3

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
    parser.add_argument("--pretrained", type=Path, help="weights to start from (.pdparams)")
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
    paddle.seed(args.seed)
    np.random.seed(args.seed)  # noqa: NPY002 - Paddle's samplers draw from it
    model = train.initialise(MobileNetV3())
    if args.pretrained:
        model.set_state_dict(paddle.load(str(args.pretrained)))
    optimizer = train.build_optimizer(model, args.lr)
    scheduler = train.scheduler_of(optimizer)
    network = parallel.wrap(model)
    loader = parallel.training_loader(data.ImageFolder(args.data_path / "train", data.preprocessing()), args.batch_size)
    with TrainLog(
        args.output_dir / "train.log", every=args.print_freq, style="print", folder=str(args.output_dir), resume=args.resume
    ) as log:
        first = log.resume(lambda stem: train.load(stem, model, optimizer))
        for epoch in range(first, args.epochs):
            loader.batch_sampler.set_epoch(epoch)
            train.train_one_epoch(network, loader, optimizer, log, epoch)
            scheduler.step()
            found = validate(model, args.data_path / "val")
            log.evaluation(epoch, **found)
            log.checkpoint(epoch, lambda stem: train.save(stem, model, optimizer))
    if parallel.rank() == 0 and first < args.epochs:
        logger = ReprodLogger()
        for name, value in found.items():
            logger.add(name, np.array([float(value)]))
        logger.save(str(args.output_dir / "train_align_paddle.npy"))


if __name__ == "__main__":
    parallel.begin()
    main(arguments())
