"""Measures Tuckbox and its peers: `python -m benches`.

Owns the rows for the goals of speed and memory, and the page that shows them. It uses what any user
can install, the lab's adapters and servers, and the rig. Neither the product nor the lab may
import it.
"""
