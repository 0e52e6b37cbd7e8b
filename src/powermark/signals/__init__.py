"""Signal models: the green rate, KL and power that a mark has on a model, and what edits leave.

signal.py              SignalModel, the interface; PlugIn, the paper's large-vocabulary limit
priors.py              Dirichlet, BetaMixture, TopicMixture: assumed laws of the distributions
profile.py             Profile: next-token distributions recorded from a real model
profile_file.py        load_profile(), save_profile(): profiles on disk
references.py          reference_profile(): profiles of this package; sharpened(), compacted()
entropy.py             entropies(): of recorded distributions; the same, sharper or flatter
sampling.py            the sampling settings that a profile is recorded at
round_trip.py          RoundTrip: which recorded tokens a detector counts after tokenising again
text_mixture.py        TextMixture: the law of the count over recorded texts; Strengths of marks
green_mass.py          GreenMass: green rate and KL of given distributions under random lists
green_mass_kernels.py  its sums over many steps, as machine code
counts.py              exact tails of the count of a text, clean or edited
count_kernels.py       the same as machine code
edits.py               Edits, and the laws of the positions that survive them
spread.py              Spread: how counts vary with the length of a text, for specs
fit.py                 fit_mixture(), fit_concentration(): priors fitted to a profile
assumptions.py         measure_assumptions(): the paper's assumptions on a profile
"""
