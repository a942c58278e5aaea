"""Runs operations step by step: in every order of the steps of several, or up to a death."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tuckbox.coordination.steps import Steps


class Stepped:
    """An operation whose steps the test runs. One that is not finished is as if killed."""

    def __init__(self, steps: Steps[Any]) -> None:
        self._steps = steps
        self._answer: Any = None
        self._error: Exception | None = None
        self.is_done = False
        self.result: Any = None

    def step(self) -> bool:
        """Run one step. Return whether there may be more."""
        if self.is_done:
            return False
        try:
            if self._error is None:
                wanted = self._steps.send(self._answer)
            else:
                wanted = self._steps.throw(self._error)
        except StopIteration as end:
            self.is_done, self.result = True, end.value
            return False
        self._answer = self._error = None
        try:
            self._answer = None if isinstance(wanted, float) else wanted()
        except Exception as error:
            # The operation gets it with its next step.
            self._error = error
        return True

    def finish(self) -> Any:
        while self.step():
            pass
        return self.result


def orders(one: int, two: int) -> Iterator[list[int]]:
    """Every order of so many steps of two operations: a list of 0 and 1."""
    for places in combinations(range(one + two), one):
        yield [0 if place in places else 1 for place in range(one + two)]
