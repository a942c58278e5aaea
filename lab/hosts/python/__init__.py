"""The Python host: one process, one worker, told what to do over its standard input."""
