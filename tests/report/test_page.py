"""The page in a real browser: figures there and not blank, a silent console, no text cut or on another."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, missing

from adagq.report import write_report
from made_up import rows_and_ledger, write_run

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "-")

BOXES = """return [...document.querySelectorAll('main > figure')].map((figure) => {
  const marks = [...figure.querySelectorAll('svg .curve, svg .part, canvas')];
  const boxes = marks.map((mark) => mark.getBoundingClientRect());
  return [figure.id, Math.max(...boxes.map((box) => box.width)), Math.max(...boxes.map((box) => box.height))];
})"""
SHADES = """return [...document.querySelectorAll('canvas')].map((canvas) => {
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  return new Set(new Uint32Array(data.buffer)).size;
})"""
COLLISIONS = """return [...document.querySelectorAll('figure svg')].flatMap((figure) => {
  const nodes = [...figure.querySelectorAll('text')];
  const texts = nodes.map((text) => [text.textContent, text.getBoundingClientRect()]);
  return texts.flatMap(([a, one], place) => texts.slice(place + 1)
    .filter(([, two]) => one.left < two.right - 1 && two.left < one.right - 1
      && one.top < two.bottom - 3 && two.top < one.bottom - 3)
    .map(([b]) => `${a} | ${b}`));
})"""
CUT = """const card = (node) => node.closest('figure').getBoundingClientRect();
return [...document.querySelectorAll('figure svg text')].filter((text) => {
  const box = text.getBoundingClientRect();
  return box.left < card(text).left || box.right > card(text).right;
}).map((text) => text.textContent)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as window:
        yield window


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = write_run(tmp_path_factory.mktemp("run"), *rows_and_ledger(slow_learner="topk"), payload_scale=15.9)
    return write_report(run, figures=False)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 820, 1280])
def test_figures_are_visible(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.open(page, width=width, dark=dark)
    assert browser.console() == []
    boxes = browser.run(BOXES)
    assert [name for name, _, _ in boxes] == ["accuracy", "split", "bytes", "timeline", "heat"]
    assert all(across > 60 and down > 2 for _, across, down in boxes), boxes
    assert min(browser.run(SHADES)) > 5
    assert browser.run(COLLISIONS) == []
    assert browser.run(CUT) == []
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    background = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(15, 18, 23)") is dark


def test_it_answers_to_mouse_keys_and_buttons(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.run("""const plot = document.querySelector('#accuracy-plot svg');
      const box = plot.getBoundingClientRect();
      const place = { clientX: box.left + box.width / 3, clientY: box.top + 50 };
      plot.dispatchEvent(new PointerEvent('pointermove', place))""")
    assert "adagq-fit" in browser.run("return document.getElementById('tip').textContent")
    browser.run("document.querySelector('#accuracy-legend button').click()")
    assert browser.run("return document.querySelectorAll('#accuracy .curve').length") == 7
    browser.run("document.querySelectorAll('.choice button').forEach((button) => button.click())")
    browser.run("""document.querySelector('#accuracy-plot svg').dispatchEvent(
      new KeyboardEvent('keydown', { key: 'ArrowRight' }))""")
    browser.run("document.getElementById('theme').click()")
    assert browser.run("return document.documentElement.dataset.theme") == "dark"
    assert browser.run(COLLISIONS) == []
    assert browser.console() == []


COVERED = """return [...document.querySelectorAll('#split svg, #bytes svg')].flatMap((figure) => {
  const bars = [...figure.querySelectorAll('.part')].map((bar) => bar.getBoundingClientRect());
  return [...figure.querySelectorAll('text:not(.soft)')].filter((text) => {
    const box = text.getBoundingClientRect();
    return bars.some((bar) => bar.width > 1 && box.left < bar.right - 1 && bar.left < box.right - 1
      && box.top < bar.bottom - 3 && bar.top < box.bottom - 3);
  }).map((text) => text.textContent);
})"""


@pytest.mark.parametrize("width", [360, 390, 820, 1280])
def test_no_label_lies_on_a_bar(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width=width)
    assert browser.run(COVERED) == []


def test_accuracy_over_data_and_rounds(browser: Browser, page: Path) -> None:
    browser.open(page)
    for place, title in enumerate(("virtual time", "data per client, both ways", "rounds"), start=1):
        browser.run(f"document.querySelector('#accuracy-over button:nth-child({place})').click()")
        assert browser.run("return document.getElementById('accuracy-title').textContent") == f"Accuracy over {title}"
        assert browser.run("return document.querySelectorAll('#accuracy .curve').length") == 8
        assert browser.run(COLLISIONS) == []
        assert browser.run(CUT) == []
        browser.run("document.querySelector('#accuracy-scale button:last-child').click()")
        assert browser.run("return document.querySelectorAll('#accuracy .tick').length") >= 4
    assert browser.console() == []


def test_times_that_are_compared_have_one_unit(browser: Browser, tmp_path: Path) -> None:
    rows, ledger = rows_and_ledger(("fedavg", "qsgd"), seeds=1)
    for line in (*rows, *ledger):  # one takes more than two minutes, the other less
        line |= {key: 0.07 * value for key, value in line.items() if key.endswith("seconds") and value is not None}
    browser.open(write_report(write_run(tmp_path, rows, ledger), figures=False))
    legend = browser.run(
        "return [...document.querySelectorAll('#accuracy-legend small')].map((one) => one.textContent)"
    )
    text = browser.run("return document.getElementById('split-plot').textContent")
    assert len(legend) == 2, legend
    assert {one.split("\u00a0")[1] for one in legend} == {"s"}, legend
    assert "min" not in text, text


def test_one_seed_shows_its_measured_points(browser: Browser, tmp_path: Path) -> None:
    rows, ledger = rows_and_ledger(("fedavg", "qsgd"), seeds=1, rounds=12)
    browser.open(write_report(write_run(tmp_path, rows, ledger), figures=False))
    assert browser.run("return document.querySelectorAll('#accuracy .measured').length") == 24
    browser.run("""const plot = document.querySelector('#accuracy-plot svg');
      const dot = document.querySelectorAll('#accuracy .measured')[5].getBoundingClientRect();
      plot.dispatchEvent(new PointerEvent('pointermove', { clientX: dot.right, clientY: dot.top }))""")
    tip = browser.run("return document.getElementById('tip').textContent")
    first = sorted((row for row in rows if row["round"] == 6), key=lambda row: row["seconds"])
    assert any(f"{100 * row['accuracy']:.1f}" in tip for row in first)


def test_labels_of_the_logarithmic_axis(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.run("document.querySelector('#accuracy-scale button:last-child').click()")
    texts = browser.run("return [...document.querySelectorAll('#accuracy .tick')].map((node) => node.textContent)")
    sizes = {"s": 1, "min": 60, "h": 3600}
    marks = [float(text.split()[0]) * sizes[text.split()[1]] for text in texts]
    assert marks == [20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200]


def test_everything_has_a_text_for_those_who_do_not_see_it(browser: Browser, page: Path) -> None:
    browser.open(page)
    names = browser.run("return [...document.querySelectorAll('figure [role=img]')].map((node) => node.ariaLabel)")
    assert len(names) >= 5
    assert all(len(name) > 20 for name in names)
    assert browser.run("return [...document.querySelectorAll('button')].every((node) => node.textContent.trim())")


@pytest.mark.parametrize(
    ("methods", "seeds", "rounds", "clients"),
    [(("adagq-fit",), 1, 1, 1), (("fedavg", "ideal"), 1, 3, 4), (("qsgd", "fedpaq"), 2, 40, 20)],
)
def test_small_runs_draw_too(
    browser: Browser, tmp_path: Path, methods: tuple[str, ...], seeds: int, rounds: int, clients: int
) -> None:
    lines = rows_and_ledger(methods, seeds, rounds, clients)
    page = write_report(write_run(tmp_path, *lines), figures=False)
    browser.open(page)
    browser.run("document.querySelectorAll('.choice button').forEach((button) => button.click())")
    assert browser.console() == []
    assert browser.run(COLLISIONS) == []
    assert "NaN" not in browser.run("return document.querySelector('main').innerHTML")


def test_without_ledger_and_accuracy(browser: Browser, tmp_path: Path) -> None:
    rows, _ = rows_and_ledger(("fedavg", "adagq-fit"), 1, 4)
    for line in rows:
        line["accuracy"] = None
    browser.open(write_report(write_run(tmp_path, rows, []), figures=False))
    assert browser.console() == []
    assert browser.run("return getComputedStyle(document.getElementById('accuracy')).display") == "none"
