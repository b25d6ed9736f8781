/* Reading Accept, Accept-Encoding and lists of ETags; see accept.h. A range that is malformed is
 * passed over, as if it were not there.
 */
#include "http/content/accept.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

enum { WHOLE = 1000 };

static const char blanks[] = " \t";

/* One element of the list: its name, and how much it is wanted. */
struct range {
    const char *name;
    size_t len;
    int quality; /* 0 to WHOLE */
};

/* "0.25" after "q=" as thousandths; digits beyond the third are passed over. */
static int quality_of(const char *text)
{
    int quality = *text == '1' ? WHOLE : 0, unit = WHOLE / 10;
    if (quality == WHOLE || text[0] != '0' || text[1] != '.') {
        return quality;
    }
    for (const char *at = text + 2; *at >= '0' && *at <= '9' && unit > 0; at++, unit /= 10) {
        quality += (*at - '0') * unit;
    }
    return quality;
}

/* The element at *at, which moves on to the next; false at the end. */
static bool next(const char **at, struct range *out)
{
    *at += strspn(*at, " \t,");
    if (**at == '\0') {
        return false;
    }
    size_t whole = strcspn(*at, ",");
    out->name = *at;
    out->len = strcspn(*at, ",; \t");
    out->quality = WHOLE;
    for (const char *p = memchr(*at, ';', whole); p && p < *at + whole;
         p = memchr(p, ';', (size_t)(*at + whole - p))) {
        p++;
        p += strspn(p, blanks);
        if ((p[0] == 'q' || p[0] == 'Q') && p[1] == '=') {
            out->quality = quality_of(p + 2);
        }
    }
    *at += whole;
    return true;
}

static bool is(const struct range *r, const char *name, size_t len)
{
    return r->len == len && strncasecmp(r->name, name, len) == 0;
}

int accept_type(const char *header, const char *type)
{
    size_t main_len = strcspn(type, "/") + 1; /* with its slash */
    int rank = 0, quality = 0;
    struct range r;
    if (!header || header[strspn(header, blanks)] == '\0') {
        return WHOLE;
    }
    while (next(&header, &r)) {
        bool of_main = r.len == main_len + 1 && r.name[main_len] == '*' &&
                       strncasecmp(r.name, type, main_len) == 0;
        int its = is(&r, type, strlen(type)) ? 3 : of_main ? 2 : is(&r, "*/*", 3) ? 1 : 0;
        if (its > rank) {
            rank = its;
            quality = r.quality;
        }
    }
    return quality;
}

/* "x-gzip" is what early clients call gzip (RFC 9110, 8.4.1.3). */
static bool is_coding(const struct range *r, const char *coding)
{
    bool old = r->len > 2 && strncasecmp(r->name, "x-", 2) == 0;
    struct range plain = {.name = r->name + 2, .len = r->len - 2};
    return is(r, coding, strlen(coding)) || (old && is(&plain, coding, strlen(coding)));
}

int accept_coding(const char *header, const char *coding)
{
    int rank = 0, quality = 0;
    struct range r;
    while (header && next(&header, &r)) {
        int its = is_coding(&r, coding) ? 2 : is(&r, "*", 1) ? 1 : 0;
        if (its > rank) {
            rank = its;
            quality = r.quality;
        }
    }
    return quality;
}

/* The ETag of an answer in gzip names the same version ("x-gzip" of "x", text.c): who read that one
 * and changes it has seen what is there. */
static size_t etag_length(const char *at, const char *etag, bool packed)
{
    static const char suffix[] = "-gzip\"";
    size_t n = strlen(etag);
    if (strncmp(at, etag, n) == 0) {
        return n;
    }
    bool same = packed && n > 1 && strncmp(at, etag, n - 1) == 0 &&
                strncmp(at + n - 1, suffix, sizeof suffix - 1) == 0;
    return same ? n - 1 + sizeof suffix - 1 : 0;
}

bool accept_etag(const char *header, const char *etag, bool weak)
{
    if (!header) {
        return false;
    }
    for (const char *at = header; *at; at += strcspn(at, ","), at += strspn(at, ", ")) {
        at += strspn(at, " ");
        if (*at == '*') {
            return true;
        }
        if (weak && strncmp(at, "W/", 2) == 0) {
            at += 2;
        }
        size_t n = etag_length(at, etag, !weak);
        if (n > 0 && (at[n] == '\0' || at[n] == ',' || at[n] == ' ')) {
            return true;
        }
    }
    return false;
}
