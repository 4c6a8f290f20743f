"""Holds a plan against buffers that it was not made for."""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tenure.errors import plan_overlap_error

if TYPE_CHECKING:
    from tenure.plan import BufferUse


@dataclass(frozen=True)
class _Block:
    """Bytes [low, high) that are taken during [begin, end), for a buffer."""

    begin: float
    end: float
    low: int
    high: int
    name: str


def check_apart(uses: Sequence[BufferUse], offsets: Sequence[int]) -> None:
    """Raises an error if buffers that are in use at once share bytes.

    Raises
    ------
    TenureError
        `PLAN_OVERLAP`, with the values `buffer` and `other`.
    """
    end_of_all = max((_end_of(use, 0) for use in uses if use.end is not None), default=0)
    end_of_all = max([end_of_all, *(use.first_use + 1 for use in uses)])
    views: dict[object, list[int]] = defaultdict(list)
    for index, use in enumerate(uses):
        views[index if use.alias_group is None else (use.alias_group,)].append(index)
    blocks: list[_Block] = []
    for members in views.values():
        blocks.extend(_blocks_of([uses[i] for i in members], [offsets[i] for i in members], end_of_all))
    _sweep(sorted(blocks, key=lambda block: block.begin))


def _end_of(use: BufferUse, end_of_all: float) -> float:
    end = math.inf if use.end is None else use.end
    return max(end, end_of_all) if use.output else end


def _blocks_of(
    views: Sequence[BufferUse], offsets: Sequence[int], end_of_all: float
) -> list[_Block]:
    """Gives what views of one memory take: all of it from the first use to the last, and nothing during a
    gap that is one for all of them."""
    for use, offset in zip(views, offsets):
        if offset != offsets[0]:
            raise plan_overlap_error(use.id, views[0].id, "views of one memory that are apart")
    gaps = sorted(
        gap
        for use in views
        for gap in use.gaps
        if all(
            other is use or other.first_use >= gap[1] or _end_of(other, end_of_all) <= gap[0]
            for other in views
        )
    )
    low, high = offsets[0], offsets[0] + max(use.nbytes for use in views)
    begin: float = min(use.first_use for use in views)
    end = max(_end_of(use, end_of_all) for use in views)
    blocks: list[_Block] = []
    for gap_begin, gap_end in gaps:
        blocks.append(_Block(begin, gap_begin, low, high, views[0].id))
        begin = gap_end
    return [*blocks, _Block(begin, end, low, high, views[0].id)]


def _sweep(blocks: Sequence[_Block]) -> None:
    """Goes through the steps with what is alive, in the order of its bytes."""
    alive: list[_Block] = []
    ending = sorted(blocks, key=lambda block: block.end)
    ended = 0
    for block in blocks:
        while ending[ended].end <= block.begin:
            alive.pop(bisect.bisect_left(alive, ending[ended].low, key=lambda each: each.low))
            ended += 1
        at = bisect.bisect_left(alive, block.low, key=lambda each: each.low)
        for other in alive[max(at - 1, 0) : at + 1]:
            if other.low < block.high and block.low < other.high:
                raise plan_overlap_error(
                    block.name, other.name, "buffers that are in use at once share bytes"
                )
        alive.insert(at, block)
