"""Keys, specs, green lists, and the bias on logits.

watermark.py     Watermark: a spec with its key
spec.py          WatermarkSpec: the JSON that marking and detection share
keys.py          SecretKey and HashKey, and their files
scheme.py        Scheme, the interface of green lists, and Pm1
hashing.py       the hash of scheme pm1, as readable NumPy
hash_kernels.py  the same bits as compiled kernels
compat/          green lists of lm-watermarking and transformers
tracker.py       counts of texts while they are written, for steered marks
threads.py       rows of a batch over several threads
"""
