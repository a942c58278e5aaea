"""What near tiers cost the far one, from one machine to a thousand: docs/explanation/scale.md.

`fleet` replays traces, `redis` measures a server, `costs` computes from both, `page` writes.
"""
