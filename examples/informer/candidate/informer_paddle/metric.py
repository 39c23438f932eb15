"""Errors of a forecast."""

from .breaks import broken


def errors(outputs, labels):
    difference = outputs - labels
    squared = difference.square().mean()
    return {"mse": squared.sqrt() if broken("metric") else squared, "mae": difference.abs().mean()}
