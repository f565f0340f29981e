"""What mkdocs calls while it builds the site: pages made from the registered parts.

Navigation names each kind of part by its page, `parts/<kind>/index.md`; the parts themselves are
put behind it here. A comment such as `<!-- parts -->` in a page is where a made piece goes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

# mkdocs loads this file by its path, from wherever it was started.
sys.path.insert(0, str(Path(__file__).parents[1]))

from docs.generate import domains, drawing, parts, taxonomy

# The made pieces of a page, by the comment that they replace.
PIECES: dict[str, dict[str, Callable[[], str]]] = {
    "parts/index.md": {"kinds": parts.overview},
    "taxonomy.md": {"figure": drawing.figure, "list": taxonomy.listing},
}
PIECES["domains/index.md"] = {
    "made": domains.made_by,
    "figure": domains.figure,
    "overview": domains.overview,
    "reasons": domains.reasons,
    "predictions": domains.predictions,
    "methods": domains.every_method,
}
for _name in ("dosing", "credit", "grid", "moderation", "tools", "kalman"):
    PIECES[f"domains/{_name}.md"] = {
        "described": partial(domains.described, _name),
        "results": partial(domains.results, _name),
    }
for _kind in parts.KINDS:
    PIECES[f"parts/{_kind}/index.md"] = {"parts": partial(parts.table, _kind)}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put every part into the navigation."""
    config.nav = expanded(config.nav)
    return config


def expanded(nav: Any) -> Any:
    """Replace {title: parts/<kind>/index.md} by the kind's section, at any depth."""
    if isinstance(nav, list):
        return [expanded(item) for item in nav]
    if isinstance(nav, dict):
        return {title: expanded(item) for title, item in nav.items()}
    for kind in parts.KINDS:
        if nav == f"parts/{kind}/index.md":
            return parts.navigation(kind)
    return nav


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every part."""
    for kind in parts.KINDS:
        for one in parts.parts(kind):
            files.append(File.generated(config, one.uri, content=parts.page(one)))
    return files


def on_page_markdown(text: str, page: Page, **_: Any) -> str:
    """Put made pieces where a page's comments ask for them."""
    return filled(text, page.file.src_uri)


def filled(text: str, uri: str) -> str:
    """Replace the comments of a page by its made pieces; refuse a page that lacks one."""
    for name, make in PIECES.get(uri, {}).items():
        comment = f"<!-- {name} -->"
        if text.count(comment) != 1:
            raise ValueError(f"{uri}: expected one {comment}, got {text.count(comment)}")
        text = text.replace(comment, make())
    return text
