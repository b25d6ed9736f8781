"""Line charts as SVG, by hand: no package is needed, and the same numbers give the same bytes."""
import math
from xml.sax.saxutils import escape

COLOURS = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2",
           "#555555"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 400, 64, 190, 36, 48


def ticks(low, high, log):
    if log:
        return [10.0 ** p
                for p in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) if low
                * 0.999 <= 10.0 ** p <= high * 1.001] or [low, high]
    step = 10 ** math.floor(math.log10((high - low) / 4 or 1))
    step *= next(m for m in (1, 2, 5, 10) if (high - low) / (step * m) <= 6)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


class Axis:
    def __init__(self, values, log, begin, end):
        low, high = min(values), max(values)
        if low == high:
            low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
        self.low, self.high, self.log, self.begin, self.end = low, high, log, begin, end

    def at(self, v):
        share = math.log(v / self.low) / math.log(self.high / self.low) if self.log else (
            v - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)


def chart(path, title, x_label, y_label, series, log_x=False, log_y=False, x_ticks=None):
    """series: [(name, [(x, y), …])]; points whose y is None are left out."""
    series = [(name, [(x, y) for x, y in points if y is not None and not (log_x and x <= 0)])
              for name, points in series]
    points = [p for _, line in series for p in line]
    if not points:
        return False
    x = Axis([p[0] for p in points], log_x, LEFT, WIDTH - RIGHT)
    y = Axis([p[1] for p in points], log_y, HEIGHT - BOTTOM, TOP)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<title>{escape(title)}</title><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="20" font-size="14" font-weight="bold">{escape(title)}</text>']
    for v in x_ticks or ticks(x.low, x.high, log_x):
        out.append(
            f'<path d="M{x.at(v):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/><text '
            f'x="{x.at(v):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{v:g}</text>')
    for v in ticks(y.low, y.high, log_y):
        out.append(
            f'<path d="M{LEFT} {y.at(v):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/><text x="{LEFT - 6}" '
            f'y="{y.at(v) + 4:.1f}" text-anchor="end">{v:g}</text>')
    out.append(
        f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="#333"/>')
    out.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 10}" '
        f'text-anchor="middle">{escape(x_label)}</text>')
    out.append(
        f'<text transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)" '
        f'text-anchor="middle">{escape(y_label)}</text>')
    for i, (name, line) in enumerate(series):
        colour, dash = COLOURS[i % len(COLOURS)], ' stroke-dasharray="6 3"' if i >= len(
            COLOURS) else ""
        where = " ".join(f"{x.at(a):.1f},{y.at(b):.1f}" for a, b in line)
        if line:
            out.append(
                f'<polyline points="{where}" fill="none" stroke="{colour}" '
                f'stroke-width="1.8"{dash}/>')
        if len(line) <= 12:
            out += [f'<circle cx="{x.at(a):.1f}" cy="{y.at(b):.1f}" r="3" fill="{colour}"/>'
                    for a, b in line]
        at = TOP + 12 + 18 * i
        out.append(
            f'<path d="M{WIDTH - RIGHT + 12} {at - 4}h18" stroke="{colour}" '
            f'stroke-width="3"{dash}/>'
            f'<text x="{WIDTH - RIGHT + 36}" y="{at}">{escape(name)}</text>')
    with open(path, "w") as f:
        f.write("\n".join(out) + "\n</svg>\n")
    return True
