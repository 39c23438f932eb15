import json

import numpy as np
import torch

from .signals import cut, load_record, read_annotations, rr_features


def train_one_batch(model, optimizer, batch, criterion, max_norm):
    signal, rr, target = batch
    optimizer.zero_grad()
    loss = criterion(model(signal, rr), target)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return {"loss": loss.detach(), "grad_norm": norm}


@torch.no_grad()
def classify_strip(model, path, config):
    """Class probabilities of the beats that a strip lists; the beats' neighbours come from the whole record."""
    with open(path) as handle:
        strip = json.load(handle)
    window = config.window
    signal = load_record(strip["record"], window.detrend)
    peaks, _ = read_annotations(strip["record"])
    rr = rr_features(peaks, window.rr_history)
    wanted = np.isin(peaks, strip["beats"])
    beats = np.stack([cut(signal, peak, window.before, window.after) for peak in peaks[wanted]])
    dtype = next(model.parameters()).dtype
    logits = model(torch.from_numpy(beats).to(dtype), torch.from_numpy(rr[wanted]).to(dtype))
    probabilities = logits.softmax(dim=1)
    names = list(config.classes)
    confidence, index = probabilities.max(dim=1)
    burden = (index == names.index("V")).double().mean()
    return {
        "probabilities": probabilities.numpy(),
        "labels": [names[i] if c >= 0.28 else "?" for i, c in zip(index.tolist(), confidence.tolist())],
        "pvc_burden": float(burden),
    }
