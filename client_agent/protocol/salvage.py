"""The little that can still be read of an event that no parser takes. No I/O.

Its JSON may be cut off, nested without end, or hold what no text can: half of a surrogate pair, NaN, a bare line end.
Whoever sent it waits for an answer all the same, and that needs a name or two and no more.
"""

from __future__ import annotations

import re
from itertools import islice

import msgspec

# A string up to its end or the text's, a sign of structure, or a word. Possessive: nothing is tried a second way.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[{}\[\],:]|[^"{}\[\],:\s]++', re.DOTALL)
_MAX_TOKENS = 50_000  # reading them one by one is slow, and holds up everything else
_MAX_TEXT_CHARS = 200
_LIST = "["

Place = tuple[str, ...]


def read_texts(data: str) -> dict[Place, str]:
    """The short texts of an object and of the objects directly in it, each by its names, as far as they can be read.

    Of two under the same name the last one counts, as it does for a parser.
    """
    found: dict[Place, str] = {}
    inside: list[str] = []  # what each object that is open is called
    name = text = ""
    for token in (each[0] for each in islice(_TOKEN.finditer(data), _MAX_TOKENS)):
        match token[0]:
            case "{" | "[" as opening:
                inside.append(_LIST if opening == _LIST else name)
                name = ""
            case "}" | "]":
                if len(inside) <= 1:
                    break  # all that follows is no part of it
                inside.pop()
                name = ""
            case ",":
                name = ""
            case ":":
                name = text
            case '"':
                text = _read(token)
                if name and len(inside) <= 2:  # noqa: PLR2004
                    found[*inside[1:], name] = text
    return found


def _read(token: str) -> str:
    if len(token) > _MAX_TEXT_CHARS:
        return ""
    try:
        return msgspec.json.decode(token, type=str)
    except msgspec.DecodeError:
        return ""
