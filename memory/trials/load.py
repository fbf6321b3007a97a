"""The memory's service, and many clients of it at once: ``python -m trials.load PORT [SECRET]``.

Each asks for one text after the other on a connection of its own, or with the secret of a key
corrects one after the other. Texts come on standard input, a line each; figures go to standard
output, as JSON.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager

from trials import PATHS

CLIENTS = 200


@contextmanager
def served(path, port=0, **environment):
    """The process and the port of `corrigible serve`."""
    where = [str(path), "--port", str(port)]
    command = [sys.executable, "-m", "corrigible", "serve", *where]
    env = os.environ | {"PYTHONPATH": PATHS, "HF_HUB_OFFLINE": "1"} | environment
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            yield process, int(re.search(r":(\d+) ", process.stdout.readline())[1])
        finally:
            process.kill()


def request(text, secret=None):
    """Bytes of a question, or with a key's secret, of a correction."""
    path = "predict"
    sent = {"text": text}
    key = ""
    if secret is not None:
        path = "correct"
        sent["label"] = "load"
        key = f"Authorization: Bearer {secret}\r\n"
    body = json.dumps(sent).encode()
    length = f"Content-Length: {len(body)}\r\n"
    return f"POST /{path} HTTP/1.1\r\nHost: load\r\n{key}{length}\r\n".encode() + body


async def client(port, requests, seconds, failed):
    """Send requests until there are none; note seconds to each answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while requests:
        sent = time.perf_counter()
        writer.write(requests.pop())
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        await reader.readexactly(length)
        seconds.append(time.perf_counter() - sent)
        if b" 200 " not in head[:20]:
            failed.append(head)
    writer.close()


async def load(port, texts, secret=None):
    """Answers a second, seconds at the median, the 99th percentile and the longest, failures."""
    requests = [request(text, secret) for text in texts]
    seconds = []
    failed = []
    started = time.perf_counter()
    await asyncio.gather(*(client(port, requests, seconds, failed) for _ in range(CLIENTS)))
    lasted = time.perf_counter() - started
    seconds.sort()
    return {
        "answers_per_s": len(seconds) / lasted,
        "p50_s": seconds[len(seconds) // 2],
        "p99_s": seconds[len(seconds) * 99 // 100],
        "longest_s": seconds[-1],
        "failed": len(failed),
    }


if __name__ == "__main__":
    port, *secret = sys.argv[1:]
    print(json.dumps(asyncio.run(load(int(port), sys.stdin.read().splitlines(), *secret))))
