"""Shows results. It runs nothing."""
