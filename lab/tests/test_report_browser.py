"""The page in a real browser: it renders, stays offline, and its controls work.

Needs Chromium and its driver. Without them the tests are skipped, or fail under CI.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from lab.report import html
from lab.tests import synthetic

Opener = Callable[..., WebDriver]

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-quic",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
)
WIDE, PHONE = (1280, 1000), (360, 740)
PATIENCE_SECONDS = 20


def programs() -> tuple[str, str]:
    """Return the browser and its driver. Skips, or fails under CI, if one is missing."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        reason = "chromium and chromedriver (Debian: chromium-driver) are not installed"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return browser, driver


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = synthetic.write(tmp_path_factory.mktemp("page") / "run.jsonl", rounds=1)
    html.write(records, records.with_suffix(".html"))
    return records.with_suffix(".html")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    binary, program = programs()
    options = Options()
    options.binary_location = binary
    profile = tmp_path_factory.mktemp("profile")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(program))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture
def opened(browser: WebDriver, page: Path) -> Opener:
    """Return a function that opens the page as in a new profile."""
    # Files share their local storage, and this one is quick to load.
    empty = page.with_name("empty.html")
    empty.touch()

    def open_page(size: tuple[int, int] = WIDE, scheme: str = "light") -> WebDriver:
        width, height = size
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == PHONE},
        )
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
        )
        browser.get(empty.as_uri())
        browser.execute_script("localStorage.clear()")
        for kind in ("browser", "performance"):
            entries(browser, kind)
        browser.get(page.as_uri())
        return browser

    return open_page


def show(driver: WebDriver, selector: str) -> WebElement:
    found: WebElement = driver.find_element(By.CSS_SELECTOR, selector)
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
    return found


def press(driver: WebDriver, element: WebElement) -> None:
    # An element below the contents bar at the top of the window cannot be clicked.
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    element.click()


def until(driver: WebDriver, condition: Callable[[WebDriver], object]) -> None:
    WebDriverWait(driver, PATIENCE_SECONDS, poll_frequency=0.05).until(condition)


def entries(driver: WebDriver, kind: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = driver.get_log(kind)  # type: ignore[no-untyped-call]
    return found


def complaints(driver: WebDriver) -> list[dict[str, str]]:
    return [entry for entry in entries(driver, "browser") if entry["level"] != "INFO"]


def drawing(figure: WebElement) -> str:
    svgs = figure.find_elements(By.CSS_SELECTOR, ".chart svg")
    return svgs[0].get_attribute("innerHTML") or "" if svgs else ""


def drawn(driver: WebDriver, selector: str) -> WebElement:
    figure = show(driver, selector)
    until(driver, partial(is_drawn, figure))
    return figure


def draw_all(driver: WebDriver) -> int:
    figures = driver.find_elements(By.CSS_SELECTOR, "figure[data-chart]")
    for figure in figures:
        driver.execute_script("arguments[0].scrollIntoView()", figure)
        until(driver, partial(is_drawn, figure))
    return len(figures)


def is_drawn(figure: WebElement, _driver: WebDriver) -> bool:
    return "<path" in drawing(figure)


@pytest.mark.parametrize("size", [(1280, 900), (400, 850)])
def test_the_first_screen_names_the_best_of_each_language(
    opened: Opener, size: tuple[int, int]
) -> None:
    driver = opened(size)
    bars = driver.find_elements(By.CSS_SELECTOR, ".answer .top .bar")
    named = [bar.text.partition(":")[0] for bar in bars]
    assert named == ["Python", "Perl", "PHP", "native code"]
    assert max(bar.rect["y"] + bar.rect["height"] for bar in bars) <= size[1]


def test_the_answer_follows_the_choice(opened: Opener) -> None:
    driver = opened(WIDE)
    written = driver.execute_script(
        "return new DOMParser().parseFromString(arguments[0], 'text/html')"
        ".querySelector('.answer .top').textContent.replace(/\\s+/g, '')",
        Path(driver.current_url.removeprefix("file://")).read_text("utf-8"),
    )
    shown = driver.find_element(By.CSS_SELECTOR, ".answer .top")
    assert "".join(shown.text.split()) == written
    choices = {"PHP": "PHP answer", "several machines": synthetic.COPIES_TITLE}
    for option, winner in (choices | {"Perl": "None of these"}).items():
        press(driver, driver.find_element(By.CSS_SELECTOR, f".answer input[value='{option}']"))
        assert driver.find_element(By.CSS_SELECTOR, ".winner strong").text == winner
    assert not driver.find_element(By.CSS_SELECTOR, ".top-title").is_displayed()


def test_copies_have_their_price_only_between_machines(opened: Opener) -> None:
    driver = opened(WIDE)
    press(driver, driver.find_element(By.CSS_SELECTOR, ".answer input[value='PHP']"))
    price = "no limit on the age of values"
    for option, has_price in (("one machine", False), ("several machines", True)):
        press(driver, driver.find_element(By.CSS_SELECTOR, f".answer input[value='{option}']"))
        (copies,) = (
            bar.text
            for bar in driver.find_elements(By.CSS_SELECTOR, ".answer .top .bar")
            if synthetic.COPIES_TITLE in bar.text
        )
        assert (price in copies) == has_price
        reason = driver.find_element(By.CSS_SELECTOR, ".answer .reason").text
        assert (f"Price: {price}." in reason) == has_price


def test_all_charts_are_drawn_without_an_error_or_a_request(opened: Opener, page: Path) -> None:
    driver = opened()
    assert draw_all(driver) >= 14
    assert complaints(driver) == []
    events = [json.loads(entry["message"])["message"] for entry in entries(driver, "performance")]
    urls = {
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    }
    assert {url for url in urls if not url.startswith("data:")} == {page.as_uri()}


def test_hovering_a_dot_tells_its_figures(opened: Opener) -> None:
    driver = opened()
    figure = drawn(driver, "#suite-tokyo-2009 figure[data-chart]")
    dots = figure.find_elements(By.CSS_SELECTOR, "svg path[fill]:not([fill='none'])")
    large = [dot for dot in dots if 6 < dot.size["width"] < 16 and dot.size["height"] > 6]
    ActionChains(driver).move_to_element(large[-1]).perform()
    until(driver, lambda _: "put" in figure.find_element(By.CSS_SELECTOR, ".chart").text)
    assert " ms" in figure.find_element(By.CSS_SELECTOR, ".chart").text


def test_a_click_on_the_legend_hides_a_mark(opened: Opener) -> None:
    driver = opened()
    figure = drawn(driver, "#suite-django figure[data-chart]")
    before = drawing(figure).count("<path")
    (p99,) = (
        text for text in figure.find_elements(By.CSS_SELECTOR, "svg text") if text.text == "p99"
    )
    ActionChains(driver).move_to_element(p99).click().perform()
    until(driver, lambda _: drawing(figure).count("<path") < before - 4)


# The first chart of the suite is the original's eight; the second shows all systems in one.
EIGHT = "#suite-network-2011 figure[data-chart]"
EVERYBODY = f"{EIGHT} ~ figure[data-chart]"
FILLING = "#part-django-scaling ~ figure[data-chart]"


def test_the_charts_of_2011_have_their_axes(opened: Opener) -> None:
    driver = opened()
    figure = drawn(driver, EIGHT)
    texts = [one.text for one in figure.find_elements(By.CSS_SELECTOR, ".chart svg text")]
    sizes = ("4 KB", "72 KB", "144 KB", "2.12 MB")
    panels = [text for text in texts if text.endswith((", write", ", read"))]
    assert panels == [f"{size}, {phase}" for size in sizes for phase in ("write", "read")]
    assert texts.count("iterations") == len(panels)
    # The axes are linear: hundreds of iterations, round seconds from 0.
    assert texts.count("100") == texts.count("200") == texts.count("400") == len(panels)
    assert texts.count("0 s") == len(panels)


def test_a_picker_changes_its_chart(opened: Opener) -> None:
    driver = opened()
    figure = drawn(driver, EVERYBODY)
    before = drawing(figure)
    press(driver, figure.find_element(By.XPATH, ".//label[span='2.12 MB']"))
    until(driver, lambda _: drawing(figure) != before)


@pytest.mark.parametrize(("chart", "linear"), [(EIGHT, True), (FILLING, False)])
def test_the_time_axis_can_be_switched(opened: Opener, chart: str, linear: bool) -> None:
    driver = opened()
    figure = drawn(driver, chart)
    before = drawing(figure)
    button = figure.find_element(By.CSS_SELECTOR, "button.scale")
    assert button.get_attribute("aria-pressed") == str(linear).lower()
    press(driver, button)
    until(driver, lambda _: drawing(figure) != before)
    assert button.get_attribute("aria-pressed") == str(not linear).lower()
    press(driver, button)
    until(driver, lambda _: drawing(figure) == before)


def column(driver: WebDriver, table: WebElement, heading: str) -> list[float]:
    script = """
        const [table, heading] = arguments;
        const headings = [...table.querySelectorAll("tr.headings th")];
        const index = headings.findIndex((th) => th.textContent.trim() === heading);
        return [...table.querySelectorAll("tbody tr")].filter((row) => !row.hidden)
            .map((row) => row.cells[index].dataset.sort).filter(Boolean).map(Number);
    """
    found: list[float] = driver.execute_script(script, table, heading)
    return found


def test_a_table_sorts_both_ways_and_stays_with_its_picker(opened: Opener) -> None:
    driver = opened()
    (panel,) = (
        one
        for one in driver.find_elements(By.CSS_SELECTOR, "#suite-chi-2010 .panel")
        if one.find_elements(By.XPATH, ".//th[text()='P99.9']")
    )
    driver.execute_script("arguments[0].scrollIntoView()", panel)
    # A whole mix has no latency. Null is last, although it is the fastest.
    press(driver, panel.find_element(By.XPATH, ".//label[span='1:1: get']"))
    heading = panel.find_element(By.XPATH, ".//th[text()='Median']")
    before = column(driver, panel, "Median")
    assert before not in (sorted(before), sorted(before, reverse=True))
    press(driver, heading)
    until(driver, lambda _: column(driver, panel, "Median") == sorted(before))
    press(driver, heading)
    until(driver, lambda _: column(driver, panel, "Median") == sorted(before, reverse=True))
    press(driver, panel.find_element(By.XPATH, ".//label[span='large']"))
    assert column(driver, panel, "Median") != sorted(before, reverse=True)
    assert len(column(driver, panel, "Median")) == len(before)


def test_a_gallery_shows_the_matrices_of_one_choice(opened: Opener) -> None:
    driver = opened()
    gallery = show(driver, "#suite-chi-2010 .gallery")

    def titles() -> list[str]:
        headings = gallery.find_elements(By.CSS_SELECTOR, "h4")
        return [one.text for one in headings if one.is_displayed()]

    assert all("ratio 1:10 and medium" in title for title in titles())
    assert sum(title.startswith("2010") for title in titles()) == 2
    press(driver, gallery.find_element(By.XPATH, ".//label[span='1:100']"))
    assert all("ratio 1:100 and medium" in title for title in titles())


def test_a_row_shows_its_record_and_how_to_repeat_it(opened: Opener) -> None:
    driver = opened()
    buttons = driver.find_elements(By.CSS_SELECTOR, "#suite-fastmmap-2004 tr.ours button.records")
    button = next(one for one in buttons if one.is_displayed())
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)

    def told(_: WebDriver) -> bool:
        # A chart drawn above it meanwhile moves the button away from the pointer.
        ActionChains(driver).move_to_element(button).perform()
        return (button.get_attribute("title") or "").startswith("run.jsonl:")

    until(driver, told)
    press(driver, button)
    dialog = driver.find_element(By.ID, "records-dialog")
    until(driver, lambda _: "Measure this cell again" in dialog.text)
    assert "python -m lab run --suite fastmmap-2004 --contestant" in dialog.text
    assert '"contestant": "tuckbox"' in dialog.text
    press(driver, dialog.find_element(By.CSS_SELECTOR, ".close"))
    assert not dialog.is_displayed()


def test_a_dot_leads_to_its_records(opened: Opener) -> None:
    driver = opened()
    figure = drawn(driver, "#suite-django figure[data-chart]")
    dialog = driver.find_element(By.ID, "records-dialog")

    def shown(_: WebDriver) -> bool:
        if not dialog.is_displayed():
            dots = figure.find_elements(By.CSS_SELECTOR, "svg path[fill]:not([fill='none'])")
            large = [dot for dot in dots if 6 < dot.size["width"] < 16 and dot.size["height"] > 6]
            ActionChains(driver).move_to_element(large[-1]).click().perform()
        return '"suite": "django"' in dialog.text

    until(driver, shown)


def background(driver: WebDriver) -> str:
    return str(driver.execute_script("return getComputedStyle(document.body).backgroundColor"))


@pytest.mark.parametrize(("scheme", "other"), [("light", "dark"), ("dark", "light")])
def test_the_theme_is_the_readers_and_can_be_changed(
    opened: Opener, scheme: str, other: str
) -> None:
    driver = opened(scheme=scheme)
    colours = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 26)"}
    assert background(driver) == colours[scheme]
    figure = drawn(driver, "#suite-django figure[data-chart]")
    before = drawing(figure)
    show(driver, "#theme").click()
    assert background(driver) == colours[other]
    until(driver, lambda _: drawing(figure) != before)


def test_a_long_name_in_the_answer_wraps(opened: Opener) -> None:
    driver = opened(PHONE)
    for option in ("PHP", "several machines"):
        press(driver, driver.find_element(By.CSS_SELECTOR, f".answer input[value='{option}']"))
    assert driver.find_element(By.CSS_SELECTOR, ".winner").text == synthetic.COPIES_TITLE
    width = driver.execute_script("return document.documentElement.scrollWidth")
    assert width == PHONE[0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_nothing_overflows_the_page(opened: Opener, size: tuple[int, int], scheme: str) -> None:
    driver = opened(size, scheme)
    draw_all(driver)
    root = "document.documentElement"
    width = driver.execute_script(f"return {root}.clientWidth")
    assert 0 <= size[0] - width < 20
    assert driver.execute_script(f"return {root}.scrollWidth") == width
    charts = driver.execute_script(
        "return [...document.querySelectorAll('.chart')].map((one) => one.clientWidth)"
    )
    assert max(charts) <= size[0]
    assert complaints(driver) == []


def test_all_rows_are_printed(opened: Opener) -> None:
    driver = opened()
    hidden = "return document.querySelectorAll('tr[hidden]').length"
    assert driver.execute_script(hidden) > 0
    driver.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert driver.execute_script(hidden) == 0
    assert driver.execute_script(
        "return [...document.querySelectorAll('figure .chart')].every((one) => one.firstChild)"
    )
    driver.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert driver.execute_script(hidden) > 0
