"""Text from a server, shown so that it cannot pretend to be something else.

Characters that move the cursor, reverse the reading direction, or show nothing are written as their code points; so is
every character of a word that mixes alphabets, and each that only looks like another. Ordinary words of any one
language in use today stay as they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

# Categories that draw nothing or act on the text around them: controls, formats, separators, private, unassigned; and
# marks that go around or through a letter.
_ACTING = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs", "Me"})
_OVERLAY = 1  # the combining class of strokes through a letter
# Drawn as nothing, as a blank, or all in one place, though Unicode calls them letters, marks or symbols.
_UNSEEN_RANGES = (
    (0x034F, 0x034F), (0x1100, 0x11FF), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2800, 0x2800), (0x3164, 0x3164),
    (0xA960, 0xA97F), (0xD7B0, 0xD7FF), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF9, 0xFFFD), (0x16FE4, 0x16FE4),
    (0x1D159, 0x1D159), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
# The scripts that Unicode recommends for identifiers (UAX 31, table 5), by the first word of their letters' names.
# Letters of all others are spelled out: hardly anybody reads them, and many are drawn like ASCII ones.
_SCRIPTS = frozenset({
    "ARABIC", "ARMENIAN", "BENGALI", "BOPOMOFO", "CJK", "COMBINING", "CYRILLIC", "DEVANAGARI", "ETHIOPIC", "GEORGIAN",
    "GREEK", "GUJARATI", "GURMUKHI", "HANGUL", "HEBREW", "HIRAGANA", "IDEOGRAPHIC", "KANNADA", "KATAKANA",
    "KATAKANA-HIRAGANA", "KHMER", "LAO", "LATIN", "MALAYALAM", "MYANMAR", "ORIYA", "SINHALA", "TAMIL", "TELUGU",
    "THAANA", "THAI", "TIBETAN",
})  # fmt: skip
# Written together in one word, these are one language's.
_EAST_ASIAN = frozenset(
    {"BOPOMOFO", "CJK", "HANGUL", "HIRAGANA", "IDEOGRAPHIC", "KATAKANA", "KATAKANA-HIRAGANA"}
)  # fmt: skip
_LATIN = frozenset("ßæœøłđðþħŋəẞÆŒØŁĐÐÞĦŊƏ")  # letters of their own, in use today
_TYPED_COMPOUNDS = "ำຳ"  # vowels of Thai and Lao that only a compatibility mapping takes apart
# Marks that languages put on letters, as far as they are named for none of them. All others are lines, dots and signs:
# under a letter, one passes for the underscore after it.
_ACCENTS = frozenset(
    "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030b\u030c\u030f\u0311\u0313\u0314\u0323\u0328\u0342\u0345\u3099\u309a"
)
# Letters that are drawn like ASCII ones, or like dashes, bars and slashes: a word of nothing else is a disguise.
_TWINS = frozenset("авеіјкмнорсѕтухһԁԛԝӏуАВЕЗІЈКМНОРСЅТУХԌԚԜαεικνορτυχωΑΒΕΖΗΙΚΜΝΟΡΤΥΧհոսցօՍՏՕԼוןסاهഠဝ一丨丶丿〇ノー")
_WORD = re.compile(r"[^\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]+")  # letters and digits, ASCII signs between them
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NAMED = {"\n": "⏎", "\t": "⇥   "}
_LEFTWARDS = re.compile("[\u0590-\u08ff]")  # Hebrew, Arabic, Thaana: all others of that direction are spelled out
# More marks on one letter than any language has: they run into the lines above and below.
_MARKS_AT_ONCE = 3
# More than any indentation: what follows is meant to be out of sight.
_BLANKS = re.compile(" {41,}")
_EDGES = re.compile("^ +| +$")
_SPELLED_CHARS = 10  # what one character may become: ⟨U+10FFFF⟩
_MARK_CHARS = 40  # what it takes to say how many are left out
_OURS = "⟨⟩⏎⇥"  # our own marks, not to be borrowed


def reveal(text: str) -> str:
    """The text on one line, everything unusual spelled out. Nothing is left out, and it reads from left to right."""
    return _collapse(text if _is_plain(text) else _part_directions(_spell_out(text)))


def reveal_value(text: str) -> str:
    """The same for what stands alone and without quotes: the spaces it begins and ends with would not be seen."""
    return _EDGES.sub(_count, reveal(text))


def reveal_content(text: str) -> str:
    """The same for a line of a file, in which words may follow each other from right to left."""
    return _collapse(text if _is_plain(text) else _spell_out(text))


def reveal_lines(text: str) -> list[str]:
    """Text of several lines, such as a file's content."""
    return [reveal_content(line) for line in text.split("\n")]


def shorten(text: str, max_chars: int, show: Callable[[str], str] = reveal, hint: str = "") -> str:
    """Beginning and end of a text in honest text; what is left out between them is counted."""
    if len(text) <= max_chars:
        return show(text)
    half = max_chars // 2
    left_out = f"⟨{len(text) - 2 * half} characters left out{hint}⟩"
    return f"{show(text[:half])} {left_out} {show(text[-half:])}"


def fit(text: str, max_chars: int, show: Callable[[str], str] = reveal, hint: str = "") -> str:
    """The same, no longer than this when it is spelled out. No more is looked at than is shown: it may be very long."""
    shown = shorten(text, max_chars, show, hint)
    many = len(text) > max_chars
    if len(shown) <= max_chars + (len(hint) + _MARK_CHARS if many else 0):
        return shown
    return shorten(text, max_chars // _SPELLED_CHARS, show, hint)


def spell(ch: str) -> str:
    return f"⟨U+{ord(ch):04X}⟩"


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _collapse(text: str) -> str:
    return _BLANKS.sub(_count, text)


def _count(blanks: re.Match[str]) -> str:
    many = len(blanks[0])
    return f"⟨{many} space{'s' if many > 1 else ''}⟩"


def _spell_out(text: str) -> str:
    return _CONTROL.sub(lambda control: _NAMED.get(control[0]) or spell(control[0]), _WORD.sub(_reveal_word, text))


def _reveal_word(found: re.Match[str]) -> str:
    """Spells out what could pass for something else: letters beside those of another alphabet, twins, foreign signs."""
    word = found[0]
    if word.isascii():
        return word
    letters = {ch for ch in word if ch.isalpha() and not _acts(ch)}
    scripts = {_script(ch) for ch in letters}
    mixed = any(ch.isascii() for ch in letters) or (len(scripts) > 1 and not scripts <= _EAST_ASIAN)
    mixed = mixed or letters <= _TWINS
    shown: list[str] = []
    marks = 0
    for ch in word:
        marks = marks + 1 if unicodedata.category(ch)[0] == "M" or ch in _TYPED_COMPOUNDS else 0
        stray = marks > _MARKS_AT_ONCE or (marks and (not shown or shown[-1].endswith("⟩")))  # on no letter of its own
        shown.append(spell(ch) if stray or _acts(ch) or _passes_for_another(ch, mixed) else ch)
    return "".join(shown)


@lru_cache(maxsize=4096)
def _acts(ch: str) -> bool:
    """Whether it moves, hides, strikes out, or is a mark of ours."""
    if ch in _OURS or unicodedata.category(ch) in _ACTING or unicodedata.combining(ch) == _OVERLAY:
        return True
    return any(low <= ord(ch) <= high for low, high in _UNSEEN_RANGES)


@lru_cache(maxsize=4096)
def _passes_for_another(ch: str, mixed: bool) -> bool:
    if ch.isascii():
        return False
    if unicodedata.category(ch)[0] in "PS" or _script(ch) not in _SCRIPTS:  # dashes, dots, slashes, quotes, symbols
        return True
    if unicodedata.normalize("NFKC", ch) != ch and ch not in _TYPED_COMPOUNDS:
        return True
    if _script(ch) == "LATIN":  # é, ü, ß are drawn unlike any ASCII letter; ɑ, ı, ʀ and the like are not
        return ch not in _LATIN and not unicodedata.normalize("NFD", ch)[0].isascii()
    return mixed or (_script(ch) == "COMBINING" and ch not in _ACCENTS)


@lru_cache(maxsize=4096)
def _script(ch: str) -> str:
    return unicodedata.name(ch, "").partition(" ")[0]


def _part_directions(text: str) -> str:
    """Between letters that are written from right to left, signs and numbers change places: `א/ב` is drawn as `ב/א`.

    Of what lies between two such letters, or such a letter and a number, the first sign is spelled out: that is read
    from left to right, and keeps what follows in its place.
    """
    if not _LEFTWARDS.search(text):
        return text
    shown = list(text)
    leftwards, sign = False, None  # whether the last letter was such a one, and where the first sign after it is
    for place, ch in enumerate(text):
        match unicodedata.bidirectional(ch):
            case "R" | "AL" | "EN" | "AN" as kind if leftwards and (sign is not None or kind in ("EN", "AN")):
                at = place if sign is None else sign
                shown[at] = spell({"⏎": "\n", "⇥": "\t"}.get(text[at], text[at]))
                leftwards, sign = kind in ("R", "AL"), None
            case "R" | "AL":
                leftwards, sign = True, None
            case "L":
                leftwards, sign = False, None
            case "NSM" | "EN" | "AN":
                pass
            case _ if leftwards and sign is None:
                sign = place
    return "".join(shown)
