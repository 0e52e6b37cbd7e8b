"""Steering: a bias that depends on the green count so far.

recursion.py         steer(): the schedule of least KL; the recursion and its outcome
goal.py              Goal: the counts to reach, and their reward; Tilt: the effect of a bias
answers.py           the same for answers of any length
schedule.py          Schedule: the bias in each state, its law and powers, as stored in a spec
steering_kernels.py  the recursions as machine code
"""
