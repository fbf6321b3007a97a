"""The how-tos as pages."""

import re
from types import SimpleNamespace

from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from ocrrlib.errors import InputError
from pages.figures import CONTENT

PREFIX = "docs-"  # of their file names
ELSEWHERE = {"../figures/leaderboard.md": "leaderboard.html"}
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


class Renderer(IPythonRenderer):
    """As notebooks are shown, with links to pages, and what is printed set apart from what is typed."""

    def __init__(self, names, **settings):
        super().__init__(escape=False, **settings)
        self.names = names

    def block_code(self, code, info=None):
        if info == "text":
            return f'<pre class="output">{self.escape_html(code)}</pre>\n'
        return super().block_code(code, info)

    def link(self, text, url, title=None):
        path, _, anchor = url.partition("#")
        if path.endswith(".md") and path.removesuffix(".md") in self.names:
            url = f"{PREFIX}{path.removesuffix('.md')}.html{'#' + anchor if anchor else ''}"
        elif path in ELSEWHERE:
            url = ELSEWHERE[path]
        elif path and not url.startswith("https://"):
            raise ValueError(f"{url} leads to nothing that the site has")
        return super().link(text, url, title)

    def table(self, text):
        return f'<div class="scroll" role="region" aria-label="Table" tabindex="0"><table>{text}</table></div>\n'


def _html(text, names):
    html = MarkdownWithMath(renderer=Renderer(names)).render(text)
    return html.replace('class="anchor-link"', 'class="anchor-link" aria-label="Link to this section"')


def read(folder):
    """All how-tos of a folder, in the order of their list: names, titles, first paragraphs, and HTML.

    Raises
    ------
    InputError
        If one has no title, or a link that leads nowhere.
    """
    order = CONTENT["docs"]["order"]
    paths = sorted(folder.glob("*.md"), key=lambda p: (order.index(p.stem) if p.stem in order else len(order), p.stem))
    shown, names = [], {path.stem for path in paths}
    for path in paths:
        text = path.read_text(encoding="utf-8")
        try:
            title = re.match(r"# (.+)", text)
            if not title:
                raise ValueError("it does not begin with a title, # ...")
            html = _html(text, names)
        except ValueError as error:
            raise InputError(f"{path} cannot be shown ({error}): correct it there") from error
        prose = [part for part in FENCE.sub("", text).split("\n\n")[1:] if part.strip() and part[0] not in "#|-"]
        lead = _html(prose[0], names) if prose else ""
        shown.append(SimpleNamespace(name=path.stem, page=PREFIX + path.stem, title=title[1], lead=lead, html=html))
    return shown
