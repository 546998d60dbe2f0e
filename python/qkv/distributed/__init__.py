"""Several processes for one job, on one machine or many: training, long sequences and corpora over MPI.

``mpiexec -n N python program.py`` starts N processes, the ranks of the job, which exchange messages through `mpi4py`
(``pip install "qkv[distributed]" mpich``). :class:`qkv.training.Trainer` takes a communicator and shares each batch
among its ranks; :func:`attention` and :class:`qkv.nn.MultiHeadAttention` attend to sequences of which each rank holds
a part; ``qkv embed`` shares a file among them. From the first use of a communicator on, a rank that fails ends the job
with one message. Without ``mpiexec`` there is one rank, and nothing here imports `mpi4py`.
"""

from .._public import publish
from .launch import is_main, rank, size
from .sequence import attention
from .split import positions

__all__ = ["attention", "is_main", "positions", "rank", "size"]

publish(__name__)
