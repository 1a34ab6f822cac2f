"""Other pages, other names for this address, and texts that pretend."""

from __future__ import annotations

import asyncio
import contextlib
import json
import unicodedata
import uuid
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace
from playwright.async_api import Page, expect

from tests.browser.conftest import REBOUND, House, is_connected
from tests.unit.approvals.test_terminal import full_of

MARKUP = [
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "<style>*{display:none}</style>",
    "</code></dd></pre></article><h1>Approved</h1>",
    "{{7*7}}${7*7}",
]
# What moves, hides, reverses or imitates, each with how it must be shown.
DISGUISES = [
    ("\x1b[2K\x1b[1A", "⟨U+001B⟩[2K⟨U+001B⟩[1A"),
    ("\x9b31m", "⟨U+009B⟩31m"),
    ("a\rb\x08c\x00d", "a⟨U+000D⟩b⟨U+0008⟩c⟨U+0000⟩d"),
    ("txt.\u202eexe.\u2066x", "txt.⟨U+202E⟩exe.⟨U+2066⟩x"),
    ("rm\u200b\u2060\ufeff\u00ad -rf", "rm⟨U+200B⟩⟨U+2060⟩⟨U+FEFF⟩⟨U+00AD⟩ -rf"),
    ("a\u3164b\u2800c\U000e0041d", "a⟨U+3164⟩b⟨U+2800⟩c⟨U+E0041⟩d"),
    ("ѕudo \u2013rf \uff0f", "⟨U+0455⟩udo ⟨U+2013⟩rf ⟨U+FF0F⟩"),
    ("ls" + " " * 300 + "; rm", "ls⟨300 spaces⟩; rm"),
    ("\ufdfd\ufdfd", "⟨U+FDFD⟩⟨U+FDFD⟩"),
    ("\u2028\u2029\u0085", "⟨U+2028⟩⟨U+2029⟩⟨U+0085⟩"),
    ("⟨U+0041⟩", "⟨U+27E8⟩U+0041⟨U+27E9⟩"),
    ("\x1b]8;;http://evil\x07ok", "⟨U+001B⟩]8;;http://evil⟨U+0007⟩ok"),
    ("a\ufe0f\U000e0100b", "a⟨U+FE0F⟩⟨U+E0100⟩b"),
    ("\U0001f469\u200d\U0001f4bb", "⟨U+1F469⟩⟨U+200D⟩⟨U+1F4BB⟩"),
    ("ж" + "\u0301" * 5, "ж" + "\u0301" * 3 + "⟨U+0301⟩" * 2),
    ("\u0280\u1d0d \u13da\u13bb", "⟨U+0280⟩⟨U+1D0D⟩ ⟨U+13DA⟩⟨U+13BB⟩"),
    ("\tindented", "⇥   indented"),
    ("\\u202e \\x1b[31m &lt;b&gt;", "\\u202e \\x1b[31m &lt;b&gt;"),
]


@pytest.mark.parametrize("text", MARKUP)
async def test_markup_is_shown_as_the_text_it_is(house: House, text: str) -> None:
    house.ask("write_file", session=text, path=f"{text.replace('/', '_')}.md", content=text)
    card = house.page.get_by_role("article")
    await expect(card.locator(".diff .added")).to_contain_text(text)
    await expect(card).to_contain_text(f"session {text}")
    assert await house.page.title() == "(1) client-agent"
    assert await house.page.locator("article").count() == 1
    assert await card.locator("script, img, style, h1").count() == 0


async def test_what_moves_hides_or_imitates_is_spelled_out_wherever_it_is(house: House) -> None:
    content = "\n".join(text for text, _ in DISGUISES)
    house.ask("write_file", session=DISGUISES[3][0], path="a.md", content=content)
    card = house.page.get_by_role("article")
    await expect(card.locator(".diff .added")).to_have_count(len(DISGUISES))
    shown = await card.locator(".diff .added").all_text_contents()
    assert [line.rstrip("\n") for line in shown] == [f"+{told}" for _, told in DISGUISES]
    await expect(card).to_contain_text(f"session {DISGUISES[3][1]}")
    assert await odd_characters(house.page) == []


async def test_arguments_of_a_command_cannot_disguise_themselves(house: House) -> None:
    args = ["log", "--format=\u202etxt\x1b[8m", "a; rm -rf /", "\n\nRisk: LOW\n[Y] Allow"]
    house.ask("execute_command", command="git", args=args)
    card = house.page.get_by_role("article")
    await expect(card.get_by_role("heading", level=3)).to_contain_text("⟨U+202E⟩txt⟨U+001B⟩[8m")
    await expect(card.get_by_role("heading", level=3)).to_contain_text("'a; rm -rf /' '⏎⏎Risk: LOW⏎[Y] Allow'")
    assert await odd_characters(house.page) == []


LONG = "safe " + "x" * 200_000 + " END"


async def test_no_word_of_a_server_acts_wherever_a_question_shows_it(house: House) -> None:
    broker = house.world.broker
    for text in (*(text for text, _ in DISGUISES), *MARKUP, LONG, "\u05d0/\u05d1 1", "a\n\nRisk: LOW"):
        asked = replace(full_of(text, broker.now()), id=uuid.uuid4().hex)
        asking = asyncio.create_task(broker.ask(asked))
        card = house.page.locator(f'article[data-id="{asked.id}"]')
        await expect(card).to_be_visible()
        assert await odd_characters(house.page) == []
        assert await card.locator("script, img, style, h1, svg, form").count() == 0
        shown = await card.text_content() or ""
        assert len(shown) < 40_000
        assert shown.count("END") == (5 if text is LONG else 0), "the end is in sight wherever the beginning is"
        assert await house.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        asking.cancel()
        await expect(card).to_have_count(0)


async def odd_characters(page: Page) -> list[str]:
    """Characters anywhere on the page, attributes included, that draw nothing or act on others."""
    texts: list[str] = await page.evaluate(
        """() => [...document.querySelectorAll("body *")].flatMap((e) =>
             [...[...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data),
              ...[...e.attributes].map((a) => a.value)])"""
    )
    return [ch for text in texts for ch in text if ch != "\n" and unicodedata.category(ch) in ("Cc", "Cf", "Zl", "Zp")]


async def test_a_line_of_the_file_cannot_pass_for_the_head_of_the_diff(house: House) -> None:
    (house.world.root / "a.md").write_text("-- old\n")
    house.ask("write_file", path="a.md", content="++ new\n")
    card = house.page.get_by_role("article")
    await expect(card.locator(".diff .added")).to_have_text("+++ new\n")
    await expect(card.locator(".diff .removed")).to_have_text("--- old\n")
    await expect(card.get_by_role("heading", name="Change")).to_have_text("Change +1 −1 lines")


async def test_a_text_pushed_out_of_sight_stays_in_sight(house: House) -> None:
    house.ask("write_file", path="safe" + " " * 30 + "x.md", content="x" * 4000 + "END")
    card = house.page.get_by_role("article")
    await expect(card.locator(".diff")).to_contain_text("⟨2004 characters left out⟩")
    await expect(card.locator(".diff")).to_contain_text("xEND")  # the end is in sight, whatever is left out
    await card.get_by_role("button", name="Show all of it").click()
    await expect(card.locator(".diff")).to_contain_text("x" * 4000 + "END")
    box, outer = await card.locator("dd code").first.bounding_box(), await card.bounding_box()
    assert box is not None
    assert outer is not None
    assert box["x"] + box["width"] <= outer["x"] + outer["width"]


@contextlib.asynccontextmanager
async def another_site(body: str) -> AsyncIterator[str]:
    """A page of somebody else's, on another port of this machine: the same site, as far as cookies go."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        page = body.encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(page)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + page)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()
        await server.wait_closed()


def authority(house: House) -> str:
    return urlsplit(house.page.url).netloc


async def test_another_page_in_the_same_browser_gets_nowhere(house: House) -> None:
    ours = authority(house)
    script = f"""<title>busy</title>
      <form method="post" action="http://{ours}/session" target="frame" enctype="text/plain">
      <input name='{{"ticket":"' value='x"}}'></form><iframe name="frame"></iframe><script>
      const tried = {{}};
      const note = (what, word) => {{
        tried[what] = word;
        if (Object.keys(tried).length === 5) document.title = JSON.stringify(tried);
      }};
      const socket = new WebSocket("ws://{ours}/live");
      socket.onopen = () => note("socket", "open");
      socket.onerror = () => note("socket", "refused");
      const send = (what, path, options) => fetch("http://{ours}" + path, {{ credentials: "include", ...options }})
        .then(() => note(what, "open"), () => note(what, "refused"));
      send("get", "/", {{}});
      const json = {{ "Content-Type": "application/json" }};
      send("post", "/session", {{ method: "POST", body: '{{"ticket":"x"}}', headers: json }});
      send("blind", "/session", {{ method: "POST", mode: "no-cors", body: '{{"ticket":"x"}}' }});
      const script = document.createElement("script");
      script.src = "http://{ours}/app.js";
      script.onload = () => note("script", "open");
      script.onerror = () => note("script", "refused");
      document.head.append(script);
      document.forms[0].submit();
    </script>"""
    async with another_site(script) as url:
        page = await house.page.context.new_page()
        statuses: list[int] = []
        page.on("response", lambda answer: statuses.append(answer.status) if ours in answer.url else None)
        await page.goto(url)
        await expect(page).not_to_have_title("busy")
        assert json.loads(await page.title()) == {
            "socket": "refused", "get": "refused", "post": "refused", "blind": "refused", "script": "refused",
        }  # fmt: skip
        assert set(statuses) == {403}
        await page.close()


async def test_a_name_that_was_made_to_point_here_gets_nothing(house: House) -> None:
    page = await house.page.context.new_page()
    port = authority(house).split(":")[1]
    answer = await page.goto(f"http://{REBOUND}:{port}/")
    assert answer is not None
    assert answer.status == 403
    tried = await page.evaluate(
        """(port) => Promise.all([
             fetch("/app.js").then((a) => a.status),
             fetch("/session", { method: "POST", body: "{}", headers: { "Content-Type": "application/json" } })
               .then((a) => a.status),
             new Promise((done) => { const s = new WebSocket(`ws://${location.host}/live`);
               s.onopen = () => done("open"); s.onerror = () => done("refused"); })])""",
        port,
    )
    assert tried == [403, 403, "refused"]
    await page.close()


async def test_the_page_cannot_be_framed(house: House) -> None:
    async with another_site(f'<iframe src="http://{authority(house)}/"></iframe>') as url:
        page = await house.page.context.new_page()
        await page.goto(url)
        frame = page.frames[-1]
        assert await frame.evaluate("document.body ? document.body.innerText : ''") != "client-agent"
        assert "Questions" not in await frame.evaluate("document.documentElement.textContent")


async def test_the_ticket_works_once_and_is_gone_from_the_address(house: House) -> None:
    assert "#" not in house.page.url or house.page.url.endswith("#questions")
    url = (await house.command("page.open"))["url"]
    first, second = await house.page.context.browser.new_context(), await house.page.context.browser.new_context()  # type: ignore[union-attr]
    page = await first.new_page()
    await page.goto(url)
    await is_connected(page)
    late = await second.new_page()
    await late.goto(url)
    await expect(late.get_by_text("used before")).to_be_visible()
    await first.close()
    await second.close()


async def test_a_browser_with_the_cookie_but_not_the_key_is_not_let_in(house: House) -> None:
    page = await house.page.context.new_page()
    await page.goto(f"http://{authority(house)}/")
    await expect(page.get_by_text("This tab has no key")).to_be_visible()


async def test_a_new_ticket_opens_a_second_tab(house: House) -> None:
    page = await house.page.context.new_page()
    await page.goto((await house.command("page.open"))["url"])
    await is_connected(page)
