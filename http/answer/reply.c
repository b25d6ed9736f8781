/* Answers: JSON, problem+json, text, nothing; see reply.h. Files and event streams make their own
 * responses and share reply_send(), so no answer leaves without the security headers.
 */
#include "http/answer/reply.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/text/hash.h"
#include "http/content/accept.h"
#include "http/content/text.h"

static const char *const security_headers[][2] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src "
     "'self'; connect-src 'self'; "
     "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy",
     "same-origin"}, /* with no-referrer a form of our own would send Origin: null */
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Permissions-Policy", "camera=(), geolocation=(), microphone=()"},
};

void reply_release(struct reply *r)
{
    if (r->response) {
        MHD_destroy_response(r->response);
        r->response = NULL;
    }
    text_drop(r->text);
    r->text = NULL;
}

void reply_header(struct reply *r, const char *name, const char *value)
{
    if (r->response) {
        MHD_add_response_header(r->response, name, value);
    }
}

static void drop_text(void *text)
{
    text_drop(text);
}

/* A response that sends these bytes and holds a reference to them. */
static struct MHD_Response *response_of(struct text *t)
{
    struct MHD_Response *made = MHD_create_response_from_buffer_with_free_callback_cls(
        t->len, t->bytes, drop_text, text_ref(t));
    if (!made) {
        text_drop(t);
    }
    return made;
}

int reply_set_shared(struct reply *r, int status, struct text *text, const char *cache_control,
                     struct err *e)
{
    reply_release(r);
    r->status = status;
    r->text = text;
    r->response = text ? response_of(text) : NULL;
    if (!r->response) {
        return err_set(e, ERR_MEMORY, "cannot make the answer: memory ran out");
    }
    reply_header(r, "Content-Type", text->type);
    reply_header(r, "Cache-Control", cache_control);
    if (text->etag[0]) {
        reply_header(r, "ETag", text->etag);
    }
    return 0;
}

int reply_set_text(struct reply *r, int status, const char *type, char *text, size_t len,
                   struct err *e)
{
    return reply_set_shared(r, status, text_new(type, text, len), "no-store", e);
}

void reply_version(struct reply *r, const char *version)
{
    if (r->text) {
        uint64_t digest = hash_bytes(HASH_START, r->text->bytes, r->text->len);
        snprintf(r->text->etag, sizeof(r->text->etag), "\"%s.%0*" PRIx64 "\"", version,
                 ACCEPT_DIGEST, digest);
        reply_header(r, "ETag", r->text->etag);
    }
}

const char *reply_etag(const struct reply *r)
{
    return r->text && r->response ? MHD_get_response_header(r->response, "ETag") : NULL;
}

static enum MHD_Result copy_header(void *to, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    (void)kind;
    if (strcmp(name, "ETag") != 0) {
        MHD_add_response_header(to, name, value);
    }
    return MHD_YES;
}

void reply_pack(struct reply *r, const char *accept_encoding)
{
    if (!r->text || !r->response || !text_packs(r->text)) {
        return;
    }
    reply_header(r, "Vary", "Accept-Encoding");
    struct text *gzip = accept_coding(accept_encoding, "gzip") > 0 ? text_gzip(r->text) : NULL;
    struct MHD_Response *packed = gzip ? response_of(gzip) : NULL;
    if (!packed) {
        return;
    }
    MHD_get_response_headers(r->response, copy_header, packed);
    MHD_destroy_response(r->response);
    r->response = packed;
    reply_header(r, "Content-Encoding", "gzip");
    if (gzip->etag[0]) {
        reply_header(r, "ETag", gzip->etag);
    }
}

int reply_set_json(struct reply *r, int status, json_t *body, struct err *e)
{
    size_t len = 0;
    char *text = body ? jsonx_dump(body, false, &len) : NULL;
    json_decref(body);
    return reply_set_text(r, status, "application/json", text, len, e);
}

int reply_set_empty(struct reply *r, int status, struct err *e)
{
    reply_release(r);
    r->status = status;
    r->response = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (!r->response) {
        return err_set(e, ERR_MEMORY, "cannot make the answer: memory ran out");
    }
    reply_header(r, "Cache-Control", "no-store");
    return 0;
}

static ssize_t read_nothing(void *ctx, uint64_t position, char *out, size_t most)
{
    (void)ctx;
    (void)position;
    (void)out;
    (void)most;
    return MHD_CONTENT_READER_END_OF_STREAM;
}

/* A response without a body. libmicrohttpd sends the length of every response that has one, and
 * "chunked" for others. A 304 may send only the length of its file or text (RFC 9110, 8.6), so it
 * gets that length. */
static struct MHD_Response *nothing_of(uint64_t bytes)
{
    return MHD_create_response_from_callback(bytes, 64, read_nothing, NULL, NULL);
}

/* In answer to a HEAD, libmicrohttpd 0.9.75 would send the last chunk of a chunked body, which the
 * client takes for the beginning of the next answer. So it is answered as for HTTP/1.0: without
 * chunks, and the connection is closed. */
int reply_set_endless(struct reply *r, struct err *e)
{
    reply_release(r);
    r->status = 200;
    r->response = nothing_of(MHD_SIZE_UNKNOWN);
    if (!r->response) {
        return err_set(e, ERR_MEMORY, "cannot make the answer: memory ran out");
    }
    MHD_set_response_options(r->response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
    return 0;
}

int reply_set_unchanged(struct reply *r, const char *etag, uint64_t bytes, struct err *e)
{
    reply_release(r);
    r->status = 304;
    r->response = nothing_of(bytes);
    if (!r->response) {
        return err_set(e, ERR_MEMORY, "cannot make the answer: memory ran out");
    }
    reply_header(r, "ETag", etag);
    reply_header(r, "Cache-Control", "no-cache");
    return 0;
}

/* Copies a header to a 304. The body is not sent, so headers that describe it are left out. */
static enum MHD_Result keep_header(void *to, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    (void)kind;
    if (strncmp(name, "Content-", strlen("Content-")) != 0) {
        MHD_add_response_header(to, name, value);
    }
    return MHD_YES;
}

void reply_unchanged(struct reply *r)
{
    const struct text *gzip = atomic_load(&r->text->gzip);
    bool packed = MHD_get_response_header(r->response, "Content-Encoding") != NULL;
    struct MHD_Response *made = nothing_of(packed ? gzip->len : r->text->len);
    if (made) { /* else the whole answer is sent, which is right too */
        MHD_get_response_headers(r->response, keep_header, made);
        MHD_destroy_response(r->response);
        r->response = made;
        r->status = 304;
    }
}

/* A JSON string of a user's text, which may be cut within a character or may be no UTF-8. */
static json_t *safe_text(const char *text)
{
    json_t *j = json_string(text);
    if (j) {
        return j;
    }
    char *copy = strdup(text);
    for (char *c = copy; c && *c; c++) {
        if ((unsigned char)*c >= 0x80) {
            *c = '?';
        }
    }
    j = copy ? json_string(copy) : NULL;
    free(copy);
    return j ? j : json_string("");
}

/* The list of the problems; an error without problems becomes the only problem. */
static json_t *errors_json(int status, const char *detail, const struct jsonx_problems *problems)
{
    json_t *list = problems && problems->count > 0 ? jsonx_problems_json(problems) : json_array();
    if (json_array_size(list) == 0 && (status == 400 || status == 422)) {
        json_array_append_new(list,
                              json_pack("{s:s, s:o}", "pointer", "", "message", safe_text(detail)));
    }
    return list;
}

void reply_problem(struct reply *r, int status, const char *slug, const char *title,
                   const char *detail, const char *hint, const struct jsonx_problems *problems)
{
    char type[96];
    size_t len = 0;
    snprintf(type, sizeof(type), "urn:evenstep:problem:%s", slug);
    json_t *body =
        json_pack("{s:s, s:s, s:i, s:o, s:o, s:o}", "type", type, "title", title, "status", status,
                  "detail", safe_text(detail), "errors", errors_json(status, detail, problems),
                  "hint", hint && *hint ? safe_text(hint) : json_null());
    char *text = body ? jsonx_dump(body, false, &len) : NULL;
    json_decref(body);
    struct err ignored;
    reply_set_text(r, status, "application/problem+json", text, len, &ignored);
    if (status == 401) {
        reply_header(r, "WWW-Authenticate", "Bearer realm=\"evenstep\"");
    } else if (status == 429 || status == 503) {
        reply_header(r, "Retry-After", status == 429 ? "30" : "2");
    }
}

void reply_error(struct reply *r, const struct err *e, const struct jsonx_problems *problems)
{
    reply_problem(r, err_http_status(e->code), err_name(e->code), err_title(e->code), e->message,
                  e->hint, problems);
}

int reply_precondition(struct reply *r)
{
    reply_problem(r, 412, "precondition", "this is not the version that was seen",
                  "the If-Match header names another version than the one that is there",
                  "read it again, and send its ETag", NULL);
    return 0;
}

static _Thread_local bool sending;

bool reply_is_sent(void)
{
    return sending;
}

static void secure(struct reply *r)
{
    for (size_t i = 0; i < sizeof(security_headers) / sizeof(*security_headers); i++) {
        reply_header(r, security_headers[i][0], security_headers[i][1]);
    }
}

static enum MHD_Result print_header(void *out, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    (void)kind;
    buf_addf(out, "%s: %s\r\n", name, value);
    return MHD_YES;
}

void reply_print(struct reply *r, struct buf *out)
{
    char date[64];
    time_t now = time(NULL);
    struct tm tm;
    secure(r);
    strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
    buf_addf(out, "HTTP/1.1 %d %s\r\nDate: %s\r\nConnection: close\r\n", r->status,
             MHD_get_reason_phrase_for((unsigned)r->status), date);
    if (r->response && r->text) {
        MHD_get_response_headers(r->response, print_header, out);
        buf_addf(out, "Content-Length: %zu\r\n\r\n", r->text->len);
        buf_add(out, r->text->bytes, r->text->len);
    }
}

int reply_send(struct reply *r, struct MHD_Connection *connection)
{
    int sent = MHD_NO;
    secure(r);
    if (r->response) {
        sending = true;
        sent = (int)MHD_queue_response(connection, (unsigned)r->status, r->response);
        sending = false;
    }
    reply_release(r);
    return sent;
}
