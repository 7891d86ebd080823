"""The long answers as each chat client shows them: one HTML page an answer, and its picture.

    python -m scripts.contact_sheet --out DIR [--answer lists] [--mode whole] [--no-pictures]

Reads the messages that `tests/golden/project` holds. Pictures are taken by headless Chromium, which needs the fonts of what is written
(Debian: fonts-noto-core, fonts-noto-cjk, fonts-noto-color-emoji). Not a test: what it shows is for eyes.
"""

import argparse
import html
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from scripts.client_views import view

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden" / "project"
CHATS = ("discord", "slack", "telegram", "matrix")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH = 1840
HEIGHT_MAX = 12_000
STYLE = """
* { box-sizing: border-box } body { margin: 0; padding: 16px; background: #888; font: 15px/1.4 "DejaVu Sans", "Noto Sans CJK SC", sans-serif }
h1.page { font-size: 18px; margin: 0 0 12px; color: #fff } .columns { display: flex; gap: 16px; align-items: flex-start }
.column { width: 440px; padding: 12px; border-radius: 6px; overflow-wrap: anywhere }
.column > h2 { font-size: 14px; margin: 0 0 8px; opacity: .7 }
.message { margin: 0 0 12px; padding: 8px 10px; border-radius: 8px; position: relative }
.message > small { display: block; opacity: .55; font-size: 11px }
pre, code { font-family: "DejaVu Sans Mono", "Noto Sans Mono CJK SC", monospace; font-size: 12px } pre { margin: 4px 0; padding: 8px; border-radius: 4px; white-space: pre-wrap }
.quote { border-inline-start: 4px solid #8888; padding-inline-start: 8px } .quote .quote { border: 0 }
.h1 { font-size: 22px; font-weight: 700 } .h2 { font-size: 19px; font-weight: 700 } .h3 { font-size: 16px; font-weight: 700 }
.pre-wrap { white-space: pre-wrap; unicode-bidi: plaintext } .pre-wrap pre { white-space: pre-wrap }
.discord { background: #313338; color: #dbdee1 } .discord pre { background: #2b2d31; border: 1px solid #1e1f22 } .discord code { background: #1e1f22 }
.discord .message { background: #36393f } .discord a { color: #00a8fc; text-decoration: none }
.slack { background: #fff; color: #1d1c1d } .slack pre { background: #f6f6f6; border: 1px solid #ddd } .slack code { color: #e01e5a; background: #f6f6f6; border: 1px solid #ddd }
.slack .message { border: 1px solid #eee } .slack a { color: #1264a3; text-decoration: none }
.telegram { background: #d3e2c5; color: #000 } .telegram .message { background: #fff } .telegram pre { background: #f0f4f8; border-inline-start: 3px solid #3a8ee6 }
.telegram code { color: #3a6d99 } .telegram blockquote { margin: 2px 0; padding: 2px 8px; border-inline-start: 3px solid #3a8ee6; background: #eef5fb; border-radius: 4px }
.matrix { background: #fff; color: #17191c } .matrix .message { background: #f4f6fa } .matrix pre { background: #e9ecf1 } .matrix code { background: #e9ecf1 }
.matrix blockquote { margin: 4px 0; padding: 0 10px; border-inline-start: 3px solid #8d99a5; color: #555 } .matrix p { margin: 0 0 8px }
.matrix h1 { font-size: 21px } .matrix h2 { font-size: 18px } .matrix h3, .matrix h4 { font-size: 15px } .matrix h1, .matrix h2, .matrix h3, .matrix h4 { margin: 8px 0 4px }
.matrix table { border-collapse: collapse; font-size: 13px } .matrix td, .matrix th { border: 1px solid #c1c6cd; padding: 2px 6px } .matrix ul, .matrix ol { margin: 2px 0; padding-inline-start: 22px }
"""


def page(answer: str, mode: str) -> str:
    """Return an answer's messages side by side."""
    columns = []
    for channel in CHATS:
        lines = (GOLDEN / f"{answer}.{channel}.jsonl").read_text(encoding="utf-8").split("\n")
        told = [message for message in (json.loads(line) for line in lines if line) if message["mode"] == mode]
        shown = "".join(_message(channel, message) for message in told)
        columns.append(f'<div class="column {channel}"><h2>{channel}: {len(told)} messages</h2>{shown}</div>')
    title = html.escape(f"{answer}, {mode}")
    return (
        f'<!doctype html><html><head><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style></head>'
        f'<body><h1 class="page">{title}</h1><div class="columns">{"".join(columns)}</div></body></html>'
    )


def _message(channel: str, message: dict[str, str]) -> str:
    shown = view(channel, message["text"])
    shown = re.sub(r"<(div|p|ul|ol|td|th|blockquote|h\d)\b", r'<\1 dir="auto"', shown)
    return f'<div class="message"><small>block {message["block"]} part {message["part"]}</small>{shown}</div>'


def picture(file: Path, browser: str) -> Path:
    """Take a page's picture; its height is asked for first."""
    flags = [
        browser,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        f"--user-data-dir={file.parent}/profile",
    ]
    probe = file.with_suffix(".probe.html")
    script = "<script>document.title = document.documentElement.scrollHeight</script></body>"
    probe.write_text(file.read_text(encoding="utf-8").replace("</body>", script), encoding="utf-8")
    size = f"--window-size={WIDTH},600"
    dumped = subprocess.run(
        [*flags, size, "--dump-dom", probe.as_uri()], capture_output=True, text=True, check=True, timeout=180
    )
    probe.unlink()
    found = re.search(r"<title>(\d+)</title>", dumped.stdout)
    height = min(int(found[1]) if found else 2000, HEIGHT_MAX)
    image = file.with_suffix(".png")
    shot = [*flags, f"--window-size={WIDTH},{height}", f"--screenshot={image}", file.as_uri()]
    subprocess.run(shot, capture_output=True, check=True, timeout=180)
    return image


def main() -> None:
    """Write the pages, and their pictures where there is a browser."""
    parser = argparse.ArgumentParser(description="renders the long answers as chat clients show them")
    parser.add_argument("--out", type=Path, required=True, help="the folder for pages and pictures")
    parser.add_argument("--answer", help="one answer instead of all")
    parser.add_argument("--mode", choices=("whole", "streamed"), default="whole", help="one block, or as it streams")
    parser.add_argument("--no-pictures", action="store_true", help="pages alone")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None and not options.no_pictures:
        sys.exit("contact_sheet: no Chromium is installed; --no-pictures writes the pages alone")
    names = [options.answer] if options.answer else sorted(path.stem for path in GOLDEN.glob("*.md"))
    for name in names:
        file = (options.out / f"{name}.html").resolve()
        file.write_text(page(name, options.mode), encoding="utf-8")
        print(file)
        if browser is not None and not options.no_pictures:
            print(picture(file, browser))


if __name__ == "__main__":
    main()
