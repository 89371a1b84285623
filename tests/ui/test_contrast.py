"""What is written on the page can be read: its contrast is computed in a real Chromium, in both themes."""

from __future__ import annotations

import pytest

from tests.ui.ui_helpers import Server, everything, unfinished, whole

LEAST = 4.5
"""Of small text, by level AA of the Web Content Accessibility Guidelines."""
VIEWS = (
    "/?of=all/single",
    "/run/all/single?round=5",
    "/run/all/stopped",
    "/run/all/damaged",
    "/compare?of=all/compared",
    "/client/all/single?client=19&round=5",
    "/federation/all/clinic",
)
POOR = """least => {
  const canvas = Object.assign(document.createElement('canvas'), {width: 1, height: 1}).getContext('2d',
    {willReadFrequently: true});
  const parts = colour => {  // any CSS colour as red, green, blue and opacity
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255]; };
  const over = (top, below, share = top[3]) => [0, 1, 2].map(i => top[i] * share + below[i] * (1 - share));
  const luminance = colour => {
    const [red, green, blue] = colour.map(part => part / 255).map(part =>
      part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue; };
  const ratio = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05); };
  const chain = node => node ? [...chain(node.parentElement), node] : [];
  const seen = (node, colour) => {  // the colours that reach the eye: of the ground and of what is written on it
    let ground = [255, 255, 255], through = 1;
    for (const each of chain(node)) {
      ground = over(parts(getComputedStyle(each).backgroundColor), ground);
      through *= Number(getComputedStyle(each).opacity);
    }
    return [over(over(parts(colour), ground), ground, through), ground]; };
  const found = [], counted = new Set();
  const judge = (node, colour, text) => {
    const box = node.getBoundingClientRect();
    if (!box.width || !box.height || node.closest('[hidden], .hidden, .skip, :disabled, #vg-tooltip-element')) return;
    const value = ratio(...seen(node, colour)), name = node.tagName;
    counted.add(name);
    if (value < least) found.push(`${value.toFixed(2)} ${name}.${node.getAttribute('class') ?? ''}: ${text}`);
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement, text = walk.currentNode.textContent.trim();
    if (!text || node.closest('svg, script, style')) continue;
    judge(node, getComputedStyle(node).color, text);
  }
  for (const node of document.querySelectorAll('input:not([type=checkbox]), select')) {
    judge(node, getComputedStyle(node).color, node.value);
    if (node.placeholder) judge(node, getComputedStyle(node, '::placeholder').color, node.placeholder);
  }
  for (const node of document.querySelectorAll('.chart svg text')) {
    const fill = getComputedStyle(node).fill, marks = node.closest('.role-mark');  // those lie on coloured cells
    if (node.textContent.trim() && fill !== 'none' && !marks) judge(node, fill, node.textContent);
  }
  return [[...new Set(found)], [...counted], getComputedStyle(document.body).backgroundColor];
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    place = everything(tmp_path_factory.mktemp("contrast") / "all")
    unfinished(place / "stopped", rounds=3)
    unfinished(place / "damaged").joinpath("rounds.csv").write_text("round\nno number\n")
    with Server(place) as client:
        yield client


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_everything_written_can_be_read(browser, server, view, dark):
    def look(page):
        whole(page)
        return page.evaluate(POOR, LEAST)

    visit = browser.visit(f"{server.base_url}{view}", look, wait=False, dark=dark)
    assert visit.quiet, visit
    poor, counted, ground = visit.found
    assert not poor, "\n".join(poor)
    assert ground == ("rgb(23, 28, 34)" if dark else "rgb(255, 255, 255)")
    assert set(counted) >= {"SPAN", "BUTTON", "A", "H1", "P"}
    if "single" in view:
        assert set(counted) >= {"TD", "TH", "DD", "DT", "INPUT", "text"} or view.startswith("/?")


def test_the_measure_sees_what_is_poor(browser, server):
    def look(page):
        whole(page)
        page.evaluate("() => { document.querySelector('h1').style.color = '#999'; }")
        return page.evaluate(POOR, LEAST)[0]

    visit = browser.visit(f"{server.base_url}/run/all/single", look, wait=False)
    assert [each[:8] for each in visit.found] == ["2.85 H1."]
