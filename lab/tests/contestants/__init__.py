"""Contestants of the tests: an honest one, and one for each kind of fault."""
