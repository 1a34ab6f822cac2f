"""Text from a server cannot pretend to be something else."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_agent.approvals.honest import fit, reveal, reveal_lines, reveal_value, shorten


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b[HRisk: LOW", "⟨U+001B⟩[2J⟨U+001B⟩[HRisk: LOW"),
        ("\x9b31m", "⟨U+009B⟩31m"),
        ("a\rb\x08\x7f", "a⟨U+000D⟩b⟨U+0008⟩⟨U+007F⟩"),
        ("photo\u202egnp.sh", "photo⟨U+202E⟩gnp.sh"),
        ("rm\u200b -rf", "rm⟨U+200B⟩ -rf"),
        ("rm\u3164-rf", "rm⟨U+3164⟩-rf"),
        ("a\u2800b", "a⟨U+2800⟩b"),
        ("a\u00a0b", "a⟨U+00A0⟩b"),
        ("\U000e0041", "⟨U+E0041⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("g\u0456t push", "g⟨U+0456⟩t push"),
        ("сору", "⟨U+0441⟩⟨U+043E⟩⟨U+0440⟩⟨U+0443⟩"),
        ("\u2010\u2010force", "⟨U+2010⟩⟨U+2010⟩force"),
        ("a\u2215b", "a⟨U+2215⟩b"),
        ("\uff52\uff4d", "⟨U+FF52⟩⟨U+FF4D⟩"),
        ("one\nRisk: LOW", "one⏎Risk: LOW"),
        ("⟨U+0041⟩⏎⇥", "⟨U+27E8⟩U+0041⟨U+27E9⟩⟨U+23CE⟩⟨U+21E5⟩"),
        ("a\tb", "a⇥   b"),
        # A terminal's links, titles and clipboard.
        ("\x1b]8;;http://evil\x1b\\ok\x07", "⟨U+001B⟩]8;;http://evil⟨U+001B⟩\\ok⟨U+0007⟩"),
        # Selectors, tags and joiners.
        ("a\ufe0f\U000e0100b", "a⟨U+FE0F⟩⟨U+E0100⟩b"),
        ("\U0001f469\u200d\U0001f4bb", "⟨U+1F469⟩⟨U+200D⟩⟨U+1F4BB⟩"),
        ("при\u00adвет", "при⟨U+00AD⟩вет"),
        # Marks without a letter, through a letter, around one, and too many.
        ("=\u0338", "=⟨U+0338⟩"),
        ("ж\u0336\u20dd", "ж⟨U+0336⟩⟨U+20DD⟩"),
        ("ж" + "\u0301" * 9, "ж" + "\u0301" * 3 + "⟨U+0301⟩" * 6),
        ("\u0301", "⟨U+0301⟩"),
        ("\u0430\u0332\u0431\u0331", "\u0430⟨U+0332⟩\u0431⟨U+0331⟩"),
        ("\u0431\u0305\u0436\u035f", "\u0431⟨U+0305⟩\u0436⟨U+035F⟩"),
        ("\u0915" + "\u0941" * 5, "\u0915" + "\u0941" * 3 + "⟨U+0941⟩" * 2),
        ("\u0e01" + "\u0e33" * 5, "\u0e01" + "\u0e33" * 3 + "⟨U+0E33⟩" * 2),
        ("\u1100\u1161", "⟨U+1100⟩⟨U+1161⟩"),
        # Alphabets that hardly anybody reads, small capitals, and letters that are only other forms of others.
        ("\u13da\u13bb", "⟨U+13DA⟩⟨U+13BB⟩"),
        ("\ua4e1\ua4e2", "⟨U+A4E1⟩⟨U+A4E2⟩"),
        ("\u0280\u1d0d", "⟨U+0280⟩⟨U+1D0D⟩"),
        ("\u017fudo \u212a", "⟨U+017F⟩udo ⟨U+212A⟩"),
        ("\uf900\uff71\ufdfa", "⟨U+F900⟩⟨U+FF71⟩⟨U+FDFA⟩"),
        ("\u0436\u03bb", "⟨U+0436⟩⟨U+03BB⟩"),
        ("\u0585\u0578", "⟨U+0585⟩⟨U+0578⟩"),
        ("..\u30ceetc", "..⟨U+30CE⟩etc"),
        ("..\u30ce..", "..⟨U+30CE⟩.."),
        # From right to left, what lies between changes places.
        ("\u05d0\u05d1/\u05d2", "\u05d0\u05d1⟨U+002F⟩\u05d2"),
        ("mv \u05d0 \u05d1", "mv \u05d0⟨U+0020⟩\u05d1"),
        ("\u05d0-12", "\u05d0⟨U+002D⟩12"),
        ("\u05d0\u05d112.txt", "\u05d0\u05d1⟨U+0031⟩2.txt"),
        ("\u05d0\n\u05d1", "\u05d0⟨U+000A⟩\u05d1"),
    ],
)
def test_what_acts_hides_or_passes_for_something_else_is_spelled_out(text: str, shown: str) -> None:
    assert reveal(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "ls -la 'my file' | $(x) `y` <b>",
        "Il1|O0 rn",
        "привет мир",
        "файл.py",
        "\u0438\u0306\u043e\u0434 \u03ac\u03bb\u03c6\u03b1\u0301",  # accents as marks of their own
        "\u30cf\u3099\u30f3",
        "日本語のファイル",
        "データー一覧",
        "한국어 파일",
        "ภาษาไทย น้ำ",
        "हिन्दी में",
        "Ελληνικά Ζωή",
        "Straße smørrebrød łódź Tiếng Việt",
        "\u05e9\u05dc\u05d5\u05dd.txt",
        "12 \u05e9\u05dc\u05d5\u05dd.txt",
        "naïve café über",
        "\\u202e \\x1b[31m",
        "{0.__class__}",
    ],
)
def test_ordinary_text_of_any_language_stays_as_it_is(text: str) -> None:
    assert reveal(text) == text


@given(st.text(max_size=60))
def test_nothing_that_moves_or_hides_is_left(text: str) -> None:
    for ch in reveal(text):
        assert unicodedata.category(ch) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(st.lists(st.text(max_size=20), min_size=2, max_size=2, unique=True))
def test_two_different_texts_never_look_the_same(texts: list[str]) -> None:
    assert reveal(texts[0]) != reveal(texts[1])


def test_lines_are_shown_one_by_one() -> None:
    assert reveal_lines("a\n\x1bb") == ["a", "⟨U+001B⟩b"]


def test_what_is_pushed_out_of_sight_by_blanks_is_pulled_back() -> None:
    assert reveal("ls" + " " * 3000 + "; rm -rf src") == "ls⟨3000 spaces⟩; rm -rf src"
    assert reveal(" " * 40 + "deeply indented") == " " * 40 + "deeply indented"


def test_lines_of_a_file_may_be_read_from_right_to_left() -> None:
    line = "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd"
    assert reveal_lines(line) == [line]


@given(st.text(alphabet="\u05d0\u05d1\u05d2\u0628 1a/.-\u05b0", max_size=12))
def test_nothing_on_one_line_changes_places(text: str) -> None:
    """Between a letter written from right to left and the next one, or a number, is always one from left to right."""
    leftwards = gap = False
    for ch in reveal(text):
        kind = unicodedata.bidirectional(ch)
        assert not (leftwards and (kind in ("EN", "AN") or (kind in ("R", "AL") and gap))), ascii(text)
        if kind in ("R", "AL", "L"):
            leftwards, gap = kind != "L", False
        elif kind != "NSM":
            gap = True


def test_what_is_too_long_is_shown_from_both_ends_and_counted() -> None:
    assert shorten("a" * 10 + "\u202e" + "b" * 10, 8) == "aaaa ⟨13 characters left out⟩ bbbb"
    assert shorten("short\u202e", 8) == "short⟨U+202E⟩"


def test_spaces_at_the_ends_of_a_value_are_counted() -> None:
    assert reveal_value("a.md ") == "a.md⟨1 space⟩"
    assert reveal_value("  a b  ") == "⟨2 spaces⟩a b⟨2 spaces⟩"
    assert reveal_value(" " * 50 + "a\n ") == "⟨50 spaces⟩a⏎⟨1 space⟩"
    assert reveal_value("a  b") == "a  b"


def test_what_has_to_fit_is_counted_and_looked_at_no_further_than_it_is_shown() -> None:
    seen: list[int] = []

    def show(text: str) -> str:
        seen.append(len(text))
        return reveal(text)

    assert fit("abc", 400) == "abc"
    assert "⟨999600 characters left out: more⟩" in fit("x" * 1_000_000, 400, show, ": more")
    assert "⟨999960 characters left out: more⟩" in fit("\u202e" * 1_000_000, 400, show, ": more")
    assert "⟨260 characters left out⟩" in fit("\u202e" * 300, 400)
    assert len(fit("\U0010ffff" * 300, 400)) <= 440
    assert sum(seen) < 1000
