"""Measures Tuckbox and its peers: `python -m benches`.

Owns the rows for the goals of speed and memory, and the page that shows them. Uses the installed
package, the lab's adapters and servers, and the rig. Neither the product nor the lab may import it.
"""
