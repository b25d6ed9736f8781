"""A finished run, saved as one HTML file: it is read again without the service."""

import json

from service import spec, until


# of the page, and the median of what each chart's picture has: its axes are pale on a pale page
LIGHTNESS = """
const pale = (rgb) => rgb.slice(0, 3).reduce((a, b) => a + b) / 3;
const page = pale(getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number));
const images = [...document.querySelectorAll('.chart img')].filter((i) => i.naturalWidth > 100);
const axes = images.map((image) => {
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  const brush = canvas.getContext('2d');
  brush.drawImage(image, 0, 0);
  const {data} = brush.getImageData(0, 0, canvas.width, canvas.height);
  const drawn = [];
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] === 255) {
      drawn.push(pale(data.slice(i, i + 3)));
    }
  }
  drawn.sort((a, b) => a - b);
  return drawn[drawn.length >> 1];
}).filter((v) => v !== undefined);
return axes.length ? [page, ...axes] : null;
"""


def test_a_finished_run_is_one_file_that_needs_no_server(page, service, tmp_path):
    # a name with markup in it: the file is made of the page's text, so nothing of it may be taken
    # for an element
    id = service.submit(spec(name="one </script><img src=x> file", workers=2))
    job = service.wait(id, "succeeded")
    page.driver.execute_cdp_cmd(
        "Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    page.open_job(id)
    page.wait_text("#verdict", "reached")
    until("the loss is drawn", lambda: page.script(
        "return document.querySelector('[data-chart=loss] canvas') !== null"))
    page.click("#save-html")
    found = until("the file is there", lambda: list(tmp_path.glob("*.html")))[0]
    assert found.name.endswith(id[:8] + ".html")
    page.check_console()
    page.driver.get(found.as_uri())
    page.wait_text("#verdict", "The job reached .* test accuracy")
    assert page.text("h1") == "one </script><img src=x> file"
    assert page.script("return document.querySelectorAll('img[src=x], a[href], link').length") == 0

    def pictures():
        return page.script(
            """return [...document.querySelectorAll('[data-chart=loss] img')]
                 .map((i) => [i.src.slice(0, 22), i.complete && i.naturalWidth])""")
    shown = until("all pictures are decoded",
                  lambda: (found := pictures()) and all(wide for _, wide in found) and found)
    assert all(src == "data:image/png;base64," and wide > 100 for src, wide in shown)
    for theme in ("dark", "light"):  # the reader's, whatever the page had
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": theme}]})
        until(f"page and charts are {theme}", lambda: (seen := page.script(LIGHTNESS)) and all(
            (light > 128) is (theme == "light") for light in seen))  # each is decoded anew
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert page.all("svg.lanes-svg rect"), "the last steps, which were not on the screen"
    folds = page.script("""return [...document.querySelectorAll('details.fold')].map((d) => {
        d.open = true; return [d.id, d.querySelector('.fold-body').innerText.trim()]; })""")
    assert folds and all(text for _, text in folds), "no fold opens on nothing"
    assert "learning_rate" in dict(folds)["configuration"]
    kept = json.loads(page.script("return document.getElementById('run').textContent"))
    assert kept["job"]["id"] == id and kept["job"]["metrics"] == job["metrics"]
    assert {s["name"] for s in kept["series"]["series"]} >= {"train_loss", "batch"}
    assert len(kept["evaluations"]) == len(
        service.get(f"jobs/{id}/evaluations").json()["evaluations"])
    page.resize(390, 800, mobile=True)  # a chart of the page is drawn anew there, a picture is not
    try:
        until("the page is a phone's", lambda: page.script("return innerWidth") == 390)
        rooms = page.script("""return [document.documentElement.scrollWidth,
            [...document.querySelectorAll('.chart')].map((c) => {
              const room = c.closest('[tabindex="0"]');
              return Boolean(room) && room.scrollWidth >= c.clientWidth && c.clientWidth > 390;
            })]""")
        assert rooms[0] <= 390 and rooms[1] and all(rooms[1]), "charts are cut off: scroll them"
    finally:
        page.resize_back()
