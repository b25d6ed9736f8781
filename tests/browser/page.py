"""What a person does with the page, in words: open, click, type, wait until something is read.
Everything waits with a deadline."""
import re
import tempfile

from selenium.webdriver import ActionChains
from selenium import webdriver
from selenium.common.exceptions import (ElementClickInterceptedException,
                                        StaleElementReferenceException, WebDriverException)
from selenium.webdriver.chrome.service import Service as ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from service import DEADLINE, until

# what the page itself cannot help: a request that a test provokes on purpose is logged by the
# browser as an error, and so is one that a busy machine answered with "a part of the service is
# away"; the page asks again. A browser that sees its host's network change ends what it loads
EXPECTED = re.compile(
    r"/api/v1/\S* - Failed to load resource: the server responded with a status of "
    r"(400|401|404|409|422|503|504)|net::ERR_NETWORK_CHANGED")


def start(chromium, driver):
    """A browser without a window, and its folder, which the caller removes after quitting it."""
    profile = tempfile.mkdtemp(prefix="evenstep-chromium-")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic",
                 "--no-first-run", "--disable-background-networking", "--disable-component-update",
                 "--disable-sync", "--window-size=1440,900", f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(service=ChromeService(driver), options=options)
    made.set_script_timeout(DEADLINE)
    return made, profile


class Page:
    def __init__(self, driver, service):
        self.driver, self.service = driver, service

    # -- going places ------------------------------------------------------------------------------
    def link(self):
        answer = self.service.post("link")
        assert answer.status_code == 201, answer.text
        return answer.json()["url"]

    def sign_in(self):
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.forget()
        self.driver.get(self.link())
        self.wait_for("#new-job")
        until("the page is live", lambda: self.script("return document.body.dataset.live")
              == "live")

    def forget(self):
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})

    def open(self, route):
        self.driver.get(self.service.url + "/#" + route)

    def open_job(self, job):
        self.open("/jobs/" + job)
        self.wait_for("#verdict")

    # -- looking -----------------------------------------------------------------------------------
    def script(self, code, *args):
        return self.driver.execute_script(code, *args)

    def find(self, css):
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def all(self, css):
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def visible(self, css):
        """The first that is shown. One call: a table that is drawn again every second may be
        another one by the next."""
        return self.script('''
            const shown = (e) => getComputedStyle(e).visibility === 'visible' &&
                [...e.getClientRects()].some((r) => r.width && r.height);
            return [...document.querySelectorAll(arguments[0])].find(shown) || null''', css)

    def wait_for(self, css, seconds=DEADLINE):
        try:
            return until(f"{css} is shown at {self.driver.current_url}", lambda: self.visible(css),
                         seconds)
        except AssertionError as e:
            raise AssertionError(f"{e}; the console says {self.console()}") from None

    def text(self, css):
        return self.script(
            "const e = document.querySelector(arguments[0]); return e ? e.innerText : ''",
            css) or ""

    def number(self, css):
        found = re.search(r"-?\d[\d,]*\.?\d*", self.text(css))
        return float(found.group().replace(",", "")) if found else None

    def wait_text(self, css, pattern, seconds=DEADLINE):
        try:
            return until(f"{css} reads {pattern!r}", lambda: re.search(pattern, self.text(css)),
                         seconds)
        except AssertionError as e:
            raise AssertionError(f"{e}; it reads {self.text(css)[:300]!r} at "
                                 f"{self.driver.current_url}") from None

    def resize(self, width, height=900, mobile=False):
        """The page in so many CSS pixels, until resize_back()."""
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1,
                                     "mobile": mobile})

    def resize_back(self):
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def shot(self, path):
        self.driver.save_screenshot(str(path))

    # -- doing -------------------------------------------------------------------------------------
    def click(self, css):
        """What is drawn again between two of these calls, or moves, is looked for again."""
        def clicked():
            element = self.wait_for(css)
            try:
                self.script("arguments[0].scrollIntoView({block: 'center'})", element)
                element.click()
                return True
            except (StaleElementReferenceException, ElementClickInterceptedException):
                return False
        until(f"{css} is clicked", clicked)

    def type(self, css, text):
        element = self.wait_for(css)
        self.script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()
        element.send_keys(Keys.CONTROL, "a")
        element.send_keys(Keys.DELETE)
        if text:
            element.send_keys(text)

    def field(self, pointer):
        return f'.field[data-pointer="{pointer}"] input'

    def choose(self, pointer, value):
        select = self.wait_for(f'.field[data-pointer="{pointer}"] select')
        self.script("arguments[0].scrollIntoView({block: 'center'})", select)
        for option in select.find_elements(By.TAG_NAME, "option"):
            if option.get_attribute("value") == value:
                option.click()
                return
        raise AssertionError(f"{pointer} does not offer {value!r}")

    def keys(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()  # whatever has the focus then

    # -- the console -------------------------------------------------------------------------------
    def console(self):
        try:
            return [line for line in self.driver.get_log("browser")
                    if line["level"] in ("SEVERE", "WARNING")
                    or "Content Security Policy" in line["message"]]
        except WebDriverException:
            return []

    def check_console(self):
        wrong = [line["message"] for line in self.console() if not EXPECTED.search(line["message"])]
        assert not wrong, "the browser's console has errors:\n" + "\n".join(wrong)


def as_role(driver, service, role):
    """The page as somebody with this role sees it, once it knows the role."""
    page = Page(driver, service)
    driver.get("about:blank")
    page.forget()
    driver.get(service.post("link", {"role": role}).json()["url"])
    until("the role is known", lambda: page.script("return document.body.dataset.role")
          == role)
    return page
