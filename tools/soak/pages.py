"""Markup in names and texts: a page shows it as text, runs no script of it, and sends no request."""

from __future__ import annotations

from tests.report.browser import BROWSER, visit
from tests.report.test_report import cube, walks
from tools.reliability import Case, NotRun

from mnemoscope.report import NetworkPage

MARK = "document.documentElement.dataset.evil = 1"
PAYLOADS = (
    f"<script>{MARK}</script>",
    f"</title><script>{MARK}</script>",
    f"</script><script>{MARK}</script>",
    f'"><img src=x onerror="{MARK}">',
    f"'><svg onload='{MARK}'>",
    f'<iframe srcdoc="<script>parent.{MARK}</script>"></iframe>',
    f"javascript:{MARK}",
    f"{{{{ {MARK} }}}}",
    "{% raw %}{{ 7 * 7 }}",
    f"--><script>{MARK}</script><!--",
    f"]]><script>{MARK}</script>",
    f"</style><script>{MARK}</script><style>",
    f"<a href=\"javascript:{MARK}\" autofocus onfocus='{MARK}'>x</a>",
    '<img src="http://127.0.0.1:9/pixel.png">',
    f"\u2028{MARK}//",
    f"<math><mtext></form><form><mglyph><style></math><img src onerror='{MARK}'>",
)
LOOK = """
for (const each of document.querySelectorAll("button, summary, th")) each.click();
answer.evil = document.documentElement.dataset.evil || null;
answer.images = document.querySelectorAll('img[src="x"], img[src^="http"], iframe').length;
"""


def inject_markup(case: Case) -> None:
    """Put markup into every text of a page, open it in a browser, and click on everything."""
    if BROWSER is None:
        raise NotRun("no browser")
    text = PAYLOADS[case.number % len(PAYLOADS)]
    fp = cube(4, 1)
    curve = [{"step": step, "train_loss": 1.0 / (1 + step), text: 0.5} for step in range(5)]
    page = NetworkPage(text, fp, [(text, text)], walks(fp), curve, 0.5, ["elman1990"], f"mnemoscope {text}")
    answer = visit(page, case.folder, LOOK)
    if answer["evil"] is not None or answer["images"] or answer["requests"]:
        raise AssertionError(f"The page executed or loaded something: {answer}")
    if any("securitypolicyviolation" in line for line in answer["wrong"]):
        raise AssertionError(f"The policy of the page stopped something: {answer['wrong']}")
