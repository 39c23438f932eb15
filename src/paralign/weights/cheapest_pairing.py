"""The cheapest pairing of rows with columns, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    Costs = np.ndarray[Any, np.dtype[np.float64]]


def assign(costs: Costs) -> list[int]:
    """For every row its column, for the least sum of costs (shortest augmenting paths).

    Args:
        costs: finite, shape (rows, columns) with no more rows than columns.

    Raises:
        ValueError: more rows than columns, or a cost that is not finite.

    >>> assign(np.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]]))
    [1, 0, 2]
    """
    rows, columns = costs.shape
    if rows > columns or not np.isfinite(costs).all():
        raise ValueError("assignment needs finite costs and at least as many columns as rows")
    of_row, of_column = np.zeros(rows + 1), np.zeros(columns + 1)
    taken = np.full(columns + 1, rows)  # the last column stands for the row that looks for a place
    for row in range(rows):
        taken[columns] = row
        way = _search(costs, of_row, of_column, taken)
        column = way[0]
        while column != columns:
            before = int(way[1][column])
            taken[column] = taken[before]
            column = before
    found = [0] * rows
    for column in range(columns):
        if taken[column] < rows:
            found[int(taken[column])] = column
    return found


def _search(costs: Costs, of_row: Costs, of_column: Costs, taken: np.ndarray[Any, Any]) -> tuple[int, np.ndarray[Any, Any]]:
    """The free column on the cheapest path from a row, and the column before each."""
    rows, columns = costs.shape
    least = np.full(columns, np.inf)
    before = np.full(columns, columns)
    visited = np.zeros(columns + 1, bool)
    column = columns
    while taken[column] != rows:
        visited[column] = True
        row = int(taken[column])
        reduced = costs[row] - of_row[row] - of_column[:columns]
        shorter = (reduced < least) & ~visited[:columns]
        least[shorter], before[shorter] = reduced[shorter], column
        column = int(np.argmin(np.where(visited[:columns], np.inf, least)))
        step = least[column]
        of_row[taken[visited]] += step
        of_column[visited] -= step
        least[~visited[:columns]] -= step
    return column, before
