"""One folder for each runtime: the loop that drives an adapter."""
