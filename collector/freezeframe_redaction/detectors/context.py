"""The words around a value that say what it is, in the languages that the detectors know.

English, German, French, Spanish, Portuguese, Italian, Dutch, Polish, Swedish, Turkish, Russian, Chinese, Japanese, Korean, Arabic,
Hindi. A pattern is searched in the lower-cased text just before a value, within the same leaf; the key of a JSON value appears
there as ``key: ``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

REACH = 56
"""Characters before a value in which a context word counts."""


def words(*alternatives: str) -> re.Pattern[str]:
    """Compile alternatives for lower-cased text; each is a regular expression without captures and without nested choices.

    Python's `re` tries alternatives one by one at every character. Those that begin a word are tried where words begin, and
    those with the same first letter only after that letter: five to fifteen times as fast as the plain alternation.
    """
    single = [one for alternative in alternatives for one in _CHOICE.split(alternative)]
    bound = _by_first_letter(one[2:] for one in single if one.startswith(r"\b"))
    free = _by_first_letter(one for one in single if not one.startswith(r"\b"))
    return re.compile("|".join(([rf"\b(?:{bound})"] if bound else []) + ([free] if free else [])))


_CHOICE = re.compile(r"\|(?![^(]*\))")
"""Between two alternatives, not inside a group."""


def _by_first_letter(alternatives: Iterable[str]) -> str:
    groups: dict[str, list[str]] = {}
    for one in alternatives:
        plain = one[0].isalpha() and one[1:2] not in ("?", "*", "+", "{")
        groups.setdefault(one[0] if plain else "", []).append(one[1:] if plain else one)
    return "|".join(f"{letter}(?:{'|'.join(rest)})" if letter else "|".join(rest) for letter, rest in groups.items())


_LABEL_SIGNS = frozenset(":=>")
_LABEL_ENDS = "\n:=,;\x1f\"'("


def before(text: str, low: int, start: int, reach: int = REACH) -> str:
    """Return the lower-cased text before `start` that may say what the value is, within the leaf.

    A label right before the value (``"created": ``) speaks for it alone. A line speaks for its own values, and for the first of
    the next line.
    """
    near = text[max(low, start - reach) : start].lower()
    line = near.rfind("\n")
    if line >= 0 and near[line:].strip(" \t#*>-\n"):
        near = near[line + 1 :]
    named = near.rstrip(" \"'*(")
    if named and named[-1] in _LABEL_SIGNS:
        label = named.rstrip(":=> ").rstrip("\"'*) ")
        cut = max(map(label.rfind, _LABEL_ENDS))
        sentence = label.rfind(". ")
        return near[max(cut + 1, sentence + 2 if sentence >= 0 else 0) :]
    return near


TAGS = r"(?:\s{0,8}</?[A-Za-z][^<>\n]{0,60}>\s{0,8}){0,6}"
"""Mark-up between a label and its value: ``<th>Passport</th><td>``, ``<Acct><Id><Othr><Id>``."""

PHONE = words(
    r"(?:from|to|caller|calling|called|callee|dest|destination|dialed|originating)[ _]?(?:number|no|num|phone)\b|caller[ _]?id", r"phone", r"\btel\b",
    r"\btlf\b", r"\btel[.:]", r"telef", r"télé", r"t[eé]l\.", r"\bcall", r"mobil", r"recipient", r"\bcalle[re]\b", r"\bmob\b",
    r"\bcell(?! (?:count|lines?|ids?|size|range|tower|value|references?)\b)", r"\bmy digits\b", r"\bfax", r"\btext\b",
    r"\btext(?:ing|ed)?\b", r"\bsms\b", r"whats ?app", r"contact", r"\bdial", r"\bring(?:e|er|en)?\b", r"\breach", r"hotline", r"callback", r"voicemail",
    r"handy", r"\brufnummer", r"rückruf", r"kontaktow", r"durchwahl", r"erreich", r"\banruf", r"\bruf(?:en)?\b", r"appel", r"portable", r"joindre",
    r"ll[aá]m", r"\bhabl(?:ar|a|e|o) con\b", r"\bfijo\b", r"m[oó]vil",
    r"celular", r"telem[oó]vel", r"ligue", r"ligar", r"chiam", r"cellulare", r"bel mij", r"bellen", r"telefoon", r"komórk", r"zadzwoń",
    r"dzwoni", r"\bring mig", r"telefonn", r"puhelin", r"telefonum", r"cep\b", r"ara(?:yın|yin|yabilir)", r"signal\b", r"viber", r"wechat",
    r"\bcel\b", r"mb ?way", r"\bbizum", r"мой номер", r"номер тел", r"\bmy (?:new |old |cell |mobile )?(?:number|num\b|no\b)", r"number changed",
    r"\bt[eé]l\b", r"κιν", r"\bpuh", r"\bs[ií]mi\b", r"\bph\b", r"\bgsm\b", r"\bzap\b", r"bel me\b", r"\bnr to\b", r"\bnr tel", r"nomor", r"\bhp\b",
    r"điện thoại", r"\bsđt\b", r"โทร", r"번호", r"נייד",
    r"mein(?:e|er)? nummer", r"il mio numero", r"mi n[uú]mero", r"mon num[eé]ro", r"meu n[uú]mero", r"mitt nummer", r"mijn nummer", r"numaram",
    r"телефон", r"тел\b", r"тел\.", r"звон", r"моб", r"τηλ", r"电话", r"電話", r"手机", r"手機", r"携帯", r"连絡|連絡", r"전화", r"휴대폰", r"연락처",
    r"هاتف", r"تلفن", r"همراه", r"جوال", r"موبايل", r"फ़?ोन", r"मोबाइल", r"ফোন", r"মোবাইল", r"தொலைபேசி", r"கைபேசி", r"ఫోన్", r"మొబైల్", r"ફોન",
    r"મોબાઇલ", r"فون", r"موبائل", r"ስልክ", r"ტელ", r"հեռ", r"ဖုန်း", r"ទូរស័ព្ទ", r"ໂທ", r"දුරකථන", r"утас", r"тэл", r"טלפון", r"נייד", r"desk",
    r"\bpager", r"\bphon", r"\bmsisdn", r"number is", r"answering at", r"my registered", r"messages to", r"hone:", r"gọi", r"(?:theo|qua|vào) số",
    r"hív", r"\bsun[aă]", r"\bvolej", r"zavol", r"nazov", r"mobitel", r"\bsoita", r"hubung", r"\bsimu\b", r"κάλεσ", r"дзвон", r"اتصل", r"رقم",
    r"تماس", r"نंबर|नंबर|कॉल", r"เบอร์", r"연락", r"致电|致電|联系|聯絡|拨打|撥打", r"番号は", r"תתקשר", r"hringdu", r"\bsím", r"\bring p[åa]\b",
)  # fmt: skip
CARD = words(
    r"card", r"\bcc\b", r"\bvisa\b", r"master ?card", r"amex", r"\bpan\b", r"credit", r"debit", r"carte", r"karte", r"tarjeta", r"cart[aã]o",
    r"carta", r"kaart", r"karta", r"\bkart", r"kort", r"карт", r"卡号", r"信用卡", r"カード", r"카드", r"charge", r"payment", r"paid with", r"بطاقة", r"कार्ड",
)  # fmt: skip
SSN = words(
    r"\bssn\b",
    r"ssn",
    r"social.?sec",
    r"\bss ?#",
    r"\bss ?no",
    r"\bsoc\b",
    r"\bmy social\b",
    r"\bsocial (?:is|no|num|#)",
    r"\bitin\b",
    r"taxpayer",
    r"seguro social",
)
_ORDER = words(
    r"\bord(?:er)?", r"\binv(?:oice)?", r"\bsku", r"\bbuild", r"\bver(?:sion)?", r"\bv", r"\blat", r"\blon", r"\blng", r"tracking", r"ticket",
    r"\bref(?:erence)?", r"commit", r"\brev", r"serial", r"\bpart", r"pages?", r"lines?", r"chapter", r"port", r"isbn", r"issn", r"\bean", r"\bupc",
    r"gtin", r"\basin", r"\bts", r"timestamp", r"epoch", r"nano", r"micros", r"_at", r"_ns", r"_ms", r"\btime", r"bestell(?:ung|nummer)?", r"rechnung",
    r"commande", r"pedido", r"ordine", r"zam[oó]wieni[ea]", r"zakaz", r"заказ", r"订单", r"item", r"product", r"\bid",
)  # fmt: skip
_RIGHT_BEFORE = re.compile(rf"(?:{_ORDER.pattern})(?: #|[ _-]?(?:no|nr|number|id))?[-=:#.\"' _]{{0,4}}$")


def is_order(before: str) -> bool:
    """Whether a word right before says that the number is not a person's."""
    return _RIGHT_BEFORE.search(before, max(0, len(before) - 32)) is not None


# -- hints -------------------------------------------------------------------------------------------------------------
# Python's `re` tries a hundred alternatives at every character; a look-up per word is twenty times cheaper. Hints say which
# families a text may name; only then is the family's pattern searched.

HINT_PHONE, HINT_CARD, HINT_SSN, HINT_ORDER, HINT_NATIONAL, HINT_MEDICAL, HINT_BANK = (1 << bit for bit in range(7))
HINT_ALL = (1 << 7) - 1
_STEMS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (
        HINT_PHONE,
        tuple(
            "phon tel call mob cell fax text sms what contact dial ring reach hotline voice handy ruf durchwahl erreich appel portable joindre llam celular"
            " lig chiam bel komórk zadzwo dzwoni puhelin cep ara signal viber wechat desk pager msisdn number answer registered message hone digits recip"
            " puh mbway way bizum simi simu suna volej zavol nazov mobitel soita hubung hringdu telefonsz ph gsm zap bel ^cel$ ^[tmfp]$ ^no$ tlf fijo nr "
            "nomor hp numm numero num numara".split()
        ),
    ),
    (
        HINT_CARD,
        tuple(
            "card cc visa master amex pan credit debit carte karte tarjeta cart kaart karta kort charge payment paid".split()
        ),
    ),
    (HINT_SSN, ("ssn", "soc", "ss", "itin", "taxpayer", "seguro")),
    (
        HINT_ORDER,
        tuple(
            "ord inv sku build v lat lon lng tracking ticket ref commit rev serial part page line chapter port isbn issn ean upc gtin asin ts time epoch "
            "nano micro at"
            " ns ms bestell rechnung commande pedido ordine zam zakaz item product id".split()
        ),
    ),
    (
        HINT_NATIONAL,
        tuple(
            "nation nid idnp dpi civil azonos segur nss nuss ident id personal person tin tax citizen ausweis documento kimlik sin social insur assurance "
            "nas tfn bsn burger sofi nif contrib fiscal afm taj teudat zehut"
            " israel ird inland nhs cpr pnr samordning egn rodn birth svnr sozial sv versicherung kennitala kt nip rnokpp ipn inn dula cedula nit iqama "
            "saudi cpf cadastro steuer"
            " idnr pesel tckn tc t vatanda rijks niss insz registre dsels fnr isikukood asmens personas oib osobni amka snils cui nin nigeria aadha adhaar "
            "uid my number kojin"
            " iin nric mykad ic kad cccd can cmnd ahv avs south sa rsa rrn resident cnp cod em jmbg thai cnic pakistan egypt raqam nir curit insee secu "
            "sociale emirates nik ktp"
            " kependudukan shenfen code no card nuip dui sss phil pag umid pinfl nic jordan".split()
        ),
    ),
    (
        HINT_MEDICAL,
        tuple(
            (
                "npi provider mrn medical patient health chart member beneficiary medicare medicaid kranken versicherten kvnr dossier histor prontu "
                "cartella numer"
            ).split()
        ),
    ),
    (
        HINT_BANK,
        tuple(
            "routing aba rtn transit clabe account acct acc a konto compte cuenta conta conto reken konta rachunek rachunk hesap giro".split()
        ),
    ),
)
_STEM_PATTERNS = tuple(
    (hint, re.compile("|".join(stem if len(stem) > 2 else f"{stem}$" for stem in stems))) for hint, stems in _STEMS
)
_TOKEN = re.compile(r"[a-z]+")
_TOKEN_HINTS: dict[str, int] = {}


def hints(near: str) -> int:
    """Return which families may be named in lower-cased text, as bits; text beyond ASCII may name any."""
    if not near.isascii():
        return HINT_ALL
    found = 0
    for token in _TOKEN.findall(near):
        known = _TOKEN_HINTS.get(token)
        if known is None:
            if len(_TOKEN_HINTS) > 50_000:
                _TOKEN_HINTS.clear()
            known = sum(hint for hint, pattern in _STEM_PATTERNS if pattern.search(token))
            _TOKEN_HINTS[token] = known
        found |= known
    return found
