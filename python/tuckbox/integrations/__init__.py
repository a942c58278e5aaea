"""Cache backends for frameworks.

Each module imports only ``tuckbox.Cache`` and its own framework. Tuckbox imports nothing from here.
"""
