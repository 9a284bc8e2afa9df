"""Fill the on-disk kernel cache: use every kernel once, in one process.

Two processes that find the cache empty compile the same kernels side by side; `make` runs this before it starts
processes. A kernel that is missed here costs time when it is first used, nothing else.
"""

from itertools import product
from time import perf_counter

import numpy as np

from adagq.codecs import QSGD, Codec, Float16, Float32, SignSGD, TernGrad, TopK, decode, decode_into

SIZES = (30_000, 5_000, 1)
CODECS: tuple[Codec, ...] = (
    Float32(),
    Float16(),
    SignSGD(),
    TernGrad(),
    *(TopK(0.1, values, indices) for values, indices in product(("float32", "float16"), ("plain", "coded"))),
    *(
        QSGD(levels, "tensor", norm, rounding, packing)
        for levels, norm, rounding, packing in product(
            (1, 3, 15, 255, 4095, 65535), ("l2", "max"), ("stochastic", "dither"), ("fixed", "entropy")
        )
    ),
)


def main() -> None:
    start = perf_counter()
    normal = np.random.default_rng(0).standard_normal(sum(SIZES)).astype(np.float32)
    sparse = np.where(np.abs(normal) > 3.0, normal, np.float32(1e-4) * normal)
    sparse.flags.writeable = False  # to Numba, memory that may be written to and memory that may not are two types
    for vector, codec in product((normal, sparse), CODECS):
        payload = codec.encode(vector, seed=1, layout=SIZES)
        decode_into(payload, decode(bytearray(payload)), weight=0.5)
        codec.rate_curve(vector, SIZES)
    print(f"kernels ready after {perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
