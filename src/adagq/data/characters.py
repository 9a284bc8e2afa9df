"""characters: text drawn from a small grammar, and at every character the next one to predict.

    the old baker slowly carries a lamp to the mill, and the brave sailor sings.

The text is invented, sentence by sentence, from the lists below and a seed. Each chapter prefers words of its own, so
that clients with contiguous parts of the text (`partition = "contiguous"`) have unlike data. A sample is `shape[0]`
characters in a row, its labels are the same characters one place further on. A table of what followed the last 24
characters of a chapter predicts 89 % of the rest of it: the first letters of words are chance.
"""

from typing import Final

import numpy as np

from adagq.core.errors import DataError
from adagq.core.seeds import generator
from adagq.data.dataset import DataSet
from adagq.data.files import Array
from adagq.data.registry import DATASETS, DataOptions

ALPHABET: Final = "\n ,.abcdefghijklmnopqrstuvwxyz"  # an id is a place in it
LENGTH: Final = 32
CHAPTERS: Final = 16
SKEW: Final = 0.7  # each word of a list is so many times as likely as the one that the chapter likes better

ARTICLES: Final = ("the", "a")
ADJECTIVES: Final = ("old", "brave", "quiet", "young", "tired", "clever", "proud", "happy", "strange", "gentle")
PEOPLE: Final = ("baker", "sailor", "teacher", "farmer", "doctor", "painter", "miller", "hunter", "singer", "weaver")
MANNERS: Final = ("slowly", "often", "never", "gladly", "always", "rarely", "quickly", "seldom")
ACTIONS: Final = ("carries", "finds", "paints", "sells", "repairs", "forgets", "borrows", "wants", "hides", "breaks")
THINGS: Final = ("lamp", "boat", "clock", "letter", "basket", "window", "kettle", "ladder", "violin", "blanket")
PLACES: Final = ("mill", "river", "market", "harbour", "garden", "bridge", "forest", "tower", "village", "island")
ENDS: Final = (".", ", and the rain falls.", ", but nobody knows.", " in the evening.", ".\n")
LISTS: Final = (ARTICLES, ADJECTIVES, PEOPLE, MANNERS, ACTIONS, ARTICLES, THINGS, PLACES, ENDS)
SENTENCE: Final = "{} {} {} {} {} {} {} to the {}{} "
SHORTEST: Final = len(SENTENCE.format(*(min(words, key=len) for words in LISTS)))


@DATASETS.register("characters")
def characters(options: DataOptions) -> DataSet:
    """Return `samples` training windows of text and a quarter as many for testing."""
    shape = (LENGTH,) if options.shape is None else options.shape
    if len(shape) != 1 or min(*shape, options.samples) < 1:
        raise DataError(f"characters: shape {shape}, {options.samples} samples: must be [length], both at least 1")
    train = _windows(options.seed, "train", options.samples, shape[0])
    test = _windows(options.seed, "test", max(1, options.samples // 4), shape[0])
    return DataSet("characters", *train, *test, len(ALPHABET))


def _windows(seed: int, part: str, samples: int, length: int) -> tuple[Array, Array]:
    """Return windows that follow each other in the text, and the same one character further on."""
    needed = samples * length + 1
    text = "".join(_chapter(seed, part, number, -(-needed // CHAPTERS)) for number in range(CHAPTERS))[:needed]
    places = {letter: place for place, letter in enumerate(ALPHABET)}
    ids = np.array([places[letter] for letter in text], np.int64)
    return ids[:-1].reshape(samples, length).copy(), ids[1:].reshape(samples, length).copy()


def _chapter(seed: int, part: str, number: int, letters: int) -> str:
    """Return so many letters; which words a chapter likes is the same in both parts."""
    taste = generator(seed, "characters", "taste", number)
    draw = generator(seed, "characters", part, number)
    sentences = -(-letters // SHORTEST)
    columns = []
    for words in LISTS:
        likings = SKEW ** taste.permutation(len(words)).astype(np.float64)
        columns.append(draw.choice(np.array(words), sentences, p=likings / likings.sum()))
    return "".join(SENTENCE.format(*row) for row in zip(*columns, strict=True))[:letters]
