"""Placeholder."""
from pathlib import Path
PAGE = Path("docs/explanation/scale.md")
