"""Encodings and line endings."""

from __future__ import annotations

import random

import pytest

from client_agent.tools.text import decode, decode_surely, line_endings


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        ("un café crème, s'il vous plaît\n", "cp1252"),
        ("/* Copyright © 2003 Jürgen Müller */\nint main(void) { return 0; }\n", "latin-1"),
        ("x = 1\n" * 50 + "# ©\n", "latin-1"),
        ("Привет, мир\n", "cp1251"),
        ("# Функция для чтения файла\ndef read(path):\n    return open(path).read()\n", "cp1251"),
        ("Съешь же ещё этих мягких французских булок, да выпей чаю. " * 5, "koi8-r"),
        ("人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心。\n", "gbk"),
        ("いろはにほへと ちりぬるを。わかよたれそ\n" * 3, "shift_jis"),
        ("Zażółć gęślą jaźń, proszę państwa. Wszyscy ludzie rodzą się wolni i równi.\n", "cp1250"),
    ],
)
def test_short_texts_in_common_encodings_are_read_right(text: str, codec: str) -> None:
    data = text.encode(codec)
    assert decode_surely(data) is None
    decoded = decode(data)
    assert decoded is not None
    assert decoded[0] == text
    assert decoded[1].encode(decoded[0]) == data


def test_a_long_text_is_judged_by_its_beginning_and_decoded_whole() -> None:
    text = "Съешь же ещё этих мягких французских булок, да выпей чаю.\n" * 5000
    decoded = decode(text.encode("cp1251"))
    assert decoded is not None
    assert decoded[0] == text


def test_noise_is_not_text() -> None:
    noise = random.Random(7)
    for _ in range(20):
        assert decode(bytes(noise.randrange(1, 256) for _ in range(2000))) is None
    assert decode(b"text\0") is None
    assert decode(b"\xff\xfe\0") is None  # the mark of UTF-16, and half a character


@pytest.mark.parametrize(
    ("text", "kind"), [("", "none"), ("a\rb", "none"), ("a\nb", "lf"), ("a\r\nb\r\n", "crlf"), ("a\r\nb\n", "mixed")]
)
def test_line_endings_are_told_apart(text: str, kind: str) -> None:
    assert line_endings(text) == kind
