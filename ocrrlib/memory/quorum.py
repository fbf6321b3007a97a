"""A policy: which logs and witnesses must have signed a head (c2sp.org/tlog-policy).

A reader writes it once, as text, and gives it wherever keys are given::

    log <key> [<URL>]                             one of the logs must have signed
    witness <name> <key> [<URL>]                  a name for this file only
    group <name> <all, any or number> <name> ...  so many of these witnesses or groups
    quorum <name of a witness or group, or none>  must have cosigned; one such line

Keys are those of verifiers, of Ed25519 or ML-DSA-44. The key of a log is named as its ledger, that
is as the first line of its heads. A policy without logs tells nothing about who wrote the ledger.
Names stand in lines above those that use them. Empty lines, and those that begin with #, do not
count. Stricter than there: a policy is in UTF-8, and no key is both a log's and a witness's, since
a ledger's own signature by ML-DSA-44 would count as a witness's.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Self

from ocrrlib.files import InputError
from ocrrlib.memory.keys import COSIGNATURE, ML_DSA_44, SIGNATURE, Key
from ocrrlib.memory.texts import plain

NONE = "none"


@dataclass
class Quorum:
    """Logs and witnesses by name, and how many of them must have signed."""

    logs: list[Key] = field(default_factory=list)
    witnesses: dict[str, Key] = field(default_factory=dict)
    groups: dict[str, tuple[int, list[str]]] = field(default_factory=dict)  # needed, members
    name: str = ""  # of the witness or group that must have cosigned, or NONE

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a policy from its text; ``InputError`` names the line that is wrong."""
        policy = cls()
        lines = plain(text).split("\n")
        first = text[: text.index(lines[0])].count("\n") + 1  # that is not empty
        for number, line in enumerate(lines, first):
            words = re.split("[ \t]+", line.strip(" \t"))
            if words[0] == "" or words[0].startswith("#"):
                continue
            try:
                policy._add(words)
            except InputError as error:
                raise InputError(f"line {number} of the policy: {error}") from error
        if not policy.name:
            raise InputError("the policy has no quorum: add the line `quorum` with a name, or none")
        return policy

    def __iter__(self) -> Iterator[Self]:
        """Stand where a list of keys is expected."""
        yield self

    @property
    def keys(self) -> list[Key]:
        """All keys whose signatures count."""
        return [*self.logs, *self.witnesses.values()]

    def check(self, origin: str, signers: Collection[Key]):
        """Raise ``InputError`` unless these keys, which signed the head of a ledger, are enough."""
        if self.logs and not any(log.name == origin and log in signers for log in self.logs):
            raise InputError(
                f"the head of {origin} is not signed by a log of the policy with that name: do not "
                "trust it"
            )
        cosigned = {name for name, key in self.witnesses.items() if key in signers}
        reached = {NONE, *cosigned}
        for name, (needed, members) in self.groups.items():  # members come before their group
            if len(reached.intersection(members)) >= needed:
                reached.add(name)
        if self.name not in reached:
            found = ", ".join(sorted(cosigned)) or "no witness"
            raise InputError(
                f"the head of {origin} is cosigned by {found}, not signed by the policy's quorum "
                f"{self.name}: do not trust it"
            )

    def _add(self, words):
        if re.search(r"[\x00-\x1f\x7f]", "".join(words)):
            raise InputError("it has a control character: use letters, blanks and tabs")
        match words:
            case ["log", text, *url] if len(url) <= 1:
                self.logs.append(_key(text, SIGNATURE, self.keys))
            case ["witness", name, text, *url] if len(url) <= 1:
                key = _key(text, COSIGNATURE, self.keys)
                self.witnesses[self._new(name)] = key
            case ["group", name, needed, *members] if members:
                self._check_members(members)
                self.groups[self._new(name)] = (_number(needed, len(members)), members)
            case ["quorum", name]:
                if self.name:
                    raise InputError("there is another quorum above: leave one")
                if name != NONE:
                    self._check_defined(name)
                self.name = name
            case _:
                raise InputError("it is no line of a policy: use log, witness, group or quorum")

    def _new(self, name):
        if name == NONE or name in self.witnesses or name in self.groups:
            raise InputError(f"the name {name} is taken: choose another one")
        return name

    def _check_defined(self, name):
        if name not in self.witnesses and name not in self.groups:
            raise InputError(f"there is no witness or group {name} above: define it first")

    def _check_members(self, members):
        taken = {member for _, others in self.groups.values() for member in others}
        for member in members:
            self._check_defined(member)
            if member in taken:
                raise InputError(f"{member} would count twice: let it be a member once")
            taken.add(member)


def _key(text, kind, others):
    """The key of a log or witness, which is none of the others."""
    key = Key.read(text)
    if key.private:
        raise InputError("it tells a secret key: give the one of the verifier")
    if key.kind not in (kind, ML_DSA_44):
        raise InputError("its key is of the other kind: a log signs, a witness cosigns")
    if any(key.public == other.public for other in others):
        raise InputError("its key stands above already: leave one of the lines")
    return key


def _number(needed, members):
    """How many members are needed."""
    if needed == "any":
        return 1
    if needed == "all":
        return members
    if not re.fullmatch("[1-9][0-9]*", needed) or int(needed) > members:
        raise InputError(f"{needed} of {members} members cannot be: give all, any or fewer")
    return int(needed)
