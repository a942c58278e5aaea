"""The lab: caches compared on the reader's own machine, with every answer checked.

A program of its own. It uses what a stranger could install, and nothing in the product knows of it.
"""
