"""A bad network: a proxy before a server's socket that delays, drops and cuts connections."""

import asyncio
import random
import threading
from contextlib import contextmanager, suppress

CHUNK = 65536


class Proxy:
    """Connections to ``port`` of a host go on to a socket's path, as far as ``trouble`` lets them.

    ``delay`` is the seconds at most that a chunk waits, ``cut`` and ``drop`` the share of chunks
    with which a connection is reset, or falls silent: nothing comes through any more.
    """

    def __init__(self, target, delay=0.0, cut=0.0, drop=0.0, seed=0):
        self._target = str(target)
        self.delay = delay
        self.cut = cut
        self.drop = drop
        self.cuts = 0
        self.drops = 0
        self._random = random.Random(seed)

    async def _serve(self, reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_unix_connection(self._target)
        except OSError:
            writer.transport.abort()
            return
        ends = writer, far_writer
        await asyncio.gather(
            self._pass(reader, far_writer, ends), self._pass(far_reader, writer, ends)
        )

    async def _pass(self, reader, writer, ends):
        silent = False
        with suppress(OSError):
            while True:
                chunk = await reader.read(CHUNK)
                if not chunk:
                    break
                if self.delay:
                    await asyncio.sleep(self._random.uniform(0, self.delay))
                if self._random.random() < self.cut:
                    self.cuts += 1
                    break
                if not silent and self._random.random() < self.drop:
                    self.drops += 1
                    silent = True
                if not silent:
                    writer.write(chunk)
                    await writer.drain()
        for end in ends:
            end.transport.abort()

    @contextmanager
    def running(self, host="127.0.0.1"):
        """While entered, accept connections; yields the port."""
        loop = asyncio.new_event_loop()
        started = threading.Event()
        server = None

        def run():
            nonlocal server
            asyncio.set_event_loop(loop)
            server = loop.run_until_complete(asyncio.start_server(self._serve, host, 0))
            started.set()
            loop.run_forever()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        started.wait()
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            for task in asyncio.all_tasks(loop):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    loop.run_until_complete(task)
            server.close()
            loop.close()
