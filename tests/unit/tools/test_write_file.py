"""What `write_file` leaves on the disk and says about it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from client_agent.errors import AccessRefused, InvalidParameters, MissingFile, StaleContent, TooLarge, WrongKind


async def test_the_result_is_what_the_contract_says(ws: Path, run) -> None:
    output = await run("write_file", path="./f.txt", content="Grüße\n")
    assert (ws / "f.txt").read_bytes() == "Grüße\n".encode()
    timestamp = output.pop("timestamp")
    assert timestamp.endswith("Z")
    assert timestamp == (await run("read_file", path="f.txt"))["modified"]
    assert output == {
        "path": "f.txt",
        "size": 8,
        "created": True,
        "encoding": "utf-8",
        "line_endings": "lf",
        "hash": hashlib.sha256("Grüße\n".encode()).hexdigest(),
    }


async def test_what_is_written_is_read_back(ws: Path, run) -> None:
    for content in ("", "\n", "a\r\nb\n", "日本語\n" * 10, "\ufeff", "tab\tnul-free \u2028 \x1b[0m"):
        await run("write_file", path="f.txt", content=content, create_dirs=True)
        expected = content.removeprefix("\ufeff")
        assert (await run("read_file", path="f.txt"))["content"] == expected
        (ws / "f.txt").unlink()


async def test_append_adds_and_parents_are_made_when_asked_for(ws: Path, run) -> None:
    with pytest.raises(MissingFile):
        await run("write_file", path="a/b/log.txt", content="1\n")
    await run("write_file", path="a/b/log.txt", content="1\n", mode="append", create_dirs=True)
    output = await run("write_file", path="a/b/log.txt", content="2\n", mode="append")
    assert (ws / "a/b/log.txt").read_text() == "1\n2\n"
    assert (output["size"], output["created"], output["path"]) == (4, False, "a/b/log.txt")


async def test_windows_line_endings_are_kept(ws: Path, run) -> None:
    (ws / "f.txt").write_bytes(b"one\r\ntwo\r\n")
    output = await run("write_file", path="f.txt", content="three\n", mode="append")
    assert (ws / "f.txt").read_bytes() == b"one\r\ntwo\r\nthree\r\n"
    assert output["line_endings"] == "crlf"
    await run("write_file", path="f.txt", content="a\nb\n")
    assert (ws / "f.txt").read_bytes() == b"a\r\nb\r\n"


@pytest.mark.parametrize("old", [b"one\ntwo\r\n", b"one\n", b"no line end", b""])
async def test_line_endings_that_are_not_all_alike_are_left_to_the_caller(ws: Path, run, old: bytes) -> None:
    (ws / "f.txt").write_bytes(old)
    await run("write_file", path="f.txt", content="a\nb\n")
    assert (ws / "f.txt").read_bytes() == b"a\nb\n"


async def test_content_that_says_its_own_line_endings_is_taken_as_it_is(ws: Path, run) -> None:
    (ws / "f.txt").write_bytes(b"one\r\n")
    output = await run("write_file", path="f.txt", content="a\r\nb\n")
    assert (ws / "f.txt").read_bytes() == b"a\r\nb\n"
    assert output["line_endings"] == "mixed"


@pytest.mark.parametrize(
    ("mark", "codec", "name"),
    [
        (b"\xef\xbb\xbf", "utf-8", "utf-8-sig"),
        (b"\xff\xfe", "utf-16-le", "utf-16-le"),
        (b"\xfe\xff", "utf-16-be", "utf-16-be"),
    ],
)
async def test_the_encoding_and_its_mark_are_kept(ws: Path, run, mark: bytes, codec: str, name: str) -> None:
    (ws / "f.txt").write_bytes(mark + "old ü\r\n".encode(codec))
    output = await run("write_file", path="f.txt", content="more ü\n", mode="append")
    assert output["encoding"] == name
    assert (ws / "f.txt").read_bytes() == mark + "old ü\r\nmore ü\r\n".encode(codec)
    await run("write_file", path="f.txt", content="new ü\n")
    assert (ws / "f.txt").read_bytes() == mark + "new ü\r\n".encode(codec)


async def test_an_old_encoding_is_kept_as_long_as_it_can_hold_the_text(ws: Path, run) -> None:
    russian = "Съешь же ещё этих мягких французских булок. " * 10
    (ws / "f.txt").write_bytes(russian.encode("cp1251"))
    output = await run("write_file", path="f.txt", content="да", mode="append")
    assert (ws / "f.txt").read_bytes() == (russian + "да").encode("cp1251")
    assert output["encoding"] != "utf-8"
    with pytest.raises(InvalidParameters) as caught:
        await run("write_file", path="f.txt", content="日本", mode="append")
    assert caught.value.code == "content_not_encodable"
    output = await run("write_file", path="f.txt", content="日本")
    assert ((ws / "f.txt").read_bytes(), output["encoding"]) == ("日本".encode(), "utf-8")


async def test_text_is_not_added_to_a_binary_file_but_may_replace_it(ws: Path, run) -> None:
    (ws / "f.dat").write_bytes(b"\x89PNG\0\0")
    with pytest.raises(WrongKind):
        await run("write_file", path="f.dat", content="x", mode="append")
    await run("write_file", path="f.dat", content="x")
    assert (ws / "f.dat").read_bytes() == b"x"


async def test_content_that_is_not_text_is_an_error(ws: Path, run) -> None:
    with pytest.raises(InvalidParameters):
        await run("write_file", path="f.txt", content="lone \ud800")
    assert os.listdir(ws) == []


async def test_a_hash_from_reading_guards_the_next_write(ws: Path, run) -> None:
    await run("write_file", path="f.txt", content="1", expected_hash="")
    seen = (await run("read_file", path="f.txt"))["hash"]
    (ws / "f.txt").write_text("changed by the user")
    with pytest.raises(StaleContent):
        await run("write_file", path="f.txt", content="2", expected_hash=seen)
    assert (ws / "f.txt").read_text() == "changed by the user"
    seen = (await run("read_file", path="f.txt"))["hash"]
    output = await run("write_file", path="f.txt", content="2", expected_hash=seen)
    await run("write_file", path="f.txt", content="3", expected_hash=output["hash"])


@pytest.mark.parametrize("target", ["lib.so", "tool.EXE", "x.dll.", "script.ps1", "macro.vbs"])
async def test_refused_extensions_are_refused_behind_links_too(ws: Path, run, target: str) -> None:
    (ws / "notes.txt").symlink_to(target)
    for path in (target, "notes.txt"):
        with pytest.raises(AccessRefused) as caught:
            await run("write_file", path=path, content="x")
        assert caught.value.code == "extension_refused"
    assert os.listdir(ws) == ["notes.txt"]


async def test_limits_and_refusals_come_through(ws: Path, run, tmp_path: Path) -> None:
    with pytest.raises(TooLarge):
        await run("write_file", path="f.txt", content="ü" * 501)
    for path in ("../f.txt", str(tmp_path / "f.txt"), ".env", ".client-agent.toml"):
        with pytest.raises(AccessRefused):
            await run("write_file", path=path, content="x", create_dirs=True)
    assert os.listdir(tmp_path) == ["ws"]
