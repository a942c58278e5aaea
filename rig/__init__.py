"""What the lab, the benchmarks and the trials of the promises have in common.

Owns the machine sheet, the state of the sources, files of records, cores, crews of processes, marks
of processes, and values that prove whose they are: one of each. Must not know who uses it, nor
Tuckbox, a contestant or a judgement: it imports nothing of this repository.
"""
