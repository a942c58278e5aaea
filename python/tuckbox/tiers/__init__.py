"""Tiers: a cache near the program in front of another one, such as a shared file before Redis.

`cache` has the classes, `tiering` their operations, `coverage` what the near one may serve.
"""
