"""What the paper says, and what became of it."""

import json
import re
from dataclasses import dataclass

from ocrrlib.errors import InputError, pick

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

    def __post_init__(self):
        if not re.fullmatch(r"[\w.-]+", self.id, re.ASCII):
            raise ValueError(f"{self.id!r} cannot be linked to: an id has letters, digits, '.', '-' and '_' only")
        pick("verdict", self.verdict, VERDICTS)
        for name, check in self.checks.items():
            pick("check", name, CHECKS)
            pick("verdict", check["verdict"], VERDICTS)
            str.strip(check["found"])  # a text, so that it can be searched


def read(path):
    """The claims of a file; none if it is not there.

    Raises
    ------
    InputError
        If the file is no list of claims, or two have one id.
    """
    claims = []
    try:
        for entry in json.loads(path.read_text(encoding="utf-8")) if path.exists() else []:
            claims.append(Claim(**entry))
        if len({claim.id for claim in claims}) < len(claims):
            raise ValueError("two claims have the same id")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        what = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise InputError(f"{path}: after {len(claims)} good claims: {what}; correct it there") from error
    return claims
