"""Names of people in other scripts: Cyrillic and Greek by the form of surnames, East Asian by surnames and words around them, Semitic
and Hindi by the word before.
"""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.people.names import CLASS
from freezeframe_redaction.model import Candidate, Detector, Example

_SLAVIC = re.compile(
    r"(?<!\w)([А-ЯЁІЇЄҐ][а-яёіїєґ]+) (?:([А-ЯЁІЇЄҐ][а-яёіїєґ]+(?:вич|вна|ична|ович|евич))\s)?([А-ЯЁІЇЄҐ][а-яёіїєґ]+(?:-[А-ЯЁІЇЄҐ][а-яёіїєґ]+)?)(?!\w)"
)
_SLAVIC_OFFICIAL = re.compile(
    r"(?<!\w)[А-ЯЁІЇЄҐ][а-яёіїєґ]+(?:-[А-ЯЁІЇЄҐ][а-яёіїєґ]+)? [А-ЯЁІЇЄҐ][а-яёіїєґ]+ [А-ЯЁІЇЄҐ][а-яёіїєґ]+(?:вич|вна|ична|івна)(?!\w| [А-ЯЁІЇЄҐ])"
)
"""Surname, given name, patronymic, as forms have them."""
_SLAVIC_SURNAME = re.compile(
    r"(?:ов|ова|ев|ева|ёв|ёва|ин|ина|ын|ына|ский|ская|цкий|цкая|ой|енко|чук|юк|ук|ич|вич|як|ий|ая|их|ых|ко|ян|швили|дзе)$"
)
_GREEK = re.compile(r"(?<!\w)[Α-ΩΆ-Ώ][α-ωά-ώ]+ [Α-ΩΆ-Ώ][α-ωά-ώ]+(?:όπουλος|οπούλου|ίδης|ίδου|άκης|άκη|ης|ου|ος|ας)(?!\w)")
_CHINESE_SURNAME = "(?:[王李张張刘劉陈陳杨楊赵趙黄黃周吴吳徐孙孫胡朱高林何郭马馬罗羅梁宋郑鄭谢謝韩韓唐冯馮于董萧程曹袁邓鄧许許傅沈曾彭吕呂苏蘇卢盧蒋蔣蔡贾丁魏薛叶葉阎余潘杜戴夏钟汪田任姜范方石姚谭廖邹熊金陆郝孔白崔康毛邱秦江史顾侯邵孟龙万段雷钱汤尹黎易常武乔贺赖龚文]|欧阳|上官|司马|诸葛)"
_CHINESE = re.compile(
    rf"(?<![\u4e00-\u9fff\u3040-\u30ff]){_CHINESE_SURNAME}[\u4e00-\u9fff]{{1,2}}(?![\u4e00-\u9fff\u3040-\u30ff])"
)
_CHINESE_SAID = re.compile(
    rf"(?:我叫|名字[叫是]|名叫|姓名[是为為]|我是|联系人是?|聯絡人是?|收件人是?|顾客|顧客|客户|客戶|患者|病人)[::\s]?({_CHINESE_SURNAME}[\u4e00-\u9fff]{{1,2}})(?<!的)(?![\u4e00-\u9fff])"
)
"""A name behind the words that announce one, in the middle of a run of characters."""
_CHINESE_ADDRESSED = re.compile(
    rf"(?<![\u4e00-\u9fff])({_CHINESE_SURNAME}[\u4e00-\u9fff]{{1,2}}?)(?=先生|女士|小姐|太太|老师|老師|同学|经理|經理|医生|醫生|教授)"
)
"""A name before the word by which its bearer is addressed."""
_JAPANESE_SURNAMES = "佐藤|鈴木|高橋|田中|伊藤|渡辺|渡邊|山本|中村|小林|加藤|吉田|山田|佐々木|山口|松本|井上|木村|林|斎藤|斉藤|清水|山崎|森|池田|橋本|阿部|石川|山下|中島|石井|小川|前田|岡田|長谷川|藤田|後藤|近藤|村上|遠藤|青木|坂本|福田|太田|西村|藤井|金子|岡本|藤原|三浦|中野|中川|原田|松田|竹内|小野|田村|中山|和田|石田|上田|森田|原|柴田|酒井|工藤|横山|宮崎|宮本|内田|高木|安藤|谷口|大野|丸山|今井|高田|藤本|武田|村田|上野|杉山|増田|平野|大塚|千葉|久保|松井|小島|岩崎|桜井|野口|松尾|野村|木下|菊地|佐野|大西|杉本|新井|浜田|菅原|市川|水野|小松|島田|古川|小山|高野|西田|山内|西川|菊池|北村|五十嵐|福島|安田|中田|川口|平田|川崎|飯田|吉川|本田|久保田|沢田|辻|関|吉村|渡部|岩田|中西|服部|樋口|福井|川上|永井|松岡|田口|山中|森本|土屋|矢野|広瀬|秋山|石原|松下|大橋|松浦|吉岡|小池|馬場|浅野|荒木|大久保|野田|熊谷"
_JAPANESE = re.compile(
    rf"(?<![\u4e00-\u9fff])(?:{_JAPANESE_SURNAMES})\s?(?!です|でござ|と申)[\u4e00-\u9fff\u3040-\u30ff]{{1,3}}?(?=さん|様|さま|氏|君|ちゃん|[^\u4e00-\u9fff\u3040-\u30ff]|です|でござ|と申|という|と|は|が|の|を|に|$)"
)
_KOREAN = re.compile(
    r"(?<![가-힣])(?!이름|이메일|주문|주소|전화|고객|이것|우리|지금|오늘|안녕|문의|배송|신청|성함|연락)[김이박최정강조윤장임한오서신권황안송류전홍고문양손배백허유남심노하곽성차주우구나민진지엄채원천방공][가-힣]{2}(?=(?:씨|님|은|는|이|가|을|를|의|과|와|에게|입니다|이에요|예요|이고|이라고)?(?![가-힣]))"
)
_KOREAN_CUE = re.compile(r"(?:이름|성명|고객|환자|담당자|받는|수신|보내는|연락처|님|씨)")
_ARABIC = re.compile(
    r"(?:السيد|السيدة|الدكتور|الدكتورة|الأستاذ|اسمي|الاسم:?|أنا)\s([\u0600-\u06ff]{2,}(?:\s[\u0600-\u06ff]{2,})?)"
)
_HEBREW = re.compile(r"(?:שמי|קוראים לי|מר|גברת|ד\"ר)\s([\u0590-\u05ff]{2,}(?:\s[\u0590-\u05ff]{2,})?)")
_HINDI = re.compile(r"(?:मेरा नाम|श्री|श्रीमती|डॉ\.?|नाम:)\s([\u0900-\u097f]{2,}(?:\s[\u0900-\u097f]{2,})?)")


def _foreign(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    floor, ceiling = max(low, at - 40), min(high, at + 40)
    for match in _SLAVIC_OFFICIAL.finditer(text, floor, ceiling):
        if match.end() >= at and match.start() < at:
            return (Candidate(match.start(), match.end(), CLASS, "slavic"),)
    for match in _SLAVIC.finditer(text, floor, ceiling):
        if match.end() >= at and match.start() < at:
            good = _SLAVIC_SURNAME.search(match.group(3)) or match.group(2) or _SLAVIC_SURNAME.search(match.group(1))
            return (Candidate(match.start(), match.end(), CLASS, "slavic"),) if good else ()
    # The trigger ends with a run of letters, which East Asian text does not break at names.
    said = [match.span(1) for match in _CHINESE_SAID.finditer(text, floor, ceiling)]
    said += [match.span(1) for match in _CHINESE_ADDRESSED.finditer(text, floor, ceiling)]
    said += [match.span() for match in _CHINESE.finditer(text, floor, ceiling)]
    said += [match.span() for match in _JAPANESE.finditer(text, floor, ceiling)]
    if _KOREAN_CUE.search(text, floor, ceiling):
        said += [match.span() for match in _KOREAN.finditer(text, floor, ceiling)]
    if said:
        return tuple(Candidate(start, end, CLASS, "script") for start, end in said)
    for match in _GREEK.finditer(text, floor, ceiling):
        if match.start() < at <= match.end() + 1:
            return (Candidate(match.start(), match.end(), CLASS, "script"),)
    for pattern in (_ARABIC, _HEBREW, _HINDI):
        for match in pattern.finditer(text, floor, ceiling):
            if match.start() < at <= match.end() + 1:
                return (Candidate(match.start(1), match.end(1), CLASS, "script"),)
    return ()


DETECTORS = (
    Detector(
        name="name: other scripts",
        class_=CLASS,
        triggers=(r"\xc9\xe9{1,20} \xc9\xe9{2}", r"\xe9{2,4}(?:[^\xe9]|$)"),
        find=_foreign,
        examples=(
            Example(text="王小明 met Мария Иванова", value="王小明"),
            Example(text="你好,我叫王小明,请帮我退款。", value="王小明", near_miss="我是高兴的"),
            Example(text="私の名前は佐藤健太です。", value="佐藤健太", near_miss="田中です"),
            Example(text="제 이름은 김민수입니다", value="김민수", near_miss="이름은 무엇입니까"),
        ),
    ),
)
