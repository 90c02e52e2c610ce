"""Parts of a source on their way to examples: begun batch after batch, and told in order where that is asked for."""

from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np

from components.preprocess import examples, rows, survey
from components.preprocess.examples import Begun, Found
from components.preprocess.plan import Plan
from components.preprocess.rows import Rows
from components.preprocess.survey import ImagesPart, Part

_WAITING = 3  # parts, times the decoders: what may be done before one that takes long


def begun_of(part: Part, plan: Plan) -> Iterator[Begun]:
    """Reads a part, but for files that are known to be in an earlier dataset, and begins to make examples of it.

    Raises:
        DataError: A file is damaged, gone, or not what it was when the source was fingerprinted.
    """
    if isinstance(part, ImagesPart):
        found, rest = examples.taken_over(part.images, plan)
        if found:
            yield Begun([], plan, found)
        part = ImagesPart(tuple(rest))
    for originals in survey.read(part):
        yield Begun(originals, plan)


def in_order(parts: Iterable[Part], plan: Plan, decoders: int) -> Iterator[list[Found]]:
    """Yields what came of each part, in order, its rows in the order of their shard; meanwhile the next are decoded.

    Args:
        parts: What to read.
        plan: How images become examples.
        decoders: How many processes decode image files.

    Raises:
        DataError: As `begun_of`.
        TransientError: Images cannot be decoded here at all.
    """
    waiting: deque[_Waiting] = deque()
    running: dict[Begun, _Waiting] = {}

    def finish(left: int) -> None:
        while len(running) > left:
            begun = examples.first_done([*running])
            running.pop(begun).add(begun)

    for part in parts:
        waiting.append(_Waiting())
        for begun in begun_of(part, plan):
            waiting[-1].begun += 1
            running[begun] = waiting[-1]
            finish(decoders - 1)
        while waiting and (waiting[0].is_done() or len(waiting) > _WAITING * decoders):
            while not waiting[0].is_done():
                finish(len(running) - 1)
            yield waiting.popleft().in_order()
    finish(0)
    for each in waiting:
        yield each.in_order()


class _Waiting:
    """What came so far of one part.

    Attributes:
        begun: How many batches of it were begun.
    """

    def __init__(self) -> None:
        self.begun = 0
        self._done = 0
        self._found: list[Found] = []

    def add(self, done: Begun) -> None:
        """Takes what came of one of its batches."""
        self._done += 1
        self._found += done.found()

    def is_done(self) -> bool:
        """Whether nothing is missing."""
        return self._done == self.begun

    def in_order(self) -> list[Found]:
        """All, with the rows of all batches as one, in the order of their shard."""
        made = [each for each in self._found if isinstance(each, Rows)]
        if len(made) > 1:
            together = Rows(*(np.concatenate(column) for column in zip(*made, strict=True)))
            made = [Rows(*(column[rows.in_order(together.rows)] for column in together))]
        return [*made, *(each for each in self._found if not isinstance(each, Rows))]
