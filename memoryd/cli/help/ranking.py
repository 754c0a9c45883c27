"""The help on how search ranks memories, and how to read its results."""

from __future__ import annotations

from memoryd.cli.help.render import Entry, Section

RANKING = """
`--mode text` compares words, `semantic` compares meanings by vectors, and `hybrid`, the default, combines both. A
memory that contains the words of the question as a phrase comes first. `why` in the JSON result lists the parts of a
score.
"""
QUESTIONS = (
    Entry(
        "Quotation marks",
        "A question that is wholly in quotation marks ('\"connection reset by peer\"') finds only the memories with "
        "exactly these words, one after another. If there are none, it is searched as any other question.",
    ),
    Entry(
        "Forms of words",
        "A word also finds its other forms, by Snowball stems: in English, and in German, French or Spanish if the "
        "question has function words of that language or none at all. Some forms are missed, such as those that "
        "change the stem (fuhr, fahren). The built-in vectors and MiniLM know English only; in other languages "
        "memories are found by their words.",
    ),
    Entry(
        "--since, --until",
        "Strict: 2026-01-31, a timestamp, an age (30d), or words such as 'last week', 'yesterday', 'in May', '3 days "
        "ago', 'gestern', 'le mois dernier', 'la semana pasada'. --until includes the day that it names. A date in "
        "digits (also 2026/01/31 or 31.01.2026) is a day in UTC, as in JSON results and in the files; words mean days "
        "of the daemon's time zone. The same words inside a question, or 'from May to July', only prefer memories of "
        "that time, or what held then; a question for nothing else ('what happened yesterday?') lists them first. "
        "'current', 'latest', 'now', 'today', 'aktuell', 'actuel' and 'actual' prefer the newest, 'originally' and "
        "'what was ... before' the oldest.",
    ),
    Entry(
        "--min-score X",
        "Leaves out results with a lower score, from 0 to 1. Scores of different modes cannot be compared.",
    ),
    Entry(
        "--rerank minilm",
        "Ranks the best 20 results again with MiniLM (the extra `minilm`), a quarter of a second slower. It is a key "
        'of [search], too, by default `auto`: with `embedder = "minilm"` the built-in vectors rank them again, in '
        "milliseconds and without being asked, unless topic files are searched as well; `off` leaves that out.",
    ),
)
RESULTS = (
    Entry(
        "confidence",
        "How far a result can be trusted: `sure`, `likely` or `weak`. If all are weak, the answer is probably not "
        "there. Nine in ten correct first results are at least `likely`.",
    ),
    Entry(
        "missing_words",
        "The words of the question that no memory has in any form. A question that is only an identifier "
        "finds nothing if no memory has it. A secret is shown as `[redacted:PATTERN]`.",
    ),
    Entry(
        "period",
        "The time that the question names, its bounds in UTC. `empty`: no memory is from then, so all results are from "
        "other times. Results of that time have `why.period`. If the subject of the best result has none from then, "
        "its last one from before has `why.held_in`.",
    ),
    Entry(
        "why.read_as",
        "A word that no memory has is read as one that differs by one letter if it has five or more, or as a compound "
        "or a name written in another way (wifi, wi-fi; maxPoolSize, max_pool_size): this names both.",
    ),
)
SECTIONS = (
    Section("Search", RANKING),
    Section("Questions", entries=QUESTIONS),
    Section("Results", entries=RESULTS),
)
