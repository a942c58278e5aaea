"""The common parts of the lab, the benchmarks and the reliability trials.

Owns the machine sheet, the state of the sources, record files, cores, worker processes, process
marks, and values that name their owner: one of each. Imports nothing else of this repository, and
must not know its users, Tuckbox, a contestant or a verdict.
"""
