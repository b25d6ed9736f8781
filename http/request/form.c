/* Checks of a request's form; see form.h. */
#include "http/request/form.h"

#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "http/content/accept.h"

int form_refuse(struct request *q, int status, const char *slug, const char *title,
                const char *detail, const char *hint)
{
    reply_problem(&q->reply, status, slug, title, detail, hint, NULL);
    q->refused = true;
    return -1;
}

static int refuse_malformed(struct request *q, const char *detail)
{
    return form_refuse(q, 400, err_name(ERR_SYNTAX), err_title(ERR_SYNTAX), detail, NULL);
}

/* ---- target and id --------------------------------------------------------------------------- */

/* The length of "http://", or 0. */
static size_t scheme_of(const char *url)
{
    return strncasecmp(url, "http://", 7) == 0 ? 7 : strncasecmp(url, "https://", 8) == 0 ? 8 : 0;
}

const char *form_path(const char *url)
{
    size_t scheme = scheme_of(url), n = strcspn(url + scheme, "/");
    return scheme == 0 ? url : url[scheme + n] ? url + scheme + n : "/";
}

void form_read_target(struct request *q, const char *url)
{
    size_t scheme = scheme_of(url);
    q->path = form_path(url);
    q->host = request_header(q, "Host");
    if (scheme > 0) {
        size_t n = strcspn(url + scheme, "/");
        if (n < sizeof(q->authority)) { /* a longer one is no host of ours */
            memcpy(q->authority, url + scheme, n);
        }
        q->host = q->authority;
    }
}

void form_read_id(struct request *q)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
    const char *given = request_header(q, "X-Request-Id");
    size_t n = given ? strlen(given) : 0;
    if (n > 0 && n < sizeof(q->id) && strspn(given, allowed) == n) {
        memcpy(q->id, given, n + 1);
    } else {
        snprintf(q->id, sizeof(q->id), "%s-%lx", q->server->instance,
                 atomic_fetch_add(&q->server->requests, 1) + 1);
    }
}

/* ---- framing --------------------------------------------------------------------------------- */

struct framing {
    int lengths, codings, hosts, credentials, malformed;
    const char *coding;
    const char *end; /* end of the last value, in the connection's buffer; NULL: there is none */
};

/* Is it a token (RFC 9110, 5.6.2)? libmicrohttpd takes "Content-Length " for a header of its own,
 * but a proxy in front may take it for Content-Length (RFC 9112, 5.1). */
static bool is_token(const char *name, size_t bytes)
{
    size_t n = strspn(name,
                      "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                      "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return n > 0 && n == bytes;
}

/* Is it a valid value (RFC 9110, 5.5)? It has no control character but a tab. */
static bool is_value(const char *value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)value[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

/* Is the header folded (RFC 9112, 5.2)? libmicrohttpd 0.9.75 appends a second line to the name
 * instead of the value, so a folded Content-Length would be none. The name is then a copy
 * elsewhere. */
static bool is_folded(const char *name, size_t bytes, const char *value)
{
    return value && (value <= name + bytes || value > name + bytes + HTTP_HEADER_BYTES);
}

/* Was a value cut at a NUL? libmicrohttpd 0.9.75 ends a value at its first NUL, but a proxy in
 * front may not. The rest is still between that end and `next`, where the next header or the body
 * begins. */
static bool is_cut(const char *end, const char *next)
{
    if (!end || next <= end || next > end + HTTP_HEADER_BYTES) {
        return false;
    }
    while (end < next && memchr(" \t\r\n", *end, sizeof " \t\r\n")) {
        end++;
    }
    return end < next;
}

static enum MHD_Result count_framing(void *ctx, enum MHD_ValueKind kind, const char *name,
                                     size_t name_bytes, const char *value, size_t value_bytes)
{
    struct framing *f = ctx;
    (void)kind;
    f->malformed += !is_token(name, name_bytes) || !is_value(value, value_bytes) ||
                    is_folded(name, name_bytes, value) || is_cut(f->end, name);
    f->end = value ? value + value_bytes : NULL;
    f->lengths += strcasecmp(name, "Content-Length") == 0;
    f->hosts += strcasecmp(name, "Host") == 0;
    f->credentials += strcasecmp(name, "Authorization") == 0;
    if (strcasecmp(name, "Transfer-Encoding") == 0) {
        f->codings++;
        f->coding = value;
    }
    return MHD_YES;
}

/* Bytes of the request line and all headers; 0: not known. */
static size_t header_bytes(const struct request *q)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(q->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return info ? info->header_size : 0;
}

static struct framing framing_of(const struct request *q)
{
    struct framing f = {0};
    size_t bytes = header_bytes(q);
    MHD_get_connection_values_n(q->connection, MHD_HEADER_KIND, count_framing, &f);
    f.malformed += bytes > 0 && is_cut(f.end, q->method + bytes); /* the first word of the header */
    return f;
}

int form_check_framing(struct request *q)
{
    struct framing f = framing_of(q);
    int refused = 0;
    if (f.malformed > 0) {
        refused = refuse_malformed(q,
                                   "a header of this request has a malformed name, more than "
                                   "one line, or a control character in its value");
    } else if (f.lengths > 1) {
        refused = refuse_malformed(q, "this request has several Content-Length headers");
    } else if (f.credentials > 1) { /* a proxy in front may have used the other one */
        refused = refuse_malformed(q, "this request has several Authorization headers");
    } else if (f.codings > 0 && f.lengths > 0) {
        refused = refuse_malformed(q, "this request has both Content-Length and Transfer-Encoding");
    } else if (f.codings > 0 && strcmp(q->version, "HTTP/1.0") == 0) {
        refused = refuse_malformed(q, "HTTP/1.0 has no Transfer-Encoding");
    } else if (f.codings > 1 || (f.codings > 0 && strcasecmp(f.coding, "chunked") != 0)) {
        refused = form_refuse(q, 501, "transfer_coding", "this transfer coding is not offered",
                              "the only transfer coding of a request is 'chunked'",
                              "send a Content-Length, or chunks without another coding");
    }
    if (refused < 0) {
        q->closes = true;
        reply_header(&q->reply, "Connection", "close");
    }
    return refused;
}

int form_check_length(struct request *q)
{
    char detail[PROBLEM_BYTES];
    if (q->long_target) {
        snprintf(detail, sizeof(detail), "the target of this request has more than %d bytes",
                 HTTP_TARGET_BYTES);
        return form_refuse(q, 414, "target_length", "the address is too long", detail, NULL);
    }
    if (header_bytes(q) > HTTP_HEADER_BYTES) {
        snprintf(detail, sizeof(detail), "the header of this request has more than %d bytes",
                 HTTP_HEADER_BYTES);
        return form_refuse(q, 431, "header_length", "the header is too long", detail, NULL);
    }
    return 0;
}

int form_check_host(struct request *q)
{
    char detail[PROBLEM_BYTES];
    int hosts = framing_of(q).hosts;
    if (hosts > 1) { /* a proxy in front may have used the other one (RFC 9112, 3.2) */
        return refuse_malformed(q, "this request has several Host headers");
    }
    if (hosts == 0 || !*request_header(q, "Host")) {
        return refuse_malformed(q, "this request has no Host header, or an empty one");
    }
    if (!hosts_allowed(&q->server->hosts, q->host)) {
        snprintf(detail, sizeof(detail), "this service is not offered under the name '%.200s'",
                 q->host);
        return form_refuse(q, 403, err_name(ERR_FORBIDDEN), err_title(ERR_FORBIDDEN), detail,
                           "start it with --allow-host NAME to open it under another name");
    }
    if (q->bad_target) {
        return refuse_malformed(q,
                                "the target of this request has an encoded slash or backslash, a "
                                "percent sign without two hexadecimal digits, a space, or a "
                                "control character");
    }
    return 0;
}

/* ---- media types ----------------------------------------------------------------------------- */

static int check_accept(struct request *q)
{
    char detail[PROBLEM_BYTES];
    const char *type = route_type(q->match.route);
    if (!type || request_accepts(q, type) != 0 ||
        (route_gives_csv(q->match.route) && request_accepts(q, "text/csv") != 0)) {
        return 0;
    }
    snprintf(detail, sizeof(detail), "'%.200s' answers %s, which Accept leaves out", q->path, type);
    return form_refuse(q, 406, "not_acceptable", "no answer is of an accepted type", detail, NULL);
}

/* Is it JSON by its media type, without parameters? The type of curl -d counts as JSON too, since
 * the documented commands use it. */
static bool is_json(const char *type)
{
    size_t n = strcspn(type, "; \t");
    return (n == 16 && strncasecmp(type, "application/json", n) == 0) ||
           (n == 33 && strncasecmp(type, "application/x-www-form-urlencoded", n) == 0) ||
           (n > 5 && strncasecmp(type + n - 5, "+json", 5) == 0);
}

/* Refuses content codings (RFC 9110, 8.4 and 15.5.16). */
static int check_content_coding(struct request *q)
{
    char detail[PROBLEM_BYTES];
    const char *coding = request_header(q, "Content-Encoding");
    if (!coding || !*coding || strcasecmp(coding, "identity") == 0) {
        return 0;
    }
    snprintf(detail, sizeof(detail), "this service takes bodies as they are, not as '%.100s'",
             coding);
    int refused = form_refuse(q, 415, "content_coding", "this content coding is not taken here",
                              detail, "send the body without Content-Encoding");
    reply_header(&q->reply, "Accept-Encoding", "identity");
    return refused;
}

static int check_content_type(struct request *q)
{
    char detail[PROBLEM_BYTES];
    const char *type = request_header(q, "Content-Type"),
               *length = request_header(q, "Content-Length");
    const struct route *r = q->match.route;
    bool body = request_header(q, "Transfer-Encoding") || (length && strcmp(length, "0") != 0);
    if (body && r->request && check_content_coding(q) < 0) {
        return -1;
    }
    if (!body || !type || !r->request || route_uploads(r) || is_json(type)) {
        return 0;
    }
    snprintf(detail, sizeof(detail), "'%.200s' takes application/json, not '%.100s'", q->path,
             type);
    return form_refuse(q, 415, "media_type", "this type is not taken here", detail, NULL);
}

/* Refuses unknown expectations. There is only one (RFC 9110, 10.1.1). */
int form_check_expectation(struct request *q)
{
    char detail[PROBLEM_BYTES];
    const char *wanted = request_header(q, "Expect");
    if (!wanted || !*wanted || strcasecmp(wanted, "100-continue") == 0) {
        return 0;
    }
    snprintf(detail, sizeof(detail), "this service cannot do what Expect asks for: '%.100s'",
             wanted);
    return form_refuse(q, 417, "expectation", "this expectation is not met here", detail,
                       "send 'Expect: 100-continue', or no Expect");
}

int form_check_conditions(struct request *q)
{
    char detail[PROBLEM_BYTES];
    const char *wanted = request_header(q, "If-Match");
    if (!wanted || accept_etags(wanted)) {
        return 0;
    }
    snprintf(detail, sizeof(detail), "If-Match is '%.100s', which is not a list of ETags", wanted);
    return form_refuse(q, 400, err_name(ERR_SYNTAX), err_title(ERR_SYNTAX), detail,
                       "send the ETag as it came, with its quotes, or *");
}

int form_check_types(struct request *q)
{
    int refused = check_accept(q);
    return refused < 0 ? refused : check_content_type(q);
}
