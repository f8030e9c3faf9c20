"""National identity, tax and social insurance numbers of fifty countries: shape, check digits, and the word before them.

Numbers whose shape with its own separators is rare (``756.1234.5678.97``) need no word; bare digits always do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from freezeframe_redaction import national_checks as check
from freezeframe_redaction.detectors import context, runs
from freezeframe_redaction.model import Candidate, Detector, Example
from freezeframe_redaction.rows import reaching

CLASS = "NATID"

_ANY_SAID = (
    r"national[ _-]?(?:id|identi|insurance|number|no)|identity[ _-]?(?:card|no|number|document)|\bid[ _-]?(?:card|number|no)\b|personal (?:id|number|code)"
    r"|identification|tax[ _-]?(?:id|no|number|payer|file)|\btin\b|citizen|ausweis|documento|identidad|identità|identité|kimlik|identit"
)
_ANY = context.words(_ANY_SAID)


@dataclass(frozen=True, slots=True)
class _Number:
    country: str
    lengths: tuple[int, ...]
    said: str
    """The words for it, as alternatives."""
    word: re.Pattern[str]
    valid: Callable[[str], bool]
    shapes: tuple[tuple[int, ...], ...] = ()
    """Groupings that need no word before them."""
    example: str = ""


def _row(country: str, word: str, example: str, *shapes: tuple[int, ...]) -> _Number:
    lengths, valid = check.NUMBERS[country]
    return _Number(country, lengths, word, context.words(word), valid, shapes, example)


_NUMBERS = (
    _row("CA SIN", r"\bsin\b|social insurance|assurance sociale|\bnas\b", "SIN 046 454 286"),
    _row("AU TFN", r"\btfn\b|tax file", "tax file number 123 456 782"),
    _row("NL BSN", r"\bbsn\b|burgerservice|sofinummer|sofi-nummer", "BSN 111222333"),
    _row("PT NIF", r"\bnif\b|contribuinte|fiscal", "NIF 501964843"),
    _row("GR AFM", r"\bafm\b|αφμ|α\.φ\.μ", "AFM 023456780"),
    _row("HU TAJ", r"\btaj\b", "TAJ 925780322"),
    _row("IL TZ", r"teudat|zehut|israeli? id|ת[.\"'״]?ז|מספר זהות|תעודת", "teudat zehut 039337423"),
    _row("NZ IRD", r"\bird\b|inland revenue", "IRD 49-091-850"),
    _row("GB NHS", r"\bnhs\b", "NHS number 943 476 5870"),
    _row("DK CPR", r"\bcpr|personnummer", "CPR 211062-5629"),
    _row("SE PNR", r"person ?(?:nummer|nr)|\bpnr\b|personal identity|samordningsnummer", "personnummer 880320-0016"),
    _row("BG EGN", r"\begn\b|\bегн\b", "EGN 7523169263"),
    _row("CZ RC", r"rodn[eéá]|r\.? ?č\.?|birth number", "rodné číslo 710319/2745"),
    _row("AT SVNR", r"svnr|sozialversicherung|sv-nummer|versicherungsnummer", "SVNR 1237 010180"),
    _row("IS KT", r"kennitala|\bkt\b", "kennitala 450401-3150"),
    _row("PL NIP", r"\bnip\b", "NIP 856-734-62-15"),
    _row("UA RNOKPP", r"rnokpp|рнокпп|\bіпн\b|\bинн\b|\bipn\b", "RNOKPP 1759013776"),
    _row("HU ADO", r"ad[oó]azonos", "adóazonosító jel 8412345676"),
    _row("EC CI", r"c[eé]dula", "cédula 1714307103"),
    _row("CO NIT", r"\bnit\b", "NIT 213.123.432-1"),
    _row("IR NID", r"کد ?ملی|national code", "کد ملی 0076229645"),
    _row("BD NID", r"\bnid\b|জাতীয় পরিচয়", "NID 1985123456789"),
    _row("SA ID", r"iqama|saudi|هوية|إقامة", "iqama 1019362977"),
    _row("BR CPF", r"\bcpf\b|cadastro", "CPF 390.533.447-05", (3, 3, 3, 2)),
    _row("DE IDNR", r"steuer|\bidnr|\btin\b|\btax|steuernummer", "Steuer-ID 36574261809"),
    _row("PL PESEL", r"pesel", "PESEL 44051401359"),
    _row("TR TCKN", r"kimlik|tckn|\btc\b|t\.c\.|vatanda", "TC kimlik no 17291716060"),
    _row("BE NN", r"rijksregister|niss|insz|registre national|national(?:e|regis)", "rijksregisternummer 85.07.30-033.28", (2, 2, 2, 3, 2)),
    _row("NO FNR", r"f(?:ø|o|oe)dselsn|personnummer|\bfnr\b|d-nummer", "fødselsnummer 151086 95088"),
    _row("EE LT", r"isikukood|asmens kod|personal code", "isikukood 36805280109"),
    _row("LV PK", r"personas kod", "personas kods 161175-19997"),
    _row("HU SZAM", r"személyi sz|szem[.] ?sz", "személyi szám 2-910615-4471"),
    _row("HR OIB", r"\boib\b|osobni", "OIB 33392005961"),
    _row("GR AMKA", r"\bamka\b|αμκα", "AMKA 01013099997"),
    _row("RU SNILS", r"snils|снилс", "СНИЛС 112-233-445 95", (3, 3, 3, 2)),
    _row("AR CUIT", r"cui[tl]", "CUIT 20-05536168-2"),
    _row("NG NIN", r"\bnin\b|nigeria", "NIN 24189705013"),
    _row("CO NUIP", r"\bnuip\b", "NUIP 1020733441"),
    _row("SV DUI", r"\bdui\b", "DUI 04417882-3"),
    _row("PH SSS", r"\bsss\b", "SSS No. 34-1234567-8"),
    _row("PH PHIC", r"phil ?health|pag-?ibig|\bumid\b", "PhilHealth No. 12-345678901-2"),
    _row("JO NID", r"الرقم الوطني|jordan", "الرقم الوطني 9881023441"),
    _row("UZ PINFL", r"pinfl|жшшир|пинфл", "PINFL 31204851234567"),
    _row("LK NIC", r"\bnic\b", "NIC 198512304417"),
    _row("DO CED", r"c[eé]dula", "cédula 001-1391820-5", (3, 7, 1)),
    _row("PH TIN", r"\btin\b", "TIN 447-188-229-000"),
    _row("KW CIVIL", r"civil id|الرقم المدني", "civil ID 285032101234"),
    _row("IN AADHAAR", r"aad?haa?r|uidai|आधार|\buid\b", "aadhaar 2345 6789 0124"),
    _row("JP MY", r"my ?number|マイナンバー|個人番号|kojin", "マイナンバー 123456789018"),
    _row("RU INN", r"\binn\b|\bинн\b", "ИНН 500100732259"),
    _row("ES NSS", r"seguridad social|\bnss\b|\bnuss\b|afiliaci[oó]n", "Seguridad Social 281234567840"),
    _row("KZ IIN", r"\biin\b|\bжсн\b|\bиин\b", "ИИН 870412677780"),
    _row("MY NRIC", r"nric|mykad|\bic\b|kad pengenalan", "MyKad 770305-02-1234"),
    _row("VN CCCD", r"cccd|căn cước|can cuoc|cmnd", "CCCD 001099012345"),
    _row("FR SPI", r"num[eé]ro fiscal|\bspi\b", "numéro fiscal 30 23 217 600 053"),
    _row("CH AHV", r"\bahv|\bavs|sozialvers", "AHV 756.9217.0769.85", (3, 4, 4, 2)),
    _row("ZA ID", r"south africa|\bsa[ _]?id|\bid\b|\brsa\b", "SA ID 8001015009087"),
    _row("KR RRN", r"\brrn\b|주민|resident", "주민등록번호 990101-1234563", (6, 7)),
    _row("RO CNP", r"\bcnp\b|cod numeric", "CNP 1630615123457"),
    _row("SI EMSO", r"em[sš]o|jmbg|јмбг", "EMŠO 0101006500006"),
    _row("MD IDNP", r"\bidnp\b", "IDNP 2004001234567"),
    _row("GT CUI", r"\bcui\b|\bdpi\b", "DPI 2145 67890 0101"),
    _row("TH PIN", r"thai|ประชาชน", "เลขประจำตัวประชาชน 1-2345-45678-78-1"),
    _row("PK CNIC", r"cnic|pakistan|شناختی", "CNIC 34201-0891231-8", (5, 7, 1)),
    _row("EG TN", r"egypt|الرقم القومي|raqam", "الرقم القومي 29501023201952"),
    _row("FR NIR", r"\bnir\b|s[eé]curit|insee|\bsecu\b|s[eé]cu\b|sociale", "NIR 2 95 10 99 126 111 93", (1, 2, 2, 2, 3, 3, 2)),
    _row("AE EID", r"emirates|هوية", "Emirates ID 784-1980-7375168-1", (3, 4, 7, 1)),
    _row("ID NIK", r"\bnik\b|\bktp\b|kependudukan", "NIK 3171011708450001"),
    _row("CN RIC", r"identity|身份证|身份|证件|證件|resident|公民|shenfen|居民", "身份证 11010519491231002X"),
)  # fmt: skip
_BY_LENGTH: dict[int, tuple[_Number, ...]] = {
    length: tuple(number for number in _NUMBERS if length in number.lengths) for length in range(8, 19)
}


_WORDS: dict[int, re.Pattern[str]] = {
    length: context.words(*(number.said for number in rows), _ANY_SAID) for length, rows in _BY_LENGTH.items() if rows
}
_SHAPES = frozenset(shape for number in _NUMBERS for shape in number.shapes)


_UNMISTAKABLE = re.compile(
    r"(?:\bcpf\b|pesel|\bbsn\b|burgerservice|\btfn\b|tax file|\bnhs n|personnummer|f(?:ø|o|oe)dselsn|\bcpr\b|steuer-?id|steueridentifik|\bidnr|snils|снилс"
    r"|\bинн\b|aad?haa?r|आधार|マイナンバー|個人番号|身份证|주민|\bcnp\b|\bcui[tl]\b|\bamka\b|αμκα|αφμ|\boib\b|\begn\b|егн|em[sš]o|jmbg|isikukood|kimlik n|tckn|zehut"
    r"|ת[.\"'״]?ז|c[eé]dula de|personas kod|asmens kod|adóazonosító|\bcnic\b|\brut\b|\bnuip\b|\bc\.i\."
    r"|social insurance|rodné číslo|rijksregister|emirates id|iqama|ประชาชน|kennitala|\bsvnr\b|s[eé]curité sociale|\bdni\b|codice fiscale|henkilötunnus"
    r"|\bcurp\b|\bnric\b|\bnino\b|national insurance)[^0-9\n\x1f;,]{0,18}$"
)
"""Right after these a number counts even if its check digits fail: people mistype their own."""


def rule(run: runs.Run) -> Candidate | None:
    """Take a run that is a national number."""
    length = len(run.digits)
    rows = _BY_LENGTH.get(length)
    if run.international or not rows:
        return None
    announced = bool(run.hints & context.HINT_NATIONAL) and _WORDS[length].search(run.before) is not None
    if not announced and run.groups not in _SHAPES:
        return None
    anyhow = announced and _ANY.search(run.before) is not None
    certain = _UNMISTAKABLE.search(run.before) if announced else None
    for number in rows:
        shaped = run.groups in number.shapes and " " not in run.raw[:4]
        if certain and number.word.search(certain.group()):
            return Candidate(run.start, run.end, CLASS, number.country)
        if not (shaped or anyhow or number.word.search(run.before)) or not number.valid(run.digits):
            continue
        if number.valid is check.always and not number.word.search(run.before):
            continue
        return Candidate(run.start, run.end, CLASS, number.country)
    return None


@dataclass(frozen=True, slots=True)
class _Identifier:
    country: str
    trigger: str
    form: re.Pattern[str]
    word: re.Pattern[str] | None
    """None: the check alone is strong enough."""
    valid: Callable[[str], bool]
    example: str


def _identifier(country: str, trigger: str, form: str, word: str | None, example: str) -> _Identifier:
    _, valid = check.LETTERED.get(country, ("", check.always))
    return _Identifier(
        country,
        trigger,
        re.compile(rf"(?<![0-9A-Za-z]){form}(?![0-9A-Za-z])", re.IGNORECASE),
        re.compile(word) if word else None,
        valid,
        example,
    )


# The check judges what is before the digits: patterns that begin with a digit let the engine skip everything else.
_NINO = r"(?#digits)[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-Da-d]\b"
_SEVEN = r"(?#digits)[0-9]{7}-?[A-Za-z]\b"
_IDENTIFIERS = (
    _identifier("GB NINO", _NINO, r"[A-Z]{2} ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-D]", None, "NINO AB 12 34 56 C"),
    _identifier("GB NINO, sample", _NINO, r"QQ ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-D]", r"\bni\b|nino|national ins|insurance", "NI number QQ 12 34 56 C"),
    _identifier("DE RVNR", r"(?i)(?:versicherungsn|rvnr|sv-n|rentenvers|vsnr)[a-z.\-]*[^0-9\n\x1f]{0,16}[0-9]{2} ?[0-9]{6} ?[A-Z] ?[0-9]{3}\b", r"[0-9]{2} ?[0-3][0-9][01][0-9][0-9]{2} ?[A-Z] ?[0-9]{3}", r"versicherungs|rentenvers|\brvnr|\bvsnr|\bsv-?n|sozialvers", "Rentenversicherungsnummer 65 180539 W 003"),
    _identifier("BR RG", r"(?i)\brg[^0-9\n\x1f]{0,8}[0-9]{1,2}\.?[0-9]{3}\.?[0-9]{3}-?[0-9X]\b", r"[0-9]{1,2}\.?[0-9]{3}\.?[0-9]{3}-?[0-9X]", r"\brg\b", "RG 12.345.678-9"),
    _identifier("AR DNI", r"(?i)\bdni[^0-9\n\x1f]{0,8}[0-9]{2}\.?[0-9]{3}\.?[0-9]{3}\b", r"[0-9]{2}\.?[0-9]{3}\.?[0-9]{3}", r"\bdni\b", "DNI 12.345.678"),
    _identifier("IT CF", r"(?#codes)(?i)[0-9]{2}[A-EHLMPRST][0-9LMNPQRSTUV]{2}[A-Z][0-9LMNPQRSTUV]{3}[A-Z]\b", r"[A-Z]{6}[0-9LMNPQRSTUV]{2}[A-EHLMPRST][0-9LMNPQRSTUV]{2}[A-Z][0-9LMNPQRSTUV]{3}[A-Z]", None, "codice fiscale RSSMRA85T10A562S"),
    _identifier("MX CURP", r"(?#digits)(?i)[0-9]{6}[HMX][A-Z]{5}[A-Z0-9][0-9]\b", r"[A-Z]{4}[0-9]{6}[HMX][A-Z]{5}[A-Z0-9][0-9]", None, "CURP BOXW310820HNERXN09"),
    _identifier("IN PAN", r"(?#digits)[0-9]{4}[A-Z]\b", r"[A-Z]{5}[0-9]{4}[A-Z]", r"\bpan\b|पैन|permanent account|income tax", "PAN card ACUPA7085R"),
    _identifier("SG NRIC", _SEVEN, r"[STFGM][0-9]{7}[A-Z]", None, "NRIC S0618848F"),
    _identifier("ES DNI", r"(?#digits)(?i)\b[0-9]{2}\.?[0-9]{3}\.?[0-9]{3}-?[A-Z]\b", r"[0-9]{2}\.?[0-9]{3}\.?[0-9]{3}-?[A-Z]", r"dni|nif|documento|identidad|ident|\bid\b|españ|spain", "DNI 12345678Z"),
    _identifier("ES NIE", _SEVEN, r"[XYZ]-?[0-9]{7}-?[A-Z]", None, "NIE X1234567L"),
    _identifier("FI HETU", r"(?#digits)(?i)\b[0-9]{6}[\-+ABCDEFUVWXY][0-9]{3}[0-9A-Y]\b", r"[0-9]{6}[-+ABCDEFUVWXY][0-9]{3}[0-9A-Y]", None, "henkilötunnus 131052-308T"),
    _identifier("CL RUT", r"(?#digits)\b[0-9]{1,2}\.?[0-9]{3}\.?[0-9]{3}-[0-9kK]\b", r"[0-9]{1,2}\.?[0-9]{3}\.?[0-9]{3}-[0-9K]", r"\bru[tn]\b|rol |chile|\.", "RUT 12.531.909-2"),
    _identifier("UY CI", r"(?#digits)\b[0-9]\.[0-9]{3}\.[0-9]{3}-[0-9]\b", r"[0-9]\.[0-9]{3}\.[0-9]{3}-[0-9]", None, "CI 1.234.567-2"),
    _identifier("IE PPS", r"(?#digits)(?i)\b[0-9]{7}[A-W][A-IW]?\b", r"[0-9]{7}[A-W][A-IW]?", r"\bpps|personal public", "PPS 6433435F"),
    _identifier("TW ID", r"(?#digits)\b[A-Z][12][0-9]{8}\b", r"[A-Z][12][0-9]{8}", r"taiwan|身分證|身份證|ident|\bid\b|國民", "身分證 A123456789"),
    _identifier("HK ID", r"(?#codes)\b[A-Z]{1,2}[0-9]{6}\(?[0-9A]\)?", r"[A-Z]{1,2}[0-9]{6}\(?[0-9A]\)?", r"hkid|hong kong|身份證|\bid\b|ident", "HKID A123456(3)"),
    _identifier("LK NIC", r"(?#digits)\b[0-9]{9}[VvXx]\b", r"[0-9]{9}[VX]", r"\bnic\b|national|\bid\b|ident", "NIC 853210123V"),
    _identifier("VE CI", r"(?#codes)\b[VE]-[0-9]{1,2}\.[0-9]{3}\.[0-9]{3}\b", r"[VE]-[0-9]{1,2}\.[0-9]{3}\.[0-9]{3}", None, "cédula V-12.345.678"),
    _identifier("UG NIN", r"(?#codes)\bC[MF][0-9]{5}[A-Z0-9]{7}\b", r"C[MF][0-9]{5}[A-Z0-9]{7}", r"\bnin\b|uganda|nira", "NIN CM85012341KPQL"),
    _identifier("CN RIC", r"(?#digits)\b[1-9][0-9]{16}[Xx]\b", r"[1-9][0-9]{16}X", None, "身份证 11010519491231002X"),
    _identifier("FR NIR", r"(?#digits)\b[12] ?[0-9]{2} ?[0-9]{2} ?2[AB] ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}\b", r"[12] ?[0-9]{2} ?[0-9]{2} ?2[AB] ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}", None, "NIR 1 85 05 2A 006 084 35"),
    _identifier("MX RFC", r"(?#codes)[A-Z][0-9]{6}[A-Z0-9]{2}", r"[A-ZÑ&]{4}[0-9]{6}[A-Z0-9]{3}", r"\brfc\b|contribuyente", "RFC GODE561231GR8"),
)  # fmt: skip


def _finder(identifier: _Identifier) -> Callable[[str, int, int, int], tuple[Candidate, ...]]:
    def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
        match = reaching(identifier.form, text, low, high, at, 26, 4)
        if match is None:
            return ()
        start, end = match.span()
        if start > low and text[start - 1] in "_/-+":
            return ()
        found = match.group()
        before = context.before(text, low, start)
        named = identifier.word is None or identifier.word.search(before) or _ANY.search(before)
        if not named and not (identifier.country == "CL RUT" and found.count(".") == 2):
            return ()
        try:
            good = identifier.valid(re.sub(r"[^0-9A-ZÑ&]", "", found.upper()))
        except (ValueError, IndexError):
            good = False
        good = good or _UNMISTAKABLE.search(before) is not None
        return (Candidate(start, end, CLASS, identifier.country),) if good else ()

    return find


def _value(example: str, country: str) -> str:
    for identifier in _IDENTIFIERS:
        if identifier.country == country:
            match = identifier.form.search(example)
            if match:
                return match.group()
    match = re.search(r"[0-9][0-9 ./-]{6,}[0-9Xx]", example)
    return match.group() if match else ""


NUMBERS = tuple(
    runs.NumberKind(
        name=f"national id: {number.country}",
        class_=CLASS,
        # Nine digits fire the common trigger; the plan with eight needs its word.
        triggers=(r"(?i)\bird(?:[^0-9\n\x1f]{0,12})[0-9]{2,3}[ \-]?[0-9]{3}",) if number.country == "NZ IRD" else runs.TRIGGERS,
        examples=(Example(text=f"{number.example} on file", value=_value(number.example, number.country)),),
    )
    for number in _NUMBERS
)
DETECTORS = tuple(
    Detector(
        name=f"national id: {identifier.country}, with letters",
        class_=CLASS,
        triggers=(identifier.trigger,),
        find=_finder(identifier),
        examples=(Example(text=f"{identifier.example} on file", value=_value(identifier.example, identifier.country)),),
    )
    for identifier in _IDENTIFIERS
)
