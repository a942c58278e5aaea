"""What Tuckbox costs beside its peers: `python -m benches`.

Owns the rows of the goals for speed and memory, and the page that tells of them. It uses what a
stranger could install, and of the lab its peers, servers and machine sheet; neither the product nor
the lab knows that it exists.
"""
