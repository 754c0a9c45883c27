"""Directories that look like memory stores and are none, and real stores of every layout, as files of bytes.

The first are what people and programs really keep: changelogs, journals, vaults, sites, datasets, logs, packages, and
the stores of other programs, whose formats memoryd does not know."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.layouts.json_samples import corpus
from tests.layouts.json_samples import file as memory_file
from tests.layouts.json_samples import name as memory_name
from tests.layouts.samples import learning, lines, memory, task
from tests.layouts.session_samples import memory as session_memory
from tests.layouts.session_samples import path_of, session, text

Files = Mapping[str, bytes]

TOPICS = Path(__file__).parent / "corpora" / "markdown-topics-real" / "memory"


def _json(content: Any) -> bytes:
    return json.dumps(content, indent=1).encode()


def _jsonl(*natives: Any) -> bytes:
    return b"".join(json.dumps(native).encode() + b"\n" for native in natives)


def _dated(count: int, words: str = "- some words\n- more words\n", title: str = "Title") -> bytes:
    days = [f"{2024 - n // 12}-{12 - n % 12:02}-15" for n in range(count)]
    return b"# Heading\n\n" + "".join(f"## {day}: {title} {n}\n\n{words}\n" for n, day in enumerate(days)).encode()


def _note(**front: str) -> bytes:
    head = "".join(f"{key}: {value}\n" for key, value in front.items())
    return f"---\n{head}---\n\nA note with [[link]].\n".encode()


_LABELLED = "**Context:** c\n**Problem:** p\n**Solution:** s\n---\n"
_GIT: Files = {".git/HEAD": b"ref: refs/heads/main\n", ".git/config": b"[core]\n"}
_DAY = "2024-01-02/10-11-12-beach.json"

DOCUMENTS: dict[str, Files] = {
    "repository with a changelog": {**_GIT, "README.md": b"# Read me\n", "docs/changelog.md": _dated(30)},
    "work tree with a changelog": {".git": b"gitdir: /elsewhere\n", "docs/changelog.md": _dated(30)},
    "changelog below": {"docs/changelog.md": _dated(30, title="Release")},
    "keep a changelog": {"CHANGELOG.md": b"# Changelog\n\n## [1.0.0] - 2024-01-01\n### Added\n- x\n"},
    "vault": {".obsidian/app.json": b"{}", "Projects/Alpha.md": _dated(25), "Daily/2024-01-01.md": b"# Day\n"},
    "vault of another program": {
        "logseq/config.edn": b"{}",
        "journals/2024_01_01.md": b"- x\n",
        "pages/a.md": _dated(9),
    },
    "meeting notes": {"team/meetings.md": _dated(40, "**Present:** a, b\n\n**Decided:** c\n")},
    "journal": {"2024/journal.md": _dated(40, "Slept well. **Mood:** fine.\n")},
    "lessons learned": {"project/lessons.md": _dated(12, "What went well, what did not.\n")},
    "incident log": {"ops/incidents.md": _dated(12, "**Impact:** none\n\n**Root cause:** disk\n")},
    "decision records": {"docs/adr/0001-x.md": b"# 1. X\n\nDate: 2024-01-01\n\n## Context\n\n## Decision\n"},
    "questions and answers": {"faq/index.md": b"# FAQ\n", "faq/a.md": b"**Problem:** p\n\n**Solution:** s\n"},
    "book": {"book.toml": b"[book]\n", "src/SUMMARY.md": b"# Summary\n", "src/releases.md": _dated(12)},
    "documentation site": {
        "mkdocs.yml": b"site_name: x\n",
        "index.md": b"# Memory Index\n\n## Topics\n",
        "a/b.md": _dated(9),
    },
    "its docs folder": {"index.md": b"# Welcome\n\nHome page.\n", "about/release-notes.md": _dated(20)},
    "blog": {
        "_config.yml": b"title: x\n",
        "index.md": b"---\nlayout: home\n---\n",
        "_posts/2024-01-01-a.md": _dated(1),
    },
    "static site": {
        "config.toml": b'title = "x"\n',
        "content/posts/a.md": _dated(12),
        "content/_index.md": b"# Home\n",
    },
    "allocator documentation": {
        "index.md": b"# Docs\n\n- [Memory Index](memory-index.md)\n\n## Topics\n",
        "x/a.md": b"# A\n",
    },
    "instructions for agents": {"AGENTS.md": b"# Agents\n", "CLAUDE.md": b"# Notes\n", ".cursor/rules/a.md": _dated(2)},
    "project around a store": {"README.md": b"# Read me\n", "memory/a/b.md": _dated(9, _LABELLED)},
    "folder of projects": {"one/memory/a/b.md": _dated(9, _LABELLED), "two/README.md": b"# Two\n"},
    "fenced examples": {
        "docs/format.md": b"# Format\n\n```\n" + _dated(3, "**Context:** c\n**Problem:** p\n") + b"```\n"
    },
}

DATA: dict[str, Files] = {
    "locales": {"_index.json": _json({"de": "Deutsch", "en": "English"}), "de.json": _json({"hello": "Hallo"})},
    "list of another program": {"_index.json": _json({"version": 2, "items": [{"id": "a", "content": "b"}]})},
    "heap profiles": {"memory_20240101120000.json": _json({"heap": [1, 2]}), "_stats.json": _json({"peak": 9})},
    "screen recordings": {"memory_20240101120000.json": _json({"id": "v1", "content": "a.mp4", "type": "video"})},
    "dataset": {
        "tasks.jsonl": _jsonl(*({"task_id": f"X/{n}", "prompt": "def f():"} for n in range(30))),
        "index.json": _json({"splits": {"test": 30}}),
    },
    "web folder": {"tasks.jsonl": _jsonl({"title": "a"}), "index.json": _json([{"title": "a"}]), "index.html": b"<p>"},
    "training log": {"learnings.jsonl": _jsonl(*({"epoch": n, "loss": 1 / (n + 1)} for n in range(30)))},
    "task list": {
        "tasks.jsonl": _jsonl({"id": 1, "content": "milk", "type": "task"}),
        "index.json": _json({"next_id": 41}),
    },
    "chat log": {
        "learnings.jsonl": _jsonl({"id": "1", "content": "hi", "type": "message"}),
        "index.json": _json({"v": 1}),
    },
    "evaluation": {"core_memories.jsonl": _jsonl({"id": "1", "content": "x", "type": "core"}, *([{"score": 1}] * 5))},
    "empty logs": {"learnings.jsonl": b"", "tasks.jsonl": b"", "index.json": _json({"statistics": [1, 2]})},
    "photo journal": {_DAY: _json({"title": "beach", "memories": ["sun", "sea"]})},
    "photo albums": {_DAY: _json({"session_id": "s", "memories": [{"file": "a.jpg"}, {"file": "b.jpg"}]})},
    "sessions of another program": {
        "2024-01-02/10-11-12-x.json": _json({"session_id": "x", "messages": [{"type": "a"}]})
    },
    "buckets": {"alice/__long-memories/data.json": _json([{"content": "x"}]), "bob/data.json": _json({"memories": []})},
    "model cache": {"models--x/refs/main": b"abc", "models--x/snapshots/abc/config.json": _json({"type": "bert"})},
    "mail": {"cur/1.a:2,S": b"From: a\n\nx\n", "new/2.b": b"From: b\n\ny\n"},
    "notebooks": {"a.ipynb": _json({"cells": [], "metadata": {}}), "memory.json": _json({"memories": []})},
    "python package": {"pyproject.toml": b"[project]\n", "x/__init__.py": b"", "docs/history.md": _dated(12)},
    "npm package": {"package.json": b"{}", "node_modules/p/docs/a.md": _dated(9), "docs/index.md": _dated(9)},
    "packages alone": {"node_modules/p/package.json": b"{}", "node_modules/p/docs/changes.md": _dated(9)},
    "virtual environment": {"venv/lib/p/NEWS.md": _dated(9), "venv/pyvenv.cfg": b"home = /usr\n"},
    "build output": {"target/doc/a.md": _dated(9), "Cargo.toml": b"[package]\n"},
    "plain files": {"notes.txt": b"x", "todo.md": b"- [ ] x\n", "a/b.bin": bytes(range(256))},
    "nothing": {},
}

PROGRAMS: dict[str, Files] = {
    "Claude Code": {
        "MEMORY.md": b"- [A](a.md) - hook\n",
        "a.md": _note(name="a", description="b", type="user"),
        "more/decisions.md": _dated(3, "**Context:** c\n\n**Problem:** p\n"),
    },
    "Claude Code's directory": {
        "settings.json": b"{}",
        "projects/-x/memory/MEMORY.md": b"- [A](a.md)\n",
        "projects/-x/1.jsonl": _jsonl({"type": "user", "message": {"content": "x"}}),
    },
    "OpenClaw": {"SOUL.md": b"# Soul\n", "USER.md": b"# User\n", "memory/2026-01-02.md": b"## 2026-01-02: decided x\n"},
    "OpenClaw's notes": {"2026-01-02.md": b"# Day\n", "important/x.md": b"## 2026-01-02: decided x\n\nbecause\n"},
    "index of generated notes": {
        "index.md": b"# Memory Index\n\n*Auto-generated by memory_index.py*\n\n- [d] x -> a/b.json\n",
        "decisions/x.json": _json({"id": "x", "content": {"status": "accepted"}}),
    },
    "hand-kept index": {
        "index.md": b"# Memory\n\n| when | read |\n|---|---|\n| start | core.md |\n",
        "core.md": b"# Core\n",
    },
    "knowledge graph": {
        "memory.jsonl": _jsonl(
            {"type": "entity", "name": "a", "entityType": "b", "observations": ["c"]},
            {"type": "relation", "from": "a", "to": "b", "relationType": "r"},
        )
    },
    "Serena": {
        "project.yml": b"name: x\n",
        "memories/project_overview.md": b"# Overview\n",
        "memories/a/b.md": _dated(2),
    },
    "memory bank": {
        "projectbrief.md": b"# Brief\n",
        "activeContext.md": _dated(3),
        "progress.md": b"# Progress\n",
        "sub/decisionLog.md": _dated(3, "**Decision:** x\n\n**Context:** y\n"),
    },
    "basic-memory": {"specs/a.md": _note(title="A", type="note", permalink="specs/a"), "b.md": _note(permalink="b")},
    "nanobot": {
        "SOUL.md": b"# Soul\n",
        "memory/MEMORY.md": b"# M\n",
        "memory/history.jsonl": _jsonl({"cursor": 1, "content": "x"}),
    },
    "Goose": {"development.txt": b"# a b\nUse tabs.\n\n# c\nUse spaces.\n"},
    "Codex": {"memory_summary.md": b"# Summary\n", "raw_memories.md": _dated(4), "rollout_summaries/a.md": _dated(2)},
    "memory tool": {".anthropic-memory-store": b"version 1\n", "notes/a.md": b"# A\n", "b.txt": b"x\n"},
}

LOOKALIKES: dict[str, Files] = {**DOCUMENTS, **DATA, **PROGRAMS}

STORES: dict[str, tuple[str, Files]] = {
    "json-files, real": ("json-files", corpus()),
    "json-files, no index": ("json-files", {memory_name(n): memory_file(n) for n in range(3)}),
    "json-files, only an index": ("json-files", {"_index.json": _json({"fileIndex": {}, "temporalIndex": []})}),
    "markdown-topics, real": (
        "markdown-topics",
        {str(path.relative_to(TOPICS)): path.read_bytes() for path in sorted(TOPICS.rglob("*.md"))},
    ),
    "markdown-topics, no index": (
        "markdown-topics",
        {"auth/oauth.md": _dated(14, "**Context:** c\n**Problem:** p\n**Solution:** s\n---\n")},
    ),
    "markdown-topics, only an index": ("markdown-topics", {"index.md": b"# Memory Index\n\n## Topics\n"}),
    "user-document": (
        "user-document",
        {
            f"files/{user}/__long-memories/data.json": _json(
                {"memories": [{"data": {"content": "x"}, "embedding": [0.5]}]}
            )
            for user in ("alice", "bob")
        },
    ),
    "session-files": (
        "session-files",
        {
            path_of(f"2026-01-{day}-14-30-00-fix"): text(session(session_memory(), name=f"2026-01-{day}-14-30-00-fix"))
            for day in (29, 30)
        },
    ),
    "jsonl-store": (
        "jsonl-store",
        {"core_memories.jsonl": lines(memory(1)), "learnings.jsonl": lines(learning(2)), "tasks.jsonl": lines(task(3))},
    ),
    "jsonl-store, one file": ("jsonl-store", {"learnings.jsonl": lines(learning(1), learning(2))}),
    "jsonl-store, empty": (
        "jsonl-store",
        {
            "core_memories.jsonl": b"",
            "index.json": _json({"version": "1.0.0", "statistics": {"by_type": {"core": 0}}}),
        },
    ),
    "jsonl-store, shipped form": (
        "jsonl-store",
        {
            "default.json": _json({"core_memories": [{"content": "a"}], "learnings": [], "tasks": [], "metadata": {}}),
            "default.json.backup": b"{}",
        },
    ),
}
