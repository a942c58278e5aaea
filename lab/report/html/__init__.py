"""The report on a page: one HTML file with everything in it.

Owns the way from a file of records to that file. `write` is all that others need.
"""

from lab.report.html.write import write

__all__ = ["write"]
