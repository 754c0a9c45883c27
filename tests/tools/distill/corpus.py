"""Text to learn from: what Debian 12 ships under free licences. Only vectors are fitted to it, none of it is kept.

apt-get install wordnet-base postgresql-doc-15 python3.11-doc python-django-doc nodejs-doc rust-doc sqlite3-doc \
    apache2-doc python-celery-doc docker-doc python-sqlalchemy-doc python-sklearn-doc python-flask-doc python-pandas-doc
apt-get -o Acquire::Languages=en update       # the descriptions of all packages
"""

from __future__ import annotations

import glob
import gzip
import html
import random
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

WORDNET = "/usr/share/wordnet"
DOCS = "/usr/share/doc"
DESCRIPTIONS = "/var/lib/apt/lists/*debian_dists_bookworm_main_i18n_Translation-en*"
MANUALS: tuple[tuple[tuple[str, ...], str], ...] = (  # patterns of files, and which of them say nothing
    (("postgresql-doc-15/html/**/*.html",), "release-"),
    (("python3.11/html/**/*.html",), "genindex|whatsnew/changelog"),
    (("python-django-doc/html/**/*.html",), "genindex"),
    (("nodejs/api/*.html",), "all.html"),
    (tuple(f"rust-doc/html/{part}/**/*.html" for part in
           ("book", "std", "cargo", "rustc", "reference", "rust-by-example")), "print.html"),
    (("sqlite3/**/*.html",), "^$"),
    (("apache2-doc/manual/en/**/*.html",), "^$"),
    (("python-celery-doc/html/**/*.html",), "genindex"),
    (("docker-doc/**/*.md*", "docker-doc/**/*.html*"), "^$"),
    (("python-sqlalchemy-doc/html/**/*.html",), "genindex"),
    (("python-sklearn-doc/html/**/*.html",), "genindex"),
    (("python-flask-doc/html/**/*.html",), "genindex"),
    (("python-pandas-doc/html/**/*.html",), "genindex|generated"),
)  # fmt: skip
CHANGES = (("postgresql-doc-15/html/release-*.html", 20_000), ("python3.11/html/whatsnew/changelog.html.gz", 25_000))
SENTENCES = 147_456  # of the general text; the teacher needs an hour for them
SHORT = 200  # characters

_TAG = re.compile(r"<[^>]+>")
_SILENT = re.compile(r"(?s)<(script|style|pre|head|nav).*?</\1>")
_PARAGRAPH = re.compile(r"(?s)<(?:p|li|dd|h[1-4])\b[^>]*>(.*?)</(?:p|li|dd|h[1-4])>")
_SENTENCE = re.compile(r"(?<=[.!?:])\s+(?=[A-Z])")
_BOILERPLATE = re.compile(
    r"^(This package|This is|It) (contains|provides|is|installs|includes).{0,60}"
    r"(develop|debug|documentation|dummy|transitional|metapackage|shared librar|static librar|header)",
    re.IGNORECASE,
)


def general() -> list[str]:
    """Definitions, manuals and descriptions, shuffled; the first SENTENCES of them are for the teacher."""
    source = random.Random(5)
    words, packages, manuals = wordnet(), descriptions(), documentation()
    for each in (words, packages, manuals):
        source.shuffle(each)
    sentences = words + [text for text in packages if len(text) < SHORT][:90_000]
    sentences += [text for text in manuals if len(text) < SHORT][:120_000]
    source.shuffle(sentences)
    return sentences


def wordnet() -> list[str]:
    found: dict[str, None] = {}
    for part in ("noun", "verb", "adj", "adv"):
        with open(f"{WORDNET}/data.{part}", encoding="latin-1") as lines:
            for line in lines:
                if not line.startswith("  "):
                    found.update(dict.fromkeys(_meanings(line)))
    return _shuffled(list(found), 1)


def lemmas() -> set[str]:
    """Return the single words that WordNet defines."""
    found: set[str] = set()
    for part in ("noun", "verb", "adj", "adv"):
        with open(f"{WORDNET}/index.{part}", encoding="latin-1") as lines:
            found.update(line.split()[0] for line in lines if not line.startswith("  "))
    return {word for word in found if word.isalpha()}


def _meanings(line: str) -> Iterator[str]:
    head, _, gloss = line.partition("|")
    fields = head.split()
    names = [fields[4 + 2 * at].replace("_", " ").split("(")[0] for at in range(int(fields[3], 16))]
    yield ", ".join(names[:4]) + ": " + re.sub(r'"[^"]*"', "", gloss).strip(" ;\n")
    yield from re.findall(r'"([^"]+)"', gloss)


def documentation() -> list[str]:
    found: dict[str, None] = {}
    for patterns, silent in MANUALS:
        found.update(dict.fromkeys(filter(_is_prose, _sentences(patterns, silent))))
    return _shuffled(list(found), 2)


def descriptions() -> list[str]:
    """What packages are for: the short line, and sentences that few others have."""
    [path] = glob.glob(DESCRIPTIONS)
    text = subprocess.run(["/usr/lib/apt/apt-helper", "cat-file", path], check=True, capture_output=True).stdout
    short: dict[str, None] = {}
    told: list[str] = []
    for block in text.decode("utf-8").split("\n\n"):
        match = re.search(r"^Description-en: (.*(?:\n .*)*)", block, re.MULTILINE)
        if match is None:
            continue
        first, *rest = match[1].split("\n")
        short[first] = None
        body = "\n".join("" if line == " ." else line[1:] for line in rest)
        for paragraph in body.split("\n\n"):
            sentences = _SENTENCE.split(" ".join(paragraph.split()))
            told += [each for each in sentences if 30 <= len(each) <= 300 and not _BOILERPLATE.match(each)]
    often = Counter(told)
    lines = [line for line in short if len(line) > 12] + [each for each in often if often[each] <= 3]
    return _shuffled([line for line in dict.fromkeys(lines) if _is_prose(line)], 3)


def changes(known: Iterable[str]) -> list[str]:
    """What was wrong and how it was mended, from change logs."""
    seen = set(known)
    found: list[str] = []
    for pattern, most in CHANGES:
        some: dict[str, None] = {}
        for sentence in _sentences((pattern,), "^$"):
            bare = re.sub(r"^(gh-\d+|bpo-\d+|Issue #\d+)[:,]?\s*", "", sentence)
            bare = re.sub(r"\s*\([A-Z][^()]{3,60}\)\s*§?$", "", bare)
            bare = re.sub(r"\s*(Patch|Contributed|Initial patch) by.*$", "", bare)
            if 30 <= len(bare) <= 220 and bare not in seen and _is_prose(bare):
                some[bare] = None
        found += _shuffled(list(some), 1)[:most]
    return _shuffled(found, 2)


def _sentences(patterns: Iterable[str], silent: str) -> Iterator[str]:
    for pattern in patterns:
        for path in sorted(glob.glob(f"{DOCS}/{pattern}", recursive=True)):
            if not re.search(silent, path):
                yield from _sentences_of(path)


def _sentences_of(path: str) -> Iterator[str]:
    content = Path(path).read_bytes()
    text = (gzip.decompress(content) if path.endswith(".gz") else content).decode("utf-8", "replace")
    if path.endswith((".md", ".md.gz")):
        paragraphs = re.split(r"\n\s*\n", re.sub(r"(?s)```.*?```", "", text))
    else:
        paragraphs = _PARAGRAPH.findall(_SILENT.sub(" ", text))
    for paragraph in paragraphs:
        plain = " ".join(html.unescape(_TAG.sub("", paragraph)).split()).replace("¶", "")
        yield from (each for each in _SENTENCE.split(plain) if 25 <= len(each) <= 300)


def _is_prose(text: str) -> bool:
    return sum(sign.isalpha() or sign == " " for sign in text) > 0.8 * len(text)


def _shuffled(texts: list[str], seed: int) -> list[str]:
    random.Random(seed).shuffle(texts)
    return texts
