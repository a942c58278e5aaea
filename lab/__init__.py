"""The lab: compares caches on the user's own machine and checks every answer.

A separate program. It uses Tuckbox as installed from a package; Tuckbox does not know the lab.
"""
