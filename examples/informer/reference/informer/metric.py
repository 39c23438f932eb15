"""Errors of a forecast."""


def errors(outputs, labels):
    """Mean squared and mean absolute error over all steps and columns."""
    difference = outputs - labels
    return {"mse": (difference**2).mean(), "mae": difference.abs().mean()}
