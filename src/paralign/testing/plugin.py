"""The plugin for pytest: option ``--paralign-out``, fixture ``assert_aligned``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from paralign.model import CheckResult

#: what a folder's name may hold
_OTHER = re.compile(r"[^\w.=,+-]+")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that keeps what checks leave."""
    group = parser.getgroup("paralign")
    group.addoption("--paralign-out", metavar="DIR", help="keep the report and the captures of each check in a folder of this one")


@pytest.fixture
def assert_aligned(request: pytest.FixtureRequest) -> Callable[..., CheckResult]:
    """The function ``paralign.testing.assert_aligned``, which keeps reports if wanted.

    With ``--paralign-out``, each check leaves its report in a folder of the test's name.
    """
    kept, number = request.config.getoption("--paralign-out"), 0

    def checked(*sides: Any, **options: Any) -> CheckResult:
        nonlocal number
        __tracebackhide__ = True  # the test's own line is what failed
        from paralign.errors import ParalignError
        from paralign.testing import assert_aligned as act

        if kept and "out" not in options:
            name = _OTHER.sub("-", request.node.nodeid).strip("-.")
            folder = Path(kept) / (f"{name}-{number}" if number else name)
            folder.parent.mkdir(parents=True, exist_ok=True)
            options["out"], number = folder, number + 1
        try:
            return act(*sides, **options)
        except ParalignError as error:
            pytest.fail(f"paralign could not check: {error}", pytrace=False)

    return checked
