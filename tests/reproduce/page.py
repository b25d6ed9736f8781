"""A page in docs/results/: sections of tables and figures, and what their reader wrote below."""
import os
import textwrap

import figures

COLUMNS = 100


def markdown(columns, rows):
    lines = [columns, ["---"] * len(columns)] + rows
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def described(c):
    """A setting in a sentence."""
    momentum = c.get("optimizer", {}).get("momentum")
    return (f"`{c['model']}` on {c['data']}, {c['samples'] or 'all'} training and "
            f"{c['test_samples'] or 'all'} test samples, {c['epochs']} epochs, "
            f"{f'momentum {momentum:g}, ' if momentum else ''}learning rates "
            f"{', '.join(f'{r:g}' for r in c['rates'])}, seeds {', '.join(map(str, c['seeds']))}.")


class Page:
    def __init__(self, name, folder):
        self.name, self.folder, self.parts = name, folder, []
        os.makedirs(folder, exist_ok=True)

    def add(self, text):
        """Paragraphs, wrapped."""
        self.parts += [textwrap.fill(paragraph, COLUMNS, break_long_words=False,
                                     break_on_hyphens=False) for paragraph in text.split("\n\n")]

    def table(self, columns, rows):
        self.parts.append(markdown(columns, rows))

    def chart(self, suffix, title, x_label, y_label, series, **options):
        file = f"{self.name}-{suffix}"
        if figures.chart(os.path.join(self.folder, file), title, x_label, y_label, series,
                         **options):
            self.add(f"![{title}]({file}.svg)\n\n([as CSV]({file}.csv))")

    def notes(self):
        """What a reader of the numbers wrote stands in NAME.notes, and stays when the page is made
        again."""
        path = os.path.join(self.folder, self.name + ".notes")
        if os.path.exists(path):
            with open(path) as f:
                self.parts.append(f.read().strip())

    def write(self):
        path = os.path.join(self.folder, self.name + ".md")
        with open(path, "w") as f:
            f.write("\n\n".join(self.parts) + "\n")
        return path
