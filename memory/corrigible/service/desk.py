"""The desk: one page for those who correct a memory, and what it asks of the service.

The page is ``desk.html``, its words in each language ``desk.json``.
"""

import base64
import re
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from pathlib import Path as FilePath
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, HTTPException, Path
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, Response

from corrigible.memory import CorrectionMemory
from corrigible.proofs.heads import Head
from corrigible.proofs.keys import Key
from corrigible.service.wire import (
    TEXTS,
    Aside,
    Correction,
    Known,
    Merge,
    Rename,
    Review,
    Undo,
    shown,
    timed,
)

LISTED = 100  # entries in a reply at most
SUSPECTED = 20  # suspects in a reply at most
NO_ANSWER: dict[str, Any] = {"label": None, "confidence": 0, "neighbours": []}
PAGE = FilePath(__file__).with_name("desk.html")
WORDS = FilePath(__file__).with_name("desk.json")


class RecentTexts:
    """Texts that were asked last and their vectors, each once, in RAM alone."""

    def __init__(self, room: int):
        self._room = room
        self.vectors: dict[str, np.ndarray] = {}  # by text, the newest last
        self._aside: dict[str, None] = {}  # texts that are not to be reviewed, the newest last

    def note(self, texts: Sequence[str], X: Sequence[np.ndarray]) -> None:
        """Take texts (n,) and their vectors (n, d), in the place of the oldest."""
        for text, x in zip(texts, X):
            self.vectors.pop(text, None)
            if text not in self._aside:
                self.vectors[text] = np.array(x)  # not a view of all that were encoded together
        self._shorten(self.vectors)

    def set_aside(self, text: str, aside: bool = True) -> None:
        """Leave out a text, however often it is asked; or, with ``aside`` false, do so no more."""
        self._aside.pop(text, None)
        if aside:
            self._aside[text] = None
            self.vectors.pop(text, None)
        self._shorten(self._aside)

    def _shorten(self, by_text):
        for text in list(by_text)[: max(0, len(by_text) - self._room)]:
            del by_text[text]


def page() -> tuple[str, dict[str, str]]:
    """The page, and headers by which it loads and runs nothing but what is in it."""
    html = PAGE.read_text(encoding="utf-8")
    hashes = {}
    for part in ("script", "style"):
        (content,) = re.findall(f"<{part}[^>]*>(.*?)</{part}>", html, re.DOTALL)
        hashes[part] = base64.b64encode(sha256(content.encode()).digest()).decode()
    policy = [
        "default-src 'none'",
        *(f"{part}-src 'sha256-{hash}'" for part, hash in hashes.items()),
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    return html, {
        "Content-Security-Policy": "; ".join(policy),
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-cache",
    }


def make_desk(
    memory: CorrectionMemory,
    recent: RecentTexts,
    encoded: Callable[[list[str]], Awaitable[list]],
    author: Callable,
) -> APIRouter:
    """Make the desk's addresses: ``encoded`` gives vectors, ``author`` who owns a request's key."""
    desk = APIRouter()
    html, headers = page()
    kept: set[int] = set()  # suspects that somebody found right
    words = WORDS.read_bytes()  # once: all threads may wait for the base
    Author = Annotated[str, Depends(author)]

    def known(entry):
        if entry >= len(memory):
            raise HTTPException(404, f"there is no entry {entry}")
        return entry

    @desk.get("/", response_class=HTMLResponse)
    async def serve_page():
        return HTMLResponse(html, headers=headers)

    @desk.get("/desk.json")
    async def serve_words():
        return Response(words, headers={"Cache-Control": "no-cache"}, media_type="application/json")

    @desk.post("/review")
    async def review(name: Author, sent: Annotated[Review, Depends(Review.read)]):
        texts = list(recent.vectors if sent.texts is None else dict.fromkeys(sent.texts))
        vectors = {text: recent.vectors[text] for text in texts if text in recent.vectors}
        new = [text for text in texts if text not in vectors]
        for start in range(0, len(new), TEXTS):
            part = new[start : start + TEXTS]
            vectors.update(zip(part, await encoded(part)))
        X = [vectors[text] for text in texts]

        def ranked():
            if not memory.labels or not texts:
                return [{"text": text, **NO_ANSWER} for text in texts[: sent.n]]  # in their order
            found = memory.review(texts, sent.n, X)
            return [{"text": texts[one.row]} | shown(one.answer, name) for one in found]

        return {"texts": await run_in_threadpool(ranked)}

    @desk.post("/preview", dependencies=[Depends(author)])
    async def preview(sent: Annotated[Correction, Depends(Correction.read)]):
        (vector,) = await encoded([sent.text])
        texts = list(recent.vectors)
        X = list(recent.vectors.values())

        def previewed():
            replaces = None if sent.replaces is None else known(sent.replaces)
            return memory.preview(sent.text, sent.label, X, vector, replaces)

        change = await run_in_threadpool(previewed)
        queries = [one._asdict() for one in change.queries]
        for one in queries:
            one["text"] = texts[one["row"]]
        return {"entries": [one._asdict() for one in change.entries], "queries": queries}

    @desk.get("/suspects")
    async def suspects(name: Author):
        ranked = await run_in_threadpool(memory.suspects, SUSPECTED + len(kept))
        found = [one for one in ranked if one.text and one.place not in kept][:SUSPECTED]
        X = await encoded([one.text or "" for one in found])
        return {"suspects": await run_in_threadpool(with_others, found, X, name)}

    def with_others(found, X, name):
        answers = memory.predict(X) if found else []
        told = []
        for one, answer in zip(found, answers):
            near = shown(answer, name)["neighbours"]
            others = [other for other in near if other["entry"] != one.place]
            told.append(one._asdict() | {"neighbours": others})
        return told

    @desk.post("/aside", dependencies=[Depends(author)])
    async def set_aside(sent: Annotated[Aside, Depends(Aside.read)]):
        if (sent.text is None) == (sent.entry is None):
            raise HTTPException(422, "give text or entry")
        if sent.text is not None:
            recent.set_aside(sent.text, sent.aside)
        elif sent.entry is not None and sent.aside:
            kept.add(sent.entry)
        elif sent.entry is not None:
            kept.discard(sent.entry)
        return {"aside": sent.aside}

    @desk.get("/labels")
    def labels(name: Author):
        names = memory.labels
        counts = np.bincount(memory.counted.y, minlength=len(names)).tolist()
        return {"author": name, "labels": names, "counts": dict(zip(names, counts))}

    @desk.get("/entries", dependencies=[Depends(author)])
    def entries(
        label: str | None = None,
        by: str | None = None,
        since: str | None = None,
        like: str | None = None,
    ):
        found = memory.entries(label, by, since, like)
        newest = [timed(entry) for entry in reversed(found[-LISTED:])]
        return {"found": len(found), "entries": newest}

    @desk.get("/history/{entry}", dependencies=[Depends(author)])
    def history(entry: Annotated[int, Path(ge=0)]):
        told = memory.history(known(entry))
        text = memory.entry(entry).get("text")
        events = [timed(one) for one in told.events]
        return {"entry": entry, "text": text, "label": told.label, "events": events}

    @desk.post("/undo")
    def undo(name: Author, sent: Annotated[Undo, Depends(Undo.read)]):
        return {"entry": memory.undo(known(sent.entry), name)}

    @desk.post("/rename")
    def rename(name: Author, sent: Annotated[Rename, Depends(Rename.read)]):
        return {"entry": memory.rename(sent.old, sent.new, name)}

    @desk.post("/merge")
    def merge(name: Author, sent: Annotated[Merge, Depends(Merge.read)]):
        return {"entry": memory.merge(sent.labels, sent.into, name)}

    @desk.post("/verify", dependencies=[Depends(author)])
    def verify(sent: Annotated[Known, Depends(Known.read)]):
        head = Head.read(sent.head)
        fault = memory.verify(head, keys=[Key.read(key) for key in sent.keys])
        return {"fault": fault and str(fault), "covered": head.size}

    return desk
