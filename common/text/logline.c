/* Reads lines of logs: see logline.h. */
#include "common/text/logline.h"

#include <string.h>

/* The character that log_quote() writes as this letter. */
static char unescaped(char c)
{
    return c == 'n' ? '\n' : c == 't' ? '\t' : c;
}

/* Copies a value (or skips it, if out is NULL) and returns where it ends. */
static const char *read_value(const char *p, char *out, size_t size)
{
    bool quoted = *p == '"';
    size_t n = 0;
    for (p += quoted ? 1 : 0; *p && *p != (quoted ? '"' : ' '); p++) {
        char c = *p;
        if (quoted && c == '\\' && p[1]) {
            c = unescaped(*++p);
        }
        if (out && n + 1 < size) {
            out[n++] = c;
        }
    }
    if (out && size > 0) {
        out[n] = '\0';
    }
    return quoted && *p ? p + 1 : p;
}

bool logline_value(const char *line, const char *key, char *out, size_t size)
{
    size_t wanted = strlen(key);
    for (const char *p = line; *p;) {
        p += strspn(p, " ");
        size_t n = strcspn(p, "= ");
        bool found = n == wanted && strncmp(p, key, n) == 0;
        p += n;
        if (*p != '=') {
            continue;
        }
        p = read_value(p + 1, found ? out : NULL, size);
        if (found) {
            return true;
        }
    }
    return false;
}
