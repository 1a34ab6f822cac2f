from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from client_agent.journal.audit import NO_HASH, AuditEntry, Head, chain, describe, presentable, text_line, unchain
from client_agent.protocol.calls import Call

TIME = datetime(2025, 12, 30, 12, 34, 56, tzinfo=UTC)


def entry(**fields: object) -> AuditEntry:
    values: dict[str, object] = {"time": TIME, "operation": "READ", "status": "success", "target": "notes.md"}
    return AuditEntry(**{**values, **fields})  # type: ignore[arg-type]


def test_a_success_reads_as_one_plain_line() -> None:
    line = text_line(entry(operation="UPLOAD", target="config.yaml", tool_id="t-1", user="ada"))
    assert line == "[2025-12-30 12:34:56] [UPLOAD] filename=config.yaml user=ada tool_id=t-1 status=success"


def test_a_denial_says_why_in_quotes() -> None:
    line = text_line(entry(operation="DOWNLOAD", target="/etc/passwd", status="denied", reasons=("路径不在白名单中",)))
    assert line == '[2025-12-30 12:34:56] [DOWNLOAD] file_path=/etc/passwd status=denied reason="路径不在白名单中"'


@pytest.mark.parametrize(
    "target",
    [
        "a\n[2025-12-30 12:34:56] [READ] status=success",
        'a" status=success "',
        "a status=success",
        "a\u202eb",
        "\x1b[2J",
    ],
)
def test_no_value_can_pass_for_a_field_or_a_line(target: str) -> None:
    line = text_line(entry(target=target, status="denied"))
    assert line.count("\n") == 0
    assert line.isprintable()
    assert line.split(' status="')[0].endswith(" status=denied")
    assert line.startswith('[2025-12-30 12:34:56] [READ] path="')


def test_secrets_are_taken_out_of_targets_and_reasons() -> None:
    shown = presentable(entry(target="curl --token hunter2", reasons=("password=hunter2 was given",)))
    assert "hunter2" not in text_line(shown) + str(shown)


@pytest.mark.parametrize(
    ("tool", "params", "expected"),
    [
        ("read_file", {"path": "a.txt"}, ("READ", "a.txt")),
        ("write_file", {"path": "a b.txt", "content": "x"}, ("WRITE", "a b.txt")),
        ("list_directory", {}, ("LIST", "")),
        ("execute_command", {"command": "git", "args": ["log", "a b"]}, ("EXECUTE", "git log 'a b'")),
        ("command_executor", {"command": "ls"}, ("EXECUTE", "ls")),
        ("execute_command", {"command": "x", "args": ["--password", "hunter2"]}, ("EXECUTE", "x --password '***'")),
        ("read_file", {"path": ["odd"]}, ("READ", "['odd']")),
        ("execute_command", {"command": 3, "args": "no list"}, ("EXECUTE", "3")),
        ("no_such_tool", {"path": "p"}, ("NO_SUCH_TOOL", "p")),
    ],
)
def test_a_call_is_described_by_what_it_does_and_to_what(
    tool: str, params: dict[str, object], expected: tuple[str, str]
) -> None:
    assert describe(Call(tool_id="t", tool_name=tool, tool_params=params)) == expected


def test_a_line_carries_its_place_and_proves_its_bytes() -> None:
    head, line = chain(Head(6, "a" * 64), entry(reasons=("one", "two")))
    fields = json.loads(line)
    assert (fields["sequence"], fields["prev"], fields["hash"]) == (7, "a" * 64, head.hash)
    assert (fields["time"], fields["reasons"]) == ("2025-12-30T12:34:56Z", ["one", "two"])
    assert unchain(line[:-1]) == (head, "a" * 64)


def test_no_byte_of_a_line_can_be_changed() -> None:
    _, line = chain(Head(0, NO_HASH), entry())
    line = line[:-1]
    for index in range(len(line)):
        changed = line[:index] + bytes([line[index] ^ 1]) + line[index + 1 :]
        assert unchain(changed) is None


def test_a_lone_surrogate_does_not_stop_the_log() -> None:
    head, line = chain(Head(0, NO_HASH), entry(target="a\udc80", reasons=("b\udc80",), user="c\udc80"))
    assert json.loads(line)["target"] == "a?"
    assert unchain(line[:-1]) == (head, NO_HASH)
