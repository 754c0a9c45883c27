"""A new user on a new machine types what the README says, from the installation to the first search."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents import line, memory
from tests.service.box import HOME, UID, Box, BoxError, boot

pytestmark = [pytest.mark.slow, pytest.mark.root_only, pytest.mark.timeout(900)]

TOP = Path(__file__).parents[2]
README = (TOP / "README.md").read_text(encoding="utf-8")
STORE = f"{HOME}/.claude/agents/memories"
CLONE = f"{HOME}/memoryd"
COPY = "import shutil, sys; shutil.copytree(*sys.argv[1:], ignore=shutil.ignore_patterns('.*', '__pycache__'))"
WORDS = "why is the site slow after a release"


def steps() -> list[str]:
    """The commands of the README in the order in which a new user needs them."""
    blocks = re.findall(r"^## (\w+)\n.*?^```sh\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    lines = {name: [each.partition("#")[0].strip() for each in block.splitlines()] for name, block in blocks}
    pipx, *first_contact, confirm = lines["Install"]
    assert confirm.startswith("memoryd root confirm")  # for a root that was only detected: `init` asks instead
    assert "| `memoryd status` |" in README
    assert f"$ memoryd search {WORDS}\n" in README
    return [pipx, *first_contact, lines["Service"][1], "memoryd status", f"memoryd search {WORDS}"]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the package index would send, because a box has no network."""
    directory = tmp_path_factory.mktemp("wheels")
    directory.chmod(0o755)
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(directory)]
    done = subprocess.run([*words, f"{TOP}[mcp]", "hatchling", "pip", "pipx"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"the package index does not answer: {done.stderr[-300:]}")
    return directory


@pytest.fixture
def box(wheels: Path) -> Iterator[Box]:
    """A user who has a clone, pipx, and a store that agents have made."""
    try:
        with boot(str(wheels)) as box:
            box.user("rm", f"{HOME}/.local/bin/memoryd")
            box.write(f"{HOME}/.config/pip/pip.conf", f"[global]\nno-index = true\nfind-links = {wheels}\n")
            box.user(sys.executable, "-c", COPY, str(TOP), CLONE)
            box.user(sys.executable, "-m", "venv", f"{HOME}/tools")
            box.user(f"{HOME}/tools/bin/pip", "install", "--quiet", "pipx")
            box.user("ln", "-s", f"{HOME}/tools/bin/pipx", f"{HOME}/.local/bin/pipx")
            contents = ("Run the warm-up script after each deploy", "The build image needs uv instead of pip")
            box.write(f"{STORE}/learnings.jsonl", "".join(line(memory(content=each)) for each in contents))
            yield box
    except BoxError as error:
        pytest.skip(f"no systemd box here: {error}")


def test_the_commands_of_the_readme_lead_from_nothing_to_a_found_memory(box: Box) -> None:
    shown = {}
    for step in steps():
        code, screen = box.enter(step, answers="\n\n", directory=CLONE)  # Enter: yes
        assert code == 0, f"{step}\n{screen}"
        shown[step.partition(" ~")[0]] = screen
    assert "nothing was written" in shown["memoryd try"]
    roots = tomllib.loads(box.user("cat", f"{HOME}/.config/memoryd/config.toml").stdout)["root"]
    assert [root["path"] for root in roots] == [STORE]  # and none of the stores in the clone
    assert "answers (pid" in shown["memoryd service install"]
    assert "active (running)" in shown["memoryd service status"]
    assert re.search(r"^  state +ok$\s+^  layout +jsonl-store, maintain", shown["memoryd status"], re.MULTILINE)
    assert "Run the warm-up script" in shown[f"memoryd search {WORDS}"]
    assert box.user("stat", "-c", "%u %a", f"{STORE}/index.json").stdout == f"{UID} 600\n"  # it looks after the store
