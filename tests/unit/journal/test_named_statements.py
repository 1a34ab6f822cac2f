from __future__ import annotations

import re
from importlib.resources import files

import pytest

from client_agent import journal
from client_agent.journal import statements

FILES = ["database", "calls", "history", "permissions", "retention"]


@pytest.mark.parametrize("file", FILES)
def test_every_statement_has_a_name_and_a_sentence(file: str) -> None:
    found = statements.load(file)
    assert found
    for name, text in found.items():
        assert re.match(r"-- [A-Z].*[.;]?", text), name


@pytest.mark.parametrize("schema", ["journal", "permissions"])
def test_each_migration_leads_to_the_version_of_its_place(schema: str) -> None:
    for number, script in enumerate(statements.migrations(schema), start=1):
        assert f"PRAGMA user_version = {number};" in script


def test_a_script_is_split_at_the_ends_of_statements_only() -> None:
    script = "-- a; comment\nCREATE TABLE a (b TEXT DEFAULT ';');\nPRAGMA x = 1;\n"
    assert list(statements.split(script)) == ["-- a; comment\nCREATE TABLE a (b TEXT DEFAULT ';');", "PRAGMA x = 1;"]


def test_no_sql_stands_in_python() -> None:
    for source in files(journal).iterdir():
        if source.name.endswith(".py"):
            text = source.read_text("utf-8")
            assert not re.search(r"\b(SELECT|INSERT INTO|UPDATE \w+ SET|DELETE FROM|PRAGMA|BEGIN IMMEDIATE)\b", text)
