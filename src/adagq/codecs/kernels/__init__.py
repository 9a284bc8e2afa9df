"""Numba kernels: loops over arrays, no policy.

How they are written, so that LLVM turns them into vector code (measured in docs/codecs.md):

- Small functions over short slices; the outer loop walks blocks that stay in the first-level cache.
- Every 32-bit operation is wrapped in its type: Numba promotes integer arithmetic to 64 bits, and the wrapper lets
  LLVM narrow it again.
- Sums run in fixed lanes, never in an order that the vector width chooses: the same bytes on any machine.
- No bounds are checked inside; callers check sizes once.
- Random numbers are a hash of (key, index): any element's number is known without the ones before it, on encoder
  and decoder alike.
"""
