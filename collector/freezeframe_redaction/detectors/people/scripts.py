"""Names of people in other scripts: Cyrillic and Greek by the form of surnames, East Asian by surnames and words around them, Semitic
and Hindi by the word before.
"""

from __future__ import annotations

import re
from functools import cache

from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.detectors.people.names import CLASS
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rows import made_of
from freezeframe_redaction.rule_tables import Rules

_RULES = Rules("people_scripts")
_SLAVIC, _SLAVIC_OFFICIAL, _SLAVIC_FULL = map(_RULES.form, ("slavic", "slavic_official", "slavic_full"))
_SLAVIC_SURNAME, _CHINESE, _CHINESE_SAID = map(_RULES.form, ("slavic_surname", "chinese", "chinese_said"))
_CHINESE_ADDRESSED, _JAPANESE, _KOREAN = map(_RULES.form, ("chinese_addressed", "japanese", "korean"))
_NAMED_HAN, _DEAR_HAN, _JAPANESE_SAID = map(_RULES.form, ("named_han", "dear_han", "japanese_said"))
_NAMED_KOREAN, _KOREAN_SAID = map(_RULES.form, ("named_korean", "korean_said"))

_GREEK = re.compile(r"(?<!\w)[Α-ΩΆ-Ώ][α-ωά-ώ]+ [Α-ΩΆ-Ώ][α-ωά-ώ]+(?:όπουλος|οπούλου|ίδης|ίδου|άκης|άκη|ης|ου|ος|ας)(?!\w)")
_KOREAN_CUE = re.compile(r"(?:이름|성명|고객|환자|담당자|받는|수신|보내는|연락처|님|씨)")
_LETTERS = rf"(?:[^\W\d_a-zA-Z]|[{names.MARKS}])"
_CLAUSE_ENDS = r"[ \t]?(?=[,.!?;:()\n\x1f\u060c\u061b\u061f\u06d4\u0964\u0965\"]|$)"


def _announced(said: str, fields: str, stop: str, *, most: int = 2, glue: str = "(?!)", spaced: bool = True) -> str:
    """Return the pattern of a name of up to `most` words (one more if a clause ends with it) after what announces it.

    These scripts have no capitals, so a name ends by grammar or not at all: `stop` are words that are not part of it, `glue`
    begins words that are (``bin``, ``al-``). `said` comes before a space, `fields` before a colon; a script that is not
    `spaced` writes titles and names together.
    """
    word = rf"(?!(?:{stop})(?!{_LETTERS})){_LETTERS}{{2,24}}"
    glued = rf"(?:[ ](?:{glue})[ ]?{_LETTERS}{{1,20}})*"
    gap = r"[ \t\n]{1,2}" if spaced else r"[ \t\n]{0,2}"
    return (
        rf"(?<!{_LETTERS})(?:(?:{said}){gap}|(?:{said}|{fields})[ ]?:[ \t\n]{{0,2}})"
        rf"({word}{glued}(?:[ ]{word}){{0,{most - 1}}}{glued}(?:[ ]{word}{_CLAUSE_ENDS})?)(?!{_LETTERS})"
    )


_compiled = cache(re.compile)
"""Compiled when its script is first met: two dozen of them took half the time of importing the redactor."""


_ARABIC = _announced(
    "(?:ال)?سيدة?|(?:ال)?دكتورة?|الأستاذة?|الآنسة|الحاجة?|المهندسة?|معكم?|اسمي(?: هو)?|مع تحيات|تحياتي[,،]?|مع أطيب التحيات[,،]?|العميلة?|المريضة?",
    "الاسم(?: الكامل)?|اسم (?:العميل|المريض|الموظف|المستلم|الزبون|الطالب)",
    f"و[أنا]{_LETTERS}*|في|من|على|إلى|عن|هل|لا|لم|لن|ثم|أو|هو|هي|الذي|التي|قد|كان|كانت|أريد|أود|أرغب|المدير|العام|المحترم|المحترمة|رئيس|وزير|العميل|العزيز"
    f"|الكريم",
    glue="عبد|أبو|أبي|ابن|بن|بنت|آل|أم|ال",
)
_PERSIAN = _announced(
    "نام من|اسم من|آقای|سرکار خانم|خانم|جناب|میرا نام|محترمہ|محترم",
    "نام(?: و نام خانوادگی| مشتری| بیمار)?|مریض",
    "است|هستم|و|من|را|به|از|در|که|می|ہے|ہیں|اور|سے|کو|کا|کی|کے|نے|میں|مشتری|بیمار|کاربری|کاربر|شرکت",
)
_HEBREW = _announced(
    "ו?שמי(?: הוא)?|מדברת?|קוראים לי|ל?מר|ל?גברת|ל?גב'|ד\"ר|פרופ'|לכבוד|בברכה,?",
    "שם(?: מלא| הלקוח| המטופל)?",
    f"ו[אב]{_LETTERS}*|אני|של|את|על|עם|כי|לא|רוצה|מבקש|מבקשת|הוא|היא|פרטי|משפחה",
)
_HINDI = _announced(
    "(?:मेरा|हमारा) नाम|माझे नाव|माझं नाव|मेरो नाम|श्रीमान|श्रीमती|श्री|सुश्री|कुमारी|डॉ\\.?",
    "नाम|नाव|पूरा नाम|ग्राहक|मरीज|रोगी",
    "है|हैं|हूँ|हूं|हो|आहे|जी|और|को|ने|से|का|की|के|में|पर|एक|यह|वह|बोल|था|थी|क्या|नहीं|आपका|आपके",
    most=3,
)
_BENGALI = _announced("আমার নাম|জনাবা?|শ্রী|শ্রীমতী|ডাঃ|ডা\\.?", "নাম|রোগী|গ্রাহক", "এবং|থেকে|বলছি|ও|আমি|হল|হলো|আপনার|কি|করেছেন|না", most=3)
_PUNJABI = _announced("ਮੇਰਾ ਨਾਮ|ਮੇਰਾ ਨਾਂ|ਸ਼੍ਰੀ|ਸ਼੍ਰੀਮਤੀ", "ਨਾਮ", "ਹੈ|ਅਤੇ|ਨੇ|ਨੂੰ|ਦਾ|ਦੀ|ਦੇ", most=3)
_GUJARATI = _announced("મારું નામ|શ્રી|શ્રીમતી", "નામ", "છે|અને|ને|થી|નો|ની|નું", most=3)
_TAMIL = _announced("என் பெயர்|எனது பெயர்|திரு\\.?|திருமதி\\.?|செல்வி|டாக்டர்", "பெயர்", "மற்றும்|என்|நான்|இல்லை|ஆகும்|உங்கள்")
_TELUGU = _announced("నా పేరు|శ్రీ|శ్రీమతి|డాక్టర్", "పేరు", "మరియు|నేను|నా|అని|కాదు|మీ")
_KANNADA = _announced("ನನ್ನ ಹೆಸರು|ಶ್ರೀ|ಶ್ರೀಮತಿ", "ಹೆಸರು", "ಮತ್ತು|ನಾನು|ನನ್ನ|ಎಂದು|ನಿಮ್ಮ")
_MALAYALAM = _announced("എന്റെ പേര്|ശ്രീ|ശ്രീമതി|ഡോ\\.?", "പേര്", "ആണ്|എന്നാണ്|എന്റെ|ഞാൻ|നിങ്ങളുടെ|ഉം")
_SINHALA = _announced("මගේ නම|ශ්‍රී|මහතා", "නම", "යි|සහ|මම|මගේ")
_THAI = _announced(
    "(?:ผม|ฉัน|ดิฉัน|หนู)ชื่อ(?:ว่า)?|(?:เรียน[ ]?)?คุณ|นางสาว|นาย|นาง|น\\.ส\\.|ดร\\.|ผู้ป่วย(?:ชื่อ)?|ลูกค้า(?:ชื่อ)?",
    "ชื่อ(?:-?นามสกุล|ผู้ป่วย|ลูกค้า)?",
    f"(?:ต้องการ|ไม่|โทร|มา|ขอ|อยาก|สวัสดี|ภาพ|แบบ|ไฟล์|ผู้ใช้|สามารถ|คือ|มี){_LETTERS}*|ครับ|ค่ะ|คะ|และ|ที่|ได้|จะ|เป็น|ลูกค้า",
    spaced=False,
)
_LAO = _announced("ຂ້ອຍຊື່|ທ່ານ|ນາງ|ທ້າວ", "ຊື່", f"ແລະ|ຕ້ອງການ{_LETTERS}*", spaced=False)
_KHMER = _announced("ខ្ញុំឈ្មោះ|លោកស្រី|លោក", "ឈ្មោះ", f"ហើយ|និង|ចង់{_LETTERS}*", spaced=False)
_BURMESE = _announced("ကျွန်တော့်နာမည်|ကျွန်မနာမည်|ဦး|ဒေါ်", "နာမည်|အမည်", "နဲ့|ပါ", spaced=False)
_GEORGIAN = _announced(
    "ჩემი სახელია|მქვია|ბატონო|ქალბატონო|ბატონი|ქალბატონი",
    "სახელი(?: და გვარი)?|გვარი|პაციენტი|კლიენტი",
    "და|მინდა|არის|მე|თქვენი",
)
_AMHARIC = _announced("ስሜ|አቶ|ወይዘሮ|ወ/ሮ|ዶ/ር", "ስም", "ነው|እና|ይባላል|እኔ")


def _slavic(text: str, floor: int, ceiling: int, at: int) -> tuple[Candidate, ...]:
    for pattern in (_SLAVIC_OFFICIAL, _SLAVIC_FULL):
        for match in pattern.finditer(text, floor, ceiling):
            if match.end() >= at and match.start() < at:
                return (Candidate(match.start(), match.end(), CLASS, "slavic"),)
    for match in _SLAVIC.finditer(text, floor, ceiling):
        if match.end() >= at and match.start() < at:
            good = _SLAVIC_SURNAME.search(match.group(3)) or match.group(2) or _SLAVIC_SURNAME.search(match.group(1))
            return (Candidate(match.start(), match.end(), CLASS, "slavic"),) if good else ()
    return ()


def _greek(text: str, floor: int, ceiling: int, at: int) -> tuple[Candidate, ...]:
    for match in _GREEK.finditer(text, floor, ceiling):
        if match.start() < at <= match.end() + 1:
            return (Candidate(match.start(), match.end(), CLASS, "script"),)
    return ()


_SAID_IN_HAN = (_KOREAN_SAID, _JAPANESE_SAID, _NAMED_KOREAN, _NAMED_HAN, _DEAR_HAN, _CHINESE_SAID, _CHINESE_ADDRESSED)


def _east_asian(text: str, floor: int, ceiling: int, at: int) -> tuple[Candidate, ...]:
    # The trigger ends with a run of letters, which East Asian text does not break at names.
    said = [match.span(1) for pattern in _SAID_IN_HAN for match in pattern.finditer(text, floor, ceiling)]
    said += [match.span() for match in _CHINESE.finditer(text, floor, ceiling)]
    said += [match.span() for match in _JAPANESE.finditer(text, floor, ceiling)]
    if _KOREAN_CUE.search(text, floor, ceiling):
        said += [match.span() for match in _KOREAN.finditer(text, floor, ceiling)]
    return tuple(Candidate(start, end, CLASS, "script") for start, end in said)


_READS: dict[int, tuple[str, ...]] = {
    0x0580: (_HEBREW,), 0x0600: (_ARABIC, _PERSIAN), 0x0680: (_ARABIC, _PERSIAN), 0x0900: (_HINDI,), 0x0980: (_BENGALI,), 0x0A00: (_PUNJABI,),
    0x0A80: (_GUJARATI,), 0x0B80: (_TAMIL,), 0x0C00: (_TELUGU,), 0x0C80: (_KANNADA,), 0x0D00: (_MALAYALAM,), 0x0D80: (_SINHALA,), 0x0E00: (_THAI,),
    0x0E80: (_LAO,), 0x1000: (_BURMESE,), 0x1080: (_GEORGIAN,), 0x1200: (_AMHARIC,), 0x1280: (_AMHARIC,), 0x1300: (_AMHARIC,), 0x1780: (_KHMER,),
}  # fmt: skip
"""Half block of Unicode -> how names are announced in the languages that are written with it."""


def _foreign(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The trigger ended with, or one after, a letter beyond Latin-1, or of Latin-1 beyond ASCII."""
    code = ord(text[at - 1] if text[at - 1].isalpha() or at - 2 < low else text[at - 2])
    floor, ceiling = max(low, at - _REACH), min(high, at + _REACH)
    if code < 0x0370:
        return ()
    if code >= 0x2E80 or 0x1100 <= code < 0x1200:
        return _east_asian(text, floor, ceiling, at)
    if code < 0x0400:
        return _greek(text, floor, ceiling, at)
    if code < 0x0530:
        return _slavic(text, floor, ceiling, at)
    for pattern in _READS.get(code & ~0x7F, ()):
        for match in _compiled(pattern).finditer(text, floor, ceiling):
            if match.start() < at <= match.end() + 1:
                return (Candidate(match.start(1), match.end(1), CLASS, "script"),)
    return ()


_REACH = 64
"""Characters before and after a trigger in which a name is read."""

DETECTORS = made_of(_RULES, {"foreign": _foreign})
