"""Drawing with matplotlib, which is imported only when something is drawn.

canvas.py    new_figure(), render(): the common look, and SVG, PNG or PDF
tradeoff.py  draw_tradeoff(), draw_curve(): power against KL
p_values.py  draw_p_values(): histograms of a scanned corpus
"""
