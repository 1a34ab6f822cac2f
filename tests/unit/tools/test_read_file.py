"""What `read_file` gives back."""

from __future__ import annotations

import base64
import hashlib
import os
import threading
from pathlib import Path

import pytest

from client_agent.errors import AccessRefused, MissingFile, TooLarge, WrongKind
from client_agent.tools.read_file import HASH_MAX_BYTES
from client_agent.tools.tool import ToolContext, format_time
from client_agent.workspace.reading import FileBytes
from client_agent.workspace.root import NotCached, Root


async def test_the_result_is_what_the_contract_says(ws: Path, run) -> None:
    (ws / "d").mkdir()
    (ws / "d/f.txt").write_bytes("Привет\r\n".encode())
    os.utime(ws / "d/f.txt", ns=(0, 1_700_000_000_123_456_789))
    output = await run("read_file", path="./d/f.txt")
    assert output == {
        "content": "Привет\r\n",
        "encoding": "utf-8",
        "size": 14,
        "path": "d/f.txt",
        "modified": "2023-11-14T22:13:20.123Z",
        "hash": hashlib.sha256("Привет\r\n".encode()).hexdigest(),
    }


async def test_an_empty_file_is_empty_text(ws: Path, run) -> None:
    (ws / "f").touch()
    output = await run("read_file", path="f")
    assert (output["content"], output["encoding"], output["size"]) == ("", "utf-8", 0)


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("\ufeffmarked ü".encode(), "utf-8-sig"),
        (b"\xff\xfe" + "wide ü 文".encode("utf-16-le"), "utf-16-le"),
        (b"\xfe\xff" + "wide ü 文".encode("utf-16-be"), "utf-16-be"),
        (b"\xff\xfe\0\0" + "wider ü 文".encode("utf-32-le"), "utf-32-le"),
    ],
)
async def test_a_mark_tells_the_encoding_and_is_not_part_of_the_text(ws: Path, run, data: bytes, encoding: str) -> None:
    (ws / "f.txt").write_bytes(data)
    output = await run("read_file", path="f.txt")
    assert output["encoding"] == encoding
    assert output["content"] in ("marked ü", "wide ü 文", "wider ü 文")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Съешь же ещё этих мягких французских булок, да выпей чаю. " * 20, "cp1251"),
        ("いろはにほへと ちりぬるを。わかよたれそ つねならむ。" * 20, "shift_jis"),
        ("Le cœur a ses raisons que la raison ne connaît point; où êtes-vous passés, été comme hiver? " * 20, "cp1252"),
    ],
)
async def test_other_encodings_are_detected(ws: Path, run, text: str, encoding: str) -> None:
    (ws / "f.txt").write_bytes(text.encode(encoding))
    output = await run("read_file", path="f.txt")
    assert output["content"].encode(output["encoding"]) == text.encode(encoding)
    assert output["content"] == text


@pytest.mark.parametrize(
    "data",
    [
        b"%PDF-1.7 all of it in plain letters",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"\xff\xd8\xff\xe0\0\x10JFIF",
        b"GIF89a\1\0\1\0",
        b"RIFF\x24\0\0\0WEBPVP8 ",
        b"BM\x46\0\0\0\0\0\0\0\x36\0\0\0",
        b"\0\0\0\x20ftypavif\0\0\0\0",
        b"II*\0\x08\0\0\0",
    ],
)
async def test_pdf_and_images_are_given_as_base64_whatever_their_name(ws: Path, run, data: bytes) -> None:
    (ws / "f.dat").write_bytes(data)
    output = await run("read_file", path="f.dat")
    assert (output["encoding"], base64.b64decode(output["content"]), output["size"]) == ("base64", data, len(data))


@pytest.mark.parametrize(
    "data", [b"\x7fELF\x02\x01\x01\0\0\0", b"PK\x03\x04\x14\0\0\0", b"text\0with a nul", b"RIFF\x24\0\0\0WAVEfmt "]
)
async def test_binary_files_are_refused_even_under_the_name_of_an_image(ws: Path, run, data: bytes) -> None:
    (ws / "f.png").write_bytes(data)
    with pytest.raises(WrongKind) as caught:
        await run("read_file", path="f.png")
    assert caught.value.code == "binary_file"


async def test_text_that_begins_like_an_image_is_text(ws: Path, run) -> None:
    (ws / "cars.txt").write_bytes(b"BMW and others")
    assert (await run("read_file", path="cars.txt"))["encoding"] == "utf-8"


async def test_refusals_come_through(ws: Path, run) -> None:
    (ws / "big.txt").write_bytes(b"x" * 1_000_001)
    for path, kind in (
        ("../x", AccessRefused),
        (".env", AccessRefused),
        ("nope", MissingFile),
        (".", WrongKind),
        ("big.txt", TooLarge),
    ):
        with pytest.raises(kind):
            await run("read_file", path=path)


async def test_what_would_have_to_be_waited_for_is_read_in_a_thread(
    ws: Path, run, context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ws / "f.txt").write_bytes(b"from the disk")
    threads: list[int] = []
    read = Root.read

    def refuse(*_: object) -> FileBytes:
        raise NotCached

    def read_noting(self: Root, path: str, max_bytes: int) -> FileBytes:
        threads.append(threading.get_ident())
        return read(self, path, max_bytes)

    monkeypatch.setattr(Root, "read_cached", refuse)
    monkeypatch.setattr(Root, "read", read_noting)
    assert (await run("read_file", path="f.txt"))["content"] == "from the disk"
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1_000_000, "1969-12-31T23:59:59.999Z"),
        (10**30, "9999-12-31T23:59:59.000Z"),
    ],
)
def test_any_time_a_file_can_have_is_shown(time_ns: int, text: str) -> None:
    assert format_time(time_ns) == text


async def test_the_hash_of_a_large_file_is_left_to_whoever_wants_it(ws: Path, run) -> None:
    for size, hashed in ((HASH_MAX_BYTES, True), (HASH_MAX_BYTES + 1, False)):
        (ws / "f.txt").write_text("x" * size)
        output = await run("read_file", path="f.txt")
        assert (output["size"], "hash" in output) == (size, hashed)
