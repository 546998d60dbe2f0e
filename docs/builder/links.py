"""Checks the links of a site of HTML files without a network."""

from __future__ import annotations

import html.parser
import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "link": "href", "source": "src", "iframe": "src", "video": "src"}


class Page(html.parser.HTMLParser):
    """What a page links to, what it loads, and the places in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.places |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        is_place = tag == "link" and values.get("rel") not in (
            "stylesheet",
            "icon",
            "preload",
            "modulepreload",
        )
        if tag in LOADED and values.get(LOADED[tag]) and not is_place:
            self.loaded.append(values[LOADED[tag]])


def problems(site: Path) -> list[str]:
    """Return what is wrong: links to what is not there, URLs that are none, and anything loaded from a network."""
    paths = [
        path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts
    ]  # a theme's templates
    pages = {path: Page(path.read_text(encoding="utf8")) for path in paths}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        for target in page.loaded:
            if re.match(r"(https?:)?//", target):
                found.append(f"{name}: loads {target} from a network")
            elif not target.startswith("data:") and not local(site, path, target).is_file():
                found.append(f"{name}: loads {target}, which is not there")
        for target in page.links:
            found += [f"{name}: {problem}" for problem in link_problems(site, path, target, pages)]
    for style in sorted(site.rglob("*.css")):
        for target in re.findall(
            r"(?:@import\s+|url\()\s*[\"']?((?:https?:)?//[^\"')\s]+)", style.read_text("utf8")
        ):
            found.append(f"{style.relative_to(site).as_posix()}: loads {target} from a network")
    return list(dict.fromkeys(found))


def local(site: Path, path: Path, target: str) -> Path:
    """Return the file that a page's link means."""
    place = unquote(urlsplit(target).path)
    joined = site / place.lstrip("/") if place.startswith("/") else path.parent / place
    return Path(os.path.normpath(joined))


def link_problems(site: Path, path: Path, target: str, pages: dict[Path, Page]) -> list[str]:
    """Return what is wrong with one link."""
    if target.startswith("mailto:"):
        return []
    parts = urlsplit(target)
    if parts.scheme in ("http", "https"):
        is_host = re.fullmatch(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*(:\d+)?", parts.netloc)
        return [] if is_host and " " not in target else [f"{target} is no URL"]
    if parts.scheme:
        return [f"{target} has a scheme that no reader follows"]
    file = local(site, path, target) if parts.path else path
    if file not in pages and file.is_dir():
        file = file / "index.html"
    if file not in pages:
        return [] if file.is_file() else [f"{target} is not there"]
    place = unquote(parts.fragment)
    if place and place not in pages[file].places:
        return [f"{target} has no such place"]
    return []
