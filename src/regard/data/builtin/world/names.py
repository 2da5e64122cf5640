"""Names of people and towns: real first names, invented surnames and towns.

Surnames and towns are a stem plus an ending: there are enough of them, a tokenizer splits them like
real names, and a pretrained model knows nothing about them. No word is both.
"""

from __future__ import annotations

from random import Random

from regard.data.builtin.generated import word_list

WOMEN = word_list(
    """Ada Agnes Alma Amara Anneke Beatrix Bettina Carla Cecily Clara Cosima Daria Delia Dorothea
    Edith Elena Elsbeth Emmeline Esther Flora Frida Gerda Greta Hanna Harriet Hedda Ines Irma
    Isolde Jana Judith Karin Lavinia Leonie Lidia Livia Lotte Lucia Magda Marit Matilda Mira
    Nadia Nora Odile Olga Paula Petra Ramona Rosa Ruth Sabine Selma Sigrid Silvia Tamara Thea
    Ursula Vera Wilma Yvette Zelda"""
)
MEN = word_list(
    """Adrian Albin Alfons Ambrose Anselm Anton Arvid Balthasar Basil Bernard Bruno Caspar Clemens
    Conrad Cyril Damian Edgar Emil Erik Eugen Fabian Felix Florian Georg Gilbert Gregor Gustav
    Harald Hector Henrik Hugo Ignaz Ivo Jasper Jonas Julian Kilian Konstantin Lambert Leander
    Leopold Linus Lorenz Lukas Magnus Marius Matthias Nestor Oskar Otto Pascal Quentin Rasmus
    Ruben Rupert Silas Simon Stefan Theodor Tobias Valentin Viktor"""
)
MIDDLE = word_list(
    """Abernathy Ashdown Bellamy Calloway Drummond Ellery Fairfax Goodwin Hollis Ives Jessop
    Kendrick Lockwood Merrick Norwood Ormsby Prescott Quill Radcliffe Selwyn Thornton Underhill
    Vane Whitlock Yardley"""
)
SURNAME_STEMS = word_list(
    """Ab Ald Amb Ber Bol Brad Cald Cor Crav Dal Den Dor Eck Eld Far Fell Fin Gal Gar Gren Had Hal
    Hart Hol Hux Jor Kel Kemp Lam Lar Lind Mad Mal Mar Mel Mul Nor Ol Pal Par Pel Quar Ran Ray
    Rod Sal Sand Sed Stan Tal Thor Tol Var Vel Wal Wen Wil Wyn Yar Zell"""
)
SURNAME_ENDINGS = word_list("den der dock ers ert ich ick ier ings kin low man mer ner sen son")
TOWN_STEMS = word_list(
    """Alt Arn Bex Bir Brun Cas Cher Dun Esk Fal Fjor Gail Glen Hav Helm Ister Jal Kars Kirk Lim
    Lor Lun Mist Mor Nav Oden Ost Pen Pol Rav Rhen Rost Sarn Skel Sol Sten Strel Tarn Tiv Tre
    Ul Vals Vir Wex Wis Yst Zan Zel"""
)
TOWN_ENDINGS = word_list("a anza berg bury by dorf essa eva ford grad haven holm mouth ona stad um")
TOWN_BEGINNINGS = ("Port", "New", "Saint", "Upper", "Lake", "Fort")


def surnames(count: int, random: Random) -> list[str]:
    return random.sample(
        [stem + ending for stem in SURNAME_STEMS for ending in SURNAME_ENDINGS], count
    )


def towns(count: int, random: Random) -> list[str]:
    """One in eight has two words; no name is a word of another."""
    plain = random.sample([stem + ending for stem in TOWN_STEMS for ending in TOWN_ENDINGS], count)
    return [
        f"{random.choice(TOWN_BEGINNINGS)} {town}" if random.random() < 1 / 8 else town
        for town in plain
    ]


def zipf_weights(count: int) -> list[float]:
    """Weight 1/(rank + 5): a few are frequent, most are rare; the first of 150 gets 5 %."""
    return [1 / (rank + 5) for rank in range(1, count + 1)]
