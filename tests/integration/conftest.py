"""Which tests tests/run may hand to different processes (pytest-xdist, --dist loadgroup): tests
that share a fixture of their file stay together, in its order, and come first; every other test
goes by itself to whoever is free, so that no long file is left at the end."""
import pytest


def shares(item):
    """Whether it uses a fixture that its file makes once."""
    made = item._fixtureinfo.name2fixturedefs.values()
    return any(d.scope == "module" and d.baseid == item.nodeid.split("::")[0] for same in made
               for d in same)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(config, items):
    if not config.getoption("loadgroup", False):
        return
    for item in items:
        if shares(item):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    items.sort(key=lambda item: not shares(item))
