"""Postal addresses: the cheap tier. House number and street word in either order, or anything with a number after ``address:``.

It is long because it is a catalogue: the forms of thirty countries, and what may be around a street in each.
"""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.lexicon import COMMON, phrases
from freezeframe_redaction.invented import holds_invented
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rows import reaching, row

CLASS = "ADDRESS"

_SUFFIX = (
    r"(?:street|str|st|avenue|ave|road|rd|lane|ln|drive|dr|boulevard|blvd|court|ct|way|place|pl|square|sq|terrace|close|crescent|highway|hwy|parkway|pkwy"
    r"|circle|cir|trail|route|turnpike|plaza|loop|row|mews|grove|gardens"
    r"|junctions?|forge|bypass|points?|estates?|hills?|creek|ridges?|views?|valleys?|villages?|mountains?|islands?|lakes?|meadows?|mills?|parks?|path|pines?"
    r"|plains?|rapids?|river|shores?|springs?|station|stream|summit|track|tunnel|marg|nagar|chowk|salai|colony|layout|enclave|vihar|bagh|gali|cross|main|soi"
    r"|union|vista|walk|wells?|crossing|cove|corners?|falls?|fields?|flats?|fords?|forest|fork|freeway|garden|gateway|glens?|greens?|harbors?|haven|heights"
    r"|hollow|inlet|knolls?|landing|locks?|lodge|manors?|mission|motorway"
    r"|orchard|oval|overpass|passage|pike|port|prairie|ranch|shoals?|skyway|spurs?|throughway|trafficway|underpass|viaduct|ville|causeway|center|cliffs?"
    r"|club|common|course|courts|curve|dale|dam|divide|expressway|extensions?|camp|canyon"
    r"|cape|branch|bridge|brooks?|burgs?|beach|bend|bluffs?|bottom|alley|annex|arcade|bayou|stravenue|isle|mall|mount|squares|streets|trace|keys?|lights?"
    r"|neck|rest|rue|ramp|radial|run)"
)
_UNIT = r"(?:,? ?(?:Apt|Apartment|Suite|Unit|Ste|Flat|Floor|Level|Room|Rm|#)\.? ?[0-9A-Za-z-]{1,6})?"
_CITY = (
    r"(?:,? (?:(?:[A-Z\xc0-\xde](?:[^\W\d_]|['-]){1,25}(?!\w)|[A-Z][a-z]{1,2}\."
    r"|(?:[A-Z]\.){2,3}) ?){1,3})?(?:,? [A-Z]{2}\b)?(?:,? ?(?:[0-9]{5}(?:-[0-9]{4})?|[A-Z]{1,2}[0-9][A-Z0-9]? ?[0-9][A-Z]{2}"
    r"|[A-Z][0-9][A-Z] ?[0-9][A-Z][0-9])\b)?"
)
_ENGLISH = re.compile(
    rf"(?<![\w.$€£#/-])[0-9]{{1,6}}[A-Za-z]?(?:[/-][0-9]{{1,4}})?,? (?:(?:N|S|E|W|NE|NW|SE|SW|North|South|East"
    rf"|West)\.? )?(?:[A-Z0-9\xc0-\xde][\w.'-]{{0,20}} ){{1,4}}(?:(?i:{_SUFFIX})\b\.?|[A-Z]\w+(?:way|gate))(?: (?:N|S|E|W|NE|NW|SE|SW)\b\.?"
    rf"|(?: [0-9]{{1,2}}[A-Z]?)(?=,? ?#|,? (?:Singapore|S\()))?{_UNIT}{_CITY}"
)
_GERMAN = re.compile(
    r"(?<!\w)(?:(?:[A-ZÄÖÜ][\wäöüß.]+[- ]){0,3}[A-ZÄÖÜ]?[\wäöüß.]*(?:stra(?:ß|ss)e|str\.|platz|weg|gasse|allee|ring|damm|ufer|steig|hof|markt|chaussee"
    r"|gracht|straat|laan|plein|dreef|singel|kade|gatan|vägen|v[aä]gen|gata|vej|gade|veien|gaten|katu|tie|polku|utca|ulice|gate|graben|bulvarı|caddesi|cad\."
    r"|sokak|sokağı|sok\.|mahallesi|mah\.|út|útja|körút|tere|náměstí|nám\.|třída|trieda|ulica|cesta|trg|iela|gatvė|tänav|puiestee|torget|gränd|plads|bakken"
    r"|ntie|kuja|polku|kaari|esplanadi|Bulvarı|Caddesi|Cad\.|Sokak|Sokağı|Sok\.|Mahallesi|Markt|Straße|Strasse|Platz|Weg|Gasse|Allee|Ring|Damm|Ufer))"
    r" (?:[Nn]o ?[:.]? ?)?[0-9]{1,4}(?: ?[a-zA-Z]\b(?!:))?(?: [0-9]{1,3}\b(?=[,\n]))?(?:[/-](?:[0-9]{1,4}|[IVX]{1,4}|hs|huis|bis)\b| (?:bis|ter|hs"
    r"|huis)\b){0,2}(?:,? (?:[A-Z]{1,2}-)?[0-9]{3,5}(?: ?[A-Z]{2})? [A-ZÄÖÜ][\w-]+(?: [A-ZÄÖÜ][\w-]+)?)?(?![\w])"
)
_ROMANCE = re.compile(
    r"(?<!\w)(?:[0-9]{1,5}(?: ?(?:[Bb]is|[Tt]er|[A-D]))?,? )?(?i:nám\.|náměstí|plac|rruga|bulevardul|[sș]os\.|pia[tț]a|rue|avenue|boulevard|bd\.?|chemin"
    r"|all[ée]e|impasse|quai|cours|place|route|via|viale|vicolo|piazza|corso|strada|largo|calle|c/|avenida|avda|av\.|paseo|plaza|camino|rua|travessa|alameda"
    r"|pra[çc]a|rodovia|carrer|ulica|ul\.|aleja|al\.|ulitsa|ул\.|вул\.|бул\.|пр\.|пер\.|наб\.|пл\.|улица|вулиця|бульвар|переулок|шоссе|площадь|str\.|bul\."
    r"|calea|aleea|проспект|пр-т|cadde|sokak|jalan|jl\.|jln\.?|lorong|gang|gg\.|persiaran|lebuh|thanon|soi|leof(?:oros|\.)|odos|οδός|λεωφόρος|λεωφ\.|πλατεία"
    r"|taman|đường|phố|ngõ|ngách|hẻm|phường|duong)"
    r" (?:(?:de|du|des|e|de la|de l'|della|del|dei|delle|d'|do|da|dos|das|los|las|la|le|les|l'|san|santa|saint|sainte"
    r"|pl\.) ?){0,2}(?:(?:[^\W\d_a-zß-öø-ÿ][\w'.-]*|[0-9](?![0-9]*\.[0-9])[\w'.-]*(?:/[0-9]{1,4})?)(?: (?:de|du|des|da|do|das|dos|del|la"
    r"|le) )?[ ]?){1,5}(?:(?!,? ?(?:[0-9]{4,5}|[0-9]{3} [0-9]{2}) [A-ZÀ-Þ]),? ?(?:[Nn][º°.or]\.? ?|д(?:ом|\.)? ?)?[0-9]{1,5}(?![0-9]|\.[0-9]"
    r"|\.?[oa]\b)(?:[/-][0-9]{1,4})?(?: ?[A-D]\b)?)?(?:,? (?:piso|bajo|[0-9]{1,2}[oa]\b\.?) ?\w{0,4}\.?)?(?:,? [0-9]{4,5}(?:-[0-9]{3})? [A-ZÀ-Þ][\w'-]+"
    r"(?:[ -](?:[A-ZÀ-Þ][\w'-]+|de|la|le|les|sur|en|del|di)){0,4})?"
)
_NEEDS_NUMBER = re.compile(
    r"(?:via|str|plac|place|plaza|strada|route|largo|cours|c/|quai|al|ul|corso|jalan|aleja|gang|soi|lorong|taman|odos|ph|duong|lebuh)\b",
    re.IGNORECASE,
)
_KEYED = re.compile(
    r"((?=[^\n\x1f;\"]{0,100}[0-9])[^\n\x1f;\"<>{}\[\]|]{6,120}?)(?=\"|\n|\x1f|$|\. |\.$|;| and | but | or | so |, (?:please|and|which)|\))"
)
_AFTER_KEY = re.compile(r"[\s\"':=*_)]{1,6}(?:is |was |ist |est |es |[eé] |to |at |now |will be |in ){0,2}")
_COLOMBIAN = re.compile(
    r"(?<!\w)(?:calle|carrera|cra\.?|cll?\.?|kr|transversal|diagonal|dg\.?|avenida|av\.?) [0-9]{1,3} ?[a-z]?(?: (?:sur|bis|norte))? ?(?:#|no\.?"
    r"|n[o°]\.?) ?[0-9]{1,3} ?[a-z]? ?(?:-|–) ?[0-9]{1,3}",
    re.IGNORECASE,
)
_NO_SPACES = re.compile(
    r"(?:[0-9]{1,4}(?:/[0-9]{1,4})? )?(?:ถนน|ซอย)[\u0e00-\u0e7f]{2,40}(?: [0-9]{1,3})?"
    r"|(?:شارع|طريق|خیابان)(?: [\u0621-\u06cc]+){1,4}[ ،,]{1,2}(?:رقم )?[0-9]{1,5}"
    r"|[0-9]{1,5}[ ،,]{1,2}(?:شارع|طريق|خیابان)(?: [\u0621-\u06cc]+){1,3}"
    r"|(?:רחוב|רח'|שדרות|שד')(?: [\u05d0-\u05ea\"'-]+){1,4} [0-9]{1,4}"
)
_POSTBOX = re.compile(
    r"(?:(?i:P\.?\s?O\.?\s?Box|Postfach|(?:Apartado|Apdo\.?)(?: de correos| postal)?|Casilla(?: de correos?| postal)?|Caixa Postal|Casella Postale"
    r"|Bo[iî]te Postale|Postbus|Postboks|Postbox|Postilokero|Skrytka(?: pocztowa)?|(?:private|locked) bag|абонентский ящик|а/я|私書箱|郵政信箱|邮政信箱|사서함"
    r"|صندوق البريد|صندوق بريد|ص\. ?ب\.?|ת\. ?ד\.?)(?: (?:no|nr|n[º°])\b\.?)?[ :#第]{0,2}[0-9]{1,6}(?: [0-9]{2,4}\b(?! [A-Z]))?[号號]?"
    r"|\bB\.?P\.? [0-9]{1,5},? [0-9]{5} [A-Z][\w-]+)" + _CITY
)
_ROMAJI = re.compile(
    r"(?<![\w-])(?:[0-9]{1,3}(?:-[0-9]{1,4}){1,3},? )?(?:[A-ZĀĪŪĒŌ][\w'-]{1,24} ){0,2}[A-ZĀĪŪĒŌ][\w'-]{1,24}(?: [0-9]{1,3}(?:-[0-9]{1,4}){1,3})?,"
    r"(?: ?[A-ZĀĪŪĒŌ][\w'-]{1,24}-(?:ku|shi|cho|machi|gun|to|fu|ken)\b,?){1,4}(?: [A-Z]\w{2,20})?,?(?: 〒?[0-9]{3}-[0-9]{4})?"
)
"""``1-2-3 Shibuya, Shibuya-ku, Tokyo 150-0002``."""
_QUARTER = re.compile(
    r"(?<!\w)(?:[A-Z]{2,4} [0-9]{1,4},? )?(?:(?:quadra|qd|qu|conjunto|conj|bloco|blok|no|bl|lote|lt|manzana|mz|mza|etapa|supermanzana|smz|casa|apto|andar"
    r"|sala)\b\.? ?(?:[0-9]{1,4}[A-Z]?|[A-Z][0-9]{0,2})\b[ ,-]{0,3}){2,5}",
    re.IGNORECASE,
)
"""``SQS 308 Bloco C Apto 402``, ``Mz. F Lt. 12``: blocks and lots instead of a street."""
_MILITARY = re.compile(
    r"(?:(?:PSC|CMR|Unit|USS|USNS|USNV|USCGC) [\w ]{1,24},? ?(?:Box [0-9]{1,6},?)?\s+)?(?:APO|FPO|DPO),? (?:AA|AE|AP) [0-9]{5}(?:-[0-9]{4})?",
    re.IGNORECASE,
)
_JAPANESE = re.compile(
    r"(?:〒?[0-9]{3}-[0-9]{4} ?)?(?:東京都|北海道|(?:大阪|京都)府|[\u4e00-\u9fff]{2,3}県"
    r"|[\u4e00-\u9fff]{1,3}市[\u4e00-\u9fff]{1,3}区)[\u4e00-\u9fff\u3040-\u30ff]{1,16}[0-9一二三四五六七八九十]{1,3}(?:丁目|番地?|号|[-の][0-9]{1,4}){0,3}"
)
_CHINESE = re.compile(
    r"[\u4e00-\u9fff]{2,8}(?:省|市|区|區|县|縣)[\u4e00-\u9fff]{1,16}(?:路|街|道|巷|弄)(?:[一二三四五六七八九十0-9]{1,3}段)?(?:[0-9]{1,4}巷)?(?:[0-9]{1,4}弄)?[0-9]{1,5}(?:号"
    r"|號)(?:[0-9]{1,4}(?:室|楼|樓))?"
)
_KOREAN = re.compile(
    r"(?:[가-힣]{1,4}(?:특별시|광역시|특별자치시|특별자치도|도|시) )?(?:[가-힣]{1,5}(?:시|군|구) ){1,2}(?:[가-힣]{1,5}(?:읍|면) )?[가-힣0-9]{1,10}(?:로|길|동|리) ?[0-9]{1,4}(?:-[0-9]{1,4})?"
)
_CODE = re.compile(r"[(){}=<>\[\]_|`]|::|\\")


# -- the block around a street: what is in front of it, and the lines after it -------------------------------------------

_UNIT_NUMBER = (
    r"(?:(?i:apt|apto|apartment|appt|appartement|ap|suite|ste|unit|flat|floor|level|fl|room|rm|house no|h\.? ?no|house|holding|plot no|plot|lot|moo|door no"
    r"|block|blk|sector|phase|road|rd|lane|ward|daire|kapı|kat|no|n[º°o]|кв|квартира|корп|корпус|стр|подъезд|под|эт|этаж|оф|офис|d|bloco|bl|casa|sala|conj"
    r"|andar|piso|planta|esc|escalera|puerta|pta|local|int|interior|ext|rt|rw|depto|dpto|dept|oficina"
    r"|wohnung|whg|etage|stiege|top|tür|bâtiment|bât|bat|escalier|étage|porte|scala|piano|interno|bus|bte|boîte|lgh|lok|lokal|m|byt|em|emelet|ajtó|et|sc"
    r"|po box|p\.o\. box|box)\b[.:]? ?#?[0-9]{1,5}(?:-[0-9]{1,4}){0,3}[A-Za-z]?\b(?:/[0-9A-Z]{1,4}\b)?"
    r"|#[0-9]{1,3}-[0-9]{1,5}\b|(?i:block|blk|bl|unit|flat|esc|sc|scala|stiege|staircase|bloco|tower|b[âa]t|bâtiment|building)\b\.? [A-Z][0-9]{0,2}\b"
    r"|[0-9]{1,2}\.?[oa]\.? (?:[A-Z]\b|(?i:izq\w*\.?|dcha\.?|der\.?|derecha|centro|andar|piso|floor|esq\.?|dto\.?|frente))(?!\w)|[0-9]{1,2}\. ?(?:tv|th|mf"
    r"|sal)\b|Col\. (?:[A-ZÀ-Þ][\w.]+ ?){1,3})"
)
_POSTCODE = (
    r"(?:[A-Z]{1,2}[0-9][0-9A-Z]? ?[0-9][A-Z]{2}|[A-Z][0-9][A-Z] ?[0-9][A-Z][0-9]|[0-9]{2}-[0-9]{3}"
    r"|(?:[A-Z]{1,2}-)?[0-9]{3,6}(?:-[0-9]{3,4})?(?: ?[A-Z]{2})?|[0-9]{3} [0-9]{2})(?![\w-]| ?[0-9(+])"
)
_PLACE = (
    r"[^\W\d_a-zß-öø-ÿ][^\W\d_]*[.']?(?:[ '-](?:de|del|di|da|do|dos|das|du|of|the|la|le|les|el|al|ul|e|y|am|an|auf|bei|ob|der|den|dem|upon|on|in|and|och|i"
    r"|sur|sous|en|aan|nad|pod)\b|[ '-][^\W\d_a-zß-öø-ÿ(][^\W\d_]*[.)]?){0,5}"
)
_PART = re.compile(
    rf"(?P<gap>,? ?\n[ \t>?]{{0,6}},? ?|, ?| [-–/·] ?|/| )(?:(?P<unit>{_UNIT_NUMBER})|(?P<code>(?:[A-Z]{{2}} |C\.?P\.? "
    rf"|CEP )?{_POSTCODE})(?P<town>,? {_PLACE}(?=[\n,.;?!)]|$))?|(?P<place>{_PLACE})(?!\w)(?P<placed>,? (?:nan |\(?[A-Z]{{2,3}}\)? )?{_POSTCODE})?"
    rf"|(?P<empty>nan)\b)"
)
_HEAD = re.compile(rf"(?:(?<![\w.,$-])(?:{_UNIT_NUMBER},? )?(?P<number>[0-9]{{1,6}}[A-Za-z]?(?:/[0-9]{{1,4}})? )?)$")
_STREET_LINE = re.compile(
    r"(?<![\w.,$-])(?:[0-9]{1,6}[A-Za-z]?(?:[/-][0-9]{1,4})?,? )?(?:[^\W\d_][\w.'’-]{0,24} ){1,6}?[0-9]{1,5}[A-Za-z]?(?:[/-][0-9]{1,4})?\.?"
    r"(?:,? ?\n[ \t>?]{0,6}|,? )$"
    r"|(?<![\w.,$-])[0-9]{1,6}[A-Za-z]?(?:[/-][0-9]{1,4})?,? (?:[^\W\d_][\w.'’-]{0,24} ?){1,6}(?:,? ?\n[ \t>?]{0,6}|,? )$"
)


def _head(text: str, low: int, start: int) -> int:
    """Return where the block begins: a house or unit number may come before the street's name."""
    match = _HEAD.search(text, max(low, start - 24), start)
    if match is None or not text[match.start() : start].strip():
        return start
    return start if match["number"] and _BEFORE_ZIP.search(text, low, match.start()) else match.start()


_BEFORE_ZIP = re.compile(r"\b[A-Z]{2} $")
"""``IL 62704 12 Elm Street``: the number belongs to the address before this one."""


def _tail(text: str, end: int, high: int) -> int:
    """Return where the block ends: unit, place, postcode and country, on the same line or on the next few."""
    best, position, numbered = end, end, True
    for _ in range(7):
        part = _PART.match(text, position, min(high, position + 80))
        if part is None:
            break
        place = part["place"]
        behind = text[part.end() : part.end() + 1] if part.end() < high else ""
        if place is not None:
            word = place.split(" ", 1)[0]
            ends = behind in ("", "\n", ",", "?", "!", ";", ")") or (
                (behind == "." and text[part.end() + 1 : part.end() + 2] in ("", " ", "\n"))
                or _BEFORE_STATE.match(text, part.end(), high) is not None
            )
            follows = part["gap"] != " " or numbered
            if (
                not follows
                or (
                    not part["placed"]
                    and word.lower() in COMMON
                    and word.lower() not in _PLACE_WORDS
                    and not (word.isupper() and len(word) == 2)
                )
                or not (part["placed"] or ends or numbered)
            ):
                break
            if part["placed"] or ends:
                best = part.end()
        elif part["empty"] is None:
            if (
                part["code"]
                and part["town"] is None
                and "\n" in part["gap"]
                and behind not in ("", "\n", ",", ".", ";", "?", "!")
            ):
                break  # "416 60 039 office" on the next line is a phone number
            best = part.end()
        numbered = part["unit"] is not None or (numbered and part["empty"] is not None)
        position = part.end()
    return best


_BEFORE_STATE = re.compile(r" [-–] ?[A-Z]{2}\b")
_PLACE_WORDS = frozenset(
    (
        "new united north south east west northern southern eastern western central lower upper great saint federal republic kingdom states islands island "
        "city san santa"
    ).split()
)


def _accept(match: re.Match[str], low: int, high: int, group: int = 0) -> tuple[Candidate, ...]:
    value = match.group(group)
    start = match.start(group)
    trimmed = value.rstrip(" ,.;:-'’")  # the quotation mark around it is not part of it
    if len(trimmed) < 6 or start < low:
        return ()
    if holds_invented(trimmed):
        return (Candidate(start, start + len(trimmed), "*"),)
    text = match.string
    return (Candidate(_head(text, low, start), _tail(text, start + len(trimmed), high), CLASS),)


def _unit(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``6614 Luite tee 87, Apt. 931``: the unit shows that the words before it are a street, whatever the language."""
    unit = reaching(_UNIT_ONLY, text, low, high, at, 20, 8)
    if unit is None:
        return ()
    line = _STREET_LINE.search(text, max(low, unit.start() - 90), unit.start())
    if line is None or holds_invented(text[line.start() : unit.end()]):
        return ()
    words = [word for word in re.split(r"[^\w.'’-]+", line.group()) if word[:1].isalpha()]
    if all(word.lower() in COMMON for word in words):
        return ()
    return (Candidate(line.start(), _tail(text, unit.end(), high), CLASS),)


_UNIT_ONLY = re.compile(rf"(?<!\w){_UNIT_NUMBER}")


def _number_first(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``1600 Pennsylvania Avenue``: the trigger ended on the word after the number."""
    if " " not in text[at - 2 : at]:
        return ()
    number = _HOUSE_NUMBER.search(text, max(low, at - 24), at)
    match = _ENGLISH.match(text, number.start(1), min(high, at + 160)) if number else None
    return _accept(match, low, high) if match else ()


_HOUSE_NUMBER = re.compile(r"(?<![\w.$€£#/-])([0-9]{1,6}[A-Za-z]?(?:[/-][0-9]{1,4})?),? (?:[0-9]+[a-z]{2} |\S)$")


def _german(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    match = reaching(_GERMAN, text, low, high, at, 60, 60, begun=True)
    if match is None:
        return ()
    words = re.split(r"[ .]+(?=[^ .]*[0-9])", match.group(), maxsplit=1)[0].split(" ")
    # "During 1971" and "Spring 2024" end like streets, "Markt 3" and "use gate 22" do not name one.
    if not words[0][0].isupper() or (words[0].lower() in COMMON and len(words) < 3) or words == ["Markt"]:
        return ()
    return () if _NO_STREET_WORD.match(words[-1].lower()) else _accept(match, low, high)


_NO_STREET_WORD = re.compile(
    r"(?:sitz|park|stell|arbeits|speicher|lager|liege|steh|schlaf|tank|bade|zelt|fenster)platz$|(?:bahn|aus)steig$|(?:um|aus|hin|rück|lern|kreis|rechts)weg$"
)
"""What ends like a street but is not one: ``Sitzplatz 12``."""
_LONG_NUMBER = re.compile(r"[0-9]{7}")


def _romance(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    for match in _ROMANCE.finditer(text, max(low, at - 40), min(high, at + 110)):
        if match.end() >= at and match.start() < at:
            value = match.group()
            # These words are ordinary ones, or the names of software, if no number follows.
            if (
                not any(char.isdigit() for char in value)
                and _NEEDS_NUMBER.match(value)
                and _head(text, low, match.start()) == match.start()
            ):
                return ()
            if _LONG_NUMBER.search(value):
                return ()  # "via DHL 00340434161094021501"
            return _accept(match, low, high)
    return ()


_SMALL_STREET = re.compile(
    rf"[0-9]{{1,6}}[a-z]? (?:[a-z]+ ){{1,3}}{_SUFFIX}\b(?:,? (?:apt|unit|flat|suite|#) ?[0-9a-z]{{1,5}}\b)?"
)
"""``55 oakwood road``, as chats write it; only after a word for an address."""


def _keyed(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    opening = _AFTER_KEY.match(text, at - 1, min(high, at + 30))
    if opening is None or holds_invented(text[max(low, at - 24) : at]):
        return ()
    start = opening.end()
    if text[start : start + 1] in "([{<`@" or not (text[start : start + 1].isalnum()):
        return ()
    for pattern in (_ENGLISH, _GERMAN, _ROMANCE):
        match = pattern.match(text, start, min(high, start + 130))
        if match is not None:
            return _accept(match, low, high)
    match = _KEYED.match(text, start, min(high, start + 130))
    if match is None:
        return ()
    value = match.group(1)
    # An address has a number and words; an IP, an e-mail, a URL, a hex number or a line of code is not one.
    words = [word for word in re.split(r"[\s,]+", value) if word]
    if (
        len(words) < 2
        or not any(map(str.isdigit, value))
        or _CODE.search(value)
        or "@" in value
        or "://" in value
        or value.lower().startswith("0x")
    ):
        return ()
    small = _SMALL_STREET.match(value)
    if small is not None:
        return (Candidate(start, start + small.end(), CLASS),)
    if sum(word[:1].isupper() for word in words if word[:1].isalpha()) * 2 < sum(word[:1].isalpha() for word in words):
        return ()
    if not any(word[:1].isalpha() and len(word) > 2 for word in words) or len(words) > 14:
        return ()
    return _accept(match, low, high, 1)


def _other(pattern: re.Pattern[str], text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    for match in pattern.finditer(text, max(low, at - 60), min(high, at + 80)):
        if match.end() >= at and match.start() < at:
            return _accept(match, low, high)
    return ()


_HOUSE_AND_ROAD = re.compile(
    r"(?<!\w)(?:house|flat|plot|holding|h|villa|bungalow)(?: no)?[.:]? ?#?[0-9]{1,4}[A-Z]?(?:/[0-9A-Z]{1,4})?,? ?(?:road|rd|street|st|lane|sector|block"
    r"|phase|ward|cross|main|avenue)(?: no)?[.:]? ?#?[0-9A-Z]{1,4}\b",
    re.IGNORECASE,
)
"""``HOUSE 12, ROAD 7``: streets of Dhaka, Islamabad and Lagos have numbers for names."""
_UNIT_FIRST = re.compile(
    rf"(?<!\w){_UNIT_NUMBER}(?:, ?[A-Z0-9][^,\n]{{1,30}}){{0,4}}, ?[A-Z][^\W\d_]+(?: [A-Z][^\W\d_]+){{0,3}}[ ,-]{{1,3}}[0-9]{{3}} ?[0-9]{{2,3}}(?![\w-])"
)


def _unit_first(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``House No. 45, Sector 17, Chandigarh 160017``: a unit, parts between commas, and a postcode; no street is named."""
    found = (reaching(one, text, low, high, at, 20, 150, begun=True) for one in (_HOUSE_AND_ROAD, _UNIT_FIRST))
    return next((_accept(match, low, high) for match in found if match), ())


_POSTAL_TOWN = re.compile(
    rf"[0-9](?: ?[A-Za-z])?(?:[/-](?:[0-9]{{1,4}}|[IVX]{{1,4}}))?(?P<gap>,? ?\n[ \t>?]{{0,6}}|, ?| )(?P<code>{_POSTCODE}),? {_PLACE}(?!\w)"
)
_STREET_BEFORE = re.compile(r"(?<![\w.,$-])(?:[^\W\d_][\w.'’-]{0,24} ){1,5}[0-9]{1,4}\Z")
_YEAR = re.compile(r"(?:19|20)[0-9]{2}\Z")


def _street_and_town(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``Długa 5/12, 00-950 Warszawa``: no word for a street, but a number, a postcode and a town after the name."""
    if text[at - 3] != " ":
        return ()
    for match in _POSTAL_TOWN.finditer(text, max(low, at - 24), min(high, at + 60)):
        if match.end() < at:
            continue
        line = _STREET_BEFORE.search(text, max(low, match.start() - 90), match.start() + 1)
        if line is None or match.start() >= at or _YEAR.match(match["code"]) or holds_invented(line.group()):
            return ()
        words = list(_STREET_WORD.finditer(line.group()))
        before = max((at for at, word in enumerate(words) if word.group().lower() in _BEFORE_STREET), default=-1)
        words = words[before + 1 :]
        while words and not words[0].group()[0].isupper():
            words.pop(0)
        if not words or all(word.group().lower() in COMMON for word in words):
            return ()
        return (Candidate(line.start() + words[0].start(), _tail(text, match.end(), high), CLASS),)
    return ()


_STREET_WORD = re.compile(r"[^\W\d_][\w.'’-]*")


_BEFORE_STREET = frozenset(phrases("addresses.before_street"))


DETECTORS = (
    # The number and the first word only: the words for streets, two hundred of them, are for the check.
    row("address: number and street", CLASS, _number_first, r"(?#digits)[0-9](?:[A-Za-z]?,?[ \n]|[A-Za-z])[A-Z\xc0-\xde]",
        r"[0-9][A-Za-z]?,? [0-9]+(?:st|nd|rd|th) ",
        shows=("Ship to ⟦1600 Pennsylvania Avenue NW, Washington, DC 20500⟧", "5 event selectors for a trail")),
    row("address: street and number", CLASS, _german,
        r"(?i)(?:stra(?:ß|ss)e|str\.|platz|weg|gasse|allee|ring|damm|ufer|steig|gracht|straat|laan|plein|gatan|vägen|gata|vej|gade|veien|gaten|katu|utca"
        r"|ulice|markt|gate|graben|bulvarı|caddesi|cad\.|sokak|sokağı|sok\.|mahallesi|mah\.|út|útja|körút|tere|náměstí|nám\.|třída|trieda|ulica|cesta|trg"
        r"|iela|gatvė|tänav|puiestee|torget|gränd|plads|bakken|ntie|kuja|polku|kaari|esplanadi) (?:no ?[:.]? ?)?[0-9]{1,4}",
        shows=("wohnt in der ⟦Hettnerstraße 5, 10115 Berlin⟧", "platz 3")),
    row("address: street word first", CLASS, _romance,
        r"(?i)[^A-Za-z0-9](?:rue|avenue|boulevard|chemin|allée|impasse|quai|via|viale|vicolo|piazza|corso|calle|avenida|avda|av\.|bd\.?|bulevardul|rruga e"
        r"|rruga|largo|paseo|plaza|camino|rua|travessa|alameda|praça|carrer|ulica|ul\.|al\.|aleja|jalan|jl\.|c/|nám\.|náměstí|plac|strada|str\.|bul\.|calea"
        r"|aleea|jln\.?|lorong|gang|persiaran|lebuh|thanon|soi|leoforos|leof\.|odos|taman|đường|phố|ng\xe9|ngách) (?:(?:de|du|des|della|del|dei|d'|do|da|dos"
        r"|das|los|las|la|le|les|l'|de l'|san|santa|saint|sainte) ?){0,2}(?-i:[A-Z\xc0-\xde])[a-z\xdf-\xff]",
        shows=("habite ⟦77, rue Élodie Guérin, 09822 Gillesdan⟧",)),
    row("address: announced", CLASS, _keyed,
        r"(?i)(?:\baddress(?:[ _]?line)?[ _]?[12]?|anschrift|adresse|dirección|endereço|indirizzo|adres|bydliště|street_?1?|\baddr|live at|lives at"
        r"|living at|reside at|resides at|residing at|moved? to|i['\x80-\xff]{0,3}m at|ship it to|ship to|deliver to|delivered to|send it to|wohne in"
        r"|wohnhaft(?: in)?|habite|vivo en|moro na|abito in)[\"']{0,1}(?:[ :=]|\s(?:is|ist|est|es|é) )",
        shows=("address: ⟦42 Wallaby Way, Sydney⟧", "address is required")),
    row("address: unit", CLASS, _unit, r"(?i)\b(?:apt|apartment|suite|unit|flat)\.? ?#?[0-9]",
        shows=("ship to ⟦6614 Luite tee 87, Apt. 931, Salumäe, Estonia 62031⟧ by Friday",
               "run the test suite 3 times in unit 7")),
    row("address: street, postcode and town", CLASS, _street_and_town,
        r"(?#digits)[0-9]{2}[0-9 \-]*(?:(?:[A-Z]{2})?,?[ \n]|[A-Z])[A-Z\xc0-\xde][a-z\xdf-\xff]",
        shows=("Adres: ⟦Długa 5/12, 00-950 Warszawa⟧.", "Monday, January 12, 2024 Paris")),
    row("address: unit first", CLASS, _unit_first,
        r"(?i)\b(?:house(?: no)?|plot no|door no|no|plot|flat|holding|block|unit|villa|apartment|h\.? ?no|lot"
        r"|moo)\.?:? ?#?[0-9]{1,5}(?:-[0-9]{1,4})*(?:/?[A-Z0-9]{1,3})?,? ?[A-Z0-9]",
        shows=("⟦House No. 45, Sector 17, Chandigarh 160017⟧", "Block 7, Tests and 160017 others")),
    row("address: Cyrillic street", CLASS, _romance, r"(?#rare)\xe9-?\xe9\.? É\xe9{2,30},? (?:\xe9{1,3}\.? ?)?[0-9]",
        shows=("⟦ул. Тверская, д. 7, кв. 12, Москва, 125009⟧",)),
    row("address: post box", CLASS, lambda text, low, high, at: _other(_POSTBOX, text, low, high, at),
        r"(?i)\b(?:P\.? ?O\.? ?Box|Postfach|(?:Apartado|Apdo\.?)(?: de correos| postal)?|Casilla(?: de correos?| postal)?|Caixa Postal|Casella Postale"
        r"|bo.te postale|postbus|postboks|postilokero|skrytka(?: pocztowa)?|(?:private|locked) bag)(?: n[roº°]\.?)? ?[0-9]",
        r"\xe9/\xe9 [0-9]", r"\bB\.?P\.? [0-9]{1,5},? [0-9]{5} [A-Z]",
        shows=("write to ⟦P.O. Box 1234, Austin, TX 78701⟧", "⟦Casilla 4482⟧, Correo Central", "BP 120 over 80")),
    row("address: Japan in Latin letters", CLASS, lambda text, low, high, at: _other(_ROMAJI, text, low, high, at),
        r"[a-z]-(?:ku|shi|gun),? [A-Z]", shows=("⟦1-2-3 Shibuya, Shibuya-ku, Tokyo 150-0002⟧", "the Shibuya-ku Office")),
    row("address: blocks and lots", CLASS, lambda text, low, high, at: _other(_QUARTER, text, low, high, at),
        r"(?i)\b(?:bloco|blok|quadra|conjunto|lote|manzana|mz|smz)\.? ?[A-Z0-9]{1,4}[ ,\-]{1,3}[a-z]{2,7}\.? ?[A-Z0-9]",
        shows=("⟦SQS 308 Bloco C Apto 402⟧, Asa Sul", "bloco 7 de notas")),
    row("address: military post", CLASS, lambda text, low, high, at: _other(_MILITARY, text, low, high, at),
        r"(?i)\b(?:APO|FPO|DPO),? (?:AA|AE|AP) [0-9]{5}", shows=("sent to ⟦PSC 7951, Box 9972\nAPO AA 69974⟧?",)),
    row("address: numbered streets", CLASS, lambda text, low, high, at: _other(_COLOMBIAN, text, low, high, at),
        r"(?i)\b(?:calle|carrera|cra\.?|cll?\.?|kr|transversal|diagonal|dg\.?|avenida|av\.?) [0-9]{1,3} ?[a-z]?(?: (?:sur|bis|norte))? ?(?:#|no\.?"
        r"|n[o°]\.?) ?[0-9]",
        shows=("⟦Calle 44 No. 12-30 Apto 501, Medellín⟧",)),
    row("address: Thai, Arabic, Hebrew", CLASS, lambda text, low, high, at: _other(_NO_SPACES, text, low, high, at) or _other(_POSTBOX, text, low, high, at),
        r"(?#rare)\xe9{2}[\xe9\xb7]?(?:, | |\xb7 )(?:\xe9{3} )?[0-9]{1,5}", r"(?#rare)[0-9] [\xe9\xb7]{6}",
        r"(?#rare)[0-9] \xe9{4} \xe9{3}",
        shows=("⟦شارع الملك فهد 44⟧", "العدد الكلي 44", "⟦רחוב דיזנגוף 99⟧, תל אביב", "⟦99/4 ถนนสุขุมวิท⟧ กรุงเทพฯ",
               "رقم ⟦14 شارع الملك فيصل⟧")),
    row("address: East Asia", CLASS, lambda text, low, high, at: (
            _other(_CHINESE, text, low, high, at)
            or _other(_JAPANESE, text, low, high, at)
            or _other(_POSTBOX, text, low, high, at)
        ),
        r"(?#rare)[\xe9]{3}[0-9]{1,5}\xe9", r"(?#rare)\xe9{2}[0-9]{1,3}[-\xe9][0-9]", shows=("⟦北京市海淀区中关村大街27号⟧",)),
    row("address: Korea", CLASS, lambda text, low, high, at: _other(_KOREAN, text, low, high, at),
        r"(?#rare)\xe9{2} \xe9{2,6} ?[0-9]{1,4}", shows=("⟦서울특별시 강남구 테헤란로 152⟧", "우리 회사 15")),
)  # fmt: skip
