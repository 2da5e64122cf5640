"""What a sentence says, whatever its wording."""


def says(text: str, *facts: str) -> bool:
    """Whether the text has all these facts (names, numbers, key words), in this order."""
    position = 0
    for fact in facts:
        found = text.find(fact, position)
        if found < 0:
            return False
        position = found + len(fact)
    return True
