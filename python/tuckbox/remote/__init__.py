"""A cache on any driver: its entries travel in envelopes.

`envelope` has the bytes, and `store` what a cache needs of them: versions, tags, stale entries,
eras and leases, by the two atomic operations of a driver. Must not know servers.
"""
