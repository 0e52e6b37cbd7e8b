"""The green lists of other tools, bit for bit as they make them on a CPU.

Text that lm-watermarking (KGW) or transformers (HF) marked can be detected, and marked on, without
torch. The lists hang on PyTorch's generator; :mod:`.permutation` has it.
"""

from powermark.watermark.compat.scheme import COMPAT_SCHEMES, Compat

__all__ = ["COMPAT_SCHEMES", "Compat"]
