"""Tiers: a cache near the program in front of another one, such as a shared file before Redis.

`shared_first` and `memory_first` have the classes, `tiering` their operations, and `coverage` what
the near tier may serve.
"""
