"""Draws numbers with a Zipf distribution.

Owns that one distribution. Must not know what the numbers mean.

The sampler is rejection-inversion (W. Hormann and G. Derflinger, Rejection-inversion to generate
variates from monotone discrete distributions, ACM TOMACS 6, 1996). It takes the same time for a
thousand ranks as for ten million, and works for any exponent above 0.
"""

from __future__ import annotations

import random
from math import exp, gcd, log


class Zipf:
    """Ranks from 0 to `count` - 1; the frequency of rank r is proportional to (r+1) ** -exponent.

    Raises ValueError without ranks and for an exponent that is not above 0.
    """

    def __init__(self, count: int, exponent: float, dice: random.Random) -> None:
        if count < 1 or exponent <= 0:
            raise ValueError(
                f"Zipf needs at least one rank and an exponent above 0, not {count} and {exponent}"
            )
        self._count = count
        self._exponent = exponent
        self._dice = dice
        self._first = self._area(1.5) - 1
        self._last = self._area(count + 0.5)
        self._sure = 2 - self._inverse(self._area(2.5) - 2**-exponent)

    def draw(self) -> int:
        """Return a rank."""
        while True:
            area = self._last + self._dice.random() * (self._first - self._last)
            place = self._inverse(area)
            rank = min(max(int(place + 0.5), 1), self._count)
            near = rank - place <= self._sure
            if near or area >= self._area(rank + 0.5) - rank**-self._exponent:
                return rank - 1

    def _area(self, place: float) -> float:
        """The area under the curve from 1 to `place`."""
        if self._exponent == 1:
            return log(place)
        return float((place ** (1 - self._exponent) - 1) / (1 - self._exponent))

    def _inverse(self, area: float) -> float:
        if self._exponent == 1:
            return exp(area)
        return float((1 + area * (1 - self._exponent)) ** (1 / (1 - self._exponent)))


def scatter(rank: int, count: int) -> int:
    """Return the key number of a rank: a permutation that separates frequent ranks."""
    return rank * _stride(count) % count


def _stride(count: int) -> int:
    # Close to the golden section of the count, whose multiples lie farthest apart.
    stride = max(round(count * 0.6180339887498949), 1)
    while gcd(stride, count) != 1:
        stride += 1
    return stride
