"""What the model confuses, on a job's page: evaluated when it is opened, the matrix as a table with
heads, the samples with the greatest loss as pictures."""
from service import spec


def test_the_matrix_and_the_worst_samples_are_shown(page, service):
    id = service.submit(spec(data={"format": "glyphs", "samples": 400, "test_samples": 80},
                             workers=2, epochs=1))
    service.wait(id, "succeeded")
    page.open_job(id)
    assert page.script("return document.querySelector('#confusion-body').childElementCount") == 0
    page.script("document.getElementById('confusion').open = true")
    page.wait_text("#confusion-body", "test samples are classified correctly")
    told = service.get(f"jobs/{id}/confusion").json()
    shown = page.script(
        "return [...document.querySelectorAll('table.confusion tbody tr')]"
        ".map((tr) => [...tr.querySelectorAll('td')].map((td) => td.textContent))")
    assert [[int(c) for c in row[:-1]] for row in shown] == told["confusion"]
    assert len(page.script(
        "return [...document.querySelectorAll('table.confusion th[scope]')]")) == 22
    pictures = page.script(
        "return [...document.querySelectorAll('.worst canvas')].map((c) => "
        "[c.getAttribute('aria-label'), new Set(c.getContext('2d').getImageData(0, 0, c.width, "
        "c.height).data).size])")
    assert len(pictures) == 16 and all(colours > 4 for _, colours in pictures)
    first = told["worst"][0]
    assert pictures[0][0].startswith(f"Sample {first['sample']}: {first['label']}, answered")
