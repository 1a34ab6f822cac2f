from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_agent.protocol.masking import MASK, MAX_DEPTH, is_secret_name, mask, mask_text

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ1c2VyLTEifQ.c2lnbmF0dXJlLXNpZ25hdHVyZQ"
KEY_BLOCK = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----"

SHAPES = [
    JWT,
    "AKIAABCDEFGHIJKLMNOP",
    "ASIAABCDEFGHIJKLMNOP",
    *(f"gh{kind}_0123456789abcdefghijABCDEFGHIJ012345" for kind in "pousr"),
    "github_pat_0123456789abcdefghij_ABCDEFGHIJ",
    "glpat-0123456789abcdefghij",
    "xoxb-123456789012-abcdefghijkl",
    "sk-proj-0123456789abcdefghijkl",
    "sk_live_0123456789abcdef",
    "rk_test_0123456789abcdef",
    "npm_0123456789abcdefghijABCDEFGHIJ012345",
    "pypi-0123456789abcdefghijABCDEFGHIJ012345",
    "hf_0123456789abcdefghijABCDEFGHIJ012345",
    "AIzaSyA0123456789abcdefghijklmnopqrstuvw",
    KEY_BLOCK,
]
NAMES = ["password", "DB_PASSWORD", "apiKey", "api-key", "X-Api-Key", "Authorization", "client_secret", "accessToken"]


@pytest.mark.parametrize("name", NAMES)
def test_a_value_under_a_secret_name_is_masked(name: str) -> None:
    assert mask({name: "hunter2", "path": "a.txt"}) == {name: MASK, "path": "a.txt"}


@pytest.mark.parametrize("name", NAMES)
def test_a_secret_name_hides_a_whole_structure(name: str) -> None:
    assert mask({"outer": {name: {"inner": ["hunter2"]}}}) == {"outer": {name: MASK}}


@pytest.mark.parametrize("secret", SHAPES)
@pytest.mark.parametrize("around", ["{}", "before {} after", "x={}", '{{"k": "{}"}}'])
def test_a_secret_is_known_by_its_shape_wherever_it_stands(secret: str, around: str) -> None:
    shown = mask({"query": around.format(secret)})["query"]
    assert secret not in shown
    assert MASK in shown


@pytest.mark.parametrize(
    "text",
    [
        "mysql --password hunter2xyz",
        "curl -H 'Authorization: Bearer hunter2xyz' http://x",
        "Authorization: Basic hunter2xyz",
        "bearer hunter2xyz",
        "PGPASSWORD=hunter2xyz psql",
        '{"api_key": "hunter2xyz"}',
        "postgres://user:hunter2xyz@host/db",
        "token: hunter2xyz",
        "--api-key=hunter2xyz",
    ],
)
def test_a_secret_named_inside_a_text_is_masked(text: str) -> None:
    assert "hunter2xyz" not in mask_text(text)


def test_the_argument_after_a_secret_option_is_masked() -> None:
    shown = mask({"args": ["login", "--password", "hunter2", "--user", "ada", "--token=abc"]})
    assert shown == {"args": ["login", "--password", MASK, "--user", "ada", f"--token={MASK}"]}


@pytest.mark.parametrize(
    "params",
    [
        {"path": "src/main.py", "recursive": True, "limit": 3, "nothing": None},
        {"command": "git", "args": ["log", "--oneline", "-n", "5"]},
        {"max_tokens": 4096},
        {"query": "how does the parser work: a short tour"},
        {"url": "https://example.org/a?b=c"},
    ],
)
def test_ordinary_parameters_stay_as_they_are(params: dict[str, object]) -> None:
    assert mask(params) == params


def test_long_content_is_replaced_by_its_size_and_hash() -> None:
    content = "ü" * 5000
    digest = hashlib.sha256(content.encode()).hexdigest()
    assert mask({"content": content}) == {"content": f"<10000 bytes, sha256 {digest}>"}
    assert mask({"content": "short"}) == {"content": "short"}


def test_any_very_long_text_is_replaced() -> None:
    assert len(mask({"query": "x" * 100_000})["query"]) < 120


def test_depth_and_unknown_types_are_bounded() -> None:
    deep: object = "x"
    for _ in range(MAX_DEPTH + 5):
        deep = [deep]
    assert "nested too deeply" in str(mask({"a": deep}))
    assert mask({"a": b"bytes"}) == {"a": "<bytes>"}


def test_what_goes_in_is_not_changed() -> None:
    params = {"password": "hunter2", "args": ["--token", "abc"]}
    mask(params)
    assert params == {"password": "hunter2", "args": ["--token", "abc"]}


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_masking_twice_is_masking_once(value: object) -> None:
    once = mask({"value": value})
    assert mask(once) == once


def test_names_are_recognised_however_they_are_spelled() -> None:
    assert all(is_secret_name(name) for name in NAMES)
    assert not any(is_secret_name(name) for name in ("path", "command", "author", "keyboard", "monkey", "passage"))
