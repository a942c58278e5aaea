"""Drop-in replacements for other caches. Each module has the names of the package it replaces."""
