"""Planning: from length, level, power and distortion to gamma and delta.

request.py           Request, Steering: the arguments of plan(), checked when they are given
plan.py              plan() and Plan: solves a request and reports the design
design.py            evaluate() and Design: from gamma and delta to power, size and KL
solver.py            the exact solver: the least KL that reaches a power
coverage.py          coverage(): the share of answers found, each at its own length; plans for it
lengths.py           Lengths: how long answers are
invert.py            from the least KL to the most power, the shortest text, the strictest level
steered.py           plans whose bias follows the count
steered_coverage.py  the same for answers of any length
for_windows.py       plans for the window detectors, winmax and winmax-c
for_evalue.py        plans for the e-value
paper_method.py      Eq. (1) and the authors' grid, and the two branches of Eq. (3)
curve.py             frontier() and curves: designs as one quantity varies
assumption.py        with_assumption(): says what a plan without a profile assumes
compare.py           the same request under every signal model
"""
