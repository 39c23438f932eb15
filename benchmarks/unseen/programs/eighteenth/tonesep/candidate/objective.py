"""Losses and scores, with the assignment of voices left open."""
import itertools

import paddle
import paddle.nn.functional as F
from paddle.audio.functional import get_window

from .settings import SPECTRAL

TINY = 1e-8


def _centre(x):
    return x - paddle.mean(x, axis=-1, keepdim=True)


def _energy(x, keepdim=False):
    return paddle.sum(paddle.square(x), axis=-1, keepdim=keepdim)


def to_db(ratio):
    return 10.0 * paddle.log10(ratio)


def scale_invariant_snr(guess, truth):
    guess, truth = _centre(guess), _centre(truth)
    projection = truth * (paddle.sum(guess * truth, axis=-1, keepdim=True) / (_energy(truth, True) + TINY))
    return to_db((_energy(projection) + TINY) / (_energy(guess - projection) + TINY))


def assign(guess, truth):
    """Score of the best assignment (B,) and the guesses in that order (B, S, T)."""
    orders = list(itertools.permutations(range(truth.shape[1])))
    candidates = paddle.stack([guess[:, list(order)] for order in orders], axis=1)  # (B, P, S, T)
    scores = scale_invariant_snr(candidates, truth.unsqueeze(1)).mean(axis=-1)  # (B, P)
    picked = F.one_hot(scores.argmax(axis=1), len(orders)).astype(scores.dtype)
    best = paddle.sum(scores * picked, axis=1)
    ordered = paddle.sum(candidates * picked.unsqueeze(-1).unsqueeze(-1), axis=1)
    return best, ordered


def log_spectrum(x, frame):
    window = get_window("hann", frame, fftbins=True, dtype="float64").astype(x.dtype)
    z = paddle.signal.stft(x.reshape([-1, x.shape[-1]]), frame, frame // 4, window=window)
    power = paddle.square(paddle.real(z)) + paddle.square(paddle.imag(z))
    return paddle.log1p(10.0 * paddle.sqrt(power + 1e-7))


def spectral_l1(guess, truth, frames=(64, 256, 512)):
    return paddle.add_n([F.l1_loss(log_spectrum(guess, n), log_spectrum(truth, n)) for n in frames]) / len(frames)


def criterion(guess, truth):
    best, ordered = assign(guess, truth)
    return SPECTRAL * spectral_l1(ordered, truth) - paddle.clip(best, max=30.0).mean()


def scores(guess, truth):
    with paddle.no_grad():
        guess, truth = guess.astype("float64"), truth.astype("float64")
        best, ordered = assign(guess, truth)
        mixture = paddle.sum(truth, axis=1, keepdim=True)
        baseline = scale_invariant_snr(mixture.expand_as(truth), truth).mean(axis=-1)
        sdr = to_db((_energy(truth) + TINY) / (_energy(ordered - truth) + TINY))
        worst = paddle.sort(paddle.min(sdr, axis=1))
        # the lower of the two middle values, as torch.median takes it
        found = {"si_snri": paddle.mean(best - baseline), "sdr": sdr.mean(), "worst": worst[(worst.shape[0] - 1) // 2]}
        return {name: value.astype("float32") for name, value in found.items()}
