"""Needles: what is put into one memory and must be found again, with what looks like it put into others."""

from __future__ import annotations

from enum import StrEnum
from random import Random
from typing import NamedTuple

from tests.bench.wording import Wording


class Where(StrEnum):
    BODY = "body"
    TAIL = "tail"  # behind more text than any window would hold
    TITLE = "title"
    TAG = "tag"


class Needle(NamedTuple):
    """`planted` stands in one memory and nowhere else, `query` finds it, `rivals` stand in other memories."""

    kind: str
    query: str
    planted: str
    where: Where = Where.BODY
    rivals: tuple[str, ...] = ()


# What is planted, how it is asked for, what looks like it.
SHAPES: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("version", "pinned to 1.0.21 since then", "1.0.21", ("1.0.2", "1.0.210", "21.0.1", "release 1.0 of 21 parts")),
    ("c++", "the bindings are written in C++ alone", "C++", ("plain C here", "a D# service", "grade C + bonus")),
    ("c#", "the importer is a C# console program", "C#", ("C major", "number #4 of C")),
    ("hyphen", "every draft is labelled ICC-REVIEW first", "ICC-REVIEW", ("the ICC asked", "REVIEW by ICC")),
    ("underscores", "look into pg_stat_zymotic for it", "pg_stat_zymotic", ("pg stat", "stat_pg_zymurgy")),
    ("path", "it is in src/engine/qorvex.py:142 now", "src/engine/qorvex.py:142", ("src/engine/other.py:142",)),
    ("flag", "start it with --no-verify-zx only", "--no-verify-zx", ("no verify at all", "--verify-no")),
    ("constant", "it says ERR_TLS_CERT_4417 and stops", "ERR_TLS_CERT_4417", ("ERR_TLS_CERT_4418", "CERT_ERR_TLS")),
    ("case", "the flag is called QuixoticMode here", "quixoticmode", ("quixotry mode",)),
    ("apostrophe", "O'Zrannigan signs the papers", "O'Zrannigan", ("O Brannigan",)),
    ("hexadecimal", "the magic number is 0xDEADBE7Z", "0xDEADBE7Z", ("0xDEADBEEF",)),
    ("scope", "installed as @zcope/left-padder", "@zcope/left-padder", ("left padder of a scope",)),
    ("generics", "declared as foo::Bazzle<T>() there", "foo::Bazzle<T>()", ("foo::Bar<T>()",)),
    ("percent", "the target is 99.957% of requests", "99.957%", ("99.95%", "99.9% and 57%", "957 requests")),
    ("operators", "the filter reads NEAR AND OR NOT literally", "NEAR AND OR NOT", ("near the office", "or not")),
    ("star", "globs like column:zorbag* are refused", "column:zorbag*", ("column zorb",)),
    ("quotes", 'she calls it "quite zo" in public', '"quite zo"', ("zo quite",)),
    ("unfinished quote", 'an inch is written 27.3" here', '27.3"', ("27.2 inches",)),
    ("brackets", "pattern ^(zq|qz)[0-9]{3}$ is used", "^(zq|qz)[0-9]{3}$", ("a zq alone", "0 to 9")),
    ("japanese", "来週から東京支社の移転計画を進めます。", "移転計画", ("東京の計画です。", "移転の予定です。")),
    ("kana", "カタログのバックアップは毎晩です。", "バックアップ", ("バックエンド", "アップデート")),
    ("chinese", "昨晚数据库连接池耗尽导致停机。", "连接池耗尽", ("连接数据库", "耗尽内存", "池子")),
    ("korean", "데이터베이스 백업정책을 검토함", "백업정책을", ("백업 서버", "정책 회의")),
    ("thai", "การประชุมทีมทุกวันอังคารที่ห้องใหญ่", "วันอังคาร", ("วันพุธ", "อังกฤษ")),
    ("cyrillic", "Встреча на улице Щёлковское шоссе", "щёлковское ШОССЕ", ("шоссе энтузиастов",)),
    ("cyrillic folded", "Отчёт о нагрузке кластера Ёжик", "ежик", ("Ёлка",)),
    ("accents", "Menüpunkt Grünzeugweg ist veraltet", "Grünzeugweg", ("Grünweg", "Zeugweg")),
    ("accents left out", "café Smörgåzbord à la carte", "smorgazbord", ("smorgas bord",)),
    ("polish", "Zdanie próbne: Żółć gęślą jaźń", "żółć GĘŚLĄ jaźń", ("żółw", "gęś")),
    ("greek", "Η λέξη ΑΝΤΙΚΛΕΙΔΙ είναι δοκιμή", "αντικλείδι", ("κλειδί",)),
    ("arabic", "تم تحديث قاعدة البيانات الاحتياطية", "الاحتياطية", ("قاعدة",)),
    ("emoji", "flaky tests are marked 🦔 in the list", "🦔", ("🐿️ marks slow ones", "🦊")),
    ("emoji joined", "the owner of the probe is 👩‍🚀 alone", "👩‍🚀", ("👩‍🔬", "🚗")),
    ("flag emoji", "the office is in 🇵🇹 since May", "🇵🇹", ("🇪🇸", "🇵🇱")),
)
TAG_SHAPES = ("qorvex-zx", "1.0.77", "Zürißee", "移転検索")


def needles(random: Random, each: int) -> list[Needle]:
    """All shapes once, and `each` of every other kind."""
    wording = Wording(random)
    made = [Needle(kind, query, planted, Where.BODY, rivals) for kind, planted, query, rivals in SHAPES]
    made += [Needle("tag shape", tag, tag, Where.TAG) for tag in TAG_SHAPES]
    for _ in range(each):
        made += (
            _phrase(random, wording, Where.BODY),
            _phrase(random, wording, Where.BODY, quoted=True),
            _phrase(random, wording, Where.TAIL),
            _phrase(random, wording, Where.TITLE),
            _rare(wording, Where.BODY),
            _rare(wording, Where.TAIL),
            _rare(wording, Where.TITLE),
            _rare(wording, Where.TAG),
            _with_common(wording),
        )
    return made


def _phrase(random: Random, wording: Wording, where: Where, *, quoted: bool = False) -> Needle:
    """Words that many memories have; only one has them side by side. Others have them in another order, or apart."""
    words = wording.middling(5)
    said = " ".join(words)
    mixed = [" ".join(random.sample(words, len(words))) for _ in range(2)]
    apart = " and then ".join(words)
    rivals = tuple(other for other in (*mixed, apart) if other != said)
    kind = f"phrase in {where}" + (", quoted" if quoted else "")
    return Needle(kind, f'"{said}"' if quoted else said, said, where, rivals)


def _rare(wording: Wording, where: Where) -> Needle:
    word = wording.unusual()
    return Needle(f"rare word in {where}", word, word, where)


def _with_common(wording: Wording) -> Needle:
    """Asked together with words that very many memories have, this one or not."""
    word, others = wording.unusual(), wording.everyday(2)
    return Needle("rare word among common", f"{others[0]} {word} {others[1]}", word, Where.BODY)
