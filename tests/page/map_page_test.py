"""The map page in a real browser, before a real daemon and before made-up maps."""

from __future__ import annotations

import json
import os
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path

from daemon import Daemon
from made_up_map import Map, made_up_map
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect, sync_playwright

SCREENSHOTS = Path(os.environ["TENURE_SCREENSHOTS"])
# Ten times what it took when this was written.
MOST_MS_TO_SHOW_5000 = 1500


class PageTest(unittest.TestCase):
    """A browser, and pages that must not complain or look elsewhere."""

    browser: Browser
    stop_browser: Callable[[], None]

    @classmethod
    def setUpClass(cls) -> None:
        driver = sync_playwright().start()
        cls.browser = driver.chromium.launch(
            executable_path=os.environ["CHROMIUM"], args=["--no-sandbox", "--disable-gpu"]
        )
        cls.stop_browser = driver.stop

    @classmethod
    def tearDownClass(cls) -> None:
        cls.browser.close()
        cls.stop_browser()

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.daemon = self.keep(Daemon(Path(folder.name)))
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.complaints_expected = False

    def tearDown(self) -> None:
        if not self.complaints_expected:
            self.assertEqual(self.complaints, [])

    def keep(self, daemon: Daemon) -> Daemon:
        """Ends the daemon with the test."""
        self.addCleanup(daemon.kill)
        return daemon

    def context(self, scheme: str = "light") -> BrowserContext:
        """Gives a browser of its own, which looks at light or dark."""
        context = self.browser.new_context(color_scheme=scheme, viewport={"width": 1440, "height": 1000})
        self.addCleanup(context.close)
        return context

    def open(self, url: str = "", scheme: str = "light", shown: Map | None = None) -> Page:
        """Opens the page; `shown` stands in for the daemon's map."""
        page = self.context(scheme).new_page()
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda line: self.complaints.append(line.text) if line.type != "log" else None)
        if shown is not None:
            body = json.dumps(shown)

            def answer(route: Route) -> None:
                route.fulfill(body=body, content_type="application/json")

            page.route("**/map.json", answer)
        page.goto(url or self.daemon.origin + "/")
        page.wait_for_selector("canvas.tape")
        return page


class LivePageTest(PageTest):
    """Before a real daemon."""

    def test_shows_what_the_daemon_holds_and_follows_it(self) -> None:
        self.daemon.load("shop/ranker", "24MiB")
        self.daemon.load("shop/tower", "12MiB", 2)
        self.daemon.ctl("unload", "shop/tower")
        page = self.open()
        expect(page.locator("#status-text")).to_have_text("Live")
        rows = page.locator("#list .row")
        expect(rows).to_have_count(2)
        expect(rows.nth(0)).to_contain_text("shop/ranker@1")
        expect(rows.nth(0).locator(".swatch")).to_have_attribute("aria-label", "idle")
        expect(rows.nth(1).locator(".swatch")).to_have_attribute("aria-label", "retained")
        expect(page.locator("#facts")).to_contain_text("1 device, 256 MiB in arenas")
        expect(page.locator("#legend")).to_contain_text("retained")

        self.daemon.load("shop/newcomer", "8MiB", 3)
        expect(rows).to_have_count(3)
        expect(page.locator(".chart .labels").first).to_contain_text("reserved")
        page.screenshot(path=SCREENSHOTS / "live.png", full_page=True)

    def test_no_request_leaves_the_origin(self) -> None:
        page = self.open()
        expect(page.locator("#status-text")).to_have_text("Live")
        while len(self.requests) < 4:
            page.wait_for_timeout(100)
        allowed = {self.daemon.origin + path for path in ("/", "/map.json")}
        self.assertLessEqual({url for url in self.requests if not url.startswith("data:")}, allowed)

    def test_pauses_and_goes_on(self) -> None:
        page = self.open()
        page.locator("#pause").click()
        expect(page.locator("#status-text")).to_have_text("Paused")
        self.daemon.load("shop/ranker", "8MiB")
        asked = len(self.requests)
        page.wait_for_timeout(2500)
        self.assertEqual(len(self.requests), asked)
        expect(page.locator("#list .row")).to_have_count(0)
        page.locator("#pause").click()
        expect(page.locator("#list .row")).to_have_count(1)

    def test_asks_for_nothing_while_nobody_can_see_it(self) -> None:
        page = self.open()
        hide = """hidden => {
          Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
          document.dispatchEvent(new Event('visibilitychange'));
        }"""
        page.evaluate(hide, True)
        page.wait_for_timeout(300)
        asked = len(self.requests)
        page.wait_for_timeout(2500)
        self.assertEqual(len(self.requests), asked)
        with page.expect_request("**/map.json"):
            page.evaluate(hide, False)

    def test_says_when_the_daemon_is_gone(self) -> None:
        self.complaints_expected = True
        page = self.open()
        self.daemon.kill()
        expect(page.locator("#status-text")).to_contain_text("Not reached for")

    def test_a_saved_page_shows_its_moment_and_asks_nobody(self) -> None:
        self.daemon.load("shop/ranker", "24MiB")
        file = self.daemon.folder / "map.html"
        self.daemon.ctl("map", "--html", str(file))
        self.daemon.kill()
        page = self.open(file.as_uri())
        expect(page.locator("#list .row")).to_contain_text("shop/ranker@1")
        expect(page.locator("#status-text")).to_contain_text("As of")
        expect(page.locator("#pause")).to_be_hidden()
        page.wait_for_timeout(1500)
        self.assertEqual([url for url in self.requests if not url.startswith("data:")], [file.as_uri()])


class KeyboardTest(PageTest):
    """Without a mouse."""

    def test_arrows_move_over_the_tape_and_say_where_they_are(self) -> None:
        page = self.open(shown=made_up_map(40, devices=1))
        tape = page.locator("canvas.tape").first
        tape.focus()
        title, said = page.locator("#detail h2"), page.locator("#announce")
        models = [entry["model"] for entry in made_up_map(40, devices=1)["devices"][0]["arenas"][0]["regions"]]
        expect(title).to_contain_text(models[0])
        expect(said).to_contain_text(models[0])
        page.keyboard.press("ArrowRight")
        expect(title).to_contain_text(models[1])
        expect(page.locator("#list .row[aria-selected=true]")).to_contain_text(models[1])
        page.keyboard.press("ArrowLeft")
        expect(title).to_contain_text(models[0])
        page.keyboard.press("End")
        expect(title).to_have_text("unbacked")
        page.keyboard.press("Home")
        expect(title).to_contain_text(models[0])
        page.keyboard.press("Escape")
        expect(title).to_have_text("Nothing selected")
        expect(tape).to_have_attribute("aria-label", "gpu:0, weights: 40 parts in use, " + self.sums(page))

    def test_up_and_down_go_to_the_next_row(self) -> None:
        page = self.open(shown=made_up_map(400, devices=1))
        tape = page.locator("canvas.tape").first
        tape.focus()
        title = page.locator("#detail h2")
        first = title.inner_text()
        page.keyboard.press("ArrowRight")
        second = title.inner_text()
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowDown")
        self.assertNotIn(title.inner_text(), (first, second))
        page.keyboard.press("ArrowUp")
        expect(title).to_have_text(first)

    def sums(self, page: Page) -> str:
        """What the tape says of bytes, as the heading has it."""
        return page.locator(".arena .sums b").first.inner_text() + " allocated"

    def test_the_focus_can_be_seen(self) -> None:
        page = self.open(shown=made_up_map(40, devices=1))
        page.keyboard.press("Tab")
        for selector in ("#filter", "#pause", "canvas.tape", "#list"):
            found = page.locator(selector).first
            for _ in range(12):
                if found.evaluate("element => element === document.activeElement"):
                    break
                page.keyboard.press("Tab")
            width = found.evaluate("element => getComputedStyle(element).outlineWidth")
            self.assertEqual(width, "2px", selector)

    def test_the_list_is_a_grid_that_arrows_move_in(self) -> None:
        page = self.open(shown=made_up_map(400, devices=1))
        grid = page.locator("#list")
        grid.focus()
        page.keyboard.press("End")
        chosen = page.locator("#list .row[aria-selected=true]")
        expect(chosen).to_have_attribute("aria-rowindex", "408")
        expect(grid).to_have_attribute("aria-rowcount", "408")
        expect(grid).to_have_attribute("aria-activedescendant", "row-407")
        page.keyboard.press("ArrowUp")
        expect(chosen).to_have_attribute("aria-rowindex", "407")
        page.keyboard.press("Home")
        expect(chosen).to_have_attribute("aria-rowindex", "1")
        page.keyboard.press("PageDown")
        expect(chosen).not_to_have_attribute("aria-rowindex", "1")

    def test_a_filter_narrows_what_arrows_reach(self) -> None:
        page = self.open(shown=made_up_map(400, devices=1))
        page.keyboard.press("/")
        expect(page.locator("#filter")).to_be_focused()
        page.keyboard.type("gnn-")
        expect(page.locator("#list-count")).to_contain_text(" of 408")
        expect(page.locator("#announce")).to_contain_text("matches")
        for row in page.locator("#list .row").all():
            self.assertIn("gnn-", row.inner_text())
        page.locator("canvas.tape").first.focus()
        for _ in range(3):
            expect(page.locator("#detail h2")).to_contain_text("gnn-")
            page.keyboard.press("ArrowRight")
        page.keyboard.press("Escape")
        expect(page.locator("#list-count")).to_have_text("408")

    def test_columns_sort(self) -> None:
        page = self.open(shown=made_up_map(40, devices=1))
        size = page.locator("#list-columns [data-key=bytes]")
        size.focus()
        page.keyboard.press("Enter")
        expect(size).to_have_attribute("aria-sort", "descending")
        expect(page.locator("#list .row").first).to_contain_text("pool")
        page.keyboard.press("Enter")
        expect(size).to_have_attribute("aria-sort", "ascending")
        expect(page.locator("#list .row").first).to_contain_text("8 MiB")


class ManyTest(PageTest):
    """With 5,000 regions."""

    def test_five_thousand_regions_are_shown_in_little_time(self) -> None:
        page = self.open(shown=made_up_map(5000))
        expect(page.locator("#list-count")).to_have_text("5,016")
        took = page.evaluate("performance.getEntriesByName('show')[0].duration")
        print(f"5,000 regions shown in {took:.0f} ms")
        self.assertLess(took, MOST_MS_TO_SHOW_5000)
        # Only the rows that can be seen exist.
        self.assertLess(page.locator("#list .row").count(), 60)
        page.locator("canvas.tape").first.focus()
        step = page.evaluate(
            """() => {
              const tape = document.activeElement;
              const begun = performance.now();
              for (let i = 0; i < 10; ++i) tape.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}));
              return (performance.now() - begun) / 10;
            }"""
        )
        print(f"an arrow key takes {step:.1f} ms")
        self.assertLess(step, MOST_MS_TO_SHOW_5000 / 5)

    def test_looks_the_same_thing_in_light_and_dark(self) -> None:
        colors = []
        for scheme in ("light", "dark"):
            for regions in (60, 5000):
                page = self.open(scheme=scheme, shown=made_up_map(regions))
                page.locator("canvas.tape").first.focus()
                page.keyboard.press("ArrowRight")
                box = page.locator("canvas.tape").first.bounding_box()
                assert box is not None
                page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
                expect(page.locator("#tip")).to_be_visible()
                page.screenshot(path=SCREENSHOTS / f"{regions}-{scheme}.png")
            colors.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        self.assertNotEqual(colors[0], colors[1])
        narrow = self.open(shown=made_up_map(60))
        narrow.set_viewport_size({"width": 420, "height": 900})
        wide = narrow.evaluate("document.documentElement.scrollWidth")
        self.assertLessEqual(wide, 420)
        narrow.screenshot(path=SCREENSHOTS / "narrow.png")

    def test_pointing_at_a_part_tells_what_it_is(self) -> None:
        page = self.open(shown=made_up_map(40, devices=1))
        box = page.locator("canvas.tape").first.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 4, box["y"] + 30)
        first = made_up_map(40, devices=1)["devices"][0]["arenas"][0]["regions"][0]
        expect(page.locator("#tip")).to_contain_text(first["model"])
        expect(page.locator("#tip")).to_contain_text(first["architecture_key"][:8])
        page.mouse.click(box["x"] + 4, box["y"] + 30)
        expect(page.locator("#detail h2")).to_contain_text(first["model"])

    def test_names_are_text_whatever_they_are(self) -> None:
        page = self.open(shown=made_up_map(40, devices=1, program="<img src=x onerror=alert(1)>"))
        page.locator("#list").focus()
        page.keyboard.press("End")
        expect(page.locator("#detail h2")).to_contain_text("<img src=x")
        self.assertEqual(page.locator("#detail img, #list img").count(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
