"""Everything that is wrong with a configuration, collected: people want one list, not one error a try."""

from __future__ import annotations

from memoryd.config.lines import KeyPath, Lines, dotted
from memoryd.config.schema import COMMAND_LINE
from memoryd.errors import ConfigError


class Problems:
    """Collects `FILE:LINE: KEY: what is wrong; what is allowed`, one line each."""

    def __init__(self, path: str | None, lines: Lines) -> None:
        self.path = path
        self.lines = lines
        self.found: list[tuple[int, str, str]] = []  # line (0 for the command line), key, what is wrong

    def add(self, key: KeyPath, what: str) -> None:
        self.found.append((self.lines.of(key), dotted(key), what))

    def add_argument(self, word: str, what: str) -> None:
        """The same for a word of the command line."""
        self.found.append((0, word, what))

    def raise_if_any(self) -> None:
        if not self.found:
            return
        self.found.sort(key=lambda problem: problem[0])
        texts = [f"{self._place(line)}: {key}: {what}" for line, key, what in self.found]
        problems = [
            {"file": self.path if line else None, "line": line or None, "key": key, "message": what}
            for line, key, what in self.found
        ]
        raise ConfigError(
            "\n".join(texts),
            hint="nothing was started or changed; correct this and try again",
            data={"problems": problems},
        )

    def _place(self, line: int) -> str:
        return f"{self.path}:{line}" if line else COMMAND_LINE
