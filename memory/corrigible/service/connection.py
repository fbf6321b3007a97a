"""Connections of the service, which end if a request's headers take too long."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS_TIMEOUT = 10  # seconds from the connection, or the last answer, on
LATE = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class TimedProtocol(H11Protocol):
    """uvicorn's HTTP, but a client that sends no whole headers in time is cut off.

    uvicorn ends connections on which nothing comes after an answer; before the first one, or if
    bytes come one by one, it would wait for ever.
    """

    _timer: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:  # a request has come
            self._timer.cancel()

    def on_response_complete(self) -> None:
        self._start_timer()
        super().on_response_complete()  # the next request may have come already

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def _start_timer(self):
        self._timer = self.loop.call_later(HEADERS_TIMEOUT, self._end)

    def _end(self):
        if self.conn.trailing_data[0]:  # a part of a request
            self.transport.write(LATE)
        self.transport.close()
