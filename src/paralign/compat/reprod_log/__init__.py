"""The package reprod_log 1.0.1 without its risks.

Replace ``reprod_log`` by ``paralign.compat.reprod_log`` in imports, and go on.
"""

from paralign.compat.reprod_log import compare, utils
from paralign.compat.reprod_log.log import ReprodDiffHelper, ReprodLogger, report_lines
from paralign.compat.reprod_log.reading import DiffLog, read_diff_log

__all__ = ["DiffLog", "ReprodDiffHelper", "ReprodLogger", "compare", "read_diff_log", "report_lines", "utils"]
