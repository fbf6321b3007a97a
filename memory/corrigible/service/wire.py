"""Requests to a memory's service, with their limits, and its replies as JSON."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import ip_address
from typing import Annotated, Any, Self

from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError
from starlette.requests import ClientDisconnect

from corrigible.answers import Answer
from ocrrlib.files import InputError
from ocrrlib.labels import label_of

MAX_BODY = 2**20  # bytes of a request
TEXT = 10_000  # characters
TEXTS = 64  # of a request
REVIEWED = 1000  # texts to be ranked at once
BODY_TIMEOUT = 10  # seconds for a body to arrive
CLOSE = {"Connection": "close"}
JSON = "application/json"
ALLOW = "serve it with --allow-host, or make_app(hosts=...), if it is yours"


def _word(text):  # pydantic refuses lone surrogates
    if text.strip() and "\0" not in text:
        return text
    raise ValueError("it is empty or has a zero byte")


def _number_as_words(value):
    """A number as the label that it is; ``InputError``, a ``ValueError``, if it is none."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return label_of(value) if is_number else value


Text = Annotated[str, Field(max_length=TEXT), AfterValidator(_word)]
Label = Annotated[Text, Field(max_length=200), BeforeValidator(_number_as_words)]
Place = Annotated[int, Field(ge=0, lt=2**63, strict=True)]


class RequestBody(BaseModel, extra="forbid"):
    """JSON of a request."""

    @classmethod
    async def read(cls, request: Request) -> Self:
        """Read a body; it is refused with status 408, 413, 415 or 422."""
        kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
        if kind != JSON:  # as a form has, which any page may send
            raise HTTPException(415, f"send it as {JSON}, not as {kind!r:.80}")
        return cls.model_validate_json(await _body(request))


class Query(RequestBody):
    """A text, or several, to be answered if that share of such answers is right."""

    text: Text | None = None
    texts: Annotated[list[Text], Field(min_length=1, max_length=TEXTS)] | None = None
    at_least: Annotated[float, Field(gt=0, lt=1)] | None = None


class Correction(RequestBody):
    """A text with its right label; its author is the owner of the key."""

    text: Text
    label: Label
    replaces: Place | None = None
    about: dict[str, Any] | None = None


class Review(RequestBody):
    """Texts to be ranked; without them, those that were asked last."""

    texts: Annotated[list[Text], Field(max_length=REVIEWED)] | None = None
    n: Annotated[int, Field(ge=1, le=TEXTS)] = 20


class Aside(RequestBody):
    """A text, or a suspect by its entry, that is set aside, or back again."""

    text: Text | None = None
    entry: Place | None = None
    aside: bool = True


class Undo(RequestBody):
    """An entry to be undone."""

    entry: Place


class Rename(RequestBody):
    """A label and its new name."""

    old: Label
    new: Label


class Merge(RequestBody):
    """Labels that become one."""

    labels: Annotated[list[Label], Field(min_length=1, max_length=TEXTS)]
    into: Label


class Known(RequestBody):
    """A head that was kept elsewhere, and public keys that must have signed it."""

    head: Text
    keys: Annotated[list[Text], Field(max_length=TEXTS)] = []


async def _body(request):
    body = bytearray()
    n_read = 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            async for part in request.stream():
                n_read += len(part)
                body += part[: MAX_BODY + 1 - len(body)]
                if n_read > 16 * MAX_BODY:  # some is read, else its client sees no answer
                    break
    except (TimeoutError, ClientDisconnect) as error:
        raise HTTPException(408, f"the body took over {BODY_TIMEOUT} seconds", CLOSE) from error
    if len(body) <= MAX_BODY:
        return body
    raise HTTPException(413, f"a request has at most {MAX_BODY} bytes", CLOSE)


def refusal(status: int, why: str) -> JSONResponse:
    """A refusal in one line."""
    return JSONResponse({"detail": " ".join(why.split())[:300]}, status)


def fault(error: ValidationError | RequestValidationError) -> str:
    """The first thing that is wrong in a request, after its name if it has one."""
    first = error.errors()[0]
    name = ".".join(map(str, first["loc"]))
    what = first["msg"].removeprefix("Value error, ").replace(" after validation", "")
    return f"{name}: {what}" if name else what


async def check_parameters(request: Request) -> None:
    """Refuse, with status 422, parameters that a route which reads some would not read.

    A filter with a wrong name would let all through; elsewhere, as in links to the desk, they do no
    harm.
    """
    known = [parameter.alias for parameter in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if known and name not in known:
            there = ", ".join(known)
            raise HTTPException(422, f"unknown parameter {name!r:.80}; there are: {there}")


def make_sender_check(hosts: Iterable[str]) -> Callable[[Request], Awaitable[None]]:
    """Make a check that a request means this service, and that no foreign page sends it.

    ``hosts`` are names of the service, with the port that pages of it have if that is not the usual
    one. Raises ``InputError`` if one is no name.
    """
    own = {host.lower() for host in hosts}
    names = {_hostname(host) for host in own}
    for name in names:
        if not name or "/" in name:
            raise InputError(f"{name!r} is no name of a host: give one as desk.example")

    async def check_sender(request: Request) -> None:
        host = request.headers.get("host", "").lower()
        if not _is_safe(_hostname(host)) and _hostname(host) not in names:
            raise HTTPException(403, f"the host {host!r:.80} is not allowed: {ALLOW}")
        origin = request.headers.get("origin")  # set by browsers
        sender = host if origin is None else origin.lower().partition("://")[2]
        if sender != host and sender not in own:  # behind a proxy they may differ
            raise HTTPException(403, f"pages of {origin!r:.80} are not allowed: {ALLOW}")

    return check_sender


def _hostname(host):
    """A host without its port."""
    return re.sub(r":\d*$", "", host).strip("[]")


def _is_safe(name):
    """Whether no stranger can make a browser find this service under a name: it has no domain."""
    try:
        ip_address(name)
    except ValueError:
        return "." not in name  # as localhost
    return True


def shown(answer: Answer, name: str | None) -> dict:
    """An answer as the owner of a key sees it, or a stranger, who has no ``name``."""
    # Strangers see no neighbours: these are stored texts, and many cosines tell a vector.
    near = [timed(one) for one in answer.neighbours if name]
    # Confidence rises with the cosine: strangers see tenths.
    confidence = answer.confidence if name else round(answer.confidence, 1)
    found = {"label": answer.label, "confidence": confidence, "neighbours": near}
    if name and answer.promised is not None:
        found["promised"] = answer.promised
    if name and answer.reason is not None:
        found["reason"] = answer.reason
    elif answer.label is None:
        found["reason"] = "it is not sure enough"
    return found


def timed(one: Any) -> dict:
    """The fields of a tuple that has a time ``when``."""
    return one._asdict() | {"when": one.when.isoformat()}
