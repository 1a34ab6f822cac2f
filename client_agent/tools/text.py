"""Text in files: which encoding, which line endings, and whether it is text at all."""

from __future__ import annotations

import codecs
from typing import Literal, TypeAlias

import msgspec

_SAMPLE_BYTES = 65_536
# What files that are not Unicode are written in, the most common first. All agree with ASCII on its letters, so that a
# wrong guess does no harm to code. Left to choose freely, the detector takes rarer ones for short texts.
_LIKELY = (
    "cp1252", "cp1251", "gb18030", "cp932", "euc_jp", "big5", "cp949", "koi8_r", "cp1250", "cp1253", "cp1254", "cp1255",
    "cp1256", "cp866",
)  # fmt: skip
Data: TypeAlias = bytes | bytearray
LineEndings: TypeAlias = Literal["lf", "crlf", "mixed", "none"]


class Encoding(msgspec.Struct, frozen=True):
    """A codec, and the mark that files in it begin with here."""

    name: str  # as reported: "utf-8-sig" is UTF-8 with a byte order mark
    codec: str
    mark: bytes = b""

    def decode(self, data: Data) -> str:
        """Raises UnicodeDecodeError."""
        return (data[len(self.mark) :] if self.mark else data).decode(self.codec)

    def encode(self, text: str) -> bytes:
        """Without the mark. Raises UnicodeEncodeError."""
        return text.encode(self.codec)


UTF_8 = Encoding("utf-8", "utf-8")
# The longer marks first: that of UTF-32 begins with that of UTF-16.
_MARKED = (
    Encoding("utf-8-sig", "utf-8", codecs.BOM_UTF8),
    Encoding("utf-32-le", "utf-32-le", codecs.BOM_UTF32_LE),
    Encoding("utf-32-be", "utf-32-be", codecs.BOM_UTF32_BE),
    Encoding("utf-16-le", "utf-16-le", codecs.BOM_UTF16_LE),
    Encoding("utf-16-be", "utf-16-be", codecs.BOM_UTF16_BE),
)


Decoded: TypeAlias = tuple[str, Encoding]


def decode_surely(data: Data) -> Decoded | None:
    """The text and how it is written, where the bytes leave no doubt: a mark, or valid UTF-8. Never slow."""
    for encoding in _MARKED:
        if data.startswith(encoding.mark) and (text := _try(encoding, data)) is not None:
            return text, encoding
    text = None if b"\0" in data else _try(UTF_8, data)
    return None if text is None else (text, UTF_8)


def decode(data: Data) -> Decoded | None:
    """The text and how it is most likely written; None when this is not text."""
    decoded = decode_surely(data)
    if decoded is not None or b"\0" in data:
        return decoded
    guess = _guess(data)
    text = None if guess is None else _try(guess, data)
    return None if guess is None or text is None else (text, guess)


def _try(encoding: Encoding, data: Data) -> str | None:
    try:
        return encoding.decode(data)
    except UnicodeDecodeError:
        return None


def _guess(data: Data) -> Encoding | None:
    """Of the encodings in which the text looks like text, the one that most such files are in."""
    from charset_normalizer import from_bytes  # slow to import, seldom needed

    ranked = [
        (round(match.chaos, 1), -round(match.coherence, 1), _LIKELY.index(name))
        for match in from_bytes(_sample(data), cp_isolation=list(_LIKELY))
        for name in match.could_be_from_charset
        if name in _LIKELY
    ]
    if not ranked:
        return None
    name = _LIKELY[min(ranked)[2]]
    return Encoding(name, name)


def _sample(data: Data) -> Data:
    """The beginning, cut at the end of a line where there is one, so that no character is cut in two."""
    if len(data) <= _SAMPLE_BYTES:
        return data
    cut = data.rfind(b"\n", 0, _SAMPLE_BYTES) + 1
    return data[: cut or _SAMPLE_BYTES]


def line_endings(text: str) -> LineEndings:
    ends = text.count("\n")
    if not ends:
        return "none"
    pairs = text.count("\r\n")
    if pairs == ends:
        return "crlf"
    return "mixed" if pairs else "lf"
