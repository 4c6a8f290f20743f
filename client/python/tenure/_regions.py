"""The regions of a session, each mapped at most once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tenure._mapping import Mapping


@dataclass(eq=False)
class Region:
    """One region.

    A user is a lease that was not dropped, live or lost. A mapped region without users whose memory no
    array shows is idle: kept for quick return, given back when the daemon wants it.
    """

    region_id: int
    users: int = 0
    fetching: bool = False
    mapping: Mapping | None = None
    share_serial: int = 0
    """Names the mapping to the daemon; 0 while there is none."""
    wanted_back: bool = False
    """The daemon waits for it; it goes as soon as it is idle."""

    @property
    def idle(self) -> bool:
        """Whether it is mapped and nobody reads it."""
        return self.users == 0 and self.mapping is not None and not self.mapping.viewed


class Regions:
    """Thread-compatible."""

    def __init__(self) -> None:
        self._regions: dict[int, Region] = {}

    def __getitem__(self, region_id: int) -> Region:
        return self._regions[region_id]

    def use(self, region_id: int) -> Region:
        """Adds a user."""
        region = self._regions.setdefault(region_id, Region(region_id))
        region.users += 1
        region.wanted_back = False
        return region

    def unuse(self, region_id: int) -> None:
        """Removes a user."""
        region = self._regions[region_id]
        region.users -= 1
        self._forget_if_unused(region)

    def finish_fetch(self, region_id: int, share_serial: int, mapping: Mapping) -> None:
        """Takes in a mapping that is complete. REQUIRES: the region is fetching."""
        region = self._regions[region_id]
        region.fetching = False
        region.share_serial = share_serial
        region.mapping = mapping

    def fail_fetch(self, region_id: int) -> None:
        """Ends a fetch that came to nothing. REQUIRES: the region is fetching."""
        region = self._regions[region_id]
        region.fetching = False
        self._forget_if_unused(region)

    def want_back(self, share_serial: int) -> None:
        """Notes that the daemon waits for a mapping."""
        for region in self._regions.values():
            if region.mapping is not None and region.share_serial == share_serial:
                region.wanted_back = True

    def want_region_back(self, region_id: int) -> None:
        """The same by the region's id."""
        if region_id in self._regions:
            self._regions[region_id].wanted_back = True

    def want_all_back(self) -> None:
        """The same for all."""
        for region in self._regions.values():
            region.wanted_back = True

    def take_wanted(self) -> list[tuple[int, Callable[[], None]]]:
        """Forgets the idle regions that the daemon waits for, and gives their serials, each with what
        unmaps it."""
        taken: list[tuple[int, Callable[[], None]]] = []
        for region in list(self._regions.values()):
            if region.wanted_back and region.idle and region.mapping is not None:
                taken.append((region.share_serial, region.mapping.unmap))
                del self._regions[region.region_id]
        return taken

    @property
    def mapped_count(self) -> int:
        """How many are mapped, in use or idle."""
        return sum(region.mapping is not None for region in self._regions.values())

    def _forget_if_unused(self, region: Region) -> None:
        if region.users == 0 and region.mapping is None and not region.fetching:
            del self._regions[region.region_id]
