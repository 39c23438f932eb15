"""Top-k accuracy."""


def accuracy(outputs, labels, topk=(1, 5)):
    """The share of samples whose label is among the k greatest of their logits, for each k."""
    _, predicted = outputs.topk(max(topk), dim=1)
    correct = predicted.t() == labels
    return [correct[:k].float().sum() / len(labels) for k in topk]
