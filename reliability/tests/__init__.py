"""The runner, on real commands; the page; the oracle of the comparison."""
