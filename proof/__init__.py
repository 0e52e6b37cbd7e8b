"""The proofs that are too long for CI: size, promise, faults, fuzz, concurrency, secrets."""
