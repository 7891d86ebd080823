"""How the clients of chat channels show a message, as HTML: a second reading of what the projectors write, made without them.

Approximations of what the clients do with their own marks, good enough to see with one's own eyes whether a message looks right.
"""

import html
import json
import re
from collections.abc import Callable

_DISCORD = re.compile(
    r"\\(?P<escaped>[!-/:-@\[-`{-~])"
    r"|``(?P<code2>.+?)``(?!`)|`(?P<code>[^`\n]+)`"
    r"|\[(?P<label>(?:\\.|[^\]\\])+)\]\((?P<href>https?://[^\s)]+)\)"
    r"|(?P<url>https?://[^\s<>]+[^\s<>.,;:!?)'\"])"
    r"|\*\*(?P<strong>(?:\\.|(?!\*\*).)+?)\*\*(?!\*)"
    r"|(?<![^\W_])_(?P<em>(?:\\.|[^\\_])+?)_(?![^\W_])|\*(?P<star>(?:\\.|[^\\*\s])(?:\\.|[^\\*])*?)\*"
    r"|~~(?P<strike>.+?)~~",
    re.DOTALL,
)
_SLACK = re.compile(
    r"`(?P<code>[^`\n]+)`"
    r"|<(?P<href>[^|>\s]+)\|(?P<label>[^>]*)>"
    r"|(?P<url>https?://[^\s<>]+[^\s<>.,;:!?)'\"])"
    r"|(?<!\w)\*(?P<strong>[^\s*](?:[^*\n]*[^\s*])?)\*(?!\w)"
    r"|(?<!\w)_(?P<em>[^\s_](?:[^_\n]*[^\s_])?)_(?!\w)"
    r"|(?<!\w)~(?P<strike>[^\s~](?:[^~\n]*[^\s~])?)~(?!\w)"
)
_FENCE = re.compile(r"```(?:(?P<info>[\w+#.-]+)\n)?(?P<code>.*?)\n?```", re.DOTALL)
_ELEMENTS = {"strong": "b", "em": "i", "star": "i", "strike": "s"}


def view(channel: str, body: str) -> str:
    """Return a message as its channel's client shows it."""
    return VIEWS[channel](body)


def _discord(body: str) -> str:
    """Fences first, then lines: quotes, headings, lists; then marks within a line."""
    return _fenced(body, _discord_lines)


def _slack(body: str) -> str:
    return _fenced(body, _slack_lines)


def _fenced(body: str, lines: Callable[[str], str]) -> str:
    """Code blocks as they are, everything between them line by line. A quote's marks are taken off its code."""
    pieces: list[str] = []
    at = 0
    for fence in _FENCE.finditer(body):
        before = body[at : fence.start()].removeprefix("\n" if at else "")
        code = fence["code"]
        quoted = before.rpartition("\n")[2] == "> "
        if quoted:
            before = before[:-2]
            code = code.replace("\n> ", "\n").removesuffix("\n> ").removeprefix("> ")
        pieces.append(lines(before.removesuffix("\n")) if before.strip() else "")
        made = f"<pre>{html.escape(html.unescape(code) if lines is _slack_lines else code)}</pre>"
        pieces.append(f"<blockquote>{made}</blockquote>" if quoted else made)
        at = fence.end()
    rest = body[at:].removeprefix("\n") if at else body
    return "".join([*pieces, lines(rest) if rest.strip() else ""])


def _discord_lines(text: str) -> str:
    made: list[str] = []
    for line in text.split("\n"):
        quote = line.startswith("> ")
        content = line[2:] if quote else line
        heading = re.match(r"(#{1,3}) (.*)", content)
        item = re.match(r"( *)(-|\d+\.) (.*)", content)
        if heading:
            shown = f'<div class="h{len(heading[1])}">{_discord_inline(heading[2])}</div>'
        elif item:
            mark = "•" if item[2] == "-" else item[2]
            depth = len(item[1]) // 2
            shown = f'<div class="item" style="margin-inline-start:{depth * 20}px"><span>{mark}</span> {_discord_inline(item[3])}</div>'
        elif content.startswith("  "):
            shown = f'<div style="margin-inline-start:24px">{_discord_inline(content.strip())}</div>'
        else:
            shown = f"<div>{_discord_inline(content) or '&nbsp;'}</div>"
        made.append(f'<div class="quote">{shown}</div>' if quote else shown)
    return "".join(made)


def _slack_lines(text: str) -> str:
    made: list[str] = []
    for line in text.split("\n"):
        quote = line.startswith(("> ", "&gt; "))
        content = line.partition(" ")[2] if quote else line
        spaces = len(content) - len(content.lstrip(" "))
        shown = f'<div style="padding-inline-start:{spaces * 5}px">{_inline(_SLACK, content, escaped=True) or "&nbsp;"}</div>'
        made.append(f'<div class="quote">{shown}</div>' if quote else shown)
    return "".join(made)


def _discord_inline(text: str) -> str:
    return _inline(_DISCORD, text, escaped=False)


def _inline(marks: re.Pattern[str], text: str, *, escaped: bool) -> str:
    """Marks within a line. `escaped`: the text is escaped for HTML already."""
    pieces: list[str] = []
    at = 0
    quote = (lambda part: part) if escaped else html.escape
    for match in marks.finditer(text):
        pieces.append(quote(text[at : match.start()]))
        at = match.end()
        kind = match.lastgroup or ""
        if kind in {"code", "code2"}:
            pieces.append(f"<code>{quote(match[kind].strip())}</code>")
        elif kind in {"href", "label"}:
            pieces.append(
                f'<a href="{html.escape(match["href"])}">{_inline(marks, match["label"], escaped=escaped)}</a>'
            )
        elif kind == "url":
            pieces.append(f'<a href="{html.escape(match["url"])}">{quote(match["url"])}</a>')
        elif kind == "escaped":
            pieces.append(html.escape(match["escaped"]))
        else:
            element = _ELEMENTS[kind]
            pieces.append(f"<{element}>{_inline(marks, match[kind], escaped=escaped)}</{element}>")
    pieces.append(quote(text[at:]))
    return "".join(pieces)


def _telegram(body: str) -> str:
    """Blocks take the line feed behind them."""
    body = re.sub(r"(</pre>|</blockquote>)\n", r"\1", body)
    return f'<div class="pre-wrap">{body}</div>'


def _matrix(body: str) -> str:
    return str(json.loads(body)["formatted_body"])


VIEWS: dict[str, Callable[[str], str]] = {
    "discord": _discord,
    "slack": _slack,
    "telegram": _telegram,
    "matrix": _matrix,
}
