"""Questions on the page: answered with a click or a key, gone everywhere once answered."""

from __future__ import annotations

import asyncio
import re
import uuid
from datetime import UTC, datetime

from playwright.async_api import Browser, expect

from client_agent.approvals.questions import Question
from client_agent.policy.decision import Decision, Risk, Verdict
from client_agent.protocol.calls import Call
from tests.browser.conftest import House, open_house
from tests.integration.daemon.conftest import World


async def test_a_question_shows_its_facts_and_runs_after_a_click(house: House) -> None:
    (house.world.root / "a.md").write_text("old\n")
    asking = house.ask("write_file", path="a.md", content="new\nline\n")
    card = house.page.get_by_role("article")
    await expect(card).to_contain_text("write_file")
    await expect(card).to_contain_text("MEDIUM")
    await expect(card).to_contain_text("+2")
    await expect(card.locator(".diff .removed")).to_have_text("-old\n")
    await expect(card).to_contain_text("no network")
    await expect(card).to_contain_text("writes in the workspace")
    await card.get_by_role("button", name="Allow once").click()
    assert (await asking)["status"] == "completed"
    assert (house.world.root / "a.md").read_text() == "new\nline\n"
    await expect(house.page.get_by_text("Nothing to answer.")).to_be_visible()


async def test_a_no_with_a_reason_reaches_the_agent(house: House) -> None:
    asking = house.ask("write_file", path="a.md", content="x")
    card = house.page.get_by_role("article")
    await card.get_by_label("Reason for a no").fill("write to docs/ instead")
    await card.get_by_role("button", name="Refuse").click()
    response = await asking
    assert response["status"] == "rejected"
    assert "write to docs/ instead" in response["error"]
    assert "Do not retry" in response["error"]
    assert not (house.world.root / "a.md").exists()


async def test_a_key_answers(house: House) -> None:
    asking = house.ask("write_file", path="a.md", content="x")
    await expect(house.page.get_by_role("button", name="Allow once")).to_be_enabled()
    await house.page.keyboard.press("y")
    assert (await asking)["status"] == "completed"


async def test_a_key_typed_into_the_reason_is_no_answer(house: House) -> None:
    asking = house.ask("write_file", path="a.md", content="x")
    await house.page.get_by_label("Reason for a no").press_sequentially("nay")
    await expect(house.page.get_by_role("button", name="Refuse")).to_be_enabled()
    assert not asking.done()
    await house.page.get_by_label("Reason for a no").press("Enter")
    assert "nay" in (await asking)["error"]


async def test_a_class_that_is_granted_is_not_asked_again_and_the_grant_can_be_ended(house: House) -> None:
    first = house.ask("write_file", path="a.md", content="x")
    await expect(house.page.get_by_role("button", name="Allow every “")).to_be_enabled()
    await house.page.keyboard.press("c")
    assert (await first)["status"] == "completed"
    assert (await house.ask("write_file", path="b.md", content="x"))["status"] == "completed"
    await house.page.get_by_role("button", name="Grants").click()
    await house.page.get_by_role("button", name="End it").click()
    await expect(house.page.get_by_text("Nothing is granted")).to_be_visible()
    third = house.ask("write_file", path="c.md", content="x")
    await house.page.get_by_role("button", name="Questions").click()
    await house.page.get_by_role("button", name="Refuse").click()
    assert (await third)["status"] == "rejected"


async def test_a_wider_yes_holds_for_as_long_as_was_chosen(house: House) -> None:
    first = house.ask("write_file", path="a.md", content="x")
    choice = house.page.get_by_role("combobox", name="of this session, for")
    await expect(choice).to_have_value("")
    await choice.select_option("1 hour")
    await expect(house.page.locator("#news")).to_contain_text("holds for 1 hour")
    await house.page.get_by_role("article").focus()
    await house.page.keyboard.press("t")
    await expect(choice).to_have_value("900")
    await house.page.wait_for_timeout(400)
    await house.page.keyboard.press("c")
    assert (await first)["status"] == "completed"
    (grant,) = (await house.command("grants.list"))["grants"]
    assert round(grant["expires_at"] - grant["created_at"]) == 900
    await house.page.keyboard.press("4")
    shown = house.page.locator("#grants .row")
    await expect(shown).to_contain_text("write_file *.md")
    await expect(shown.locator("time")).to_have_attribute("datetime", iso(grant["expires_at"]))
    await expect(shown.locator(".left")).to_have_text(re.compile(r"^1[45]:\d\d left$"))


def iso(seconds: float) -> str:
    moment = datetime.fromtimestamp(int(seconds * 1000) / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def test_everything_needs_a_second_word(house: House) -> None:
    asking = house.ask("write_file", path="a.md", content="x")
    button = house.page.get_by_role("button", name="Allow everything")
    await button.click()
    dialog = house.page.get_by_role("dialog")
    await expect(dialog).to_contain_text("HIGH risk too, network too")
    await expect(dialog.get_by_role("button", name="Back")).to_be_focused()
    await house.page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    assert not asking.done()
    await button.click()
    await house.page.wait_for_timeout(400)  # a second click at once would be no second thought
    await dialog.get_by_role("button", name="Allow everything").click()
    assert (await asking)["status"] == "completed"
    (grant,) = (await house.command("grants.list"))["grants"]
    assert grant["everything"]
    assert round(grant["expires_at"] - grant["created_at"]) == 8 * 3600


async def test_an_answer_given_elsewhere_closes_the_dialog(house: House) -> None:
    asking = house.ask("write_file", path="a.md", content="x")
    await expect(house.page.get_by_role("article")).to_be_visible()
    (question,) = (await house.command("questions.list"))["questions"]
    await house.command("questions.answer", id=question["id"][:8], binding=question["binding"], answer="approve")
    await expect(house.page.get_by_role("article")).to_have_count(0)
    await expect(house.page.locator("#news")).to_contain_text("allowed (command line)")
    assert (await asking)["status"] == "completed"


async def test_a_question_whose_time_is_over_goes_away(world: World, browser: Browser) -> None:
    async with open_house(world, browser, medium_timeout_s=2) as house:
        asking = house.ask("write_file", path="a.md", content="x")
        await expect(house.page.get_by_role("timer")).to_contain_text("s left")
        await expect(house.page.get_by_text("Nothing to answer.")).to_be_visible()
        await expect(house.page.locator("#news")).to_contain_text("time is over")
        assert "timeout" in (await asking)["error"].lower()


async def test_three_like_refusals_pause_the_session_until_it_is_resumed(house: House) -> None:
    for number in range(3):
        asking = house.ask("write_file", path=f"{number}.md", content="x")
        await house.page.get_by_role("button", name="Refuse").click()
        response = await asking
    assert "paused" in response["error"]
    assert "paused" in (await house.ask("write_file", path="4.md", content="x"))["error"]
    await house.page.get_by_role("button", name="Let it ask again").click()
    asking = house.ask("write_file", path="5.md", content="x")
    await house.page.get_by_role("button", name="Allow once").click()
    assert (await asking)["status"] == "completed"


async def test_keys_move_between_questions_and_the_focus_goes_along(house: House) -> None:
    first = house.ask("write_file", path="a.md", content="x")
    await expect(house.page.get_by_role("article")).to_contain_text("a.md")
    house.ask("write_file", path="b.md", content="x")
    await expect(house.page.get_by_text("1 more waiting")).to_be_visible()
    await house.page.keyboard.press("j")
    await expect(house.page.get_by_role("article")).to_contain_text("b.md")
    await house.page.keyboard.press("k")
    await expect(house.page.get_by_role("article")).to_contain_text("a.md")
    await house.page.get_by_role("button", name="Allow once").click()
    assert (await first)["status"] == "completed"
    await expect(house.page.get_by_role("article")).to_contain_text("b.md")
    await expect(house.page.get_by_role("article")).to_be_focused()
    await house.page.get_by_role("button", name="Refuse").click()
    await expect(house.page.get_by_role("heading", name="Questions")).to_be_focused()


async def test_who_is_writing_a_reason_when_the_question_goes_answers_nothing_by_it(house: House) -> None:
    first = house.ask("write_file", path="a.md", content="x")
    await expect(house.page.get_by_role("article")).to_contain_text("a.md")
    second = house.ask("write_file", path="b.md", content="x")
    await expect(house.page.get_by_text("1 more waiting")).to_be_visible()
    await house.page.keyboard.press("r")
    reason = house.page.get_by_label("Reason for a no")
    await expect(reason).to_be_focused()
    await reason.press_sequentially("not tod")
    (question, _) = (await house.command("questions.list"))["questions"]
    await house.command("questions.answer", id=question["id"], binding=question["binding"], answer="reject")
    await first
    await expect(house.page.get_by_role("article")).to_contain_text("b.md")
    for letter in "ay, any yy":  # typed on, for longer than a new question is guarded
        await house.page.keyboard.press(letter)
        await house.page.wait_for_timeout(100)
    assert not second.done()
    await expect(house.page.get_by_role("dialog")).to_have_count(0)


async def test_single_keys_can_be_switched_off(house: House) -> None:
    await house.page.keyboard.press("?")
    dialog = house.page.get_by_role("dialog", name="Keys")
    await dialog.get_by_label("Single keys").uncheck()
    await dialog.get_by_role("button", name="Close").click()
    asking = house.ask("write_file", path="a.md", content="x")
    await expect(house.page.get_by_role("button", name="Allow once")).to_be_enabled()
    for key in "yacn2":
        await house.page.keyboard.press(key)
    await expect(house.page.get_by_role("article")).to_be_visible()
    assert not asking.done()


async def test_a_command_says_what_it_would_get(house: House) -> None:
    house.ask("execute_command", command="git", args=["push", "origin", "main"])
    card = house.page.get_by_role("article")
    await expect(card.get_by_role("heading", level=3)).to_have_text("Run git push origin main")
    await expect(card).to_contain_text("reaches the network")
    await expect(card).to_contain_text("writes in the workspace")
    await expect(card).to_contain_text('["push","origin","main"]')


async def test_content_that_cannot_be_compared_is_shown_as_it_is(house: House) -> None:
    (house.world.root / "a.md").write_bytes(bytes(range(256)))
    house.ask("write_file", path="a.md", content="what would be written")
    card = house.page.get_by_role("article")
    await expect(card.locator(".diff")).to_contain_text("no comparison")
    await expect(card.locator(".parameters")).to_contain_text("what would be written")


async def test_all_of_a_sessions_questions_can_be_refused_at_once(house: House) -> None:
    asking = [house.ask("write_file", path=f"f{number}.md", content="x") for number in range(5)]
    other = house.ask("write_file", session="s2", path="other.md", content="x")
    await expect(house.page.get_by_text("5 more waiting")).to_be_visible()
    await house.page.get_by_role("button", name="Refuse all 5 of this session").click()
    await house.page.wait_for_timeout(400)
    await house.page.get_by_role("dialog").get_by_role("button", name="Refuse all").click()
    assert {response["status"] for response in await asyncio.gather(*asking)} == {"rejected"}
    await expect(house.page.get_by_role("article")).to_contain_text("other.md")
    assert not other.done()


async def test_a_thousand_questions_stay_usable(house: House) -> None:
    broker = house.world.broker
    waiting = [asyncio.create_task(broker.ask(of_path(f"f{number}.md", broker.now()))) for number in range(1000)]
    await expect(house.page.get_by_text("999 more waiting")).to_be_visible()
    await expect(house.page.locator(".line")).to_have_count(50)
    await house.page.get_by_role("button", name="Show 100 more").click()
    await expect(house.page.locator(".line")).to_have_count(150)
    for number in range(3):
        await expect(house.page.get_by_role("article")).to_contain_text(f"f{number}.md")
        await expect(house.page.get_by_role("button", name="Allow once")).to_be_enabled()
        await house.page.keyboard.press("y")
    await expect(house.page.get_by_text("996 more waiting")).to_be_visible()
    assert await house.page.title() == "(997) client-agent"
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await expect(house.page.get_by_text("Nothing to answer.")).to_be_visible()


def of_path(path: str, now: float) -> Question:
    call = Call(tool_id=path, tool_name="write_file", tool_params={"path": path, "content": "x"}, session_id="s1")
    decision = Decision(verdict=Verdict.ASK, risk=Risk.MEDIUM, reasons=(), code="needs_approval")
    return Question(
        id=uuid.uuid4().hex, workspace="w", call=call, decision=decision, server_id="filesystem", timeout_s=300,
        deadline=now + 300, change=f"--- (new or empty file)\n+++ {path}\n@@ -0,0 +1 @@\n+x\n",
    )  # fmt: skip


async def test_the_page_shows_what_an_answer_is_bound_to(house: House) -> None:
    house.ask("write_file", path="a.md", content="x")
    await expect(house.page.get_by_role("article")).to_be_visible()
    (question,) = house.world.broker.open_questions
    await expect(house.page.get_by_role("article")).to_contain_text(f"bound to {question.short_binding}")


async def test_what_changed_since_a_yes_is_asked_again_and_says_so(house: House) -> None:
    asking = house.ask("write_file", path="a.md", content="x")
    await expect(house.page.get_by_role("button", name="Allow once")).to_be_enabled()
    (house.world.root / "a.md").write_text("somebody else's\n")
    await house.page.get_by_role("button", name="Allow once").click()
    await expect(house.page.get_by_role("article")).to_contain_text("something has changed: look again")
    await expect(house.page.locator(".diff .removed")).to_have_text("-somebody else's\n")
    await house.page.get_by_role("button", name="Allow once").click()
    assert (await asking)["status"] == "completed"


async def test_keys_meant_for_something_else_answer_nothing_on_a_page_that_came_up_by_itself(house: House) -> None:
    asking = house.ask("write_file", path="a.md", content="x")
    url = (await house.command("page.open"))["url"]
    page = await house.page.context.new_page()
    await page.goto(f"{url}~")
    await expect(page.get_by_role("button", name="Allow once")).to_be_visible()
    for letter in "yyy anyway, yes":  # somebody is in the middle of a sentence
        await page.keyboard.press(letter)
        await page.wait_for_timeout(100)
    assert not asking.done()
    await page.wait_for_timeout(1600)
    await page.keyboard.press("y")
    assert (await asking)["status"] == "completed"
