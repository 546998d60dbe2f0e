"""Small data sets that need no download, vocabularies and batches, to train the models of this package on.

Everything is made on the spot, the same for the same seed: numbers to copy, dates in many languages (Babel), the text
of Python's own manual, and sentences out of templates.
"""

from .._public import publish
from .batches import Batches, Padded, pad
from .copying import copy_pairs
from .dates import FORMATS, LANGUAGES, DatePair, date_pairs
from .manual import topics, unigram_entropy, windows
from .tasks import TASKS, Task, task
from .vocabulary import Vocabulary, words

__all__ = [
    "FORMATS",
    "LANGUAGES",
    "TASKS",
    "Batches",
    "DatePair",
    "Padded",
    "Task",
    "Vocabulary",
    "copy_pairs",
    "date_pairs",
    "pad",
    "task",
    "topics",
    "unigram_entropy",
    "windows",
    "words",
]

publish(__name__)
