"""Laying down a store as one finds it, and having memoryd tend it: what the scenes of the four layouts that keep whole
files share."""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Mapping
from functools import partial
from glob import glob
from typing import Any

from memoryd.cli.demo import reading
from memoryd.cli.demo.play import Play

HOUR = 3600


def lay(play: Play, name: str, files: Mapping[str, bytes], *, age_s: float = HOUR) -> str:
    """Write the files of a store, that old, and once more below `found/`, to compare with later; the store's path."""
    at = time.time() - age_s
    for place in (play.stage.path(name), play.stage.path("found", name)):
        for path, content in files.items():
            target = os.path.join(place, path)
            os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
            with open(target, "xb") as file:
                file.write(content)
            os.utime(target, (at, at))
    return play.stage.path(name)


def tend(play: Play, name: str, **settings: Any) -> None:
    """Add the store without naming its layout, and confirm the one that is recognised; every store of the demo has
    the name of the one it is of."""
    stage = play.stage
    assert stage.events is not None
    stage.events.mark()
    stage.configure(name, path=stage.path(name), layout="auto", mode="maintain", **settings)
    stage.call("config.reload")
    stage.until(partial(_recognised, play, name), f"memoryd recognises {name} by its content")
    stage.call("root.confirm", name=name)


def _recognised(play: Play, name: str) -> bool | None:
    (row,) = play.stage.call("status", root=name)["roots"]
    if row["layout"] is None or row["state"] != "ok":
        return None
    play.require(row["layout"] == name, f"memoryd takes the store for {name}, and not for {row['layout']}")
    return True


def change_of(play: Play, name: str, operation: str) -> dict[str, Any]:
    """The event of a change that memoryd made by itself."""
    assert play.stage.events is not None
    what = f"memoryd does a {operation} in {name}"
    return play.stage.event(lambda event: (event.get("root"), event.get("operation")) == (name, operation), what)


def index_of(play: Play, name: str) -> dict[str, Any]:
    """The event of an index written."""
    what = f"memoryd writes the index of {name}"
    return play.stage.event(lambda event: event.get("root") == name and bool(event.get("index")), what)


def keeps(play: Play, name: str, sha: str) -> bool:
    """Whether the bytes of that hash lie in memoryd's state, whole."""
    for path in glob(play.stage.path("state", "roots", f"{name}-*", "blobs", f"{sha}.z")):
        with open(path, "rb") as file:
            return reading.sha_of(zlib.decompress(file.read())) == sha
    return False


def content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def loaded(path: str) -> Any:
    return json.loads(content(path))
