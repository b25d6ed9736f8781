/* Reading tar archives: see tar.h.
 *
 *   header 512 │ data, filled up to 512 │ header │ … │ zeros 512 │ zeros 512
 *
 * A pax header (type x) or GNU's long name (type L) is an entry whose data describe the header that
 * follows it. Sizes come from the archive, so data pass through one block. Only the data of these
 * two types are kept, up to a limit.
 */
#include "common/archive/tar.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/archive/tar_header.h"
#include "common/text/text.h"

enum { LONG_MOST = 64 << 10 };

struct reading {
    FILE *from;
    const struct tar_sink *sink;
    struct jsonx_problems *problems;
    int64_t at; /* bytes read so far */
    int entries, most;
    char *longer; /* data of an x or L header for the next entry; owned, or NULL */
    bool pax;     /* `longer` are pax records */
    size_t longer_bytes;
    char name[TAR_NAME + 300]; /* of the entry */
};

__attribute__((format(printf, 3, 4))) static int malformed(const struct reading *r, struct err *e,
                                                           const char *format, ...)
{
    char why[200];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return err_set(e, ERR_SYNTAX, "this is not a tar archive that can be read: %s (byte %lld)", why,
                   (long long)r->at);
}

static int read_block(struct reading *r, void *block, struct err *e)
{
    size_t got = fread(block, 1, TAR_BLOCK, r->from);
    if (got < TAR_BLOCK && ferror(r->from)) {
        return err_errno(e, ERR_IO, "cannot read the archive");
    }
    r->at += (int64_t)got;
    return got == TAR_BLOCK ? 0 : malformed(r, e, "it ends in the middle of an entry");
}

static bool is_zero(const void *block)
{
    static const char zeros[TAR_BLOCK];
    return memcmp(block, zeros, TAR_BLOCK) == 0;
}

/* ---- the header ------------------------------------------------------------------------------ */

/* Octal digits, padded with spaces and NULs; -1: anything else, such as GNU's binary form. */
static int64_t number_of(const char *field, size_t n)
{
    int64_t value = 0;
    size_t i = 0;
    while (i < n && field[i] == ' ') {
        i++;
    }
    for (; i < n && field[i] >= '0' && field[i] <= '7'; i++) {
        value = 8 * value + (field[i] - '0');
    }
    return i == n || field[i] == ' ' || field[i] == '\0' ? value : -1;
}

static int check_header(const struct reading *r, const struct tar_header *h, struct err *e)
{
    static const unsigned char gzip[] = {0x1f, 0x8b};
    if (r->at == TAR_BLOCK && memcmp(h, gzip, sizeof gzip) == 0) {
        malformed(r, e, "it is compressed");
        err_hint(e, "send it as it is before gzip");
        return -ERR_SYNTAX;
    }
    if (tar_checksum(h) != number_of(h->checksum, sizeof h->checksum)) {
        return malformed(r, e, "the checksum of a header is wrong");
    }
    if (memcmp(h->magic, "ustar", 5) != 0) {
        return malformed(r, e, "a header is of an older form than ustar");
    }
    return 0;
}

static void plain_name(struct reading *r, const struct tar_header *h)
{
    bool posix = h->magic[5] == '\0' && h->prefix[0];
    snprintf(r->name, sizeof r->name, "%.*s%s%.*s", posix ? (int)sizeof h->prefix : 0, h->prefix,
             posix ? "/" : "", (int)sizeof h->name, h->name);
}

/* ---- longer names ---------------------------------------------------------------------------- */

/* Keeps the data of an entry that describes the next one. */
static int keep_longer(struct reading *r, int64_t bytes, bool pax, struct err *e)
{
    size_t blocks = (size_t)(bytes + TAR_BLOCK - 1) / TAR_BLOCK;
    if (bytes > LONG_MOST) {
        return malformed(r, e, "an extended header has %lld bytes", (long long)bytes);
    }
    free(r->longer);
    r->longer = calloc(blocks + 1, TAR_BLOCK);
    r->pax = pax;
    r->longer_bytes = (size_t)bytes;
    if (!r->longer) {
        return err_set(e, ERR_MEMORY, "cannot read the archive: memory ran out");
    }
    for (size_t i = 0; i < blocks; i++) {
        int rc = read_block(r, r->longer + i * TAR_BLOCK, e);
        if (rc < 0) {
            return rc;
        }
    }
    r->longer[bytes] = '\0';
    return 0;
}

/* "SIZE KEY=VALUE\n": its key and value as texts within the record; NULL if it is malformed. */
static char *split_record(char *at, size_t left, char **key, char **value)
{
    char *rest = NULL;
    unsigned long size = strtoul(at, &rest, 10);
    if (*rest != ' ' || size > left || size < (size_t)(rest - at) + 3 || at[size - 1] != '\n') {
        return NULL;
    }
    at[size - 1] = '\0';
    *key = rest + 1;
    *value = strchr(*key, '=');
    if (!*value || strlen(*value) != (size_t)(at + size - 1 - *value)) {
        return NULL;
    }
    *(*value)++ = '\0';
    return at + size;
}

static int take_records(struct reading *r, int64_t *bytes, struct err *e)
{
    char *at = r->longer, *end = at + r->longer_bytes, *key, *value;
    while (at < end) {
        char *next = split_record(at, (size_t)(end - at), &key, &value);
        if (!next) {
            return malformed(r, e, "a pax header has a malformed record");
        }
        if (strcmp(key, "path") == 0) {
            snprintf(r->name, sizeof r->name, "%s", value);
        } else if (strcmp(key, "size") == 0) {
            char *rest = NULL;
            *bytes = strtoll(value, &rest, 10);
            if (*rest || *bytes < 0) {
                return malformed(r, e, "a pax header gives the size '%.30s'", value);
            }
        } else if (strncmp(key, "GNU.sparse.", 11) == 0) {
            return malformed(r, e, "it has a sparse file");
        }
        at = next;
    }
    return 0;
}

/* Takes name and size from the header before. */
static int take_longer(struct reading *r, int64_t *bytes, struct err *e)
{
    int rc = 0;
    if (r->longer && r->pax) {
        rc = take_records(r, bytes, e);
    } else if (r->longer) {
        snprintf(r->name, sizeof r->name, "%s", r->longer);
    }
    free(r->longer);
    r->longer = NULL;
    return rc;
}

/* ---- what is refused ------------------------------------------------------------------------- */

static bool has_dots(const char *name)
{
    for (const char *p = name;; p++) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.')) {
            return true;
        }
        p += n;
        if (!*p) {
            return false;
        }
    }
}

/* Has it a part that no file system takes? */
static bool has_long_part(const char *name)
{
    for (const char *p = name; *p; p += *p == '/') {
        size_t n = strcspn(p, "/");
        if (n > NAME_MAX) {
            return true;
        }
        p += n;
    }
    return false;
}

static const char *wrong_with(const char *name, const struct tar_header *h)
{
    static const struct {
        char type;
        const char *what;
    } types[] = {{'1', "is a hard link"},        {'2', "is a symbolic link"},
                 {'3', "is a character device"}, {'4', "is a block device"},
                 {'6', "is a named pipe"},       {'S', "is a sparse file"}};
    int64_t mode = number_of(h->mode, sizeof h->mode);
    if (name[text_unsafe(name, strlen(name))]) {
        return "has a name that is not UTF-8, or has control characters";
    }
    if (strlen(name) >= TAR_NAME || has_long_part(name)) {
        return "has too long a name";
    }
    if (name[0] == '/') {
        return "has an absolute name";
    }
    if (has_dots(name)) {
        return "has a name with '.', '..' or an empty part";
    }
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (h->type == types[i].type) {
            return types[i].what;
        }
    }
    if (h->type != '0' && h->type != '\0' && h->type != '5') {
        return "is neither a plain file nor a folder";
    }
    return mode < 0 ? "has no valid mode" : mode & 06000 ? "is set-uid or set-gid" : NULL;
}

static void refuse(struct reading *r, const char *name, const char *why)
{
    char shown[160], pointer[200];
    text_shown(shown, sizeof shown, name);
    jsonx_problem(r->problems, jsonx_join(pointer, sizeof pointer, "", shown), "the entry '%s' %s",
                  shown, why);
}

/* ---- entries --------------------------------------------------------------------------------- */

/* Passes the entry's data to the sink, or skips them. */
static int pass_data(struct reading *r, int64_t bytes, bool wanted, struct err *e)
{
    char block[TAR_BLOCK];
    int rc = 0;
    for (int64_t left = bytes; left > 0 && rc == 0; left -= TAR_BLOCK) {
        rc = read_block(r, block, e);
        if (rc == 0 && wanted) {
            rc = r->sink->data(r->sink->ctx, block, left < TAR_BLOCK ? (size_t)left : TAR_BLOCK, e);
        }
    }
    return rc;
}

/* The name without a leading "./" and, for a folder, a trailing "/". "" is the archive's own
 * folder. */
static const char *trimmed(char *name, bool folder)
{
    size_t n = strlen(name);
    while (folder && n > 1 && name[n - 1] == '/') {
        name[--n] = '\0';
    }
    while (name[0] == '.' && name[1] == '/') {
        name += 2;
    }
    return strcmp(name, ".") == 0 ? "" : name;
}

static int take_entry(struct reading *r, const struct tar_header *h, int64_t bytes, struct err *e)
{
    bool folder = h->type == '5';
    const char *name = trimmed(r->name, folder), *wrong = NULL;
    if (folder && !*name) {
        return pass_data(r, bytes, false, e);
    }
    if (++r->entries > r->most) {
        return err_set(e, ERR_TOO_LARGE, "the archive has more than %d entries", r->most);
    }
    if (!*name || (wrong = wrong_with(name, h))) {
        refuse(r, name, *name ? wrong : "has no name");
        return pass_data(r, bytes, false, e);
    }
    const struct tar_entry entry = {.name = name,
                                    .bytes = folder ? 0 : bytes,
                                    .folder = folder,
                                    .executable = number_of(h->mode, sizeof h->mode) & 0100};
    int rc = r->sink->entry(r->sink->ctx, &entry, e);
    return rc < 0 ? rc : pass_data(r, bytes, !folder, e);
}

static int take_header(struct reading *r, const struct tar_header *h, struct err *e)
{
    int64_t bytes = number_of(h->size, sizeof h->size);
    int rc = check_header(r, h, e);
    if (rc == 0 && bytes < 0) {
        rc = malformed(r, e, "the size of an entry is malformed");
    }
    if (rc < 0) {
        return rc;
    }
    if (h->type == 'x' || h->type == 'L') {
        return keep_longer(r, bytes, h->type == 'x', e);
    }
    if (h->type == 'g') { /* git archive's comment; the reader ignores it */
        return pass_data(r, bytes, false, e);
    }
    plain_name(r, h);
    rc = take_longer(r, &bytes, e);
    return rc < 0 ? rc : take_entry(r, h, bytes, e);
}

/* After the first block of zeros, only zeros may follow. */
static int check_end(struct reading *r, struct err *e)
{
    char block[TAR_BLOCK] = "";
    for (size_t got; (got = fread(block, 1, TAR_BLOCK, r->from)) > 0;) {
        memset(block + got, 0, TAR_BLOCK - got);
        r->at += (int64_t)got;
        if (!is_zero(block)) {
            return malformed(r, e, "something follows its end");
        }
    }
    return ferror(r->from) ? err_errno(e, ERR_IO, "cannot read the archive") : 0;
}

int tar_read(FILE *from, int most, const struct tar_sink *sink, struct jsonx_problems *problems,
             struct err *e)
{
    struct reading r = {.from = from, .most = most, .sink = sink, .problems = problems};
    struct tar_header h;
    int rc;
    while ((rc = read_block(&r, &h, e)) == 0 && !is_zero(&h) &&
           (rc = take_header(&r, &h, e)) == 0) {
    }
    rc = rc == 0 ? check_end(&r, e) : rc;
    free(r.longer);
    return rc;
}
