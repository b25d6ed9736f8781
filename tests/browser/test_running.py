"""Jobs that run beside each other, on the list of jobs."""
import pytest

from service import Service, spec, until


@pytest.fixture(scope="module")
def service():
    with Service(nodes=("a=cpu:1,slowdown=8", "b=cpu:1,slowdown=8")) as s:
        for name in ("one", "other"):
            s.steps(s.submit(spec(name=name, workers=1, epochs=10000)), 3)
        yield s


@pytest.mark.parametrize("width", [1440, 390])
def test_running_jobs_stand_apart(page, width):
    page.resize(width)
    try:
        page.open("/")
        until("both are shown", lambda: len(page.all(".run-row")) == 2)
        gap = page.script("""
            const bottom = (e) => Math.max(...[...e.querySelectorAll('*')].map(
                (one) => one.getBoundingClientRect().bottom));
            const [first, second] = document.querySelectorAll('.run-row');
            return second.querySelector('h3').getBoundingClientRect().top - bottom(first)""")
        assert gap >= 24
    finally:
        page.resize_back()
