"""From a text to a verdict.

detector.py     Detector: from texts or token ids to verdicts
detection.py    Detection (one text), Findings (many texts), and their warnings
inspection.py   Inspection: a detection with every token's state; the HTML report
scoring.py      score(): which tokens count, and which of them are green
power.py        DetectorPower: power and size at a length, and the length needed
stream.py       StreamDetector: evidence while a text arrives
text.py         tokenising, normalising disguised text, matching ids to text
"""
