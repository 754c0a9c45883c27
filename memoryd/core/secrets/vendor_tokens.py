"""Secrets recognised by their own form: tokens of vendors, bearer headers, private keys.

The forms are a table of pattern names and regular expressions.

An expression is tried at the start of a word and must not be followed by a letter or digit; a token contains no white
space. Names that differ only in a final number are forms of one vendor. The table lists secrets only, not public
material (publishable keys, account and client ids).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from memoryd.core.secrets.secret import BLOCK, WARN, Secret
from memoryd.core.secrets.value_rules import looks_random

A = "[A-Za-z0-9]"
W = "[A-Za-z0-9_-]"
H = "[0-9a-f]"
B = "[A-Za-z0-9+/=]"
UUID = f"{H}{{8}}(?:-{H}{{4}}){{3}}-{H}{{12}}"

VENDOR_TOKENS: tuple[tuple[str, str], ...] = (
    # code hosting
    ("github-token", rf"gh[pousr]_{A}{{16,}}+|github_pat_[A-Za-z0-9_]{{16,}}+"),
    ("gitlab-token", rf"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|soat|imt|agent|oas|ffct)-{W}{{20,}}+(?:\.[a-z0-9]{{2,}}+)*+"),
    ("gitlab-token-2", rf"GR1348941{W}{{20,}}+"),
    ("atlassian-token", rf"AT(?:ATT|CTT)3xFf{W}{{50,}}+(?:={A}{{8}})?|ATBB{A}{{28,}}+"),
    ("sourcegraph-token", rf"sgp_(?:{A}{{16}}_)?{H}{{40}}"),
    # AI models
    ("sk-token", rf"sk-(?:proj|svcacct|admin|ant|or|lf|helicone|litellm)-{W}{{16,}}+"),
    ("sk-token-2", r"sk-(?:[a-z0-9]{1,12}-){1,3}[A-Za-z0-9_]{20,}+"),
    ("sk-token-3", rf"sk-(?=[A-Za-z]{{0,40}}\d){A}{{16,}}+|sk-{A}{{20,}}+"),
    ("huggingface-token", rf"(?:hf|api_org)_{A}{{30,}}+"),
    ("langsmith-key", rf"(?:lsv2_(?:pt|sk)|ls)__?{H}{{32}}(?:_{H}{{10}})?"),
    ("model-key", rf"(?:gsk_|xai-|pplx-|jina_){A}{{40,}}+|r8_{A}{{37}}|csk-{A}{{40,}}+|tgp_v1_{W}{{40,}}+"),
    (
        "model-key-2",
        rf"pcsk_{A}{{4,8}}_{A}{{40,}}+|nvapi-{W}{{50,}}+|(?<![]_-])fc-{H}{{32}}|e2b_{H}{{40}}|sk_{H}{{48}}",
    ),
    ("tavily-key", rf"tvly-(?:[a-z]{{3,5}}-)?{A}{{20,}}+"),
    # clouds
    ("aws-access-key", rf"A(?:KIA|SIA|BIA|CCA)[0-9A-Z]{{16}}|ABSK{B}{{100,}}+"),
    ("google-key", rf"AIza{W}{{35,}}+|GOCSPX-{W}{{20,}}+|ya29\.{W}{{20,}}+|1//0{W}{{20,}}+"),
    ("azure-secret", rf"{A}{{3}}[78]Q~[A-Za-z0-9._~-]{{31,}}+|{A}{{76}}AZDO{A}{{4}}|AccountKey={B}{{80,}}+"),
    ("digitalocean-token", rf"do[opr]_v1_{H}{{64}}"),
    ("heroku-key", rf"HRKU-{W}{{30,}}+"),
    ("alibaba-key", rf"LTAI{A}{{16,}}+"),
    ("fly-token", r"fm[12]_[A-Za-z0-9+/=_]{60,}+"),
    ("cloudflare-key", rf"v1\.0-{H}{{24}}-{H}{{140,}}+|cf(?:ut|at|k)_{A}{{40,}}+"),
    ("netlify-token", rf"nfp_{A}{{36,}}+"),
    ("vercel-token", rf"vc[piark]_{A}{{24,}}+|vercel_blob_rw_{A}{{12,}}+_{A}{{20,}}+"),
    ("supabase-key", rf"sbp_{H}{{40}}|sb_secret_{W}{{20,}}+"),
    ("planetscale-token", r"pscale_(?:pw|tkn|oauth)_[A-Za-z0-9_.=-]{32,}+"),
    ("databricks-token", rf"dapi{H}{{32}}(?:-\d)?"),
    ("scalingo-token", rf"tk-us-{W}{{40,}}+"),
    ("tailscale-key", rf"tskey-[a-z]{{2,12}}-{A}{{6,}}+-{A}{{20,}}+"),
    ("yandex-key", rf"AQVN{W}{{35,}}+|y0_{W}{{50,}}+"),
    # chat
    ("slack-token", rf"xox[abceprs]-(?=[A-Za-z-]{{0,100}}\d)[A-Za-z0-9-]{{10,}}+|xoxe\.xox[bp]-\d-{A}{{20,}}+"),
    ("slack-token-2", rf"xoxd-[A-Za-z0-9%/+=-]{{40,}}+|xapp-\d-{A}{{6,}}+-\d+-{A}{{32,}}+"),
    ("slack-webhook", r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9_/]{20,}+"),
    ("discord-webhook", rf"https://(?:ptb\.|canary\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d+/{W}{{40,}}+"),
    ("discord-token", rf"[MNO]{W}{{23,27}}\.{W}{{6}}\.{W}{{27,}}+"),
    ("teams-webhook", r"https://[a-z0-9-]{1,60}\.webhook\.office\.com/webhookb2/[A-Za-z0-9@/-]{40,}+"),
    ("telegram-token", rf"(?:bot)?[0-9]{{8,10}}:AA{W}{{33}}"),
    # payments and shipping
    ("stripe-key", rf"[sr]k_(?:live|test)_{A}{{16,}}+|whsec_{B}{{24,}}+"),
    ("square-token", rf"sq0[a-z]{{3}}-{W}{{22,}}+|EAA{W}{{60,}}+"),  # tokens of Facebook start like the latter
    ("braintree-token", rf"access_token\$(?:production|sandbox)\$[0-9a-z]{{16}}\${H}{{32}}"),
    ("plaid-token", rf"access-(?:production|development|sandbox)-{UUID}"),
    ("flutterwave-key", r"FLWSECK(?:_TEST)?-[0-9A-Za-z]{12,}+(?:-X)?"),
    ("shippo-token", rf"shippo_(?:live|test)_{H}{{40}}"),
    ("easypost-key", rf"EZ[AT]K{A}{{54}}"),
    ("shopify-token", r"shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{32}"),
    ("duffel-token", rf"duffel_(?:live|test)_{W}{{40,}}+"),
    # package registries
    ("npm-token", rf"npm_{A}{{36,}}+"),
    ("pypi-token", rf"pypi-AgE{W}{{50,}}+"),
    ("docker-token", rf"dckr_[po]at_{W}{{24,}}+"),
    ("rubygems-key", rf"rubygems_{H}{{48}}"),
    ("crates-token", rf"cio{A}{{32}}"),
    ("nuget-key", r"oy2[a-z0-9]{43}"),
    ("clojars-token", rf"CLOJARS_{H}{{60}}"),
    ("artifactory-token", rf"AKCp{A}{{60,}}+|cmVmdGtu{A}{{50,}}+"),
    # mail and telephony
    ("twilio-key", rf"SK{H}{{32}}"),
    ("sendgrid-key", rf"SG\.{W}{{16,32}}\.{W}{{20,}}+"),
    ("mailgun-key", rf"(?<![]_-])key-{H}{{32}}|{H}{{32}}-{H}{{8}}-{H}{{8}}"),
    ("mailchimp-key", rf"{H}{{32}}-us\d{{1,2}}"),
    ("brevo-key", rf"xkeysib-{H}{{64}}-{A}{{16}}"),
    ("resend-key", rf"re_{A}{{8}}_{A}{{24,}}+"),
    # monitoring and operations
    ("grafana-token", rf"glsa_{A}{{32}}_{H}{{8}}|glc_eyJ{B}{{32,}}+"),
    ("newrelic-key", r"NR(?:AK|AL|II|JS|RA)-[A-Z0-9a-z-]{19,}+"),
    ("sentry-token", rf"sntrys_eyJ[A-Za-z0-9+/=_-]{{60,}}+|sntryu_{H}{{64}}"),
    ("dynatrace-token", r"dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    ("vault-token", rf"hv[sbr]\.{W}{{20,}}+"),
    ("terraform-token", rf"{A}{{14}}\.atlasv1\.[A-Za-z0-9_=-]{{60,}}+"),
    ("doppler-token", rf"dp\.(?:pt|st|sa|ct|scim|audit)\.(?:[a-z0-9_-]{{1,40}}\.)?{A}{{40,}}+"),
    ("pulumi-token", rf"(?<![]_-])pul-{H}{{40}}"),
    ("onepassword-token", rf"ops_eyJ{W}{{100,}}+"),
    ("age-key", r"AGE-SECRET-KEY-1[0-9A-Z]{50,}+"),
    ("buildkite-token", rf"bku[as]_{H}{{40}}"),
    ("circleci-token", rf"CCI(?:PAT|PRJ)_{A}{{22}}_{H}{{40}}"),
    ("sonar-token", rf"sq[apu]_{H}{{40}}"),
    ("prefect-key", rf"pn[ub]_{A}{{36,}}+"),
    ("deno-token", rf"dd[pow]_{A}{{36,}}+"),
    ("infracost-key", rf"(?<![]_-])ico-{A}{{32}}"),
    # office tools
    ("linear-key", rf"lin_(?:api|oauth)_{A}{{32,}}+"),
    ("notion-token", rf"(?:secret|ntn)_{A}{{40,}}+"),
    ("figma-token", rf"fig[dou]r?_{W}{{36,}}+"),
    ("postman-key", rf"PMAK-{H}{{24}}-{H}{{34}}"),
    ("airtable-token", rf"pat{A}{{14}}\.{H}{{64}}"),
    ("hubspot-token", rf"pat-[a-z]{{2}}\d-{UUID}"),
    ("asana-token", rf"\d/\d{{10,20}}(?:/\d{{10,20}})?:{H}{{32}}"),
    ("readme-key", r"rdme_[a-z0-9]{70}"),
    ("contentful-token", rf"CFPAT-{W}{{40,}}+"),
    ("typeform-token", rf"tfp_{W}{{40,}}+"),
    ("dropbox-token", rf"sl\.(?:u\.)?{W}{{100,}}+"),
    ("mapbox-token", rf"sk\.eyJ{W}{{20,}}+\.{W}{{20,}}+"),
    ("posthog-key", rf"phx_{A}{{40,}}+"),
    ("adafruit-key", rf"aio_{A}{{28}}"),
    ("deepl-key", rf"{UUID}:(?:fx|dp)"),
    ("twitter-token", r"A{20,}+[A-Za-z0-9]{1,80}%3D[A-Za-z0-9%]{30,}+"),
    # generic
    ("jwt", rf"eyJ{W}{{10,}}+\.eyJ{W}{{10,}}+(?:\.{W}*+)?"),
)

_RUN = 15  # characters; the longest run of a token is never shorter
_BEFORE = 80  # characters of the word that may precede the run
_LOOSE = "prefixed-token"  # of any vendor: a prefix and a long random run

_SHADOW = bytes(97 if chr(code) in "_-~" or (code < 128 and chr(code).isalnum()) else 32 for code in range(256))
_LONG = b"a" * _RUN
_SPACE = re.compile(r"\s")

_LOOSE_SHAPE = rf"(?<![]_-])[a-z]{{2,12}}(?:[_-][a-z0-9]{{1,8}}){{0,2}}_{A}{{32,}}+"
# One flat alternation without groups, so that each branch fails on its first character. No token begins as a date does.
_TOKEN = re.compile(
    "(?<![A-Za-z0-9])(?![0-9]{1,7}-)(?=[A-Za-z0-9])(?:"
    + "|".join([*(shape for _, shape in VENDOR_TOKENS), _LOOSE_SHAPE])
    + ")(?![A-Za-z0-9])"
)
_BEARER = re.compile(r"\b[Bb][Ee][Aa][Rr][Ee][Rr]\s{1,8}[A-Za-z0-9._~+/=-]{20,}+")
# With its body: to the END line, or, if that is missing, across everything that looks like base64. Public material
# (certificates, public keys, signatures) is excluded. Newlines may be written as `\n`.
_PEM = re.compile(
    r"-----BEGIN (?!CERTIFICATE|TRUSTED CERT|NEW CERT|[A-Z0-9 ]{0,20}PUBLIC KEY|PGP (?:SIGN|MESSAGE)|X509 CRL|DH PARAM)"
    r"[A-Z0-9 ]{1,40}-----"
    r"(?:(?:[^-]|-(?!----))*+-----END [A-Z0-9 ]{1,40}-----|(?:(?:\s|\\[rn]){0,8}[A-Za-z0-9+/=]{32,}+)*+)"
)
_PUTTY = re.compile(r"(?<=Private-Lines: )\d{1,3}(?:\s{1,4}[A-Za-z0-9+/=]{16,64})++")

_JOINT = re.compile(r"[_-]")
_PREFIX = re.compile(r"[A-Za-z0-9.]{1,12}[_-]")
_FILL = 12  # characters
_FILLED = {sign * _FILL for sign in "xX0"}


def may_hold_tokens(text: str, lowered: str) -> bool:
    """False if `find_tokens` finds nothing."""
    return "bearer" in lowered or "-----begin" in lowered or "private-lines" in lowered or _LONG in _shadow(text)


def _shadow(text: str) -> bytes:
    """Return the text with `a` for each character of a run, and a space for any other."""
    return text.encode("ascii", "replace").translate(_SHADOW)


def find_tokens(text: str, lowered: str) -> Iterator[Secret]:
    """Yield every token, bearer header and private key; they may overlap.

    `lowered` is the text in lower case, with the same length.
    """
    if "bearer" in lowered:
        for match in _BEARER.finditer(text):
            if not _is_words(match.group()[6:].strip()):
                yield Secret("bearer", match.start(), match.end())
    if "-----BEGIN" in text:
        yield from (Secret("pem", match.start(), match.end()) for match in _PEM.finditer(text))
    if "Private-Lines" in text:
        yield from (Secret("putty-key", match.start(), match.end()) for match in _PUTTY.finditer(text))
    shadow = _shadow(text)
    if _LONG in shadow:
        yield from _vendor_tokens(text, shadow)


def _vendor_tokens(text: str, shadow: bytes) -> Iterator[Secret]:
    for low, high in _words(text, shadow):
        for match in _TOKEN.finditer(text, low, high):
            name = _vendor(text, match.start(), high)
            token = match.group()
            if name is not None and not _is_filler(token):
                yield Secret(name, match.start(), match.end(), BLOCK)
            elif name is None and looks_random(token.rpartition("_")[2], mixed=True):
                yield _token_after_word(text, match.start(), match.end(), high) or Secret(_LOOSE, *match.span(), WARN)


def _token_after_word(text: str, start: int, end: int, high: int) -> Secret | None:
    """Return a vendor's token that follows another word (`db-ghp_...`)."""
    for joint in _JOINT.finditer(text, start, end):
        name = _vendor(text, joint.end(), high)
        if name is not None and not _is_filler(text[joint.end() : end]):
            return Secret(name, joint.end(), end, BLOCK)
    return None


def _vendor(text: str, at: int, end: int) -> str | None:
    """Return the name of the vendor whose token starts at `at`."""
    return next((name for name, shape in _single() if shape.match(text, at, end)), None)


@cache  # compiled with the first token: that takes 7 ms, and most programs never meet one
def _single() -> list[tuple[str, re.Pattern[str]]]:
    """Return the expression of each vendor on its own, by name."""
    return [(re.sub(r"-\d$", "", name), re.compile(f"(?:{shape})(?![A-Za-z0-9])")) for name, shape in VENDOR_TOKENS]


def _words(text: str, shadow: bytes) -> Iterator[tuple[int, int]]:
    """Yield the ranges of words (without white space) that contain a long run, each once, so the whole is linear."""
    done = 0
    run = shadow.find(_LONG)
    while run >= 0:
        low = max(done, run - _BEFORE)
        low = max(low, text.rfind(" ", low, run) + 1)
        space = _SPACE.search(text, run + _RUN)
        done = space.start() if space else len(text)
        yield low, done
        run = shadow.find(_LONG, done)


def _is_filler(token: str) -> bool:
    """`sk-your-key-goes-here`, `ghp_xxxxxxxxxxxxxxxxxxxx`, `HRKU-YOUR_KEY_COMES_HERE`: placeholders in documents."""
    prefix = _PREFIX.match(token)
    return prefix is not None and (_is_words(token[prefix.end() :]) or token[-_FILL:] in _FILLED)


def _is_words(body: str) -> bool:
    """True for several words, all in lower case or all in capitals, without digits."""
    letters = body.replace("_", "").replace("-", "")
    return letters != body and letters.isalpha() and (letters.islower() or letters.isupper())
