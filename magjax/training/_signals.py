"""SIGTERM and SIGINT ask the loop to save and stop at the next step."""

import signal
import threading
from types import FrameType, TracebackType

__all__ = ["StopRequest"]


class StopRequest:
    """Within the block, the first SIGTERM or SIGINT only sets :attr:`name`; a second one kills.

    Outside the main thread, where Python allows no handlers, nothing is installed.

    >>> import signal
    >>> with StopRequest() as stop:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     stop.name
    'SIGTERM'
    """

    def __init__(self) -> None:
        self.name: str | None = None
        self.number: int = 0
        self._previous: dict[int, signal._HANDLER] = {}

    def _receive(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.name, self.number = signal.Signals(number).name, number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()
