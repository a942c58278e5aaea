"""Tuckbox under the interfaces that frameworks have for caches.

Each module here knows ``tuckbox.Cache`` and its own framework, which it alone imports. Nothing in
Tuckbox imports from here.
"""
