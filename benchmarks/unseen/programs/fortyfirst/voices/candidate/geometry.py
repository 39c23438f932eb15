"""Pairs of notes; in every table rows are the later note i, columns the note j it is held against."""
import math

import paddle


def against(x):
    """x_i - x_j as [b, i, j]"""
    return x[:, :, None] - x[:, None, :]


def silence(onset, length):
    """From the end of j to the onset of i."""
    return onset[:, :, None] - (onset + length)[:, None, :]


def steps_apart(pitch, n=16, exact=4, widest=40.0):
    d = against(pitch)
    far = paddle.abs(d)
    side = n // 2
    log_part = paddle.log(paddle.clip(far, min=float(exact)) / exact) * ((side - exact) / math.log(widest / exact))
    cell = paddle.where(far < exact, far, exact + log_part)
    cell = paddle.clip(paddle.floor(cell).astype("int64"), max=side - 1)
    return cell + side * (d > 0).astype("int64")


def heard_with(onset, length, real):
    started = against(onset) >= 0
    not_over = silence(onset, length) < 0
    return paddle.logical_and(started, not_over).astype(real.dtype) * real[:, None, :]


def candidates(onset, length, real):
    pause = silence(onset, length)
    in_time = paddle.logical_and(pause >= -0.01, pause <= 4.0)
    return in_time.astype(real.dtype) * real[:, None, :]


def pair_table(pitch, onset, length):
    octaves = against(pitch) / 12
    return paddle.stack([silence(onset, length).clip(0, 4), octaves, octaves.abs(), (-6 * octaves.square()).exp()], axis=3)
