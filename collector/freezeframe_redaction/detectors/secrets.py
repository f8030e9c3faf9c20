"""Credentials that carry their own mark: vendor prefixes, JWT, PEM blocks, age and SSH keys.

The table follows the families of gitleaks; a row is data, so a new vendor is one line.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from freezeframe_redaction.model import Candidate, Detector, Example

CLASS = "SECRET"

_MARKS = ("rDxrDx", "facadefacade", "RDXRDX")
_SHORT_MARK = "rDx"
"""What the redactor writes into a secret's surrogate; no credential that holds one is looked at again. The short one, for what has
no room for more, counts at the beginning only: inside, one token in seven thousand has it by chance."""


def is_marked_secret(value: str) -> bool:
    """Whether the value is a surrogate."""
    return value.startswith(_SHORT_MARK) or any(mark in value for mark in _MARKS)


_PREFIXED: tuple[tuple[str, str, str, str], ...] = (
    # name, trigger, exact form, example
    ("openai", r"\bsk-(?:proj-|svcacct-|admin-|ant-[a-z0-9]+-|or-v1-|lf-)?[A-Za-z0-9_\-]{20}", r"sk-[A-Za-z0-9_\-]{20,260}", "sk-proj-a1B2c3D4e5F6g7H8i9J0k1L2m3N4"),
    ("public key id", r"\bpk-lf-[0-9a-f\-]{20}", r"pk-lf-[0-9a-f-]{36}", "pk-lf-1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"),
    ("github", r"\bgh[pousr]_[A-Za-z0-9]{30}", r"gh[pousr]_[A-Za-z0-9]{30,255}", "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"),
    ("github fine-grained", r"\bgithub_pat_[A-Za-z0-9_]{40}", r"github_pat_[A-Za-z0-9_]{40,120}", "github_pat_11ABCDEFG0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4y5Z6a7B8c9D0e1F2g3H4"),
    ("gitlab", r"\bgl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas|imt|rtr|ffct)-[A-Za-z0-9_\-]{20}", r"gl[a-z]{2,5}-[A-Za-z0-9_\-.]{20,80}", "glpat-a1B2c3D4e5F6g7H8i9J0"),
    ("aws key id", r"\b(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA|A3T[A-Z0-9])[A-Z2-7]{16}\b", r"A[A-Z0-9]{3}[A-Z2-7]{16}", "AKIA2E0A8F3B7C5D4G6H"[:4] + "27VG6F7ILAEAQJYQ"),
    ("google", r"\bAIza[A-Za-z0-9_\-]{35}", r"AIza[A-Za-z0-9_\-]{35}", "AIzaSyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q"),
    ("google oauth", r"\bGOCSPX-[A-Za-z0-9_\-]{28}", r"GOCSPX-[A-Za-z0-9_\-]{28}", "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"),
    ("google access", r"\bya29\.[A-Za-z0-9_\-]{20}", r"ya29\.[A-Za-z0-9_\-]{20,400}", "ya29.a0AfH6SMBx1B2c3D4e5F6g7H8i9J0"),
    ("slack", r"\bxox[abeoprs]-[A-Za-z0-9\-]{10}", r"xox[abeoprs]-[A-Za-z0-9\-]{10,250}", "xoxb-364263217158-596535329567-a1B2c3D4e5F6g7H8i9J0k1L2"),
    ("slack app", r"\bxapp-[0-9]-[A-Z0-9]{8}", r"xapp-[0-9]-[A-Z0-9]{8,14}-[0-9]{8,16}-[a-f0-9]{40,70}", "xapp-1-A0123456789-1234567890123-a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90"),
    ("slack webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Z0-9]{8}", r"https?://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{24,80}", "https://hooks.slack.com/services/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"),
    ("discord webhook", r"discord(?:app)?\.com/api/webhooks/[0-9]{17}", r"https?://(?:[a-z]+\.)?discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/[A-Za-z0-9_\-]{60,80}", "https://discord.com/api/webhooks/123456789012345678/a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4y5Z6a7B8c9D0e1F2g3H4"),
    ("stripe", r"\b(?:[sr]k|pk|whsec)_(?:live|test|prod)_[A-Za-z0-9]{16}", r"(?:[srp]k|whsec)_[a-z]{4}_[A-Za-z0-9]{16,120}", "sk_live_a1B2c3D4e5F6g7H8i9J0k1L2"),
    ("stripe webhook", r"\bwhsec_[A-Za-z0-9]{24}", r"whsec_[A-Za-z0-9+/]{24,80}", "whsec_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6"),
    ("npm", r"\bnpm_[A-Za-z0-9]{36}", r"npm_[A-Za-z0-9]{36}", "npm_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"),
    ("pypi", r"\bpypi-[A-Za-z0-9_\-]{50}", r"pypi-[A-Za-z0-9_\-]{50,400}", "pypi-AgEIcHlwaS5vcmca1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4"),
    ("rubygems", r"\brubygems_[a-f0-9]{48}", r"rubygems_[a-f0-9]{48}", "rubygems_a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718"),
    ("sendgrid", r"\bSG\.[A-Za-z0-9_\-]{16,32}\.[A-Za-z0-9_\-]{16}", r"SG\.[A-Za-z0-9_\-]{16,32}\.[A-Za-z0-9_\-]{16,64}", "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"),
    ("mailgun", r"\bkey-[a-f0-9]{32}\b", r"key-[a-f0-9]{32}", "key-a1b2c3d4e5f60718293a4b5c6d7e8f90"),
    ("mailchimp", r"\b[a-f0-9]{32}-us[0-9]{1,2}\b", r"[a-f0-9]{32}-us[0-9]{1,2}", "a1b2c3d4e5f60718293a4b5c6d7e8f90-us12"),
    ("twilio", r"\b(?:SK|AC)[0-9a-f]{32}\b", r"(?:SK|AC)[0-9a-f]{32}", "SKa1b2c3d4e5f60718293a4b5c6d7e8f90"),
    ("hugging face", r"\b(?:hf|api_org)_[A-Za-z0-9]{30}", r"(?:hf|api_org)_[A-Za-z0-9]{30,40}", "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH"),
    ("telegram", r"\b[0-9]{8,10}:A[A-Za-z0-9_\-]{34}", r"[0-9]{8,10}:A[A-Za-z0-9_\-]{34}", "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1"),
    ("discord", r"\b[MNO][A-Za-z0-9]{23,25}\.[A-Za-z0-9_\-]{6}\.[A-Za-z0-9_\-]{27}", r"[MNO][A-Za-z0-9]{23,25}\.[A-Za-z0-9_\-]{6}\.[A-Za-z0-9_\-]{27,38}", "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs"),
    ("databricks", r"\bdapi[0-9a-f]{32}", r"dapi[0-9a-f]{32}(?:-[0-9])?", "dapia1b2c3d4e5f60718293a4b5c6d7e8f90"),
    ("digitalocean", r"\bdo[opr]_v1_[0-9a-f]{64}", r"do[opr]_v1_[0-9a-f]{64}", "dop_v1_a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90"),
    ("shopify", r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}", r"shp[a-z]{2}_[0-9a-fA-F]{32}", "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"),
    ("age", r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}", r"AGE-SECRET-KEY-1[0-9A-Z]{58}", "AGE-SECRET-KEY-1E5H7SFAE4FJRHMF4XUY7VT7N2LZJ2S9CHA72XYLH07FAQHLZSG38ECHFKM"),
    ("groq", r"\bgsk_[A-Za-z0-9]{40}", r"gsk_[A-Za-z0-9]{40,60}", "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"),
    ("hashicorp vault", r"\bhv[sbr]\.[A-Za-z0-9_\-]{24}", r"hv[sbr]\.[A-Za-z0-9_\-]{24,300}", "hvs.CAESIJa1B2c3D4e5F6g7H8i9J0k1L2m3N4"),
    ("hashicorp terraform", r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_\-=]{60}", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_\-=]{60,80}", "a1B2c3D4e5F6g7.atlasv1.a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4y5Z6a7B8c9D0e1F2"),
    ("xai", r"\bxai-[A-Za-z0-9]{40}", r"xai-[A-Za-z0-9]{40,120}", "xai-a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2"),
    ("perplexity", r"\bpplx-[A-Za-z0-9]{40}", r"pplx-[A-Za-z0-9]{40,60}", "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"),
    ("replicate", r"\br8_[A-Za-z0-9]{37}", r"r8_[A-Za-z0-9]{37,40}", "r8_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s"),
    ("logfire", r"\bpylf_v[0-9]_[a-z]{2}_[A-Za-z0-9]{30}", r"pylf_v[0-9]_[a-z]{2}_[A-Za-z0-9]{30,60}", "pylf_v1_us_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6"),
    ("langsmith", r"\blsv2_(?:pt|sk)_[a-f0-9]{32}", r"lsv2_(?:pt|sk)_[a-f0-9]{32}(?:_[a-f0-9]{10})?", "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"),
    ("linear", r"\blin_api_[A-Za-z0-9]{40}", r"lin_api_[A-Za-z0-9]{40}", "lin_api_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0"),
    ("notion", r"\b(?:secret|ntn)_[A-Za-z0-9]{40}", r"(?:secret|ntn)_[A-Za-z0-9]{40,50}", "ntn_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1"),
    ("postman", r"\bPMAK-[a-f0-9]{24}-[a-f0-9]{34}", r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}", "PMAK-a1b2c3d4e5f60718293a4b5c-a1b2c3d4e5f60718293a4b5c6d7e8f90a1"),
    ("atlassian", r"\bATATT3[A-Za-z0-9_\-=]{40}", r"ATATT3[A-Za-z0-9_\-=]{40,250}", "ATATT3xFfGF0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0"),
    ("dropbox", r"\bsl\.[A-Za-z0-9_\-]{100}", r"sl\.[A-Za-z0-9_\-]{100,250}", "sl." + "a1B2c3D4e5" * 13),
    ("doppler", r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9.\-_]{36}", r"dp\.[a-z]{2,5}\.[A-Za-z0-9.\-_]{36,80}", "dp.pt.a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2"),
    ("planetscale", r"\bpscale_(?:tkn|pw|oauth)_[A-Za-z0-9._\-]{32}", r"pscale_[a-z]{2,5}_[A-Za-z0-9._\-]{32,64}", "pscale_tkn_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6"),
    ("pulumi", r"\bpul-[a-f0-9]{40}", r"pul-[a-f0-9]{40}", "pul-a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4"),
    ("new relic", r"\bNRAK-[A-Z0-9]{27}", r"NRAK-[A-Z0-9]{27}", "NRAK-A1B2C3D4E5F6G7H8I9J0K1L2M3N"),
    ("grafana", r"\bgl(?:c|sa)_[A-Za-z0-9+/_]{32}", r"gl(?:c|sa)_[A-Za-z0-9+/_=]{32,400}", "glsa_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6_a1b2c3d4"),
    ("sentry", r"\bsntry[su]_[A-Za-z0-9+/=_\-]{40}", r"sntry[su]_[A-Za-z0-9+/=_\-]{40,250}", "sntrys_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2"),
    ("square", r"\b(?:EAAA|sq0[a-z]{3}-)[A-Za-z0-9_\-]{22}", r"(?:EAAA|sq0[a-z]{3}-)[A-Za-z0-9_\-]{22,64}", "sq0atp-a1B2c3D4e5F6g7H8i9J0k1"),
    ("facebook", r"\bEAA[MC][A-Za-z0-9]{40}", r"EAA[MC][A-Za-z0-9]{40,250}", "EAACEdEose0cBAa1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0"),
    ("azure storage", r"(?i)key[=: \"']{1,4}[A-Za-z0-9+/]{86}==", r"[A-Za-z0-9+/]{86}==", "AccountKey=" + "a1B2c3D4" * 10 + "e5F6g7=="),
    ("azure sas", r"\bsig=[A-Za-z0-9%/+]{40}", r"(?<=sig=)[A-Za-z0-9%/+]{40,120}(?:=|%3[dD])?", "sig=a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2%3D"),
    ("alibaba", r"\bLTAI[A-Za-z0-9]{12}", r"LTAI[A-Za-z0-9]{12,26}", "LTAI5tA1b2C3d4E5f6G7h8"),
    ("tencent", r"\bAKID[A-Za-z0-9]{32}", r"AKID[A-Za-z0-9]{32}", "AKIDa1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6"),
    ("docker", r"\bdckr_(?:pat|oat)_[A-Za-z0-9_\-]{27}", r"dckr_(?:pat|oat)_[A-Za-z0-9_\-]{27,40}", "dckr_pat_a1B2c3D4e5F6g7H8i9J0k1L2m3N"),
    ("cloudflare", r"\bv1\.0-[a-f0-9]{24}-[a-f0-9]{100}", r"v1\.0-[a-f0-9]{24}-[a-f0-9]{146}", "v1.0-a1b2c3d4e5f60718293a4b5c-" + ("a1b2c3d4e5" * 15)[:146]),
    ("fly", r"\bfm[12][ar]?_[A-Za-z0-9+/=_\-]{80}", r"fm[12][ar]?_[A-Za-z0-9+/=_\-]{80,400}", "fm2_" + "a1B2c3D4e5" * 10),
    ("supabase", r"\bsbp_[a-f0-9]{40}", r"sbp_[a-f0-9]{40}", "sbp_a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4"),
    ("figma", r"\bfig[du]_[A-Za-z0-9_\-]{40}", r"fig[du]_[A-Za-z0-9_\-]{40,60}", "figd_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0"),
    ("airtable", r"\bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}", r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}", "pata1B2c3D4e5F6g7." + "a1b2c3d4e5f60718" * 4),
    ("asana", r"\b[0-9]/[0-9]{16}:[a-f0-9]{32}", r"[0-9]/[0-9]{16}:[a-f0-9]{32}", "1/1234567890123456:a1b2c3d4e5f60718293a4b5c6d7e8f90"),
    ("newrelic license", r"\b[a-f0-9]{36}NRAL", r"[a-f0-9]{36}NRAL", "a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2NRAL"),
    ("vercel", r"\bvc[ipakr]_[A-Za-z0-9]{24}", r"vc[ipakr]_[A-Za-z0-9]{24,60}", "vcp_a1B2c3D4e5F6g7H8i9J0k1L2"),
    ("dynatrace", r"\bdt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{40}", r"dt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{40,64}", "dt0c01.A1B2C3D4E5F6G7H8I9J0K1L2." + "A1B2C3D4E5F6G7H8" * 4),
    ("easypost", r"\bEZ[AT]K[A-Za-z0-9]{54}", r"EZ[AT]K[A-Za-z0-9]{54}", "EZAK" + "a1B2c3D4e5F6g7H8i9" * 3),
    ("brevo", r"\bxkeysib-[a-f0-9]{64}", r"xkeysib-[a-f0-9]{64}(?:-[A-Za-z0-9]{16})?", "xkeysib-" + "a1b2c3d4e5f60718" * 4 + "-a1B2c3D4e5F6g7H8"),
    ("shippo", r"\bshippo_(?:live|test)_[a-fA-F0-9]{40}", r"shippo_(?:live|test)_[a-fA-F0-9]{40}", "shippo_live_a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4"),
    ("readme", r"\brdme_[a-z0-9]{60}", r"rdme_[a-z0-9]{60,80}", "rdme_" + "a1b2c3d4e5" * 7),
    ("typeform", r"\btfp_[A-Za-z0-9_.=\-]{40}", r"tfp_[A-Za-z0-9_.=\-]{40,80}", "tfp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2"),
    ("flutterwave", r"\bFLW(?:PUB|SEC)K(?:_TEST)?-[A-Za-z0-9]{12}", r"FLW(?:PUB|SEC)K(?:_TEST)?-[A-Za-z0-9]{12,40}(?:-X)?", "FLWSECK-a1b2c3d4e5f60718293a4b5c6d7e8f90-X"),
    ("artifactory", r"\bAKCp[A-Za-z0-9]{60}", r"AKCp[A-Za-z0-9]{60,80}", "AKCp" + "a1B2c3D4e5F6g7" * 5),
    ("contentful", r"\bCFPAT-[A-Za-z0-9_\-]{40}", r"CFPAT-[A-Za-z0-9_\-]{40,60}", "CFPAT-a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V"),
    ("1password", r"\bops_eyJ[A-Za-z0-9+/_\-]{100}", r"ops_eyJ[A-Za-z0-9+/_\-]{100,2000}={0,2}", "ops_eyJ" + "a1B2c3D4e5" * 12),
    ("prefect", r"\bpn[ub]_[A-Za-z0-9]{36}", r"pn[ub]_[A-Za-z0-9]{36}", "pnu_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"),
    ("openshift", r"\bsha256~[A-Za-z0-9_\-]{43}", r"sha256~[A-Za-z0-9_\-]{43}", "sha256~a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V"),
    ("clojars", r"\bCLOJARS_[A-Za-z0-9]{50}", r"CLOJARS_[A-Za-z0-9]{50,60}", "CLOJARS_" + "a1b2c3d4e5" * 6),
    ("cohere or mistral by name", r"(?i)(?:cohere|mistral|together|fireworks|deepgram|pinecone|weaviate|elevenlabs)[a-z_ .\-]{0,20}[\"' ]{0,2}[:=][\"' ]{0,3}[A-Za-z0-9]{30}", r"(?<![A-Za-z0-9])[A-Za-z0-9]{32,64}(?![A-Za-z0-9])", "COHERE_API_KEY=a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0"),
)  # fmt: skip


def _finder(name: str, form: str) -> Callable[[str, int, int, int], tuple[Candidate, ...]]:
    pattern = re.compile(form)

    def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
        for match in pattern.finditer(text, max(low, at - 140), min(high, at + 440)):
            if match.end() < at:
                continue
            start, end = match.span()
            if start > at or (start > low and text[start - 1].isalnum() and text[start - 1] != "n"):
                return ()
            value = match.group()
            if is_marked_secret(value):
                return (Candidate(start, end, "*"),)
            if _is_sample(value):
                return (Candidate(start, end, ""),)
            return (Candidate(start, end, CLASS, name),)
        return ()

    return find


def _is_sample(value: str) -> bool:
    """Documentation writes keys that nobody has: ``AKIAIOSFODNN7EXAMPLE``, ``sk-xxxxxxxx``, ``ghp_your_token_here``."""
    body = re.sub(r"^[A-Za-z]{2,6}[-_.](?:[a-z]{2,8}[-_])?", "", value)
    if value.endswith("EXAMPLE") or len(set(body)) < 4:
        return True
    lowered = value.lower()
    if any(word in lowered for word in ("your-", "your_", "-here", "_here", "placeholder", "example")):
        return True
    # Four in a row stand in one random token of half a million, and then there are few others.
    if "xxxx" in lowered and 4 * lowered.count("x") >= len(lowered):
        return True
    # Words joined by dashes (``sk-learn-contrib-project-name``) hold no digit; random text of this length does.
    return value.startswith("sk-") and not any(char.isdigit() for char in value)


_JWT = re.compile(r"eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{6,16000}(?:\.[A-Za-z0-9_-]{0,2000}){0,3}")
_PEM_BEGIN = re.compile(r"-----BEGIN ([A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?)-----")
_PEM_LINES = re.compile(
    r"(?:\s|\\[nr]|[A-Za-z0-9+/=]|(?:Proc-Type|DEK-Info|Version|Comment|Hash)[^\n\\]{0,80}|[:,\"'-](?=\s*[A-Za-z0-9+/=]{16}))*"
)
_SSH = re.compile(r"(?<![\w])b3BlbnNzaC1rZXktdjE[A-Za-z0-9+/=\s\\]{40,8000}")


def _jwt(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    start = text.rfind("eyJ", max(low, at - 18), at)
    if start < 0 or (start > low and (text[start - 1].isalnum() or text[start - 1] in "_-+/")):
        return ()
    match = _JWT.match(text, start, high)
    if match is None:
        return ()
    return (Candidate(match.start(), match.end(), "*" if ".eyJyZHgiOi" in match.group() else CLASS, "jwt"),)


def _pem(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    start = at - 11
    begin = _PEM_BEGIN.match(text, start, min(high, start + 80))
    if begin is None:
        return ()
    # Cut-off blocks have no END: the lines of base64 go on to wherever they stop.
    limit = min(high, begin.end() + 16000)
    end_marker = f"-----END {begin.group(1)}-----"
    end = text.find(end_marker, begin.end(), limit)
    second = text.find("-----BEGIN ", begin.end(), end if end >= 0 else limit)
    if end >= 0 and second < 0:
        stop = end + len(end_marker)
    else:
        lines = _PEM_LINES.match(text, begin.end(), second if second >= 0 else limit)
        stop = lines.end() if lines else begin.end()
        while stop > begin.end() and not (text[stop - 1].isalnum() or text[stop - 1] in "+/="):
            stop -= 1
    body = text[begin.end() : stop]
    if sum(map(str.isalnum, body)) < 20:
        return (Candidate(start, begin.end(), ""),)
    return (Candidate(start, stop, "*" if "rDxrDx" in body[:40] else CLASS, "pem"),)


def _row(name: str, trigger: str, form: str, example: str) -> Detector:
    match = re.search(form, example)
    return Detector(
        name=f"secret: {name}",
        class_=CLASS,
        triggers=(trigger,),
        find=_finder(name, form),
        examples=(Example(text=f"use {example} for auth", value=match.group() if match else ""),),
    )


DETECTORS = (
    *(_row(*row) for row in _PREFIXED),
    Detector(
        name="secret: jwt",
        class_=CLASS,
        triggers=(r"eyJ[A-Za-z0-9_\-]{12}",),
        find=_jwt,
        examples=(
            Example(
                text="t=eyJhbGciOiJIUzI1NiJ9.eyJlbWFpbCI6ImJvYkBnbWFpbC5jb20ifQ.c2lnQUJDREVGR0hJSktMTU5PUA",
                value="eyJhbGciOiJIUzI1NiJ9.eyJlbWFpbCI6ImJvYkBnbWFpbC5jb20ifQ.c2lnQUJDREVGR0hJSktMTU5PUA",
            ),
        ),
    ),
    Detector(
        name="secret: private key",
        class_=CLASS,
        triggers=(r"-----BEGIN ",),
        find=_pem,
        examples=(
            Example(
                text="-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx8Yz0qFq3hS1Zt9cXv5nB7mK2pL4\n",
                value="-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx8Yz0qFq3hS1Zt9cXv5nB7mK2pL4",
                near_miss="-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
            ),
        ),
    ),
)
