"""The report as a page: one self-contained HTML file.

Owns the way from a file of records to that file. Other modules need only `write`.
"""

from lab.report.html.write import write

__all__ = ["write"]
