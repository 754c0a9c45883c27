"""What every scene has in its hands."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from memoryd.cli.demo.sample import Damage
from memoryd.cli.demo.stage import NotSeenError, Stage
from memoryd.cli.demo.voice import Voice


@dataclass(slots=True)
class Play:
    """`damage` is what the sample was broken with."""

    stage: Stage
    voice: Voice
    damage: tuple[Damage, ...] = field(default=())

    def keep_evidence(self, path: str, name: str) -> str:
        """A copy of a file as it is at this moment; its place relative to the demo's directory."""
        shutil.copyfile(path, self.stage.path("evidence", name))
        return os.path.join("evidence", name)

    def require(self, seen: bool, what: str) -> None:
        """The demo only tells what it saw; what it should have seen and did not ends it."""
        if not seen:
            raise NotSeenError(what)

    def claims(self, *names: str) -> list[dict[str, Any]]:
        return [claim for claim in self.voice.claims if claim["claim"] in names]


@dataclass(frozen=True, slots=True)
class Scene:
    """`play` says what it sees and raises NotSeenError where something does not happen."""

    title: str
    play: Callable[[Play], None]
