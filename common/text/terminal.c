/* See terminal.h. Widths come from the C library's tables for UTF-8, in any locale. */
#include "common/text/terminal.h"

#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

enum { NARROWEST = 20, MOST = 100000 };

static const char ellipsis[] = "…";

/* The environment's value, else the terminal's; 0: neither has one. */
static int ask(FILE *out, const char *variable, bool rows)
{
    struct winsize size = {0};
    const char *given = getenv(variable);
    long n = given ? strtol(given, NULL, 10) : 0;
    if (n <= 0 && ioctl(fileno(out), TIOCGWINSZ, &size) == 0) {
        n = rows ? size.ws_row : size.ws_col;
    }
    return n > 0 && n < MOST ? (int)n : 0;
}

int terminal_width(FILE *out)
{
    int columns = ask(out, "COLUMNS", false);
    return columns > 0 && columns < NARROWEST ? NARROWEST : columns;
}

int terminal_height(FILE *out)
{
    int rows = ask(out, "LINES", true);
    return rows > 0 ? rows : 24;
}

bool terminal_draws(FILE *out)
{
    const char *kind = getenv("TERM");
    return kind && *kind && strcmp(kind, "dumb") != 0 && isatty(fileno(out));
}

void terminal_end_unread(FILE *out)
{
    struct pollfd end = {.fd = fileno(out)};
    if (poll(&end, 1, 0) > 0 && (end.revents & POLLERR)) {
        raise(SIGPIPE);
    }
}

/* Bytes and columns of the first character. Without the locale, every character counts as one
 * column. */
static size_t measure(const char *text, int *columns)
{
    wchar_t c = 0;
    mbstate_t state = {0};
    size_t n = mbrtowc(&c, text, strlen(text), &state);
    *columns = 1;
    if (n == 0 || n > strlen(text)) { /* not UTF-8 */
        return 1;
    }
    int width = wcwidth(c);
    *columns = width < 0 ? 1 : width;
    return n;
}

static locale_t use_utf8(void)
{
    static locale_t utf8;
    if (!utf8) {
        utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    }
    return uselocale(utf8);
}

int text_columns(const char *text)
{
    locale_t before = use_utf8();
    int all = 0, one;
    for (; *text; all += one) {
        text += measure(text, &one);
    }
    uselocale(before);
    return all;
}

/* Bytes of `text` that fit into this many columns. */
static size_t fitting(const char *text, int columns)
{
    locale_t before = use_utf8();
    size_t at = 0;
    while (text[at]) {
        int one;
        size_t n = measure(text + at, &one);
        if ((columns -= one) < 0) {
            break;
        }
        at += n;
    }
    uselocale(before);
    return at;
}

char *text_cut(char *out, size_t size, const char *text, int columns)
{
    size_t n = fitting(text, columns);
    bool cut = text[n] != '\0';
    if (cut) {
        n = fitting(text, columns - 1);
    }
    if (n + sizeof ellipsis > size) {
        n = size - sizeof ellipsis;
    }
    memcpy(out, text, n);
    memcpy(out + n, cut ? ellipsis : "", cut ? sizeof ellipsis : 1);
    return out;
}

/* Bytes of those words of `text` that fit into this many columns; at least one word, whatever its
 * length. */
static size_t fitting_words(const char *text, int columns)
{
    size_t end = 0, most = fitting(text, columns);
    while (text[end]) {
        size_t next = end + strspn(text + end, " ");
        next += strcspn(text + next, " ");
        if (end > 0 && next > most) {
            break;
        }
        end = next;
    }
    return end;
}

void text_fill(FILE *out, int width, const char *first, int hang, const char *text)
{
    int room = width - text_columns(first);
    fputs(first, out);
    for (;;) {
        size_t n = width > 0 ? fitting_words(text, room) : strlen(text);
        fprintf(out, "%.*s\n", (int)n, text);
        text += n + strspn(text + n, " ");
        if (!*text) {
            return;
        }
        fprintf(out, "%*s", hang, "");
        room = width - hang;
    }
}

void terminal_say(const char *first, const char *format, ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text_fill(stdout, terminal_width(stdout), first, text_columns(first) + 2, text);
}
