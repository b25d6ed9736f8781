"""Figures of the tables: an SVG by matplotlib, and the same numbers as CSV."""
import csv
import datetime
import os
import tempfile


def chart(path, title, x_label, y_label, series, log_x=False, log_y=False, x_ticks=None):
    """Writes PATH.svg and PATH.csv. series: [(name, [(x, y), …])]; points whose y is None are left
    out. False, and no files, if nothing is left. The same numbers give the same bytes."""
    series = [(name, [(x, y) for x, y in line if y is not None and not (log_x and x <= 0)])
              for name, line in series]
    if not any(line for _, line in series):
        return False
    with open(path + ".csv", "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["line", x_label, y_label])
        out.writerows([name, f"{x:g}", f"{y:g}"] for name, line in series for x, y in line)
    draw(path + ".svg", title, x_label, y_label, series, log_x, log_y, x_ticks)
    return True


def draw(path, title, x_label, y_label, series, log_x, log_y, x_ticks):
    os.environ.setdefault("MPLCONFIGDIR", tempfile.gettempdir())  # where its cache may stand
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "evenstep", "svg.fonttype": "none"})
    from matplotlib import pyplot, ticker
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    lines = ["-", "--", ":", "-."]
    for i, (name, points) in enumerate(series):
        few = len(points) <= 12
        axes.plot([x for x, _ in points], [y for _, y in points], label=name, linewidth=1.6,
                  linestyle=lines[i // 10 % 4], marker="o" if few else None, markersize=4)
    axes.set(title=title, xlabel=x_label, ylabel=y_label)
    if log_x:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log")
    if x_ticks:
        axes.xaxis.set_major_locator(ticker.FixedLocator(x_ticks))
        axes.xaxis.set_minor_locator(ticker.NullLocator())
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: f"{v:g}"))
    axes.grid(color="#ddd", linewidth=0.8)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    when = datetime.datetime(2000, 1, 1)  # the same bytes whenever it is drawn
    figure.savefig(path, metadata={"Date": when.isoformat(), "Title": title})
    pyplot.close(figure)
