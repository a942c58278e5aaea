"""A folder for each runtime, with the loop that drives an adapter."""
