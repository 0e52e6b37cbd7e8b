"""The paper's experiments, and ours beside them: ``powermark reproduce``.

Only the command imports this package.

Machinery
    workspace.py             Workspace: a model, prompts, and the texts and profiles kept on disk
    runner.py                Cell, run(): the texts of a grid of marks; over_ray(): on a cluster
    baselines.py             fixed_pair(), DualAscent, Threshold: the methods compared with
    baseline_kernels.py      their compiled sums
The reproduction
    settings.py              n, alpha, and Scale: smoke, small or full
    methods.py               the cells of each run: rivals(), ours()
    study.py                 Study: all runs and comparisons, each computed once
    results.py               summarise() a cell; false positives, removal of signal, quality
    contest.py               finalists(), outcome(): which method needs the least KL
    fits.py                  lines, frontiers and logistic curves through points
    figures_formulas.py      fig-roots, fig-long-form, fig-steering, table-hypergeometric
    figures_texts.py         fig-qq, fig-green-rate, fig-inflation
    figures_methods.py       fig-pareto, fig-gamma-zero, fig-quality
    claims.py                Claim; claims from formulas and about texts
    claims_contest.py        claims about which method is cheapest
    report.py                figures and tables by name, all_claims(), the page
Our own experiments
    experiments_plans.py     table-prediction, table-promise, table-rivals
    experiments_steering.py  table-steering, table-steered-lengths
"""
