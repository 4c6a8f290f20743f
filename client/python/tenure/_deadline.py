"""When a call has to end."""

from __future__ import annotations

import time

from tenure.errors import DEADLINE, TenureError


class Deadline:
    """A moment on the steady clock.

    Parameters
    ----------
    timeout : float
        Seconds from now.
    """

    def __init__(self, timeout: float) -> None:
        self._at = time.monotonic() + timeout

    def left(self) -> float:
        """Gives the seconds that are left, 0 if none are."""
        return max(0.0, self._at - time.monotonic())

    def check(self, what: str) -> None:
        """Raises TenureError with reason `DEADLINE` if the moment has passed.

        Parameters
        ----------
        what : str
            What did not happen: "the daemon did not reply".
        """
        if self.left() == 0:
            raise TenureError(f"{what} in time", DEADLINE, code="DEADLINE_EXCEEDED")
