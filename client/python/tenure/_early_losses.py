"""What the daemon ends before this process knows of it."""

from __future__ import annotations


class EarlyLosses:
    """Losses of what was granted by replies that are still on their way. Thread-compatible."""

    def __init__(self) -> None:
        self._grants = 0
        self._reasons: dict[int, str] = {}

    def begin_grant(self) -> None:
        """From now on something may be granted, and even lost, that is not known yet. Calls nest."""
        self._grants += 1

    def end_grant(self) -> None:
        """Ends what `begin_grant` began."""
        self._grants -= 1
        if self._grants == 0:
            self._reasons.clear()

    def note(self, granted_id: int, reason: str) -> None:
        """Notes a loss, if something may be on its way."""
        if self._grants > 0:
            self._reasons[granted_id] = reason

    def reason_of(self, granted_id: int) -> str:
        """Gives why something was lost that has come now; empty if it was not."""
        return self._reasons.get(granted_id, "")
