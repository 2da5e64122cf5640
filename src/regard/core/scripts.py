"""Scripts that put no spaces between words: each of their characters counts as a word."""

from __future__ import annotations

WITHOUT_SPACES = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0x20000, 0x3FFFF),
)
UNSPACED = "".join(f"{chr(first)}-{chr(last)}" for first, last in WITHOUT_SPACES)
"Their characters, inside the brackets of a regular expression."
