"""Rules and activity on the page."""

from __future__ import annotations

from playwright.async_api import expect

from tests.browser.conftest import House


async def test_a_rule_is_added_with_a_preview_and_in_force_at_once(house: House) -> None:
    first = house.ask("write_file", path="docs.md", content="x")
    await house.page.get_by_role("button", name="Allow once").click()
    assert (await first)["status"] == "completed"
    await house.page.get_by_role("button", name="Rules").click()
    await house.page.get_by_role("button", name="Add a rule").click()
    form = house.page.get_by_role("form", name="A new rule")
    await form.get_by_label("What it does").select_option("run without asking")
    await form.get_by_label("Tool, exactly").fill("write_file")
    await form.get_by_label("Path or command line").fill("*.md")
    await expect(form).to_contain_text("matches 1")
    await expect(form).to_contain_text("write_file docs.md")
    await form.get_by_role("button", name="Add").click()
    await expect(house.page.locator(".rule")).to_contain_text("runs unasked up to MEDIUM")
    assert (await house.ask("write_file", path="more.md", content="x"))["status"] == "completed"


async def test_an_edited_rule_is_in_force_and_a_deleted_one_no_longer(house: House) -> None:
    rule = {"auto_approve": True, "tool_name": "write_file", "priority": 5}
    await house.command("rules.add", rule=rule)
    await house.page.get_by_role("button", name="Rules").click()
    await house.page.get_by_role("button", name="Edit").click()
    form = house.page.get_by_role("form", name="Change the rule")
    await form.get_by_label("What it does").select_option("always ask")
    await form.get_by_role("button", name="Save").click()
    await expect(house.page.locator(".rule")).to_contain_text("always asks")
    await house.page.get_by_role("button", name="Questions").click()
    asking = house.ask("write_file", path="a.md", content="x")
    await expect(house.page.get_by_role("article")).to_contain_text("wants it asked about")
    await house.page.get_by_role("button", name="Allow once").click()
    assert (await asking)["status"] == "completed"
    await house.page.get_by_role("button", name="Rules").click()
    await house.page.get_by_role("button", name="Delete").click()
    await expect(house.page.get_by_role("dialog")).to_contain_text("tool: write_file")
    await house.page.get_by_role("button", name="Keep it").click()
    await expect(house.page.locator(".rule")).to_have_count(1)
    await house.page.get_by_role("button", name="Delete").click()
    await house.page.wait_for_timeout(400)
    await house.page.get_by_role("button", name="Yes, delete").click()
    await expect(house.page.locator(".rule")).to_have_count(0)
    assert (await house.command("rules.list"))["rules"] == []


async def test_a_rule_that_cannot_be_meant_so_is_refused_in_words(house: House) -> None:
    await house.page.get_by_role("button", name="Rules").click()
    await house.page.get_by_role("button", name="Add a rule").click()
    form = house.page.get_by_role("form", name="A new rule")
    await form.get_by_label("Tool, exactly").fill("read_*")
    await expect(form.get_by_role("alert")).to_contain_text("use tool_pattern")


async def test_activity_shows_calls_as_they_come_and_can_be_filtered(house: House) -> None:
    (house.world.root / "a.txt").write_text("hello")
    await house.page.get_by_role("button", name="Activity").click()
    await house.ask("read_file", path="a.txt")
    (house.world.root / "link").symlink_to(house.world.root.parent)
    await house.ask("read_file", path="link/secret.txt")
    await expect(house.page.locator(".calls")).to_contain_text("a.txt")
    await expect(house.page.locator(".calls")).to_contain_text("refused by policy")
    await house.page.get_by_label("Outcome").select_option("ran")
    await expect(house.page.locator(".calls li")).to_have_count(1)
    await expect(house.page.get_by_role("img", name="Calls of the last hour: 1 ran unasked")).to_be_visible()


async def test_what_a_command_writes_is_seen_as_it_comes_and_stays_open(house: House) -> None:
    (house.world.root / "slow.py").write_text(
        "import pathlib, sys, time\nprint('first \\x1b[31m', flush=True)\n"
        "while not pathlib.Path('go').exists(): time.sleep(.05)\nprint('second', file=sys.stderr)\n"
    )
    asking = house.ask("execute_command", command="python3", args=["slow.py"])
    await house.page.get_by_role("button", name="Allow once").click()
    await house.page.get_by_role("button", name="Activity").click()
    row = house.page.locator(".calls li").first
    await expect(row).to_contain_text("running")
    await row.locator("summary").click()
    await expect(row.get_by_role("log")).to_have_text("first ⟨U+001B⟩[31m\n")
    (house.world.root / "go").write_text("")
    assert (await asking)["status"] == "completed"
    await expect(row.get_by_role("log")).to_contain_text("second")
    await expect(row.locator("summary")).to_contain_text("ran")
    await expect(row.get_by_role("log").locator(".stderr")).to_have_text("second\n")
    await house.ask("read_file", path="slow.py")
    await expect(house.page.locator(".calls li").first).to_contain_text("Read slow.py")
    await expect(house.page.get_by_role("log")).to_be_visible()


async def test_older_calls_are_a_click_away(house: House) -> None:
    (house.world.root / "a.txt").write_text("x")
    for _ in range(105):
        await house.ask("read_file", path="a.txt")
    await house.page.get_by_role("button", name="Activity").click()
    await expect(house.page.locator(".calls li")).to_have_count(100)
    await house.page.get_by_role("button", name="Show older calls").click()
    await expect(house.page.locator(".calls li")).to_have_count(105)
    await expect(house.page.get_by_role("button", name="Show older calls")).to_have_count(0)


async def test_a_rule_can_be_made_of_a_question(house: House) -> None:
    house.ask("write_file", path="docs/a.md", content="x", create_dirs=True)
    await house.page.get_by_role("button", name="Make a rule of it").click()
    form = house.page.get_by_role("form", name="A new rule")
    await expect(form.get_by_label("Tool, exactly")).to_have_value("write_file")
    await form.get_by_label("Path or command line").fill("docs/*")
    await form.get_by_role("button", name="Add").click()
    await expect(house.page.locator(".rule")).to_contain_text("arguments: docs/*")
    answered = await house.ask("write_file", path="docs/b.md", content="x", create_dirs=True)
    assert answered["status"] == "completed"


async def test_a_rule_that_lets_everything_run_is_warned_about(house: House) -> None:
    await house.page.get_by_role("button", name="Rules").click()
    await house.page.get_by_role("button", name="Add a rule").click()
    form = house.page.get_by_role("form", name="A new rule")
    await expect(form.get_by_label("Up to risk")).to_be_disabled()
    await form.get_by_label("What it does").select_option("run without asking")
    await form.get_by_label("Up to risk").select_option("HIGH")
    await expect(form).to_contain_text(
        "every call up to that risk would run unasked. HIGH risk calls would run unasked."
    )


async def test_a_write_is_taken_back_after_a_look(house: House) -> None:
    (house.world.root / "a.md").write_text("old\n")
    asking = house.ask("write_file", path="a.md", content="new\n")
    await house.page.get_by_role("button", name="Allow once").click()
    await asking
    await house.page.get_by_role("button", name="Activity").click()
    row = house.page.locator(".calls li").first
    await expect(row).to_contain_text("ran")
    await row.locator("summary").click()
    await row.get_by_role("button", name="Take it back").click()
    dialog = house.page.get_by_role("dialog")
    await expect(dialog.locator(".diff .added")).to_have_text("+old\n")
    await dialog.get_by_role("button", name="Leave it").click()
    assert (house.world.root / "a.md").read_text() == "new\n"
    await row.get_by_role("button", name="Take it back").click()
    await house.page.wait_for_timeout(400)
    await dialog.get_by_role("button", name="Take it back").click()
    await expect(row).to_contain_text("Taken back.")
    assert (house.world.root / "a.md").read_text() == "old\n"
    await row.get_by_role("button", name="Take it back").click()
    await expect(dialog.locator(".diff .added")).to_have_text("+new\n")
    await house.page.wait_for_timeout(400)
    await dialog.get_by_role("button", name="Take it back").click()
    await expect(dialog).to_have_count(0)
    await expect(row.get_by_role("status")).to_contain_text("undo-")
    (house.world.root / "a.md").write_text("somebody else's\n")
    await row.get_by_role("button", name="Take it back").click()
    await expect(row.get_by_role("status")).to_contain_text("changed since")


async def test_a_workspace_is_paused_and_goes_on(house: House) -> None:
    (house.world.root / "a.txt").write_text("x")
    summary = house.page.locator("#links summary")
    await summary.click()
    await house.page.get_by_role("button", name="Pause it").click()
    await expect(summary).to_have_text("w: connected, paused")
    assert "paused" in (await house.ask("read_file", path="a.txt"))["error"]
    await house.page.get_by_role("button", name="Let it go on").click()
    await expect(summary).to_have_text("w: connected")
    assert (await house.ask("read_file", path="a.txt"))["status"] == "completed"
