"""The Model Context Protocol, server side, of tools alone.

Messages are JSON-RPC 2.0, one a line (modelcontextprotocol.io/specification/2025-11-25,
"Lifecycle", "Transports" and "Tools").
"""

import json
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from corrigible import __version__
from ocrrlib.files import InputError

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")  # of the protocol, newest last
BATCHES = "2025-03-26"  # the one version in which a line may hold several messages
# Errors of JSON-RPC
NO_JSON = -32700
NO_REQUEST = -32600
NO_METHOD = -32601
NO_PARAMETERS = -32602
FAILED = -32603


class Tool(NamedTuple):
    """What a model may call: ``takes`` has the JSON schema of each argument, ``needs`` names some.

    ``run`` takes a memory and the arguments, and returns JSON.
    """

    name: str
    tells: str
    takes: dict[str, dict]
    needs: tuple[str, ...]
    run: Callable[..., dict]
    writes: bool = False

    def described(self) -> dict:
        """The tool as a client lists it."""
        schema = {
            "type": "object",
            "properties": self.takes,
            "required": [*self.needs],
            "additionalProperties": False,
        }
        hints = {"readOnlyHint": not self.writes, "openWorldHint": False}
        if self.writes:
            hints["destructiveHint"] = False  # what is undone stays, and can be undone
        return {
            "name": self.name,
            "description": self.tells,
            "inputSchema": schema,
            "annotations": hints,
        }

    def check(self, arguments: Mapping) -> None:
        """Raise ``InputError`` unless the arguments are those it takes, with all it needs."""
        for name in arguments:
            if name not in self.takes:
                there = ", ".join(self.takes) or "no arguments"
                raise InputError(f"{self.name} has no argument {name!r:.80}: give {there}")
        for name in self.needs:
            if name not in arguments:
                raise InputError(f"{self.name} needs {name}: give it")


class Refused(Exception):
    """A request that is none of the protocol, with its code in JSON-RPC."""

    def __init__(self, code: int, why: str):
        super().__init__(why)
        self.code = code


class Session:
    """What a server and its client agreed on, and the tools that it calls."""

    def __init__(self, memory: Any, tools: Iterable[Tool], instructions: str):
        """``instructions`` tell the model what the tools are for."""
        self._memory = memory
        self._instructions = instructions
        self._tools = {tool.name: tool for tool in tools}
        self._version: str | None = None  # none before `initialize`

    def reply(self, line: bytes) -> str | None:
        """The reply to a line, in one line; None if there is none."""
        try:
            message = json.loads(line.decode(), parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            return json.dumps(_failure(None, NO_JSON, f"the line is no JSON in UTF-8 ({error})"))
        if isinstance(message, list) and message and self._version == BATCHES:
            replies = [self._replied(one) for one in message]
            replies = [one for one in replies if one is not None]
            return json.dumps(replies) if replies else None
        reply = self._replied(message)
        return None if reply is None else json.dumps(reply)

    def _replied(self, message):
        """The reply to a message; None to a notification, or to a reply."""
        id = None
        try:
            if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
                raise Refused(NO_REQUEST, "give one JSON-RPC 2.0 message as an object")
            if "method" not in message and message.keys() & {"result", "error"}:
                return None  # nothing was asked
            if not isinstance(message.get("method"), str):
                raise Refused(NO_REQUEST, "the method is missing")
            if "id" not in message:
                return None  # a notification: none of them changes anything here
            if isinstance(message["id"], bool) or not isinstance(message["id"], (str, int)):
                raise Refused(NO_REQUEST, "the id is neither text nor a whole number")
            id = message["id"]
            result = self._result(message["method"], message.get("params", {}))
            return {"jsonrpc": "2.0", "id": id, "result": result}
        except Refused as refusal:
            return _failure(id, refusal.code, str(refusal))
        except Exception:
            traceback.print_exc()
            return _failure(id, FAILED, "the memory failed: its standard error says how")

    def _result(self, method, parameters):
        """What a request of a method asks for."""
        methods = {
            "initialize": self._agree,
            "ping": lambda _: {},
            "tools/list": self._listed,
            "tools/call": self._called,
        }
        if method not in methods:
            raise Refused(NO_METHOD, f"there is no method {method!r:.80}")
        if not isinstance(parameters, dict):
            raise Refused(NO_PARAMETERS, "the parameters are no object")
        if self._version is None and method.startswith("tools/"):
            raise Refused(NO_REQUEST, "the session has not begun: initialize first")
        return methods[method](parameters)

    def _agree(self, parameters):
        """Agree on a version: the client's if it is known here, else the newest one known."""
        wanted = parameters.get("protocolVersion")
        if not isinstance(wanted, str):
            raise Refused(NO_PARAMETERS, "protocolVersion is missing")
        self._version = wanted if wanted in VERSIONS else VERSIONS[-1]
        return {
            "protocolVersion": self._version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "corrigible", "version": __version__},
            "instructions": self._instructions,
        }

    def _listed(self, _):
        return {"tools": [tool.described() for tool in self._tools.values()]}

    def _called(self, parameters):
        """Call a tool; what it refuses is a result, which the model sees, and not an error."""
        name = parameters.get("name")
        arguments = parameters.get("arguments", {})
        if not isinstance(name, str) or name not in self._tools:
            raise Refused(NO_PARAMETERS, f"there is no tool {name!r:.80}")
        if not isinstance(arguments, dict):
            raise Refused(NO_PARAMETERS, "the arguments are no object")
        tool = self._tools[name]
        try:
            tool.check(arguments)
            found = tool.run(self._memory, **arguments)
        except InputError as error:
            said = " ".join(str(error).split())
            return {"content": [{"type": "text", "text": said}], "isError": True}
        text = json.dumps(found, ensure_ascii=False)
        return {
            "content": [{"type": "text", "text": text}],
            "structuredContent": found,
            "isError": False,
        }


def _no_constant(name):
    raise ValueError(f"{name} is no JSON")


def _failure(id, code, why):
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": why}}
