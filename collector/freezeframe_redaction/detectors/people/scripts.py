"""Names of people in other scripts: Cyrillic and Greek by the form of surnames, East Asian by surnames and words around them, Semitic
and Hindi by the word before.
"""

from __future__ import annotations

import re
from functools import cache

from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.detectors.people.names import CLASS
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rows import row

_PATRONYMIC = "(?:[ое]вич(?:а|у|ем|е)?|ьич(?:а|у|ем|е)?|вич|(?:овн|евн|ичн|івн|ївн)(?:а|ы|е|у|ой|і|ою))"
"""In the cases that messages put it in: ``передайте Ивану Петровичу``."""
_SLAVIC = re.compile(
    rf"(?<!\w)([А-ЯЁІЇЄҐ][а-яёіїєґ]+) (?:([А-ЯЁІЇЄҐ][а-яёіїєґ]+{_PATRONYMIC})\s)?([А-ЯЁІЇЄҐ][а-яёіїєґ]+(?:-[А-ЯЁІЇЄҐ][а-яёіїєґ]+)?)(?!\w)"
)
_SLAVIC_OFFICIAL = re.compile(
    rf"(?<!\w)[А-ЯЁІЇЄҐ][а-яёіїєґ]+(?:-[А-ЯЁІЇЄҐ][а-яёіїєґ]+)? [А-ЯЁІЇЄҐ][а-яёіїєґ]+ [А-ЯЁІЇЄҐ][а-яёіїєґ]+{_PATRONYMIC}(?!\w| [А-ЯЁІЇЄҐ])"
)
"""Surname, given name, patronymic, as forms have them."""
_SLAVIC_FULL = re.compile(
    rf"(?<!\w)[А-ЯЁІЇЄҐ][а-яёіїєґ]+ [А-ЯЁІЇЄҐ][а-яёіїєґ]+{_PATRONYMIC}(?: [А-ЯЁІЇЄҐ][а-яёіїєґ]+(?:-[А-ЯЁІЇЄҐ][а-яёіїєґ]+)?)?(?!\w)"
)
"""Given name, patronymic and mostly a surname; the patronymic is evidence enough."""
_SLAVIC_SURNAME = re.compile(
    r"(?:ов|ова|ев|ева|ёв|ёва|ин|ина|ын|ына|ский|ская|цкий|цкая|ой|енко|чук|юк|ук|ич|вич|як|ий|ая|их|ых|ко|ян|швили|дзе|[оеё]в(?:у|а|ым|ым|е)|[оеё]вой"
    r"|ин(?:у|ым)|иной|ск(?:ому|ого|им|ой|ую)|енк[оу]|чук(?:у|а|ом))$"
)
_GREEK = re.compile(r"(?<!\w)[Α-ΩΆ-Ώ][α-ωά-ώ]+ [Α-ΩΆ-Ώ][α-ωά-ώ]+(?:όπουλος|οπούλου|ίδης|ίδου|άκης|άκη|ης|ου|ος|ας)(?!\w)")
_CHINESE_SURNAME = "(?:[王李张張刘劉陈陳杨楊赵趙黄黃周吴吳徐孙孫胡朱高林何郭马馬罗羅梁宋郑鄭谢謝韩韓唐冯馮于董萧程曹袁邓鄧许許傅沈曾彭吕呂苏蘇卢盧蒋蔣蔡贾丁魏薛叶葉阎余潘杜戴夏钟汪田任姜范方石姚谭廖邹熊金陆郝孔白崔康毛邱秦江史顾侯邵孟龙万段雷钱汤尹黎易常武乔贺赖龚文]|欧阳|上官|司马|诸葛)"
_CHINESE = re.compile(
    rf"(?<![\u4e00-\u9fff\u3040-\u30ff]){_CHINESE_SURNAME}[\u4e00-\u9fff]{{1,2}}(?![\u4e00-\u9fff\u3040-\u30ff])"
)
_CHINESE_SAID = re.compile(
    rf"(?:我叫|名字[叫是]|名叫|姓名[是为為]|我是|联系人是?|聯絡人是?|收件人是?|顾客|顧客|客户|客戶|患者|病人)[::\s]?({_CHINESE_SURNAME}[\u4e00-\u9fff]{{1,2}})(?<!的)(?=的(?:妻子|丈夫|女儿|儿子|母亲|父亲|爸爸|妈妈"
    rf"|家属|朋友|同事|律师)|反映|表示|要求|来电|投诉|希望|咨询|申请|[^\u4e00-\u9fff]|$)"
)
"""A name after the words that announce one, in the middle of a run of characters."""
_CHINESE_ADDRESSED = re.compile(
    rf"(?<![\u4e00-\u9fff])({_CHINESE_SURNAME}[\u4e00-\u9fff]{{1,2}}?)(?=先生|女士|小姐|太太|老师|老師|同学|经理|經理|医生|醫生|教授)"
)
"""A name before the word by which its bearer is addressed."""
_JAPANESE_SURNAMES = (
    "佐藤|鈴木|高橋|田中|伊藤|渡辺|渡邊|山本|中村|小林|加藤|吉田|山田|佐々木|山口|松本|井上|木村|林|斎藤|斉藤|清水|山崎|森|池田|橋本|阿部|石川|山下|中島|石井|小川|前田|岡田|長谷川|藤田|後藤|近藤|村上|遠藤|青木|坂本|福田|太田|西村|藤井|金子|岡本|藤原|三浦"
    "|中野|中川|原田|松田|竹内|小野|田村|中山|和田|石田|上田|森田|原|柴田|酒井|工藤|横山|宮崎|宮本|内田|高木|安藤|谷口|大野|丸山|今井|高田|藤本|武田|村田|上野|杉山|増田|平野|大塚|千葉|久保|松井|小島|岩崎|桜井|野口|松尾|野村|木下|菊地|佐野|大西|杉本|新井"
    "|浜田|菅原|市川|水野|小松|島田|古川|小山|高野|西田|山内|西川|菊池|北村|五十嵐|福島|安田|中田|川口|平田|川崎|飯田|吉川|本田|久保田|沢田|辻|関|吉村|渡部|岩田|中西|服部|樋口|福井|川上|永井|松岡|田口|山中|森本|土屋|矢野|広瀬|秋山|石原|松下|大橋|松浦|吉岡"
    "|小池|馬場|浅野|荒木|大久保|野田|熊谷"
)
_JAPANESE = re.compile(
    rf"(?<![\u4e00-\u9fff])(?:{_JAPANESE_SURNAMES})\s?(?!です|でござ|と申)[\u4e00-\u9fff\u3040-\u30ff]{{1,3}}?(?=さん|様|さま|氏|君|ちゃん|[^\u4e00-\u9fff\u3040-\u30ff]|です"
    rf"|でござ|と申|という|と|は|が|の|を|に|$)"
)
_KOREAN = re.compile(
    r"(?<![가-힣])(?!이름|이메일|주문|주소|전화|고객|이것|우리|지금|오늘|안녕|문의|배송|신청|성함|연락)[김이박최정강조윤장임한오서신권황안송류전홍고문양손배백허유남심노하곽성차주우구나민진지엄채원천방공][가-힣]{2}(?=(?:씨|님|은|는|이|가|을|를|의|과|와"
    r"|에게|입니다|이에요|예요|이고|이라고)?(?![가-힣]))"
)
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
_HAN = "\u4e00-\u9fff\u3005"
_NAMED_HAN = re.compile(
    rf"(?:氏名|お名前|名前|姓名|担当者?|担当医|患者名?|患者様|受取人|差出人|申請者|契約者|会員名|お客様名|顧客名|保護者|客户姓名|客戶姓名|患者姓名|联系人|聯絡人|收件人|寄件人|负责人|負責人|经办人|申请人"
    rf"|姓名)[ ]?[::][ ]?([{_HAN}]{{1,4}}(?:[ \u3000][{_HAN}\u3041-\u30ff]{{1,4}}(?! ?:))?)(?![{_HAN}\u3041-\u30ff])"
)
"""The field of a form; in a Chinese or Japanese one, whatever it holds."""
_DEAR_HAN = re.compile(
    rf"(?:尊敬的|亲爱的|親愛的|敬爱的|致)({_CHINESE_SURNAME}[{_HAN}]{{1,2}}?)(?=先生|女士|小姐|太太|老师|老師|同学|经理|經理|医生|醫生|教授|[,:!，：！])"
)


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


_JAPANESE_SAID = re.compile(
    rf"(?:担当の|担当は|私は?、?|わたくし、?|[会社部課店](?:の)?|[、。,. \n])({_JAPANESE_SURNAMES})(?=です|と申し|でござい)"
)
"""A surname alone, if its bearer says it."""
_NAMED_KOREAN = re.compile(
    r"(?:이름|성명|성함|고객명|환자명|담당자|수신인|받는 ?사람|보내는 ?사람|예금주|신청자)[ ]?:[ ]?([가-힣]{2,4})(?![가-힣])"
)
_KOREAN_SAID = re.compile(
    r"(?:저는|제가|나는|안녕하세요[,.]?) ?([김이박최정강조윤장임한오서신권황안송류전홍고문양손배백허유남심노하곽성차주우구민진지엄채원천방공][가-힣]{2})(?=입니다|이에요|예요|라고|이라고)"
)
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

DETECTORS = (
    row("name: other scripts", CLASS, _foreign, r"(?#rare)\xc9\xe9{1,20} \xc9\xe9{2}", r"(?#rare)\xe9{2,4}(?:[^\xe9]|$)",
        r"(?#rare)[\n\x1f]\xe9{3}", r"(?#rare)[ :>\n\x1f]\xe9\xb7",
        shows=("⟦王小明⟧ met Мария Иванова", "你好,我叫⟦王小明⟧,请帮我退款。", "我是高兴的", "私の名前は⟦佐藤健太⟧です。", "田中です",
               "मेरा नाम ⟦अनुराधा मिश्रा⟧ है", "फ़ाइल का नाम बदलें", "คุณ⟦กัญญารัตน์⟧ ศรีสวัสดิ์ โทรกลับ", "ขอบคุณ มาก",
               "제 이름은 ⟦김민수⟧입니다", "이름은 무엇입니까")),
)  # fmt: skip
