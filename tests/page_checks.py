"""How tests look at a page: is it balanced, what does a browser say of it, how does it print."""

from __future__ import annotations

import html
import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

VOID = {"meta", "br", "hr", "img", "input", "link"}
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--allow-file-access-from-files",
]


class Page(HTMLParser):
    """The elements of a page, in a tree of tags; unbalanced ones are listed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.wrong.append(tag)
        else:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if not {"style", "title", "desc"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).replace("\u00a0", " ").split())


def is_whole(page: str) -> None:
    """Assert that the page is balanced, has unique ids and no number that is none."""
    parsed = Page(page)
    assert not parsed.wrong
    assert not parsed.open
    ids = [found["id"] for _, found in parsed.attributes if "id" in found]
    assert len(ids) == len(set(ids))
    shown = re.sub(r"<style>.*?</style>", "", page, flags=re.S)
    assert not re.search(r"\bnan\b|\binf\b|\bNone\b|Infinity|\bundefined\b", shown)


MEASURE = """<!doctype html>
<meta name="color-scheme" content="light dark"><body style="margin:0">
<script>
const near = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1.5 &&
  Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;
function measure(frame, width) {
  const inner = frame.contentDocument, found = {sizes: [], overlaps: [], outside: []};
  const look = (node) => frame.contentWindow.getComputedStyle(node);
  found.width = inner.documentElement.scrollWidth;
  found.scrolled = [...inner.querySelectorAll(".scroll")]
    .filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.ariaLabel);
  found.paper = look(inner.body).backgroundColor;
  const charts = [...inner.querySelectorAll("svg.chart")].filter(c => c.clientWidth > 0);
  found.charts = charts.map(c => c.getAttribute("class"));
  for (const chart of charts) {
    const scale = chart.getBoundingClientRect().width / chart.viewBox.baseVal.width;
    const words = [...chart.querySelectorAll("text")].filter(w => w.textContent.trim());
    const boxes = words.map(w => w.getBoundingClientRect());
    words.forEach((w, i) => {
      found.sizes.push(scale * parseFloat(look(w).fontSize));
      if (boxes[i].left < -1 || boxes[i].right > width + 1) found.outside.push(w.textContent);
      for (let j = 0; j < i; j++) if (near(boxes[i], boxes[j]))
        found.overlaps.push(chart.querySelector("title").textContent + ": " + words[j].textContent
          + " | " + w.textContent);
    });
  }
  return found;
}
window.onload = () => {
  const all = {};
  for (const frame of document.querySelectorAll("iframe"))
    all[frame.id] = measure(frame, frame.clientWidth);
  const out = document.createElement("pre");
  out.id = "measured";
  out.textContent = JSON.stringify(all);
  document.body.append(out);
};
</script>
FRAMES"""


def measured(
    chromium: str, folder: Path, pages: dict[str, str], widths: tuple[int, ...], *flags: str
) -> dict[str, Any]:
    """Return what a browser says of each page, by 'name width'."""
    frames = ""
    for name, page in pages.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
        frames += "".join(
            f'<iframe id="{name} {width}" src="{name}.html" '
            f'style="border:0;width:{width}px;height:900px"></iframe>'
            for width in widths
        )
    outer = folder / "outer.html"
    outer.write_text(MEASURE.replace("FRAMES", frames), encoding="utf-8")
    profile = f"--user-data-dir={folder / 'profile'}"
    command = [chromium, *FLAGS, profile, *flags, "--dump-dom", outer.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    answer = re.search(r'<pre id="measured">(.*?)</pre>', done.stdout, flags=re.S)
    assert answer is not None, done.stdout[-500:]
    return dict(json.loads(html.unescape(answer[1])))


def printed(chromium: str, folder: Path, page: str) -> bytes:
    """Return the page as it prints."""
    source, sheet = folder / "page.html", folder / "page.pdf"
    source.write_text(page, encoding="utf-8")
    flags = [f"--user-data-dir={folder / 'profile'}", f"--print-to-pdf={sheet}"]
    command = [chromium, *FLAGS, *flags, source.as_uri()]
    subprocess.run(command, capture_output=True, timeout=120, check=True)
    return sheet.read_bytes()


def n_of_sheets(sheets: bytes) -> int:
    """Return how many sheets a PDF has."""
    return len(re.findall(rb"/Type\s*/Page\b", sheets))


def n_printed(chromium: str, folder: Path, page: str) -> int:
    """Return on how many sheets the page prints."""
    return n_of_sheets(printed(chromium, folder, page))


def luminance(colour: str) -> float:
    """Return the relative luminance of #rgb or #rrggbb."""
    digits = colour.lstrip("#")
    pairs = [c * 2 for c in digits] if len(digits) == 3 else re.findall("..", digits)
    parts = [int(pair, 16) / 255 for pair in pairs]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def papers(chromium: str, folder: Path, page: str) -> list[str]:
    """Return the colour of the paper on a dark screen and on a light one."""
    found = []
    for scheme in (0, 1):
        flag = f"--blink-settings=preferredColorScheme={scheme}"
        found.append(measured(chromium, folder, {"page": page}, (740,), flag)["page 740"]["paper"])
    return found


def fits(found: dict[str, Any], width: int, least: float) -> None:
    """Assert that nothing overflows, no label lies on another, and none is tiny."""
    assert found["width"] <= width
    assert found["outside"] == []
    assert found["overlaps"] == []
    assert min(found["sizes"]) >= least
