#!/usr/bin/env python3
"""Opens the site in headless Chromium: check_browser.py FOLDER

Searching for `vmap` finds the function and its page; at the width of a phone, 400 pixels, no text is wider than the page.
Exit status 77: there is no Chromium, or the site was built without doxygen-awesome-css.
"""

import functools
import http.server
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

PAGES = [
    "index.html",
    "docs_guides_README.html",
    "operations_of_stave.html",
    "op_conv.html",
    "op_softmax.html",
    "ops_elementwise.html",
    "docs_operations.html",
    "docs_guides_porting_from_jax.html",
    "group__api__core__ops__elementwise.html",
    "group__api__handlers__vmap.html",
    "annotated.html",
]

CHECK = """<!DOCTYPE html><html><body><pre id="seen"></pre><script>
const pages = PAGES, seen = {};
const frame = (page, width) => new Promise(done => {
  const frame = document.createElement("iframe");
  frame.width = width; frame.height = 800; frame.src = page;
  frame.onload = () => setTimeout(() => done(frame), 300);
  document.body.appendChild(frame);
});
const wait = milliseconds => new Promise(done => setTimeout(done, milliseconds));
(async () => {
  for (const page of pages) {
    const phone = await frame(page, 400), root = phone.contentDocument.documentElement;
    const wide = [...phone.contentDocument.querySelectorAll("p, li, h1, h2, h3, dt, dd")].filter(
      e => e.getBoundingClientRect().right > 401 && !e.closest("table, pre, .fragment, #side-nav, #main-menu, #MSearchResultsWindow"));
    seen[page] = [root.scrollWidth, wide.length ? wide[0].textContent.slice(0, 60) : ""];
    phone.remove();
  }
  const home = await frame("index.html", 1200), inside = home.contentWindow;
  const field = inside.document.getElementById("MSearchField");
  field.value = "vmap";
  inside.searchBox.OnSearchFieldFocus(true);
  inside.searchBox.Search();
  await wait(2000);
  const results = inside.document.getElementById("MSearchResults");
  const list = results.contentDocument || inside.document;
  seen.search = [...list.querySelectorAll(".SRResult, .SRSymbol")].filter(e => e.offsetParent).map(e => e.textContent);
  seen.title = inside.document.title;
  document.getElementById("seen").textContent = JSON.stringify(seen);
})();
</script></body></html>
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.path != "/check":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(CHECK.replace("PAGES", json.dumps(self.server.pages)).encode())

    def log_message(self, *arguments):
        pass


def main():
    site = pathlib.Path(sys.argv[1])
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        print("skipped: there is no Chromium")
        sys.exit(77)
    if not (site / "doxygen-awesome.css").exists():
        print("skipped: the site has doxygen's own looks, which are not for phones")
        sys.exit(77)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    server.pages = [page for page in PAGES if (site / page).exists()]
    assert len(server.pages) > len(PAGES) // 2, server.pages
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [
                chromium,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                f"--user-data-dir={profile}",
                "--virtual-time-budget=60000",
                "--window-size=1400,1000",
                "--dump-dom",
                f"http://127.0.0.1:{server.server_port}/check",
            ],
            capture_output=True,
            text=True,
            timeout=300,
        )
    found = re.search(r'<pre id="seen">(\{.*?\})</pre>', done.stdout, re.S)
    assert found, f"the page of the check wrote nothing\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    seen = json.loads(re.sub(r"&(amp|lt|gt);", lambda m: {"amp": "&", "lt": "<", "gt": ">"}[m[1]], found[1]))
    print(json.dumps(seen, indent=1))
    assert any(re.match(r"\s*vmap\b", text) for text in seen["search"]), f"the search for vmap shows {seen['search']}"
    for page in server.pages:
        width, text = seen[page]
        assert width <= 400 and not text, f"{page} is {width} pixels wide on a phone of 400; {text!r} does not fit"


main()
