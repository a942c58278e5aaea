"""Measures Tuckbox and its peers: `python -m benches`.

Owns the rows for the goals of speed and memory, and the page that shows them. It uses what any user
can install, and the lab's adapters, servers and machine sheet. Neither the product nor the lab may
import it.
"""
