"""Steps at the desk as plain data, and what each of them shows: the same as the widgets, without a browser."""

from IPython.display import Markdown

from ocrrlib.errors import InputError, pick
from ocrrlib.explore import desk_pictures as pictures
from ocrrlib.explore.damage import TITLES
from ocrrlib.explore.looks import flat


def _ask(desk, step):
    return _reply(desk.ask(step["ask"]), "Ask")


def _again(desk, step):
    return _reply(desk.again(), "Ask again")


def _reply(reply, what):
    yield Markdown(f"**{what}:** {pictures.title(reply)}")
    yield flat(pictures.answers(reply))
    yield pictures.neighbours(reply)


def _correct(desk, step):
    desk.correct(step["correct"])
    said = f"**Correct:** it is `{step['correct']}`. Accuracies now: {pictures.accuracy_line(desk.history)}."
    yield Markdown(said)


def _stream(desk, step):
    items, corrections = desk.stream(step["stream"])
    first = next(iter(desk.systems))
    yield Markdown(f"**Stream:** {items} items pass; {first} errs on {corrections}, and all are corrected.")
    yield pictures.accuracies(desk.history)


def _damage(desk, step):
    entry = step.get("entry", desk.chain.ledger.size - 2)
    desk.chain.damage(step["damage"], entry)
    yield Markdown(f"**Damage**, in a copy, entry {entry}: {TITLES[step['damage']]}.")
    yield flat(desk.chain.links())


def _verify(desk, step):
    verdict = desk.chain.verify()
    yield Markdown(f"**{verdict.sentence}**")
    if verdict.named is not None:
        yield flat(pictures.chain(desk.chain.links(), verdict.named))


def _restore(desk, step):
    desk.chain.restore()
    yield Markdown("**Restore:** the ledger as it was written.")
    yield flat(desk.chain.links())


STEPS = {
    "ask": _ask,
    "again": _again,
    "correct": _correct,
    "stream": _stream,
    "damage": _damage,
    "verify": _verify,
    "restore": _restore,
}


def play(desk, step):
    """Take one step at a desk; an iterator over what there is to display.

    Parameters
    ----------
    desk : Desk
        The desk; it changes.
    step : dict
        One of ``{"ask": text or row}``, ``{"again": True}``, ``{"correct": class}``, ``{"stream": items}``,
        ``{"damage": kind, "entry": place}`` (without a place: the last entry but one), ``{"verify": True}``,
        ``{"restore": True}``.

    Raises
    ------
    InputError
        If there is no such step, or the desk refuses it.
    """
    if not (isinstance(step, dict) and step):
        raise InputError(f"{step!r} is no step: give a dict such as {{'ask': 0}}")
    return pick("step", next(iter(step)), STEPS)(desk, step)
