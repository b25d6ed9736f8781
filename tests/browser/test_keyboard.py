"""Every page can be used without a mouse."""
from selenium.webdriver.common.keys import Keys

from service import spec, until


def test_letters_go_to_the_pages(page):
    page.script("document.activeElement.blur()")
    for keys, route in ((("g", "n"), "#/nodes"), (("g", "c"), "#/compare"), (("g", "j"), "#/"),
                        (("n",), "#/new")):
        def goes(keys=keys, route=route):
            """The second key counts within 1.2 s of the first: a browser that was slower is asked
            again."""
            if not page.driver.current_url.endswith(route):
                page.script("document.activeElement.blur()")
                page.keys(*keys)
            return page.driver.current_url.endswith(route)
        until(f"{keys} goes to {route}", goes, every=1)
        page.wait_for("main h1, main .lead")
        page.script("document.activeElement.blur()")
    page.keys("?")
    page.wait_text("dialog", "new job")
    page.keys(Keys.ESCAPE)
    until("the list is gone", lambda: not page.all("dialog[open]"))
    page.keys("?")
    page.wait_text("dialog", "new job")
    page.open("/nodes")
    page.wait_for("main h1, main .lead")
    until("the list of another page is gone", lambda: not page.all("dialog[open]"))


def test_tab_reaches_everything_in_order_with_a_visible_ring(page):
    page.open("/new")
    page.wait_text(".json-state", "valid")
    page.script("document.activeElement.blur(); window.scrollTo(0, 0)")
    seen = []
    for _ in range(80):
        page.keys(Keys.TAB)
        at = page.script(
            "const e = document.activeElement; const s = getComputedStyle(e); return [e.id, "
            "e.tagName, (e.innerText || e.getAttribute('aria-label') || '').slice(0, 30), "
            "s.outlineStyle !== 'none' || s.boxShadow !== 'none']")
        seen.append(at)
        if at[0] == "submit":
            break
    assert seen[-1][0] == "submit", seen
    names = [s[2] for s in seen]
    assert any("Skip" in n for n in names[:2]) and "Jobs" in names and "Nodes" in names
    assert all(s[3] for s in seen if s[1] not in ("BODY", "TEXTAREA")), [
        s for s in seen if not s[3]]


def test_slash_finds_jobs(page, service):
    service.wait(service.submit(spec(name="needle", epochs=1)), "succeeded")
    service.wait(service.submit(spec(name="hay", epochs=1)), "succeeded")
    page.open("/")
    page.wait_text("main", "hay")
    page.script("document.activeElement.blur()")
    page.keys("/")
    page.keys("need")
    until("only what was looked for is left", lambda: "needle" in page.text("main")
          and "hay" not in page.text("main"))


# What scrolls and is shown, and neither takes the focus nor holds what does (axe-core:
# scrollable-region-focusable).
UNREACHED = """
const over = (overflow, all, shown) => /auto|scroll/.test(overflow) && all > shown + 1;
const scrolls = (e) => {
  const s = getComputedStyle(e);
  return e.clientWidth > 0 && (over(s.overflowX, e.scrollWidth, e.clientWidth) ||
                               over(s.overflowY, e.scrollHeight, e.clientHeight));
};
const inside = 'a[href], button, input, select, textarea, [tabindex]';
const takes = (e) => e.tabIndex >= 0 && e.getClientRects().length;
return [...document.querySelectorAll('body *')]
    .filter((e) => scrolls(e) && !takes(e) && ![...e.querySelectorAll(inside)].some(takes))
    .map((e) => e.tagName + '.' + e.className);
"""


def test_what_scrolls_can_be_scrolled_by_keys(page, service):
    job = service.submit(spec(name="scrolls", epochs=1))
    service.wait(job, "succeeded")
    page.resize(390, 844)
    try:
        for route in ("/", "/jobs/" + job, "/nodes?node=slow", "/new", "/compare?runs=" + job):
            page.open(route)
            page.wait_for("main .sheet")
            page.script("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
            page.script("document.querySelectorAll('[title=Table]').forEach((b) => b.click())")
            until(f"all that scrolls on {route} is reached", lambda: not page.script(UNREACHED))
    finally:
        page.resize_back()
