import numpy as np


def scores(score, mask):
    """Mean over the pictures of IoU and Dice, accuracy of pixels."""
    guess = score.numpy().reshape(score.shape[0], -1) > 0
    truth = mask.numpy().reshape(mask.shape[0], -1) > 0.5
    both = np.logical_and(guess, truth).sum(axis=1)
    either = np.logical_or(guess, truth).sum(axis=1)
    iou = (both + 1e-7) / (either + 1e-7)
    dice = (2 * both + 1e-7) / (both + either + 1e-7)
    return {
        "iou": float(np.mean(iou)),
        "dice": float(np.mean(dice)),
        "accuracy": float(np.mean(guess == truth)),
    }
