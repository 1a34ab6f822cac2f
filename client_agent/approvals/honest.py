"""Text from a server, shown so that it cannot pretend to be something else.

Characters that move the cursor, reverse the reading direction, or show nothing are written as their code points; so is
every character of a word that mixes alphabets, or a sign that only looks like an ASCII one. Ordinary words of any one
language stay as they are.
"""

from __future__ import annotations

import re
import unicodedata

# Categories that draw nothing or act on the text around them: controls, formats, separators, private, unassigned.
_ACTING = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Drawn as nothing or as a blank, though Unicode calls them letters, marks or symbols.
_BLANK_RANGES = (
    (0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2800, 0x2800), (0x3164, 0x3164),
    (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF9, 0xFFFD), (0x1D159, 0x1D159), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
_VERY_WIDE = frozenset("\u2e3b\ufdfd\U0001242b\U00012219")
# Cyrillic and Greek letters that are drawn like Latin ones: a word of nothing else is a disguise.
_TWINS = frozenset("авеіјкмнорсѕтухһԁԛԝӏуАВЕЗІЈКМНОРСЅТУХԌԚԜαεικνορτυχωΑΒΕΖΗΙΚΜΝΟΡΤΥΧ")
_WORD = re.compile(r"[^\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]+")  # letters and digits, ASCII signs between them
# More than any indentation: what follows is meant to be out of sight.
_BLANKS = re.compile(" {41,}")


def reveal(text: str) -> str:
    """The text on one line, everything unusual spelled out. Nothing is left out."""
    if not (text.isascii() and text.isprintable()):
        text = _WORD.sub(lambda word: _reveal_word(word[0]), "".join(map(_reveal_character, text)))
    return _BLANKS.sub(lambda blanks: f"⟨{len(blanks[0])} spaces⟩", text)


def reveal_lines(text: str) -> list[str]:
    """The same for text of several lines, such as a file's content."""
    return [reveal(line) for line in text.split("\n")]


def _reveal_character(ch: str) -> str:
    if " " <= ch <= "~":
        return ch
    if ch == "\n":
        return "⏎"
    if ch in "⟨⟩⏎":  # our own marks, not to be borrowed
        return spell(ch)
    if unicodedata.category(ch) in _ACTING or _is_blank(ord(ch)) or ch in _VERY_WIDE:
        return spell(ch)
    if unicodedata.category(ch) == "Zs":
        return spell(ch)
    return ch


def _is_blank(code: int) -> bool:
    return any(low <= code <= high for low, high in _BLANK_RANGES)


def _reveal_word(word: str) -> str:
    """Spells out what could pass for ASCII: letters beside ASCII ones, twins of ASCII letters, foreign signs."""
    if word.isascii():
        return word
    letters = [ch for ch in re.sub(r"⟨U\+[0-9A-F]+⟩", "", word) if ch.isalpha()]
    mixed = any(ch.isascii() for ch in letters) or all(ch in _TWINS for ch in letters)
    return "".join(spell(ch) if _passes_for_ascii(ch, mixed) else ch for ch in word)


def _passes_for_ascii(ch: str, mixed: bool) -> bool:
    if ch.isascii() or ch in "⟨⟩⏎":
        return False
    if unicodedata.category(ch)[0] in "PS":  # dashes, dots, slashes, quotes, minus signs, symbols
        return True
    if unicodedata.normalize("NFKC", ch).isascii():
        return True
    accented = unicodedata.normalize("NFD", ch)[0].isascii()  # é, ü: drawn unlike any ASCII letter
    return mixed and not accented


def spell(ch: str) -> str:
    return f"⟨U+{ord(ch):04X}⟩"
