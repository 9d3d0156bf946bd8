"""Links from Markdown to scripts of the galleries, which exist in a checkout: on the site to their pages."""

import os
import re
from pathlib import PurePosixPath

PAGES = {"tutorials/scripts": "tutorials/library", "../examples": "examples"}  # by folder, from docs/


def page_of(script, page):
    """The link from a page to that of a script; both from docs/. None for other files."""
    folder = PAGES.get(str(script.parent))
    if folder is None:
        return None
    return PurePosixPath(os.path.relpath(f"{folder}/{script.stem}.rst", page.parent or ".")).as_posix()


def with_pages(text, page):
    """The text of a page with links to pages in place of scripts."""

    def linked(match):
        script = PurePosixPath(os.path.normpath(page.parent / match[1]))
        return f"]({page_of(script, page) or match[1]})"

    return re.sub(r"\]\(([\w./-]+\.py)\)", linked, text)


def setup(app):
    """As Sphinx calls it."""

    def read(app, name, source):
        source[0] = with_pages(source[0], PurePosixPath(f"{name}.md"))

    app.connect("source-read", read)
    return {"parallel_read_safe": True}
