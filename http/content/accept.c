/* Reading Accept, Accept-Encoding and lists of ETags; see accept.h. A malformed range is passed
 * over. A list of ETags is read as far as it is well-formed.
 */
#include "http/content/accept.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

enum { WHOLE = 1000 };

static const char blanks[] = " \t";

/* One element of a list: its name and its quality. */
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

/* Reads the element at *at and moves *at to the next; false at the end. */
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

/* ---- ETags ----------------------------------------------------------------------------------- */

struct etag {
    bool weak;
    const char *text; /* with its quotes */
    size_t len;
};

/* Reads the ETag at *at and moves *at to the next. 1: an ETag; 0: the list ends; -1: it is
 * something else. */
static int next_etag(const char **at, struct etag *out)
{
    *at += strspn(*at, " \t,");
    if (**at == '\0') {
        return 0;
    }
    out->weak = strncmp(*at, "W/", 2) == 0;
    out->text = *at + (out->weak ? 2 : 0);
    const char *close = *out->text == '"' ? strchr(out->text + 1, '"') : NULL;
    if (!close) {
        return -1;
    }
    out->len = (size_t)(close + 1 - out->text);
    *at = close + 1 + strspn(close + 1, blanks);
    return **at == '\0' || **at == ',' ? 1 : -1;
}

static bool is_every(const char *header)
{
    header += strspn(header, blanks);
    return *header == '*' && header[1 + strspn(header + 1, blanks)] == '\0';
}

bool accept_etags(const char *header)
{
    struct etag one;
    int found = next_etag(&header, &one), rc = found;
    while (rc > 0) {
        rc = next_etag(&header, &one);
    }
    return is_every(header) || (found > 0 && rc == 0);
}

/* The version within an ETag: "VERSION", "VERSION.DIGEST" and both in gzip ("…-gzip", text.c). */
static size_t version_length(const struct etag *t)
{
    static const char packed[] = "-gzip\"";
    const size_t tail = sizeof packed - 1, digest = 1 + ACCEPT_DIGEST;
    size_t n = t->len - 1;
    if (t->len > tail && memcmp(t->text + t->len - tail, packed, tail) == 0) {
        n = t->len - tail;
    }
    return n > digest && t->text[n - digest] == '.' &&
                   strspn(t->text + n - digest + 1, "0123456789abcdef") >= ACCEPT_DIGEST
               ? n - digest
               : n;
}

bool accept_etag(const char *header, const char *etag, bool weak)
{
    struct etag one;
    size_t n = strlen(etag);
    if (!header || is_every(header)) {
        return header != NULL;
    }
    while (next_etag(&header, &one) > 0) {
        bool same = weak ? one.len == n : !one.weak && version_length(&one) == n - 1;
        if (same && memcmp(one.text, etag, weak ? n : n - 1) == 0) {
            return true;
        }
    }
    return false;
}
