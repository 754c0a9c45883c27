"""The texts around the tables of `memoryd help`."""

from __future__ import annotations

from collections.abc import Mapping

from memoryd.cli.help.render import Entry, Section

COMMANDS = """
`memoryd [--config FILE] [--state-dir DIR] [--socket PATH] COMMAND ...`. Every command has --help with an example.
Every command that calls a control method takes --json, which prints the result of the method unchanged.

Shell completion: put `eval "$(memoryd completion bash)"` into ~/.bashrc (`zsh` into ~/.zshrc, after compinit), or run
`memoryd completion fish > ~/.config/fish/completions/memoryd.fish`.
"""

KEYS = """
TOML. A configuration is optional. `memoryd init` writes one with every key, its default and its meaning. Unknown
keys, invalid values and overlapping roots are errors that name the file, the line and the nearest existing key;
memoryd never starts with part of a configuration. A failed `memoryd reload` keeps the running configuration.
"""
KEYS_EXAMPLE = """
[daemon]
log_level = "info"

[defaults]                      # for every root; [[root]] can override it
mode = "maintain"

[defaults.schedule]
archive = "every 6h"            # or "every 30s", "every 1d", cron, "off"

[[root]]
name = "agents"
path = "~/.claude/agents/memories"
layout = "jsonl-store"

[root.limits]                   # "off" lifts a limit
"learnings.jsonl" = { max_bytes = "5MB", max_count = 500, kind = "soft" }

[root.schedule]
archive = "15 3 * * 1-5"        # minute hour day month weekday
"""
ENDPOINT = 'Used with embedder = "endpoint". The text of memories is sent to this server.'
DEFAULTS = "Each of these keys can also be set in a [[root]], for that root only."
SECRETS_KEY = "See `memoryd help secrets`."
SCHEDULE = """
A schedule is "every 30s", "every 10m", "every 6h" or "every 1d", a cron line such as "15 3 * * 1-5" (minute hour day
month weekday; Sunday is 0 or 7; UTC unless `timezone` is set), or "off".
"""
ROOT = "One table for each directory. Roots must not overlap."
LIMITS = """
One line per file: `"learnings.jsonl" = { max_bytes = "5MB", max_count = 500, kind = "soft" }`, or "off". Sizes are
1,024-based.
"""

FINDINGS = """
Bad data is never an error of the program: it is a finding, and the file stays as it is. `memoryd check` reads every
file and exits with 1 if there are errors or warnings; `memoryd check --offline PATH` needs no daemon. `memoryd
repair` fixes what is marked fixable, journalled and undoable.
"""

SOCKET = """
JSON-RPC 2.0, one UTF-8 JSON object per line of at most 1,048,576 bytes, on a Unix stream socket (mode 600 in a
directory of mode 700; other users are refused). Requests on one connection may overlap; replies carry the id. Errors
carry `data.code` and usually `data.hint`. `rpc.discover` returns all of this as an OpenRPC document.

`sync` is a barrier: what was written before the call is indexed on disk when it returns; with `search_only` it can be
found, and the index files follow within a second. In the session below, `>` marks the lines that were typed; long
replies, each one line on the wire, are wrapped and indented here.
"""
SOCKET_EXAMPLE = """
$ nc -U "$XDG_RUNTIME_DIR/memoryd/control.sock"
{"jsonrpc":"2.0","method":"hello","params":{"server":"memoryd",
  "protocol":1,"version":"0.1.0","pid":4711,
  "instance":"f2addd52c45a403fb1e7dd868adc16a2"}}
> {"jsonrpc":"2.0","id":1,"method":"sync","params":{"root":"agents"}}
{"jsonrpc":"2.0","id":1,"result":{"roots":{"agents":{"generation":7,
  "waited_ms":9,"scanned":false,"written":true}}}}
> {"jsonrpc":"2.0","id":2,"method":"undo","params":{"receipt":"x"}}
{"jsonrpc":"2.0","id":2,"error":{"code":-32007,
  "message":"no root has a change x","data":{"code":"not-found",
  "hint":"`memoryd history` lists the receipts"}}}
> {"jsonrpc":"2.0","id":3,"method":"subscribe","params":{"topics":["change"]}}
{"jsonrpc":"2.0","id":3,"result":{"topics":["change"]}}
{"jsonrpc":"2.0","method":"event","params":{"topic":"change",
  "at":"2026-11-22T01:52:53.050Z","root":"agents",
  "paths":["index.json"],"memories":2,"generation":8,"index":true}}
"""
METHODS = "A question mark marks an optional parameter."
EVENTS = "After `subscribe`, the daemon sends notifications `event {topic, at, root?, ...}`."
ERRORS = """
-32700 to -32603 as in JSON-RPC. `data.code` of a disk error is disk-full, read-only or io-error.
"""

LAYOUTS = """
A root is one watched directory with one layout. `layout = "auto"`, the default, recognises the layout by the content
of the files, never by their names alone. Until exactly one layout matches, the root is degraded and nothing is
written. Recognition does not grant write access: memoryd observes the root, `status` says what it recognised, and
commands that write are refused until `memoryd root confirm NAME`, or until the configuration names the layout.

Never searched for a layout: home directories and their parents, ~/.claude, ~/.config, and directories with more
than 20,000 files. A topic store is never recognised in a directory with .git, .obsidian, package.json, mkdocs.yml,
_config.yml or MEMORY.md. Always skipped: .git, .obsidian, .trash, .venv, __pycache__, dist, node_modules, target,
venv and what the key `ignore` names. Stores of other programs (Claude Code, MCP knowledge graph, Anthropic memory
tool, Serena, memory bank, OpenClaw, basic-memory, Codex, nanobot) are recognised and left alone.

An index file is created with the first memory, never in an empty directory. An index that belongs to another program
is never replaced. The first write over an index that memoryd did not write is journalled and can be undone; after
that undo the index is left alone until `memoryd reindex`.
"""
IDS = """
The layout's own id, if it has one. Otherwise `topic/subtopic#YYYY-MM-DD:title` in topic files,
`SESSION_ID#type:title` in sessions and `user/HASH` of the memory's bytes in a user's document; an update that changes
these changes the id. Duplicate ids get a `~` and a hash suffix; the short id works while it is unambiguous.
"""

JOBS_INTRO = """
These jobs run in mode maintain, the default. In mode observe the findings are the same, but nothing is written
unattended.
`memoryd plan` shows, memory by memory, what would happen now and why. Repair, merging duplicates in user documents
and restoring happen on command only.
"""
JOBS: Mapping[str, str] = {
    "index": """
        Writes the index files of the layout where their meaning differs: at once after a single change; in a burst
        0.1 s after the last change, and at most 1 s after the first. Leaves an index alone that a newer program wrote;
        writes at most once a minute while another program keeps reverting it.""",
    "archive": """
        jsonl-store: moves learnings not used for 90 days, tasks completed 30 days ago and lines marked `archived` to
        archive/YEAR/NAME_YEAR_Qn.jsonl by creation date; never core memories. json-files and session-files: nothing,
        unless `archive_flag` or `archive_sessions` is set.""",
    "limits": """
        jsonl-store: archives learnings above 500 or 5 MB and tasks above 200 or 2 MB down to the limit, least used
        and longest completed first; warns about core memories (1,000 or 10 MB).""",
    "prune": """
        markdown-topics: moves the oldest entries of a file with more than 10 entries or 5 KB to
        archive/TOPIC/YEAR.md; at least 5 stay. Never during a git merge or rebase.""",
    "dedupe": """
        session-files: merges duplicates within a session. user-document: reports them only.""",
    "backup": """
        Keeps five versions per file, spread over time, and the one with the most memories; equal versions are
        skipped. Every change of memoryd backs up first. Removes content from the state directory that nothing refers
        to.""",
    "locks": """
        Removes a lock file that is older than 30 s, whose process is dead or whose PID has been reused, and whose
        flock is free; a lock that names no process after 5 minutes without a holder.""",
    "permissions": """
        jsonl-store: files 600, directories 700; never wider than before.""",
    "verify": """
        Reads every file again and compares it with the index; checks backups against their hashes.""",
    "rescan": """
        Catches changes that produced no event: lost events, network file systems. The interval follows the cost of
        the scan.""",
}
RESTRAINT = """
Moving and removing waits for 10 s without a change in the root, 60 s at most. A run that would move more than 20
memories and more than half of a store moves them in batches, oldest first. If the clock jumped by more than an hour,
or is behind what memoryd has recorded, the scheduled archive moves nothing and reports that (refused-by-guard).
Unreadable lines are kept byte for byte, always.
"""

FILES = """
The first place that applies is used. Client commands look in the same places. One daemon per state directory and root;
several daemons can run side by side on different roots.
"""
PLACES = (
    Entry(
        "configuration",
        "--config, $MEMORYD_CONFIG, memoryd/config.toml in the user's configuration directory (~/.config; on "
        "macOS ~/Library/Application Support), /etc/memoryd/config.toml. A file that other users can write, or "
        "that belongs to anyone but you or root, is refused.",
    ),
    Entry(
        "state",
        "--state-dir, $MEMORYD_STATE_DIR, systemd's $STATE_DIRECTORY, memoryd/ in the user's state directory "
        "(~/.local/state; on macOS ~/Library/Application Support). Made private (0700); one of another user is "
        "refused.",
    ),
    Entry(
        "control socket",
        "--socket, $MEMORYD_SOCKET, a socket passed by systemd, $RUNTIME_DIRECTORY/control.sock, "
        "$XDG_RUNTIME_DIR/memoryd/control.sock, else in the state directory. A path too long for a socket is "
        "replaced by a short one, published in instance.json of the state directory.",
    ),
)
STATE = "In roots/NAME-HASH/ of the state directory, for each root:"
STATE_FILES = (
    Entry("catalogue.sqlite", "The search index. It can be deleted at any time and is rebuilt from the files."),
    Entry("journal.sqlite", "What memoryd changed, with receipts for undo; times of jobs; quarantine."),
    Entry("snapshots.sqlite", "Backups of layouts without a backup directory of their own."),
    Entry(
        "NAME.spare",
        "The version of an index file before the current one. The next one is written over it, unless a program has it "
        "open. There is none for a directory on a network file system, or one that NFS exports. Where another server "
        "reads files without keeping them open (NFS-Ganesha), keep the state directory on another file system: each "
        "version is a new file then.",
    ),
    Entry("blobs/", "Content that an undo, a quarantine or a backup refers to, compressed and named by hash."),
)
DERIVED = (
    "They can be rebuilt from the memory files. A new version takes the name of the one before it, which goes and comes"
    " back at once: a program that follows an index file watches its directory."
)
OTHERS = "Where the format has them. The archive of each layout is described in `memoryd help jobs`."

AGENTS = """
`memoryd mcp` serves the memories of a running daemon over the Model Context Protocol, on standard input and output. It
needs the extra `mcp`: `pipx install --force '.[mcp]'`, or `pip install --user '.[mcp]'`. The agent starts it. Without a
running daemon it starts anyway and every call says what to do.

`memoryd setup AGENT` adds it to an agent, with the absolute path of `memoryd`. It edits the file of the agent, comments
and all, without changing any other byte; --dry-run prints the change, --undo removes what it added, as recorded in
setup-AGENT.json of the state directory. Claude Code and Gemini CLI also get a session hook: `memoryd hook
session-start` gives a new session the memories that name its project, and the titles of the newest ones. For other
files, such as those of a project, the entries are shown below.

--root ROOT, repeatable, limits it to these roots; --read-only leaves out the tools that write. Reads by an
agent do not count as uses that keep a memory from the archive; `touch` of update_memory does.
"""
TOOLS = (
    Entry("search_memories", "Finds memories, best first: snippets, or whole memories up to `max_tokens` together."),
    Entry("get_memory, list_memories", "Reads one memory; lists many, page by page."),
    Entry("add_memory", "Stores a memory by the rules of the root's layout; it is on disk when the call returns."),
    Entry("update_memory, forget_memory", "Changes fields or counts a use; archives. Both return a receipt for undo."),
    Entry("memory_status", "The roots, their layouts and states."),
    Entry("memory://root/id", "Each memory as a resource; both parts are percent-encoded."),
    Entry("recall", "A prompt that returns the best memories for a topic."),
)
SECRETS = (
    Section(
        "Secrets",
        """
        What looks like a secret is never repeated: index, search, logs, events, messages and differences show
        `[redacted:PATTERN]` in its place.

        Certain by their own form are the tokens of some eighty vendors, private keys, bearer headers and JSON web
        tokens: `add` and `update` refuse them, and in topic files they are a finding. Likely from their context
        are values such as that of `password=...`, passwords in URLs and commands, and basic authentication: they
        are stored, with a warning. markdown-topics refuses everything on the list of its own format (`secrets =
        "seed"`); --allow-sensitive-words lifts the five general words on it.

        `secrets_second_opinion = true` also scans new memories with betterleaks (the extra `secrets`).
        """,
    ),
)


PROMISES = (
    Entry(
        "Old or new, never between",
        "A new file is written next to its target and synced; the target is compared once more with the version the"
        " change was based on, then replaced by rename. A crash at any moment leaves the old file or the new one.",
    ),
    Entry(
        "Copy before remove",
        "The archive, backup or quarantine copy is on disk and read back before the live file shrinks. A crash in"
        " between leaves a duplicate that the next run removes.",
    ),
    Entry("Untouched means byte-identical", "Only changed lines are rewritten. Unreadable lines stay as they are."),
    Entry(
        "Respects other programs' locks",
        "Writes take the store's .lock with flock and honour one that another live process holds, by flock or by "
        "existence. memoryd never commits inside another program's lock section.",
    ),
    Entry(
        "Late writers lose nothing",
        "A program that opened a file before it was replaced may still append to the old one: memoryd notices and"
        " merges what was written.",
    ),
    Entry(
        "A dead lock does not block; a live one is never broken",
        "Death is proved by PID, by the start time of the process that has the PID now, by the flock and by open "
        "files. What cannot be proved is reported (unprovable-lock); `memoryd lock clear --force PATH` is for an "
        "operator who knows better. A .lock of a live process that does not hold its flock blocks memoryd until "
        "nothing has changed for 10 minutes (held-lock).",
    ),
    Entry("Missing is not empty", "A root that vanishes, is replaced or is suddenly empty is watched and left alone."),
    Entry("Idempotent", "A second run of any job changes no byte and no timestamp. Reading writes nothing."),
    Entry(
        "Undo restores bytes",
        "`memoryd undo RECEIPT` restores byte for byte. Where a file has changed since, the memories themselves "
        "are put back or removed; where one of those has changed, undo refuses.",
    ),
    Entry("One daemon per root", "Ensured by a lock held while the daemon runs. SIGTERM stops it within 5 s."),
    Entry("Private", "Memory contents are never logged. Access is never widened."),
)
DECISIONS = (
    Entry(
        "Files end in a newline",
        "Without it, the next append of an agent joins two memories on one line. `final_newline` changes it; both"
        " forms are read.",
    ),
    Entry(
        "Age of a learning",
        "Counts from its latest timestamp. Agents that only read leave no trace, so memoryd keeps more.",
    ),
    Entry("Quarter of an archive", "From `created_at` in UTC: it never changes, so a late run writes the same file."),
    Entry(
        "An index of a newer version",
        "Is left alone and reported: rebuilding it would undo another program's migration.",
    ),
    Entry("Duplicate ids", "The first memory is used; none is removed unattended."),
    Entry(
        "Removing a directory",
        "While source files are being deleted the index waits until a second has passed without a deletion, ten "
        "at most, so `rm -rf` succeeds.",
    ),
    Entry("A file emptied to zero bytes", "May be an accident or intended: it is reported, not restored."),
    Entry(
        "Hard limits",
        "Cannot be enforced on other programs: each crossing is reported once, with what could be removed.",
    ),
    Entry(
        "A stored memory is on disk",
        "When the reply comes: one sync for an appended line, two for a new file, five for a rewritten one with "
        "its backup. A search sees it at once; the layout's index file follows when the root has settled.",
    ),
    Entry("Users of a user-document", "Are kept separate: with several users, search and list require `--user`."),
    Entry(
        "Built-in word vectors",
        "Word vectors made from MiniLM: 5 MB, nothing downloaded. The table covers English only; a question "
        "without a known word is answered from the text alone. `memoryd sync` waits for new vectors, up to a second.",
    ),
    Entry("No daemonising", "`memoryd run` stays in the foreground; service managers do the rest."),
)
BOUNDS = (
    Entry(
        "macOS",
        "Implemented, but not yet tried on a Mac: FSEvents, F_FULLFSYNC and launchd follow their documentation; only "
        "the form of the launch agent is tested. The Windows locks and access lists mentioned in the formats are not "
        "implemented.",
    ),
    Entry(
        "Writers without locks",
        "Have a window of microseconds against a rename; the checks above narrow it. Locks taken with lockf or "
        "fcntl are invisible to flock on Linux.",
    ),
    Entry(
        "Writers that unlock, then remove .lock",
        "Lose each other's writes: 13 % with two writers, 35 % with four, measured. memoryd adds none and cannot "
        "prevent it. To be safe: take .lock with flock, compare the open lock file with the one at its path "
        "(start again if they differ), write, remove the file, then unlock.",
    ),
    Entry(
        "Network file systems",
        "Changes on other machines produce no events: such roots are scanned on a timer, and their locks are "
        "never cleared. Processes in other containers cannot be proved dead; the flock decides.",
    ),
    Entry(
        "Large files",
        "Files above 64 MB (a user's document: 256 MB, an index file: 1 GB) are not read, and nothing is stored "
        "that would exceed that. Parsing 64 MB takes 350 MB of memory.",
    ),
    Entry("Disks that report false syncs", "If a disk reports a write as synced that is not, nothing above can help."),
)
DECISION_SECTIONS = (
    Section("Promises", entries=PROMISES),
    Section("Decisions", entries=DECISIONS),
    Section("Limits", entries=BOUNDS),
)
