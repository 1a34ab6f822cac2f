"""Text from a server cannot pretend to be something else."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_agent.approvals.honest import reveal, reveal_lines


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
        ("⟨U+0041⟩⏎", "⟨U+27E8⟩U+0041⟨U+27E9⟩⟨U+23CE⟩"),
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
        "日本語のファイル",
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
