"""The comparison: short forms of five families, on Tuckbox and on other caches.

Every system has the same four operations and the same oracle: values that name their key, and a
board in shared memory that says what each key may hold.
"""
