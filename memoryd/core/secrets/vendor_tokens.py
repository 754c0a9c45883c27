"""The forms of tokens of vendors: a table of pattern names and regular expressions.

An expression is tried at the start of a word and must not be followed by a letter or digit; a token contains no white
space. Names that differ only in a final number are forms of one vendor. The table lists secrets only, not public
material (publishable keys, account and client ids).
"""

from __future__ import annotations

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
