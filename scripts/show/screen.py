"""What a person sees: the answer's text as it comes, remarks between its lines, colours only at a terminal."""

import sys

DIM, BOLD, GREEN, YELLOW, RED, CYAN = "2", "1", "32", "33", "31", "36"


class Screen:
    """Standard output, with the place of the cursor remembered."""

    def __init__(self) -> None:
        self._colours = sys.stdout.isatty()
        self._at_start = True

    def flow(self, text: str) -> None:
        """Print text where the last one ended."""
        self._write(text)

    def say(self, text: str = "", *codes: str) -> None:
        """Print whole lines, on lines of their own."""
        if not self._at_start:
            self._write("\n")
        if codes and self._colours:
            text = f"\x1b[{';'.join(codes)}m{text}\x1b[0m"
        self._write(text + "\n")
        self._at_start = True

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()
            self._at_start = text.endswith("\n")
