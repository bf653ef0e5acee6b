"""The page in a real Chromium: the whole path of each question, by hand and by keyboard, and its accessibility."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.studio.conftest import FACTS, SECRETS, TOKEN, Served, served, slow, studio_in

pytestmark = pytest.mark.browser


class Page:
    """A tab, driven as a user does."""

    def __init__(self, driver: Any, address: str) -> None:
        self.driver, self.address = driver, address

    def enter(self) -> Page:
        self.driver.get(f"{self.address}/?token={TOKEN}")
        self.until(lambda: self.driver.execute_script("return !!document.querySelector('#slider')"))
        return self

    def one(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def text(self, selector: str) -> str:
        return str(
            self.driver.execute_script("return document.querySelector(arguments[0])?.textContent ?? ''", selector)
        )

    def until(self, ready: Callable[[], Any], seconds: float = 40) -> Any:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if found := ready():
                    return found
            except Exception:  # the page is being replaced
                if time.monotonic() > end - 1:
                    raise
            time.sleep(0.05)
        raise AssertionError(f"not in time: {self.text('#message')} {self.text('#prediction')}")

    def choose(self, selector: str, value: str) -> None:
        self.one(f'{selector} option[value="{value}"]').click()
        self.saved()

    def type(self, selector: str, text: str) -> None:
        field = self.one(selector)
        field.clear()
        field.send_keys(text)
        self.driver.execute_script("document.activeElement.blur()")
        self.saved()

    def click(self, selector: str) -> None:
        # A part of the page may be on its way.
        self.until(lambda: self.one(selector))
        self.driver.execute_script(
            "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", self.one(selector)
        )
        self.one(selector).click()

    def saved(self) -> None:
        time.sleep(0.1)
        self.until(lambda: self.driver.execute_async_script("const done = arguments[0]; send().then(() => done(true))"))

    def press(self, selector: str) -> None:
        """Click a button that leads to a new page."""
        old = self.one("html")
        self.click(selector)
        self.until(
            lambda: self.one("html") != old and self.driver.execute_script("return document.readyState") == "complete"
        )

    def fill(self) -> Page:
        self.choose("#unit", "person_id")
        self.type("#people", "1500")
        self.driver.execute_script("document.querySelector('#yaml').closest('details').open = true")
        self.one("#yaml").send_keys(FACTS)
        self.press("form[action='/paste'] button")
        self.type("#budget_epsilon", "20")
        self.press("form[action='/ledger'] button")
        return self

    def predicts(self, question: str, target: str) -> None:
        self.click(f"[name=question][value={question}]")
        self.saved()
        self.choose("#target", target)

    def predicted(self) -> str:
        self.until(lambda: "Predicted error" in self.text("#prediction"))
        self.until(lambda: self.one("#prediction").get_attribute("aria-busy") == "false")
        return self.text("#prediction")

    def released(self) -> str:
        self.press("#ask")
        self.press("#spend")
        self.until(lambda: "Released" in self.text("#progress"))
        self.until(lambda: "The guarantee" in self.inside())
        return self.inside()

    def inside(self) -> str:
        """The text of the report in the page."""
        script = "return document.querySelector('#report-frame')?.contentDocument?.body?.innerText ?? ''"
        return str(self.driver.execute_script(script))


@pytest.fixture
def page(browser: Any, web: Served) -> Iterator[Page]:
    browser.get_log("browser")
    yield Page(browser, web.address).enter()
    troubles = [line["message"] for line in browser.get_log("browser") if line["level"] == "SEVERE"]
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.get("about:blank")
    # A report states a policy in its head too, which its address repeats; and some tests end the server on purpose.
    assert [
        line for line in troubles if "ERR_CONNECTION_REFUSED" not in line and "409" not in line and "400" not in line
    ] == []


QUESTIONS: dict[str, Callable[[Page], None]] = {
    "mean by region": lambda page: page.click("#groups input[value=region]"),
    "quantile": lambda page: (page.choose("#statistic", "quantile"), page.type("#q", "0.25, 0.75")),  # type: ignore[func-returns-value]
    "segments": lambda page: (page.click("[name=question][value=kmeans]"), page.type("#n_clusters", "3")),  # type: ignore[func-returns-value]
    "linear": lambda page: page.predicts("linear", "income"),
    "logistic": lambda page: page.predicts("logistic", "premium"),
    "components": lambda page: page.click("[name=question][value=pca]"),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_whole_path_of_a_question(name: str, page: Page, web: Served) -> None:
    page.fill()
    if name == "quantile":
        for column in ("premium", "region"):
            page.click(f'[name="use:{column}"]')
    QUESTIONS[name](page)
    page.saved()
    assert web.studio.question.problems == {}
    page.predicted()
    before = page.driver.page_source
    assert not any(secret.decode() in before for secret in SECRETS)
    report = page.released()
    assert "The guarantee" in report
    assert "epsilon 1" in page.text("#history")
    assert len(web.studio.store.jobs()) == 1
    kept = page.driver.execute_script("return JSON.stringify([localStorage, sessionStorage]) + document.cookie")
    assert kept == "[{},{}]"


def test_the_slider_moves_the_predicted_error_and_nothing_is_charged(page: Page, web: Served) -> None:
    page.fill()
    page.predicted()
    seen = set()
    for _ in range(3):
        page.one("#slider").send_keys("\ue014")  # the right arrow
        page.saved()
        seen.add(page.predicted())
    assert page.one("#epsilon").get_attribute("value") == "3"
    assert web.studio.fields.text("epsilon") == "3"
    assert len(seen) == 3
    assert "This release3" in page.text("#prediction").replace("\n", "")
    assert page.one("#slider").get_attribute("aria-valuetext") == "epsilon 3"


def test_what_was_typed_survives_a_reload_and_a_restart(browser: Any, page: Page, web: Served, place: Path) -> None:
    page.fill()
    page.one("#epsilon").clear()
    page.one("#epsilon").send_keys("0.25x")
    page.one('[name="low:score"]').send_keys("7")
    page.driver.execute_script("document.querySelector('#yaml').closest('details').open = true")
    page.one("#yaml").send_keys("age: 1")
    page.driver.refresh()
    # What was typed in the last moment is sent while the page is left, beside the request for the new one.
    page.until(lambda: web.studio.fields.text("low:score") == "07" and web.studio.fields.text("yaml"))
    page.driver.refresh()
    assert page.one("#epsilon").get_attribute("value") == "0.25x"
    assert page.one('[name="low:score"]').get_attribute("value") == "07"
    assert "Write a number above 0" in page.text("#problem-epsilon")
    assert page.one("#yaml").get_attribute("value") == "age: 1"
    web.stop()
    again = served(studio_in(place))
    try:
        other = Page(browser, again.address).enter()
        assert other.one("#epsilon").get_attribute("value") == "0.25x"
        assert other.one("#unit").get_attribute("value") == "person_id"
    finally:
        browser.get("about:blank")
        again.stop()


def test_the_budget_that_is_typed_survives_a_reload(page: Page, web: Served) -> None:
    page.type("#budget_epsilon", "12.5")
    page.driver.refresh()
    assert page.one("#budget_epsilon").get_attribute("value") == "12.5"
    assert not web.studio.ledger_path.exists()


def test_the_page_of_a_refusal_is_reloaded_without_sending_it_again(page: Page, web: Served) -> None:
    page.press("#ask")
    assert "Something is still missing" in page.text("#message")
    page.driver.refresh()
    page.until(lambda: page.one("#slider"))
    assert page.text("#message") == ""
    assert page.driver.current_url == page.address + "/"


def test_a_click_right_after_typing_is_not_lost(page: Page, web: Served) -> None:
    """The save of the last field replaces parts of the page, but not the form that is on its way."""
    page.fill()
    for selector, text, button in (("#epsilon", "0.5", "#ask"), ('[name="high:age"]', "99", "#ask")):
        page.one(selector).clear()
        page.one(selector).send_keys(text)
        page.press(button)
        assert page.one("#spend")
    assert web.studio.question.arguments["epsilon"] == 0.5
    assert web.studio.question.arguments["columns"]["age"] == (18, 99)
    assert web.studio.store.confirmation["price"] == "epsilon 0.5"


def test_cancel_is_one_button_while_the_progress_moves(page: Page, web: Served, monkeypatch: Any) -> None:
    slow(web.studio, monkeypatch, charged=True)
    page.fill()
    page.press("#ask")
    page.press("#spend")
    button = page.one("#progress button")
    page.until(lambda: "The budget is charged" in page.text("#progress"))
    assert button.is_displayed()
    old = page.one("html")
    button.click()
    page.until(lambda: page.one("html") != old and "Cancelled" in page.text("#progress"))
    assert "stays spent" in page.text("#progress")


def test_a_double_click_and_a_second_tab_spend_once(page: Page, web: Served) -> None:
    page.fill()
    page.press("#ask")
    first = page.driver.current_window_handle
    page.driver.switch_to.new_window("tab")
    page.driver.get(page.address)
    page.until(lambda: page.one("#spend"))
    page.driver.execute_script("document.querySelector('#spend').click(); document.querySelector('#spend').click()")
    page.driver.switch_to.window(first)
    from selenium.webdriver import ActionChains

    page.driver.execute_script(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", page.one("#spend")
    )
    ActionChains(page.driver).double_click(page.one("#spend")).perform()
    page.until(lambda: "Released" in page.text("#progress"))
    assert len(web.studio.store.jobs()) == 1
    for handle in page.driver.window_handles:
        if handle != first:
            page.driver.switch_to.window(handle)
            page.driver.close()
    page.driver.switch_to.window(first)


def test_search_and_many_at_once(page: Page, web: Served) -> None:
    page.choose("#unit", "person_id")
    page.one("#search").send_keys("is")
    assert page.text("#found").startswith("1 shown")
    page.driver.execute_script("document.querySelector('#yaml').closest('details').open = true")
    page.one("#many-kind option[value=auto]").click()
    page.click("#many-set")
    page.saved()
    assert web.studio.question.arguments["columns"] == {"visits": "auto"}
    page.one("#search").clear()
    page.one("#search").send_keys("AGE")
    page.one('[name="kind:age"] option[value=bounds]').click()
    page.saved()
    assert page.one('[name="use:age"]').is_selected()
    assert "State the smallest" in page.text("#column-list")
    page.one('[name="low:age"]').send_keys("18")
    page.one('[name="high:age"]').send_keys("100")
    page.saved()
    assert web.studio.question.arguments["columns"] == {"age": (18, 100), "visits": "auto"}


def test_by_keyboard_alone(page: Page, web: Served) -> None:
    """Tab leads to every control in the order of the steps, with a visible focus, and Enter or Space uses it."""
    page.fill()
    page.predicted()
    page.driver.execute_script("document.querySelector('nav a').focus()")
    names, outlines = [], []
    for _ in range(90):
        page.driver.switch_to.active_element.send_keys("\t")
        active = page.driver.switch_to.active_element
        names.append(active.get_attribute("id") or active.get_attribute("name") or active.text)
        outlines.append(active.value_of_css_property("outline-style"))
        if names[-1] == "ask":
            break
    for earlier, later in (("unit", "search"), ("search", "slider"), ("slider", "ask")):
        assert names.index(earlier) < names.index(later)
    assert "none" not in outlines
    old = page.one("html")
    page.driver.switch_to.active_element.send_keys("\ue007")
    page.until(lambda: page.one("html") != old and page.one("#spend"))
    page.one("#spend").send_keys("\ue007")
    page.until(lambda: "Released" in page.text("#progress"))


AXE = """const done = arguments[0];
    const told = (one) => [one.id, one.nodes.map((node) => node.html.slice(0, 200))];
    axe.run(document, {iframes: false}).then((found) => done(found.violations.map(told)))"""

#: What reaches beyond the right end of the page, if the page can be scrolled sideways.
WIDE = """return document.documentElement.scrollWidth <= arguments[0] ? [] : [...document.querySelectorAll('*')]
    .filter((one) => one.getBoundingClientRect().right > arguments[0]).map((one) => one.outerHTML.slice(0, 90))"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_and_nothing_is_wider_than_a_phone(scheme: str, page: Page) -> None:
    axe = pytest.importorskip("axe_core_python")
    script = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    feature = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", feature)

    def check() -> None:
        for width in (1200, 400):
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            page.driver.execute_script(script)
            assert page.driver.execute_async_script(AXE) == []
            assert page.driver.execute_script(WIDE, width) == []

    check()
    page.fill()
    page.driver.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    page.type('[name="high:age"]', "3")
    check()
    page.type('[name="high:age"]', "100")
    page.predicted()
    page.press("#ask")
    page.predicted()
    check()
    page.press("#spend")
    page.until(lambda: "Released" in page.text("#progress"))
    page.predicted()
    check()
    page.driver.get(page.address + "/check")
    check()
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


#: Another site asks for the page with the cookies that the browser would send.
READ = """window.answer = ''; fetch(arguments[0], {credentials: 'include', mode: 'no-cors'})
    .then(async (one) => { window.answer = one.type + (await one.text()) }, () => { window.answer = 'refused' })"""


def test_another_site_can_neither_frame_nor_read_nor_write(page: Page, web: Served, tmp_path: Path) -> None:
    page.fill()
    (tmp_path / "evil.html").write_text(
        f"<form id=f method=post action='{web.address}/save'><input name=form value=budget>"
        f"<input name=epsilon value=9></form><iframe src='{web.address}/'></iframe>"
    )
    driver = page.driver
    driver.get((tmp_path / "evil.html").as_uri())
    driver.execute_script(READ, web.address + "/")
    page.until(lambda: driver.execute_script("return window.answer"))
    assert "person_id" not in driver.execute_script("return window.answer")
    driver.execute_script("document.querySelector('#f').submit()")
    time.sleep(0.5)
    assert web.studio.fields.text("epsilon", "1") == "1"
    driver.get_log("browser")
