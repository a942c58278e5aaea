"""Drivers: the places that can hold entries, behind one small contract.

A driver keeps opaque bytes under bytes keys, in memory, in files, or on a server. It knows nothing
of Python objects, tags, leases or tiers; `tuckbox.drivers.contract` says what it must do, and
`tuckbox.testing.drivers` has the tests that every driver passes.
"""
