"""A correction memory behind HTTP: anybody may ask, owners of keys may correct."""

import asyncio
import hmac
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import ValidationError

from corrigible.memory import CorrectionMemory
from corrigible.proofs.keys import Key
from corrigible.service.desk import RecentTexts, make_desk
from corrigible.service.wire import (
    Correction,
    Query,
    check_parameters,
    fault,
    make_sender_check,
    refusal,
    shown,
)
from ocrrlib.files import InputError
from ocrrlib.labels import label_of, look_alikes

WAITING = 512  # texts of all requests
BATCH = 32  # texts encoded at once: more are no faster on CPUs
REMEMBERED = 1000  # texts that were asked last
MOMENT = 0.5  # seconds to wait for the number of entries
CHALLENGE = {"WWW-Authenticate": "Bearer"}


class Batcher:
    """A function of a list, called in a thread for all items that wait, the shortest first."""

    def __init__(self, function: Callable[[Any], Iterable]):
        self._function = function
        self._thread = ThreadPoolExecutor(1)  # each thread would have OpenMP threads of its own
        self._waiting: list[tuple[Any, asyncio.Future]] = []
        self._n_waiting = 0  # with those that are worked on
        self._lock = threading.Lock()  # for what waits, and whether the thread works
        self._works = False

    async def __call__(self, items: Sequence) -> list:
        """Results of items (n,); status 503 if too many wait."""
        if self._n_waiting + len(items) > WAITING:
            raise HTTPException(503, "too many texts wait: try again", {"Retry-After": "2"})
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in items]
        self._n_waiting += len(futures)
        with self._lock:
            self._waiting += zip(items, futures)
            if not self._works:
                self._works = True
                loop.call_soon(self._thread.submit, self._run, loop)  # after others that ask now
        return await asyncio.gather(*futures)

    def _run(self, loop):
        """Work in the thread, which waits for no loop that is busy, until nothing waits."""
        while True:
            with self._lock:
                todo = sorted(self._waiting, key=lambda pair: len(pair[0]))  # so little is padded
                self._waiting = []
                self._works = bool(todo)
            if not todo:
                return
            for start in range(0, len(todo), BATCH):
                items, futures = zip(*todo[start : start + BATCH])
                outcomes = self._outcomes(items)
                with suppress(RuntimeError):  # the service has ended
                    loop.call_soon_threadsafe(self._settle, futures, outcomes)

    def _settle(self, futures, outcomes):
        self._n_waiting -= len(futures)
        for future, outcome in zip(futures, outcomes):
            failed = isinstance(outcome, Exception)
            settle = future.set_exception if failed else future.set_result
            if not future.cancelled():  # as when the service ends
                settle(outcome)

    def _outcomes(self, items):  # result or error of each; an error is that of one item alone
        try:
            return list(self._function(list(items)))
        except Exception as error:  # an encoder may raise anything
            if len(items) == 1:
                return [error]
        return [outcome for item in items for outcome in self._outcomes([item])]


class Counter:
    """The number of entries as last read: who asks waits a moment at most, not for the base."""

    def __init__(self, memory: CorrectionMemory):
        self._memory = memory
        self._thread = ThreadPoolExecutor(1)  # those of other pools may all wait for the base
        self._reading: asyncio.Task | None = None
        self._number: int | None = None  # before it was ever read
        self._fault: str | None = None

    async def __call__(self) -> int | None:
        """The number; ``InputError`` if it could not be read when it was last tried."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        await asyncio.wait([self._reading], timeout=MOMENT)
        if self._fault is not None:
            raise InputError(self._fault)
        return self._number

    async def _read(self):
        loop = asyncio.get_running_loop()
        try:
            self._number = await loop.run_in_executor(self._thread, len, self._memory)
            self._fault = None
        except InputError as error:
            self._fault = str(error)


class Service(FastAPI):
    """FastAPI, but an error inside is one line in the log, and what is cancelled gets 503."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        except asyncio.CancelledError:  # the service ends
            with suppress(RuntimeError):  # a part of the answer has gone
                await refusal(503, "the service ends: ask again")(scope, receive, send)
        except Exception as error:  # the client has its status 500
            logging.error("%r failed: %r", scope.get("path"), error)


def _answers(memory, queries):
    """Answers to vectors, each with the share of such answers that must be right, or None."""
    found = {}
    for share in {share for _, share in queries}:
        rows = [row for row, query in enumerate(queries) if query[1] == share]
        found |= zip(rows, memory.predict([queries[row][0] for row in rows], share))
    return [found[row] for row in range(len(queries))]


def make_app(
    memory: CorrectionMemory,
    keys: Mapping[str, str] | None = None,
    signer: Key | None = None,
    remembered: int = REMEMBERED,
    hosts: Iterable[str] = (),
) -> FastAPI:
    """Make a memory's service, with a desk for owners of keys.

    ``keys`` are secrets by owner's name; without, nobody may correct. ``signer`` signs heads. Of
    the texts asked, so many as ``remembered`` are kept in RAM for the owners of keys to review.
    ``hosts`` are names that the service is reached under, as ``desk.example``; addresses and names
    without a dot, as ``localhost``, need not be given. Raises ``InputError`` if a key is empty, or
    a host is no name.
    """
    keys = keys or {}
    if not all(keys.values()):
        raise InputError("a key is empty: give each owner a long secret")
    checked = [Depends(make_sender_check(hosts)), Depends(check_parameters)]
    app = Service(openapi_url=None, redirect_slashes=False, dependencies=checked)
    encoded = Batcher(memory.embed)
    answered = Batcher(partial(_answers, memory))
    count = Counter(memory)
    writers = ThreadPoolExecutor(WAITING)  # threads that wait are written together

    @app.exception_handler(RequestValidationError)
    @app.exception_handler(ValidationError)
    async def invalid(_, error):
        return refusal(422, fault(error))

    @app.exception_handler(InputError)
    async def refused(request, error):
        if str(memory.path) not in str(error):  # it is about what was sent
            return refusal(422, str(error))
        logging.error("%r refused: %s", request.url.path, error)
        return refusal(503, str(error).replace(str(memory.path), "the memory"))

    async def owner(request: Request):
        sent = request.headers.get("authorization", "").encode("latin-1")
        for name, secret in keys.items():
            if hmac.compare_digest(f"Bearer {secret}".encode(), sent):
                return name
        if sent:
            raise HTTPException(401, "the key is unknown", CHALLENGE)

    async def author(name: Annotated[str | None, Depends(owner)]) -> str:
        if name is None:
            raise HTTPException(401 if keys else 403, "this needs a key", CHALLENGE)
        return name

    def known(entry):
        if entry >= len(memory):
            raise HTTPException(404, f"there is no entry {entry}")
        return entry

    recent = RecentTexts(remembered if keys else 0)

    @app.post("/predict")
    async def predict(
        name: Annotated[str | None, Depends(owner)], sent: Annotated[Query, Depends(Query.read)]
    ):
        if (sent.text is None) == (sent.texts is None):
            raise HTTPException(422, "give text or texts")
        texts = sent.texts or [sent.text or ""]
        vectors = await encoded(texts)
        recent.note(texts, vectors)
        queries = [(vector, sent.at_least) for vector in vectors]
        answers = [shown(answer, name) for answer in await answered(queries)]
        return JSONResponse(answers[0] if sent.texts is None else {"answers": answers})

    @app.post("/correct")
    async def correct(
        name: Annotated[str, Depends(author)], sent: Annotated[Correction, Depends(Correction.read)]
    ):
        (vector,) = await encoded([sent.text])

        def put():
            replaces = None if sent.replaces is None else known(sent.replaces)
            end = len(memory)
            labels = memory.labels
            about = sent.about
            place = memory.correct(sent.text, sent.label, name, vector, replaces, about)
            label = label_of(sent.label)
            alike = []
            if label not in labels:
                alike = [one for one, other in look_alikes([*labels, label]) if other == label]
            return {"entry": place, "new": place >= end, "alike": alike}

        return await asyncio.get_running_loop().run_in_executor(writers, put)

    @app.get("/head", response_class=PlainTextResponse)
    def head():
        return str(memory.head(signer))

    @app.get("/proof/{entry}", response_class=PlainTextResponse, dependencies=[Depends(author)])
    def proof(entry: Annotated[int, Path(ge=0)]):
        return memory.prove_entry(known(entry), signer)

    @app.get("/health")
    async def health():
        return {"entries": await count()}

    app.include_router(make_desk(memory, recent, encoded, author))  # after what is asked most
    return app
