"""Plans: one allocation instead of many, for requests whose buffers and their order are known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tenure import _plan_check
from tenure._array_spec import MOST_ALIGNMENT
from tenure.buffer import DEFAULT_ALIGNMENT
from tenure.errors import NOT_PLANNED, PLAN_TOO_SMALL, TenureError
from tenure.slot import PlannedSlot

if TYPE_CHECKING:
    from tenure.pool import BufferPool

_LAST_STEP = (1 << 46) - 1


@dataclass(frozen=True)
class BufferUse:
    """How a request uses one of its buffers. Steps count from 0 on; only their order matters.

    Parameters
    ----------
    id : str
        Each is unique in its request.
    nbytes : int
        At least 1.
    first_use : int
        The first step at which it is in use.
    end : int or None
        The step after the last one: the end of its last reader. None: it never ends.
    alignment : int
        A power of two, at most 2 MiB.
    gaps : tuple of (int, int)
        Steps [begin, end) within that at which it holds nothing that is read later. In order, apart.
    output : bool
        It is read after the request: it lives to the end of all, at least.
    alias_group : int, optional
        Buffers of one group are views of the same memory, which is in use while any of them is.
    """

    id: str
    nbytes: int
    first_use: int
    end: int | None = None
    alignment: int = DEFAULT_ALIGNMENT
    gaps: tuple[tuple[int, int], ...] = ()
    output: bool = False
    alias_group: int | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for what makes no sense."""
        if not self.id or not 0 < self.nbytes < 1 << 62:
            raise ValueError(f"a buffer has a name and bytes, unlike {self.id!r} of {self.nbytes}")
        if not 0 < self.alignment <= MOST_ALIGNMENT or self.alignment & (self.alignment - 1) != 0:
            raise ValueError(
                f"an alignment is a power of two up to {MOST_ALIGNMENT}, not {self.alignment}"
            )
        end = _LAST_STEP if self.end is None else self.end
        if not 0 <= self.first_use < end <= _LAST_STEP:
            raise ValueError(f"{self.id!r} is in use during no steps: [{self.first_use}, {self.end})")
        used = self.first_use
        for begin, after in self.gaps:
            if not used < begin < after < end:
                raise ValueError(f"a gap of {self.id!r} is empty, out of order or not inside")
            used = after


class BufferPlan:
    """Where the buffers of a request lie in the memory of a slot; made by `BufferPool.plan`.

    No two that are in use at once share a byte. Immutable, and thread-safe.
    """

    def __init__(
        self,
        pool: BufferPool,
        uses: Sequence[BufferUse],
        offsets: Sequence[int],
        height: int,
        lower_bound: int,
        proven: bool,
    ) -> None:
        self._pool = pool
        self._uses = {use.id: use for use in uses}
        self._offsets = dict(zip(self._uses, offsets))
        self._height = height
        self._lower_bound = lower_bound
        self._proven = proven
        # Of views of one memory, by their group.
        self._group_bytes: dict[int, int] = {}
        for use in uses:
            if use.alias_group is not None:
                most = max(use.nbytes, self._group_bytes.get(use.alias_group, 0))
                self._group_bytes[use.alias_group] = most

    @property
    def height(self) -> int:
        """What a slot takes, in bytes."""
        return self._height

    @property
    def lower_bound(self) -> int:
        """No plan takes less than this."""
        return self._lower_bound

    @property
    def proven(self) -> bool:
        """Whether no plan takes less than `height`."""
        return self._proven

    @property
    def offsets(self) -> dict[str, int]:
        """Of each buffer, by its id."""
        return dict(self._offsets)

    @property
    def uses(self) -> tuple[BufferUse, ...]:
        """What was planned."""
        return tuple(self._uses.values())

    def use_of(self, name: str) -> BufferUse:
        """Gives what was planned of a buffer.

        Raises
        ------
        TenureError
            `NOT_PLANNED`.
        """
        use = self._uses.get(name)
        if use is None:
            raise TenureError(
                f"the plan has no such buffer: {name!r}", NOT_PLANNED, {"buffer": name}
            )
        return use

    def storage_bytes(self, use: BufferUse) -> int:
        """Gives the size of the memory that a buffer is a view of, or of the buffer if it is none."""
        return use.nbytes if use.alias_group is None else self._group_bytes[use.alias_group]

    def check(self, uses: Iterable[BufferUse]) -> None:
        """Raises an error unless the plan holds for these buffers, which it knows by their ids.

        Raises
        ------
        TenureError
            `NOT_PLANNED` for a buffer that it does not know, `PLAN_TOO_SMALL` for one that is larger or
            more aligned than planned, `PLAN_OVERLAP` for one that would be used together with another one
            that lies on the same bytes, or is a view of memory that lies elsewhere. The errors have the
            value `buffer`, and those about two `other`.
        """
        checked = list(uses)
        for use in checked:
            planned = self.use_of(use.id)
            if use.nbytes > planned.nbytes or use.alignment > planned.alignment:
                raise TenureError(
                    f"a buffer that is larger or more aligned than planned: {use.id!r}",
                    PLAN_TOO_SMALL,
                    {"buffer": use.id},
                )
        _plan_check.check_apart(checked, [self._offsets[use.id] for use in checked])

    def open_slot(
        self,
        *,
        fall_back: bool = False,
        wait: float = 0.0,
        priority: int = 0,
        timeout: float | None = None,
    ) -> PlannedSlot:
        """Acquires the memory for one request, as one buffer; others may be open at once.

        Parameters
        ----------
        fall_back : bool
            A buffer that does not fit the plan is given memory of the pool, as if it were unplanned,
            instead of an error.
        wait, priority, timeout
            As in `BufferPool.acquire`, also for what falls back.

        Returns
        -------
        PlannedSlot
            A context manager that closes it.
        """
        alignment = max([DEFAULT_ALIGNMENT, *(use.alignment for use in self._uses.values())])
        memory = self._pool.acquire(
            self._height, alignment=alignment, wait=wait, priority=priority, timeout=timeout
        )
        return PlannedSlot(self._pool, self, memory, fall_back, wait, priority)


class PlanFamily:
    """Plans of one graph by the shape of its requests, as batch and length.

    A few stand for all: who asks for a shape gets the plan of one that is as large or larger.
    """

    def __init__(self) -> None:
        self._plans: dict[tuple[int, ...], BufferPlan] = {}

    def add(self, shape: Sequence[int], plan: BufferPlan) -> None:
        """Adds a plan, in place of an earlier one of the same shape.

        Raises
        ------
        ValueError
            For a shape of no dimensions, or of another number of them than the first one.
        """
        self._plans[self._key(shape)] = plan

    def smallest(self, shape: Sequence[int]) -> BufferPlan:
        """Gives the plan of the least height of which no dimension is smaller than asked.

        Raises
        ------
        TenureError
            `PLAN_TOO_SMALL` if there is none.
        ValueError
            As in `add`.
        """
        key = self._key(shape)
        fitting = [
            plan
            for of, plan in self._plans.items()
            if all(has >= wanted for has, wanted in zip(of, key))
        ]
        if not fitting:
            text = "x".join(map(str, key))
            raise TenureError(
                f"no plan is for a shape as large: {text}", PLAN_TOO_SMALL, {"shape": text}
            )
        return min(fitting, key=lambda plan: plan.height)

    def _key(self, shape: Sequence[int]) -> tuple[int, ...]:
        key = tuple(shape)
        if not key or any(len(of) != len(key) for of in self._plans):
            raise ValueError(f"a shape of another number of dimensions: {key}")
        return key
