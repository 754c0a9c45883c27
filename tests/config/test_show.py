"""The effect of a reload, and the origin of each value."""

from __future__ import annotations

import json
from typing import Any

from memoryd.config.load import parse
from memoryd.config.settings import Config
from memoryd.config.show import diff, effective

BASE = "[[root]]\nname='a'\npath='/n/a'\n[[root]]\nname='b'\npath='/n/b'\n"


def _parse(text: str, *extra: str) -> Config:
    return parse(text, "c.toml", "/nowhere/state", [(path, None) for path in extra])


def test_diff() -> None:
    old = _parse(BASE)
    assert diff(old, _parse("# moved down\n\n[daemon]\nsettle_ms=5\n" + BASE)) == ((), ("a", "b"), ())
    assert diff(old, _parse("# moved down\n" + BASE)) == ((), (), ())
    assert diff(old, _parse(BASE + "mode='observe'\n")) == ((), ("b",), ())
    assert diff(old, _parse("[defaults]\nbackups=2\n" + BASE)) == ((), ("a", "b"), ())
    assert diff(old, _parse(BASE.replace("'b'", "'c'"))) == (("c",), (), ("b",))
    assert diff(old, _parse(BASE.replace("/n/b", "/n/c"))) == ((), ("b",), ())
    assert diff(old, _parse("")) == ((), (), ("a", "b"))


def test_effective_values_and_their_origins() -> None:
    text = """\
[daemon]
settle_ms = 5
[defaults]
backups = 2
schedule.locks = 'off'
keep_importance = ['high']
[[root]]
path = '/n/a'
mode = 'observe'
limits = { 'a.jsonl' = 'off', 'b.jsonl' = { max_bytes = '1KB' } }
"""
    shown: Any = effective(_parse(text, "/n/extra"))
    assert json.loads(json.dumps(shown)) == shown
    assert shown["path"] == "c.toml"
    assert shown["daemon"]["settle_ms"] == {"value": 5, "origin": "daemon:2"}
    assert shown["daemon"]["settle_cap_ms"] == {"value": 1000, "origin": "default"}
    root = shown["roots"]["a"]
    assert root["backups"] == {"value": 2, "origin": "defaults:4"}
    assert root["mode"] == {"value": "observe", "origin": "root:9"}
    assert root["keep_importance"] == {"value": ["high"], "origin": "defaults:6"}
    assert root["path"] == {"value": "/n/a", "origin": "root:8"}
    assert root["name"] == {"value": "a", "origin": "default"}
    assert root["layout"] == {"value": "auto", "origin": "default"}
    assert root["schedule"]["locks"] == {"value": "off", "origin": "defaults:5"}
    assert root["schedule"]["archive"] == {"value": "every 6h", "origin": "default"}
    assert root["limits"]["a.jsonl"] == {"value": "off", "origin": "root:10"}
    assert root["limits"]["b.jsonl"] == {
        "value": {"kind": "soft", "max_bytes": 1024, "max_count": None},
        "origin": "root:10",
    }
    assert shown["roots"]["extra"]["path"]["origin"] == "command line"
