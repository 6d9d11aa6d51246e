"""Questions of paused runs, answered on the chat page."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.flow.browser import needs_browser
from tests.server_ui.talking import chat, finished, said, say, scripted

from interpose import Interrupt, Middleware, Pause, tool
from interpose.testing import calls

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="module")]


class Paid:
    """A tool that asks first, and what it was called with."""

    def __init__(self) -> None:
        self.amounts: list[int] = []

        @tool(approval=True)
        def pay(amount: int) -> str:
            """Pay."""
            self.amounts.append(amount)
            return f"paid {amount}"

        self.tool = pay


def answer(request: Any) -> str:
    """Say what the last tool message was."""
    return f"It says: {request.messages[-1].text}"


async def asked(page: Any, text: str = "Pay.") -> Any:
    await say(page, text)
    question = page.locator(".question:not(.is-settled)")
    await question.first.wait_for()
    return question


async def test_approved_call_runs(browser: Any) -> None:
    paid = Paid()
    async with chat(browser, scripted(calls(("pay", {"amount": 20})), answer, tools=[paid.tool])) as (page, _):
        question = await asked(page)
        assert await question.locator("h3").inner_text() == "Run pay?"
        assert '"amount": 20' in await question.inner_text()
        assert await page.locator("#link").inner_text() == "waits for you"
        assert paid.amounts == []
        await page.get_by_role("button", name="Approve").click()
        await finished(page)
        assert paid.amounts == [20]
        assert await said(page) == ["It says: paid 20"]
        assert await page.locator(".question-said").inner_text() == "Approved"


async def test_rejection_reaches_the_model_with_its_reason(browser: Any) -> None:
    paid = Paid()
    async with chat(browser, scripted(calls(("pay", {"amount": 20})), answer, tools=[paid.tool])) as (page, _):
        await asked(page)
        await page.get_by_role("button", name="Reject").click()
        await page.get_by_label("Why not?").fill("too dear")
        await page.keyboard.press("Enter")
        await finished(page)
        assert paid.amounts == []
        assert await said(page) == ["It says: rejected by a person: too dear"]
        assert await page.locator(".call .state").inner_text() == "not run"


async def test_edited_arguments_run(browser: Any) -> None:
    paid = Paid()
    async with chat(browser, scripted(calls(("pay", {"amount": 20})), answer, tools=[paid.tool])) as (page, _):
        await asked(page)
        await page.get_by_role("button", name="Edit").click()
        await page.get_by_label("Arguments, as JSON").fill('{"amount": 5}')
        await page.get_by_role("button", name="Approve with changes").click()
        await finished(page)
        assert paid.amounts == [5]
        assert await page.locator(".call-brief").inner_text() == "amount: 5"


@pytest.mark.parametrize(
    ("edited", "told"),
    [('{"amount": }', "This is no JSON"), ("[1]", "Arguments are an object"), ('{"amount": "much"}', "expected int")],
    ids=["no JSON", "no object", "refused by the server"],
)
async def test_wrong_arguments_are_told_and_can_be_mended(browser: Any, edited: str, told: str) -> None:
    paid = Paid()
    async with chat(browser, scripted(calls(("pay", {"amount": 20})), answer, tools=[paid.tool])) as (page, _):
        await asked(page)
        await page.get_by_role("button", name="Edit").click()
        field = page.get_by_label("Arguments, as JSON")
        await field.fill(edited)
        await page.get_by_role("button", name="Approve with changes").click()
        await page.locator(".question .problem", has_text=told).wait_for()
        page.said.clear()  # the browser tells of a refused request
        await field.fill('{"amount": 7}')
        await page.get_by_role("button", name="Approve with changes").click()
        await finished(page)
        assert paid.amounts == [7]


async def test_other_answers_stand_where_one_is_refused(browser: Any) -> None:
    paid = Paid()
    two = calls(("pay", {"amount": 1}), ("pay", {"amount": 2}))
    async with chat(browser, scripted(two, "Done.", tools=[paid.tool])) as (page, _):
        await asked(page)
        await page.get_by_role("button", name="Approve").first.click()
        await page.get_by_role("button", name="Edit").last.click()
        field = page.get_by_label("Arguments, as JSON")
        await field.fill('{"amount": "much"}')
        await page.get_by_role("button", name="Approve with changes").click()
        await page.locator(".question .problem", has_text="expected int").wait_for()
        assert await page.locator(".question .problem:not([hidden])").count() == 1
        page.said.clear()  # the browser tells of a refused request
        await field.fill('{"amount": 7}')
        await page.get_by_role("button", name="Approve with changes").click()
        await finished(page)
        assert sorted(paid.amounts) == [1, 7]


async def test_approval_for_always_is_not_asked_again(browser: Any) -> None:
    paid = Paid()
    turns = (calls(("pay", {"amount": 1})), "One.", calls(("pay", {"amount": 2})), "Two.")
    async with chat(browser, scripted(*turns, tools=[paid.tool])) as (page, _):
        await asked(page)
        await page.get_by_label("Ask again in this conversation").select_option("tool")
        await page.get_by_role("button", name="Approve").click()
        await finished(page)
        await say(page, "Pay again.")
        await page.locator(".is-text", has_text="Two.").wait_for()
        assert paid.amounts == [1, 2]


async def test_approval_for_the_same_arguments_asks_about_others(browser: Any) -> None:
    paid = Paid()
    turns = (calls(("pay", {"amount": 1})), "One.", calls(("pay", {"amount": 1}), ("pay", {"amount": 2})), "Two.")
    async with chat(browser, scripted(*turns, tools=[paid.tool])) as (page, _):
        await asked(page)
        await page.get_by_label("Ask again in this conversation").select_option("arguments")
        await page.get_by_role("button", name="Approve").click()
        await finished(page)
        question = await asked(page, "Pay again.")
        assert await question.count() == 1
        assert '"amount": 2' in await question.inner_text()
        assert paid.amounts == [1, 1]


async def test_several_questions_are_answered_together(browser: Any) -> None:
    paid = Paid()
    agent = scripted(calls(("pay", {"amount": 1}), ("pay", {"amount": 2})), answer, tools=[paid.tool])
    async with chat(browser, agent) as (page, _):
        question = await asked(page)
        assert await question.count() == 2
        await question.nth(0).get_by_role("button", name="Approve").click()
        await question.nth(0).get_by_role("button", name="Change").click()
        await question.nth(0).get_by_role("button", name="Reject").click()
        await question.nth(0).get_by_role("button", name="Reject").click()
        await page.locator("#hint", has_text="One more question above waits for your answer.").wait_for()
        await page.locator(".question:focus").wait_for()
        assert paid.amounts == []
        await question.nth(1).get_by_role("button", name="Approve").click()
        await finished(page)
        assert paid.amounts == [2]


async def test_open_question_survives_a_reload(browser: Any) -> None:
    paid = Paid()
    async with chat(browser, scripted(calls(("pay", {"amount": 20})), answer, tools=[paid.tool])) as (page, _):
        await asked(page)
        await page.reload()
        await page.get_by_role("button", name="Approve").click()
        await finished(page)
        assert paid.amounts == [20]


class Asks(Middleware):
    """Asks before the model is called, and keeps what was answered."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def before_model_call(self, ctx: Any, request: Any) -> Any:
        given = ctx.answer("sure?")
        if given is None:
            return Pause("sure?", value={"cost": 3})
        self.answers.append(getattr(given, "payload", "withdrawn"))
        return None


@pytest.mark.parametrize(
    ("do", "payload"),
    [
        (["Yes"], True),
        (["No"], False),
        (["Withdraw"], "withdrawn"),
        (["text", "as you like", "Answer"], "as you like"),
        (["json", '{"max": 2}', "Answer"], {"max": 2}),
    ],
    ids=["yes", "no", "withdrawn", "text", "json"],
)
async def test_other_questions_take_any_answer(browser: Any, do: list[str], payload: Any) -> None:
    asks = Asks()
    async with chat(browser, scripted("Went on.", middleware=[asks])) as (page, _):
        question = await asked(page)
        assert await question.locator("h3").inner_text() == "sure?"
        assert '"cost": 3' in await question.inner_text()
        if len(do) > 1:
            if do[0] == "json":
                await page.get_by_label("as JSON").check()
            await page.get_by_label("Your answer").fill(do[1])
        await page.get_by_role("button", name=do[-1], exact=True).click()
        await finished(page)
        assert asks.answers == [payload]
        assert await said(page) == ["Went on."]


async def test_answer_of_the_wrong_type_is_told_on_the_question(browser: Any) -> None:
    good = Interrupt[None, bool]("good?", response=bool)

    class Review(Middleware):
        interrupts = (good,)

        def on_interrupt_boundary(self, ctx: Any) -> Any:
            return [good.request("it", "Is it good?")] if ctx.phase == "before_model" else None

    async with chat(browser, scripted("Good.", middleware=[Review()])) as (page, _):
        await asked(page)
        await page.get_by_label("Your answer").fill("perhaps")
        await page.get_by_role("button", name="Answer", exact=True).click()
        await page.locator(".question .problem", has_text="does not fit").wait_for()
        page.said.clear()  # the browser tells of a refused request
        await page.get_by_role("button", name="Yes", exact=True).click()
        await finished(page)
        assert await said(page) == ["Good."]


async def test_message_waits_for_the_answer(browser: Any) -> None:
    paid = Paid()
    async with chat(browser, scripted(calls(("pay", {"amount": 20})), tools=[paid.tool])) as (page, _):
        await asked(page)
        await say(page, "Never mind.")
        assert await page.locator(".bubble").all_inner_texts() == ["Pay."]
        assert await page.locator("#hint").inner_text() == "The question above waits for your answer."
        assert await page.get_by_role("button", name="Send").is_disabled()


async def test_conversation_goes_on_without_an_answer(browser: Any) -> None:
    paid = Paid()
    async with chat(browser, scripted(calls(("pay", {"amount": 20})), "All right.", tools=[paid.tool])) as (page, _):
        await asked(page)
        await page.get_by_role("button", name="Go on without").click()
        await page.reload()
        await finished(page)
        assert await page.locator(".question-said").inner_text() == "Left without an answer"
        await say(page, "Never mind.")
        await page.get_by_text("All right.", exact=True).wait_for()
        await finished(page)
        assert paid.amounts == []


async def test_question_that_came_too_late_does_not_block_the_conversation(browser: Any) -> None:
    good = Interrupt[None, bool]("good?", response=bool)

    class Review(Middleware):
        interrupts = (good,)

        def on_interrupt_boundary(self, ctx: Any) -> Any:
            if ctx.phase != "before_model" or ctx.messages[-1].text != "Go.":
                return None
            return [good.request("it", "Is it good?", expires_at=datetime.now(UTC) + timedelta(seconds=0.2))]

    async with chat(browser, scripted("Hello again.", middleware=[Review()])) as (page, _):
        question = await asked(page, "Go.")
        assert "until" in await question.locator(".question-head").inner_text()
        await page.wait_for_timeout(400)
        await page.get_by_role("button", name="Yes", exact=True).click()
        await page.locator(".question .problem", has_text="expired").wait_for()
        page.said.clear()  # the browser tells of a refused request
        await page.get_by_role("button", name="Go on without").click()
        await say(page, "Hello?")
        await page.get_by_text("Hello again.", exact=True).wait_for()
