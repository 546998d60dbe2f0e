"""Make the font of the site's formulas: the part of STIX Math that they need, under a name of its own.

    python tools/math_font.py STIXMath-Regular.otf

needs fonttools; the font is in Debian's package fonts-stix. It writes python/qkv/reproduce/site/math.woff.
"""

import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

NAME = "QKV Math"
TARGET = Path(__file__).parents[1] / "python" / "qkv" / "reproduce" / "site" / "math.woff"
RANGES = (
    (0x20, 0x7E),
    (0xA0, 0xFF),
    (0x302, 0x303),  # accents
    (0x391, 0x3F5),  # Greek
    (0x2010, 0x2034),  # punctuation, bars, dots, primes
    (0x20D0, 0x20D7),
    (0x2100, 0x214F),  # letters
    (0x2190, 0x22FF),  # arrows, operators
    (0x2308, 0x230B),
    (0x23B4, 0x23E1),  # braces above and below
    (0x27E6, 0x27EB),
    (0x1D400, 0x1D503),  # bold, italic, script
    (0x1D538, 0x1D56B),  # double-struck
    (0x1D6A4, 0x1D7FF),  # bold and italic Greek, digits
)


def main(source: str) -> None:
    """Write the subset."""
    font = TTFont(source)
    options = subset.Options(
        layout_features=["ssty", "dtls", "flac"], name_IDs=[0, 1, 2, 3, 4, 6, 13, 14], hinting=False
    )
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=[code for first, last in RANGES for code in range(first, last + 1)])
    subsetter.subset(font)
    new = {1: NAME, 3: f"{NAME}: subset of STIX Math 1.1.0", 4: NAME, 6: NAME.replace(" ", "")}
    for record in font["name"].names:
        record.string = new.get(record.nameID, str(record))
    outlines = font["CFF "].cff
    outlines.fontNames = [new[6]]
    outlines.topDictIndex[0].FullName = outlines.topDictIndex[0].FamilyName = NAME
    font.flavor = "woff"
    font.save(TARGET)


if __name__ == "__main__":
    main(sys.argv[1])
