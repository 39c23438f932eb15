import numpy as np
from scipy.ndimage import binary_dilation, binary_erosion, label


def contour(mask):
    return mask & ~binary_erosion(mask, border_value=1)


def count(mask, smallest):
    areas = np.bincount(label(mask)[0].ravel())[1:]
    return int((areas >= smallest).sum())


def boundary_f(found, true, tolerance):
    a, b = contour(found), contour(true)
    if not a.any() and not b.any():
        return 1.0
    if not a.any() or not b.any():
        return 0.0
    precision = (a & binary_dilation(b, iterations=tolerance)).sum() / a.sum()
    recall = (b & binary_dilation(a, iterations=tolerance)).sum() / b.sum()
    return 0.0 if precision + recall == 0 else 2 * precision * recall / (precision + recall)


def scores(logits, masks, threshold, tolerance, smallest):
    """Means over pictures; IoU over all pixels."""
    found = 1 / (1 + np.exp(-logits[:, 0].astype("float64"))) > threshold
    true = masks[:, 0] > 0.5
    dice, edges, counts = [], [], []
    for f, t in zip(found, true):
        both = f.sum() + t.sum()
        dice.append(1.0 if both == 0 else 2 * (f & t).sum() / both)
        edges.append(boundary_f(f, t, tolerance))
        counts.append(abs(count(f, smallest) - count(t, smallest)))
    union = (found | true).sum()
    return {
        "dice": float(np.mean(dice)),
        "iou": 1.0 if union == 0 else float((found & true).sum() / union),
        "boundary_f": float(np.mean(edges)),
        "count_error": float(np.mean(counts)),
    }
