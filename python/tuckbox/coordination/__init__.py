"""Locks, semaphores, rate limits and queues for the processes that share a cache.

All of them live in entries of the cache, and use only the operations of `tuckbox.contract.Store`.
"""
