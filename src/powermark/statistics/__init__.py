"""Tests on colours alone: p-values, windows, e-values. No keys and no texts.

p_values.py        p-values and intervals of a green count; steps of the e-value
windows.py         WinMax and WinMax-C: statistic, null distribution, threshold, power
null_tables.py     simulated null distributions on disk
evalue.py          EvalueTest: exact power and size of the e-value
calls.py           calls(): the verdicts of any test on many texts of one length
text_kernels.py    compiled loops over texts and windows
evalue_kernels.py  compiled recursion behind EvalueTest
"""
