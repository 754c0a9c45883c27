"""Prometheus text from plain numbers."""

from __future__ import annotations

from memoryd.control.metrics import Family, render


def test_families_become_text() -> None:
    text = render(
        [
            Family("memoryd_memories", "Memories held.", (({"root": "a"}, 3), ({"root": 'b"\n'}, 4.5))),
            Family("memoryd_commits", "Commits made.", (({}, 7),), kind="counter"),
        ]
    )
    assert "# TYPE memoryd_memories gauge\n" in text
    assert 'memoryd_memories{root="a"} 3.0\n' in text
    assert 'memoryd_memories{root="b\\"\\n"} 4.5\n' in text
    assert "# TYPE memoryd_commits_total counter\nmemoryd_commits_total 7.0\n" in text


def test_only_the_given_families_are_rendered() -> None:
    """The process and platform metrics of the library are not included."""
    assert render([]) == ""
