"""Tests for those who extend Tuckbox: `tuckbox.testing.drivers` for drivers. They need pytest."""
