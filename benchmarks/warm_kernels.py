"""Fill the on-disk kernel cache: use every kernel once, in one process; delete caches of other kernels.

Two processes that find the cache empty compile the same kernels side by side; `make` runs this before it starts
processes. A kernel that is missed here costs time when it is first used, nothing else.
"""

import shutil
from itertools import product
from time import perf_counter

import numpy as np

from adagq.codecs import decode, decode_into
from adagq.codecs.kernels.cache import FOLDER, PREFIX
from adagq.codecs.registry import entries

SIZES = (30_000, 5_000, 1)


def main() -> None:
    start = perf_counter()
    normal = np.random.default_rng(0).standard_normal(sum(SIZES)).astype(np.float32)
    sparse = np.where(np.abs(normal) > 3.0, normal, np.float32(1e-4) * normal)
    sparse.flags.writeable = False  # to Numba, memory that may be written to and memory that may not are two types
    examples = [codec for entry in entries() for codec in entry.examples]
    for vector, codec in product((normal, sparse), examples):
        payload = codec.encode(vector, seed=1, layout=SIZES)
        decode_into(payload, decode(bytearray(payload)), weight=0.5)
    for codec in {type(codec): codec for codec in examples}.values():
        codec.rate_curve(normal, SIZES)
    if FOLDER is not None:
        for stale in set(FOLDER.parent.glob(f"{PREFIX}*")) - {FOLDER}:
            shutil.rmtree(stale, ignore_errors=True)
    print(f"kernels ready after {perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
