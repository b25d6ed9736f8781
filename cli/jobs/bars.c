/* See bars.h.
 *
 *   running [██████████▍       ]  41 %  epoch 2.1/5  loss 0.0812  1804 samples/s  about 1:12 left
 *     fast      93  ██████████████████▒▒░░░░░░░░    1164/s  staleness 2
 *     slow      35  ████████████████████████▒▒▒▒     437/s  staleness 3
 *                   ▪ loads  █ computes  ▒ exchanges  ░ waits
 */
#include "cli/jobs/bars.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "cli/columns.h"
#include "common/text/terminal.h"
#include "common/text/text.h"

enum { BAR = 26, BAR_LEAST = 6, NAME_COLUMNS = 16 };

/* How many cells a bar gets in a line that has so many columns with a bar of BAR cells. */
static int bar_cells(int columns, int width)
{
    int cells = width > 0 && columns > width ? BAR - (columns - width) : BAR;
    return cells < BAR_LEAST ? BAR_LEAST : cells;
}

static double number(const json_t *j, const char *path)
{
    return json_number_value(column_get(j, path));
}

static void draw_share(double fraction, int cells, char out[BAR * 3 + 1])
{
    static const char *const eighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    int full = (int)(fraction * cells * 8);
    char *at = out;
    for (int i = 0; i < cells; i++) {
        int here = full - 8 * i;
        const char *cell = here >= 8 ? "█" : eighths[here > 0 ? here : 0];
        at = stpcpy(at, cell);
    }
}

/* What follows the bar; it is cut where it would be too long. */
struct figures {
    char text[300];
    size_t n;
};

__attribute__((format(printf, 2, 3))) static void add(struct figures *f, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(f->text + f->n, sizeof f->text - f->n, fmt, ap);
    va_end(ap);
    if (n > 0 && (size_t)n < sizeof f->text - f->n) {
        f->n += (size_t)n;
    }
    f->text[f->n] = '\0';
}

/* The newest values of the metrics that its program logged first. */
static void add_logged(struct figures *f, const json_t *job)
{
    enum { SHOWN = 2, COLUMNS = 20 };
    const char *name;
    json_t *value;
    int shown = 0;
    json_object_foreach(json_object_get(job, "logged"), name, value) {
        char safe[COLUMN_BYTES_MOST], cut[4 * COLUMNS];
        if (json_is_number(value) && shown++ < SHOWN) {
            text_cut(cut, sizeof cut, text_shown(safe, sizeof safe, name), COLUMNS);
            add(f, "  %s %.4g", cut, json_number_value(value));
        }
    }
}

static void add_figures(struct figures *f, const json_t *job, double left)
{
    char shown[COLUMN_BYTES_MOST];
    if (json_is_number(column_get(job, "metrics.train_loss"))) {
        add(f, "  loss %s", column_text(shown, job, "metrics.train_loss", COLUMN_NUMBER));
    }
    if (json_is_number(column_get(job, "metrics.test_accuracy"))) {
        add(f, "  accuracy %s", column_text(shown, job, "metrics.test_accuracy", COLUMN_PERCENT));
    } else {
        add_logged(f, job);
    }
    if (number(job, "metrics.samples_per_second") > 0) {
        add(f, "  %.0f samples/s  staleness %.1f", number(job, "metrics.samples_per_second"),
            number(job, "staleness_recent.update_mean"));
    }
    if (left > 0) {
        add(f, "  about %d:%02d left", (int)left / 60, (int)left % 60);
    }
}

int bars_workers(const json_t *job)
{
    int n = 0;
    size_t i;
    json_t *worker;
    json_array_foreach(json_object_get(job, "workers"), i, worker) {
        const char *state = json_string_value(json_object_get(worker, "state"));
        n += !state || strcmp(state, "left") != 0;
    }
    return n;
}

void bars_job(const json_t *job, double left, int width, char out[BARS_LINE])
{
    char bar[BAR * 3 + 1], rest[450], of[32] = "", at[64] = "", nodes[48] = "";
    struct figures figures = {.n = 0};
    double fraction = number(job, "progress.fraction");
    const char *state = json_string_value(json_object_get(job, "state"));
    add_figures(&figures, job, left);
    double epochs = number(job, "progress.epochs");
    if (epochs >= 1) { /* else a program's own loop ends the epochs, perhaps within one */
        snprintf(of, sizeof of, "/%.*f", fmod(epochs, 1) != 0, epochs);
    }
    if (number(job, "spec.elastic.max") > 0) {
        snprintf(nodes, sizeof nodes, "  %d of %.0f to %.0f nodes", bars_workers(job),
                 number(job, "spec.elastic.min"), number(job, "spec.elastic.max"));
    }
    if (number(job, "progress.step") > 0) { /* an attempt that goes on may not have reported its
                                               epoch yet */
        snprintf(at, sizeof at, "  epoch %.1f%s", number(job, "progress.epoch"), of);
    }
    snprintf(rest, sizeof rest, "%3.0f %%%s%s%s", 100 * fraction, at, nodes, figures.text);
    int columns = (int)strlen(state ? state : "") + BAR + 4 + text_columns(rest);
    draw_share(fraction < 0 ? 0 : fraction > 1 ? 1 : fraction, bar_cells(columns, width), bar);
    char line[BARS_LINE];
    snprintf(line, sizeof line, "%s [%s] %s", state ? state : "", bar, rest);
    snprintf(out, BARS_LINE, "%s", line);
    if (width > 0) {
        text_cut(out, BARS_LINE, line, width);
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static const char *const parts[] = {"load_seconds", "compute_seconds", "exchange_seconds",
                                    "wait_seconds"};
enum { PARTS = sizeof parts / sizeof *parts };

static double step_of(const json_t *worker)
{
    double all = 0;
    for (int p = 0; p < PARTS; p++) {
        all += number(worker, parts[p]);
    }
    return all;
}

/* Draws a step. A part ends at the rounded sum of the parts so far, so that rounding moves no bar's
 * end. */
static void draw_step(const json_t *worker, double longest, int n, char out[BAR * 3 + 1])
{
    static const char *const cells[PARTS] = {"▪", "█", "▒", "░"};
    double sum = 0;
    int drawn = 0;
    char *at = out;
    for (int p = 0; p < PARTS; p++) {
        sum += number(worker, parts[p]);
        int end = longest > 0 ? (int)(sum / longest * n + 0.5) : 0;
        for (; drawn < end && drawn < n; drawn++) {
            at = stpcpy(at, cells[p]);
        }
    }
    for (; drawn < n; drawn++) {
        at = stpcpy(at, " ");
    }
}

static void print_cut(const char *line, int width, FILE *out)
{
    char cut[BARS_LINE];
    fprintf(out, "\n%s", width > 0 ? text_cut(cut, sizeof cut, line, width) : line);
}

/* The layout of all nodes' lines. */
struct layout {
    int name, bar, width; /* columns; width 0: any */
    double longest;       /* step, seconds */
};

/* Columns of a node's line besides its name and its bar, without its state. */
enum { NODE_REST = 36 };

static struct layout layout_of(const json_t *workers, int width)
{
    struct layout all = {.width = width};
    char name[COLUMN_BYTES_MOST];
    size_t i;
    json_t *worker;
    json_array_foreach((json_t *)workers, i, worker) {
        double step = step_of(worker);
        int columns = text_columns(column_text(name, worker, "node", COLUMN_TEXT));
        all.longest = step > all.longest ? step : all.longest;
        all.name = columns > all.name ? columns : all.name;
    }
    all.name = all.name > NAME_COLUMNS || width == 0 ? NAME_COLUMNS : all.name;
    all.bar = bar_cells(all.name + BAR + NODE_REST, width);
    return all;
}

static void print_node(const json_t *worker, const struct layout *all, FILE *out)
{
    char bar[BAR * 3 + 1], name[128], line[BARS_LINE], state[COLUMN_BYTES_MOST];
    text_cut(name, sizeof name, column_text(state, worker, "node", COLUMN_TEXT), all->name);
    draw_step(worker, all->longest, all->bar, bar);
    column_text(state, worker, "state", COLUMN_TEXT);
    bool trains = strcmp(state, "computing") == 0 || strcmp(state, "exchange") == 0;
    snprintf(line, sizeof line, "  %s%*s %6.0f  %s %7.0f/s  staleness %.3g%s%s", name,
             all->name - text_columns(name), "", number(worker, "batch"), bar,
             number(worker, "samples_per_second"), number(worker, "staleness.mean"),
             trains ? "" : "  ", trains ? "" : state);
    print_cut(line, all->width, out);
}

int bars_nodes(const json_t *job, int width, int most, FILE *out)
{
    const json_t *workers = json_object_get(job, "workers");
    struct layout all = layout_of(workers, width);
    int lines = 0;
    size_t i;
    json_t *worker;
    if (all.longest <= 0 || most < 1) {
        return 0;
    }
    json_array_foreach((json_t *)workers, i, worker) {
        if (lines < most) {
            print_node(worker, &all, out);
            lines++;
        }
    }
    char legend[BARS_LINE];
    snprintf(legend, sizeof legend, "  %*s%s", all.name + 9, "",
             "▪ loads  █ computes  ▒ exchanges  ░ waits");
    print_cut(legend, width, out);
    return lines + 1;
}
