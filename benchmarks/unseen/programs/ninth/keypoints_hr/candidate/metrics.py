import numpy as np


class PCK:
    """Correct keypoints by joint, averaged over the joints that are labelled at all."""

    def __init__(self, thresholds=(0.1, 0.2)):
        self.thresholds = thresholds

    def __call__(self, joints, labels):
        joints, truth = joints.numpy(), labels["joints"].numpy()
        labelled = labels["weights"].numpy() > 0
        scale = labels["scale"].numpy()[:, None]
        distance = np.sqrt(((joints - truth) ** 2).sum(axis=-1)) / scale
        present = labelled.any(axis=0)
        report = {}
        for threshold in self.thresholds:
            correct = np.logical_and(distance <= threshold, labelled)
            share = correct.sum(axis=0)[present] / labelled.sum(axis=0)[present]
            report[f"pck@{threshold}"] = float(share.mean())
        report["distance"] = float(distance[labelled].astype(np.float64).mean())
        return report
