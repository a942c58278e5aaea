"""The lab's own tests. None asserts a time."""
