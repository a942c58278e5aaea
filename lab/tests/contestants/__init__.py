"""Contestants that only the tests know: an honest one, and one for each thing that can go wrong."""
