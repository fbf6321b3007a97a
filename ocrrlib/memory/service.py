"""A correction memory behind HTTP, ``ocrr memory serve``: anybody asks, who has a key corrects."""

import asyncio
import hmac
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import AfterValidator, BaseModel, Field, ValidationError
from starlette.requests import ClientDisconnect

from ocrrlib.files import InputError
from ocrrlib.memory.keys import Key
from ocrrlib.memory.memory import CorrectionMemory

LONGEST = 2**20  # bytes of a request
TEXT = 10_000  # characters
TEXTS = 64  # of a request
WAITING = 512  # texts of all requests
PATIENCE = 10  # seconds for a body to arrive
TOGETHER = 32  # texts encoded at once: more are no faster on CPUs
CLOSE = {"Connection": "close"}
CHALLENGE = {"WWW-Authenticate": "Bearer"}


def _word(text):  # pydantic refuses lone surrogates
    if text.strip() and "\0" not in text:
        return text
    raise ValueError("it is empty or has a zero byte")


Text = Annotated[str, Field(max_length=TEXT), AfterValidator(_word)]


class Query(BaseModel, extra="forbid"):
    """A text, or several."""

    text: Text | None = None
    texts: Annotated[list[Text], Field(min_length=1, max_length=TEXTS)] | None = None


class Correction(BaseModel, extra="forbid"):
    """A text with its right label; its author is the owner of the key."""

    text: Text
    label: Annotated[Text, Field(max_length=200)]


class Together:
    """A function of a list, called in a thread for all items that wait, the shortest first."""

    def __init__(self, function: Callable[[Any], Iterable]):
        self._function = function
        self._thread = ThreadPoolExecutor(1)  # each thread would have OpenMP threads of its own
        self._waiting: list[tuple[Any, asyncio.Future]] = []
        self._n_waiting = 0  # with those that are worked on
        self._work: asyncio.Task | None = None

    async def __call__(self, items: Sequence) -> list:
        """Results of items (n,); status 503 if too many wait."""
        if self._n_waiting + len(items) > WAITING:
            raise HTTPException(503, "too many texts wait: try again", {"Retry-After": "2"})
        futures: list[asyncio.Future] = [asyncio.Future() for _ in items]
        self._waiting += zip(items, futures)
        self._n_waiting += len(futures)
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._run())
        return await asyncio.gather(*futures)

    async def _run(self):
        while self._waiting:
            todo = sorted(self._waiting, key=lambda pair: len(pair[0]))  # of a length: no padding
            self._waiting = []
            for start in range(0, len(todo), TOGETHER):
                items, futures = zip(*todo[start : start + TOGETHER])
                outcomes = await asyncio.wrap_future(self._thread.submit(self._outcomes, items))
                self._n_waiting -= len(items)
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


async def _body(request):
    body = bytearray()
    n_read = 0
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                n_read += len(part)
                body += part[: LONGEST + 1 - len(body)]
                if n_read > 16 * LONGEST:  # some is read, else its client sees no answer
                    break
    except (TimeoutError, ClientDisconnect) as error:
        raise HTTPException(408, f"the body took over {PATIENCE} seconds", CLOSE) from error
    if len(body) <= LONGEST:
        return body
    raise HTTPException(413, f"a request has at most {LONGEST} bytes", CLOSE)


def _refusal(status, why):
    return JSONResponse({"detail": " ".join(why.split())[:300]}, status)


class Service(FastAPI):
    """FastAPI, but an error inside is one line in the log, and what is cancelled gets 503."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        except asyncio.CancelledError:  # the service ends
            with suppress(RuntimeError):  # a part of the answer has gone
                await _refusal(503, "the service ends: ask again")(scope, receive, send)
        except Exception as error:  # the client has its status 500
            logging.error("%r failed: %r", scope.get("path"), error)


def _shown(answer, name):
    # Strangers see no neighbours: these are stored texts, and many cosines tell a vector.
    near = [one._asdict() | {"when": one.when.isoformat()} for one in answer.neighbours if name]
    return {"label": answer.label, "confidence": answer.confidence, "neighbours": near}


def make_app(memory: CorrectionMemory, keys: dict[str, str], signer: Key | None) -> FastAPI:
    """Make a memory's service; ``keys`` are secrets by owner's name, ``signer`` signs heads."""
    app = Service(openapi_url=None, redirect_slashes=False)
    encoded = Together(memory.embed)
    answered = Together(memory.predict)

    @app.exception_handler(RequestValidationError)
    @app.exception_handler(ValidationError)
    async def invalid(_, error):
        first = error.errors()[0]
        return _refusal(422, f"{'.'.join(map(str, first['loc']))}: {first['msg']}")

    @app.exception_handler(InputError)
    async def refused(request, error):
        if memory.path.name not in str(error):  # it is about what was sent
            return _refusal(422, str(error))
        logging.error("%r refused: %s", request.url.path, error)
        return _refusal(503, str(error).replace(str(memory.path), "the memory"))

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

    @app.post("/predict")
    async def predict(request: Request, name: Annotated[str | None, Depends(owner)]):
        query = Query.model_validate_json(await _body(request))
        if (query.text is None) == (query.texts is None):
            raise HTTPException(422, "give text or texts")
        vectors = await encoded(query.texts or [query.text])
        shown = [_shown(answer, name) for answer in await answered(vectors)]
        return JSONResponse(shown[0] if query.texts is None else {"answers": shown})

    @app.post("/correct")
    async def correct(request: Request, name: Annotated[str, Depends(author)]):
        sent = Correction.model_validate_json(await _body(request))
        (vector,) = await encoded([sent.text])
        entry = await asyncio.to_thread(memory.correct, sent.text, sent.label, name, vector)
        return {"entry": entry}

    @app.get("/head", response_class=PlainTextResponse)
    def head():
        return str(memory.head(signer))

    @app.get("/proof/{entry}", response_class=PlainTextResponse, dependencies=[Depends(author)])
    def proof(entry: Annotated[int, Path(ge=0)]):
        if entry >= len(memory):
            raise HTTPException(404, f"there is no entry {entry}")
        return memory.prove_entry(entry, signer)

    @app.get("/health")
    def health():
        return {"entries": len(memory)}

    return app
