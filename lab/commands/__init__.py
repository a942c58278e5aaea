"""The commands of `python -m lab`, one module each. They only parse options and call others."""
