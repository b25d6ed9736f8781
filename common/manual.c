/* Pages of the manual from tables of options: see manual.h. */
#include "common/manual.h"

#include <ctype.h>
#include <string.h>

#include "common/text/roff.h"
#include "common/version.h"

void manual_option(const struct opt *o, char letter, FILE *out)
{
    char name[100], help[512];
    if (letter) {
        snprintf(name, sizeof name, "-%c, --%s", letter, o->name);
    } else {
        snprintf(name, sizeof name, "--%s", o->name);
    }
    snprintf(help, sizeof help, "%s%s%s%s%s", o->help, o->fallback ? " (default: " : "",
             o->fallback ? o->fallback : "", o->fallback ? ")" : "",
             o->kind == OPT_LIST ? " (may be repeated)" : "");
    roff_term(name, o->metavar ? o->metavar : "", help, out);
}

static void print_head(const struct manual *m, FILE *out)
{
    size_t n = strlen(m->name);
    fprintf(out, ".\\\" Made by `%s --manual`.\n.TH ", m->name);
    for (const char *p = m->name; *p; p++) {
        fputs(*p == '-' ? "\\-" : (char[]){(char)toupper((unsigned char)*p), 0}, out);
    }
    fprintf(out, " 1 \"\" \"evenstep %s\" \"\"\n", EVENSTEP_VERSION);
    roff_section("NAME", NULL, out);
    roff_text(m->name, out);
    fputs(" \\-\n", out); /* on a line of its own, so that it fits */
    roff_text(m->brief, out);
    fputc('\n', out);
    roff_section("SYNOPSIS", NULL, out);
    fputs("\\fB", out);
    roff_text(m->name, out);
    fputs("\\fR", out);
    roff_text(m->usage + n, out);
    fputc('\n', out);
    roff_section("DESCRIPTION", m->about, out);
}

static void print_terms(const char *title, const char *text, const struct manual_term *terms,
                        FILE *out)
{
    roff_section(title, text, out);
    for (; terms && terms->name; terms++) {
        roff_term(terms->name, "", terms->help, out);
    }
}

static bool has_options(const struct manual *m)
{
    for (const struct opt *o = m->options; o->name; o++) {
        if (strcmp(o->name, "help") != 0 && strcmp(o->name, "manual") != 0) {
            return true;
        }
    }
    return false;
}

static void manual_print(const struct manual *m, FILE *out)
{
    static const char general[] =
        "Every option is also EVENSTEP_ and its name in capitals, with - as _, and a line NAME = "
        "VALUE in the file that --config or EVENSTEP_CONFIG names. The command line goes before "
        "the environment, and that before the file.";
    print_head(m, out);
    roff_section("OPTIONS", NULL, out);
    for (const struct opt *o = m->options; o->name; o++) {
        manual_option(o, 0, out);
    }
    print_terms("EXIT STATUS", NULL, m->statuses, out);
    print_terms("ENVIRONMENT", has_options(m) ? general : NULL, m->variables, out);
    if (m->examples) {
        print_terms("EXAMPLES", NULL, m->examples, out);
    }
    roff_section("SEE ALSO", NULL, out);
    fputs("\\fBevenstep\\fR(1)\n", out);
}

int manual_begin(const struct manual *m, int argc, char **argv, struct opt_values **v,
                 struct err *e)
{
    int rc = opt_begin(m->options, m->usage, argc, argv, v, e);
    if (rc == OPT_TO_DO && opt_flag(*v, "manual")) {
        manual_print(m, stdout);
        opt_free(*v);
        *v = NULL;
        rc = OPT_HELPED;
    }
    return rc;
}
