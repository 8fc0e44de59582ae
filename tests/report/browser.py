"""Open a page in a headless Chromium, run a script in it, and return its answer and every error."""

import json
import re
import shutil
import subprocess
from html import unescape

from mnemoscope.report import render_page

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
    *("--enable-logging=stderr", "--v=0", "--virtual-time-budget=20000", "--window-size=1200,1600"),
]

# Inserted into a copy of the page before anything else runs: records all errors.
WATCH = """<script>
window.wrong = [];
for (const kind of ["error", "unhandledrejection", "securitypolicyviolation"]) {
  addEventListener(kind, (event) => wrong.push(`${kind}: ${event.message || event.reason || event.blockedURI}`), true);
}
for (const kind of ["error", "warn"]) console[kind] = (...words) => wrong.push(`console.${kind}: ${words.join(" ")}`);
</script>"""

# Inserted after everything else: waits for the plots, runs the script, and leaves the answer in the document.
ASK = """<script>(async () => {
  const answer = {};
  const pause = (time) => new Promise((done) => setTimeout(done, time));
  try {
    for (let tries = 0; tries < 100 && document.querySelector(".plot:not([data-drawn])"); tries++) await pause(50);
    await (async (answer) => { %s })(answer);
  } catch (error) { wrong.push(`in the test: ${error.stack}`); }
  await pause(200);
  answer.undrawn = document.querySelectorAll(".plot:not([data-drawn])").length;
  answer.requests = performance.getEntriesByType("resource").map((entry) => entry.name);
  answer.wide = document.documentElement.scrollWidth - innerWidth;
  answer.wrong = wrong;
  if (parent !== window) return parent.postMessage(JSON.stringify(answer), "*");
  const holder = document.createElement("pre");
  holder.id = "answer";
  holder.textContent = JSON.stringify(answer);
  document.body.append(holder);
})();</script>"""

# A window cannot be as narrow as a phone, but a frame can.
AROUND = """<!DOCTYPE html><body><script>addEventListener("message", (event) => {
  const holder = document.createElement("pre");
  holder.id = "answer";
  holder.textContent = event.data;
  document.body.append(holder);
});</script><iframe src="page.html" style="width: WIDTHpx; height: 1500px; border: 0"></iframe>"""


def visit(page, folder, script="", flags=(), width=None):
    """Open a copy of the page, run `script`, which fills in `answer`, and return the answer."""
    html = render_page(page)
    html = html.replace("<head>", "<head>" + WATCH, 1).replace("</body>", ASK.replace("%s", script) + "</body>")
    target, around = folder / "page.html", folder / "around.html"
    target.write_text(html, encoding="utf-8")
    around.write_text(AROUND.replace("WIDTH", str(width)), encoding="utf-8")
    address = (around if width else target).as_uri()
    for attempt in range(2):  # on a busy machine the virtual time may run out before the page is done
        command = [BROWSER, *FLAGS, *flags, f"--user-data-dir={folder / f'profile{attempt}'}", "--dump-dom", address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        found = re.search(r'<pre id="answer">(.*?)</pre>', done.stdout, re.DOTALL)
        if found:
            break
    else:
        raise AssertionError(f"The page did not answer: {done.stderr[-3000:]}")
    answer = json.loads(unescape(found[1]))
    bad = re.compile("Uncaught|Refused|Failed to load|ERR_")
    answer["log"] = [line for line in done.stderr.splitlines() if bad.search(line)]
    return answer
