"""The commands of `python -m lab`, one theme each. They choose and call; they measure nothing."""
