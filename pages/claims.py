"""What the paper says, and what became of it."""

import json
from dataclasses import dataclass

from ocrrlib.errors import InputError

VERDICTS = {  # in the order of the summary: a name for styles, and a sign, so that nothing is said by colour alone
    "holds": ("holds", "✓"),
    "holds in direction": ("direction", "≈"),
    "does not hold": ("fails", "✗"),
    "cannot be checked": ("unknown", "?"),
}
CHECKS = {"paper": "within the paper", "released": "authors’ release", "ours": "this compendium"}


@dataclass(frozen=True)
class Claim:
    """A statement of the paper; ``printed`` is the number there, ``checks`` what was found where."""

    id: str
    section: str
    claim: str
    printed: str
    note: str
    checks: dict
    verdict: str


def read(path):
    """The claims of a file, as notebook ``08_claims`` writes it; none if it is not there.

    Raises
    ------
    InputError
        If the file is damaged.
    """
    try:
        return [Claim(**one) for one in json.loads(path.read_text(encoding="utf-8"))] if path.exists() else []
    except (TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged ({error}): make it anew with `make paper`") from error
