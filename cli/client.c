/* HTTP through libcurl: see client.h. */
#include "cli/client.h"

#include <ctype.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/jsonx.h"
#include "common/path.h"
#include "common/text/terminal.h"

enum { MOST_BYTES = 64 << 20, TOKEN_BYTES = 4096 };

/* Is it http:// or https://, a host, and perhaps a port, as libcurl reads them? */
static bool is_address(const char *url)
{
    bool ours = strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
    CURLU *parts = ours && url[strcspn(url, "/") + 2] ? curl_url() : NULL;
    bool good = parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK;
    curl_url_cleanup(parts);
    return good;
}

static int take_url(struct client *c, const char *url, struct err *e)
{
    size_t n = strlen(url);
    while (n > 0 && url[n - 1] == '/') {
        n--;
    }
    if (n >= sizeof c->url || !is_address(url)) {
        return err_set(e, ERR_INVALID, "'%.80s' is not an address: expected http://HOST:PORT", url);
    }
    memcpy(c->url, url, n);
    return 0;
}

/* Checks that the token can be a line of the request's header. */
static int check_token(const char *token, struct err *e)
{
    for (const char *p = token; *p; p++) {
        if (*p <= ' ' || *p > '~') {
            return err_set(e, ERR_UNAUTHORIZED,
                           "the token has a space, a control character or one that is not ASCII");
        }
    }
    return 0;
}

int client_open_at(struct client *c, const char *url, const char *token_file, struct err *e)
{
    const char *token = getenv("EVENSTEP_TOKEN");
    memset(c, 0, sizeof *c);
    if (take_url(c, url, e) < 0) {
        return -(int)e->code;
    }
    if (token_file) {
        c->token = path_read_line(token_file, TOKEN_BYTES, e);
    } else if (token && *token) {
        c->token = strdup(token);
    } else {
        c->token = path_read_line("evenstep-data/token", TOKEN_BYTES, e);
        if (!c->token) {
            err_set(e, ERR_UNAUTHORIZED, "there is no token");
            err_hint(
                e,
                "set EVENSTEP_TOKEN, or --token-file to the file `token` in the data directory of "
                "`evenstep serve`");
        }
    }
    return c->token ? check_token(c->token, e) : -(int)e->code;
}

/* Reads which certificates or key prove the service, with TLS. Without TLS they are an error. */
static int trust(struct client *c, const struct opt_values *options, struct err *e)
{
    c->cacert = opt_string(options, "cacert");
    c->pin = opt_string(options, "pin");
    if ((c->cacert || c->pin) && strncmp(c->url, "https:", 6) != 0) {
        err_set(e, ERR_INVALID, "%s is for a service that speaks TLS, and '%s' is not encrypted",
                c->pin ? "--pin" : "--cacert", c->url);
        return err_hint(e, "the address of such a service begins with https://");
    }
    return 0;
}

int client_open(struct client *c, const struct opt_values *options, struct err *e)
{
    int rc = client_open_at(c, opt_string(options, "url"), opt_string(options, "token-file"), e);
    return rc < 0 ? rc : trust(c, options, e);
}

void client_close(struct client *c)
{
    free(c->token);
    free(c->problems);
    c->token = c->problems = NULL;
}

/* Every problem on a line of its own. A single one is left out if the detail has it already. */
static char *list_problems(const json_t *errors, const char *detail)
{
    struct buf lines;
    size_t i;
    json_t *one;
    buf_init(&lines, MOST_BYTES);
    json_array_foreach((json_t *)errors, i, one) {
        const char *pointer = jsonx_string_at(one, "pointer"),
                   *message = jsonx_string_at(one, "message");
        if (json_array_size(errors) == 1 && detail && strstr(detail, message)) {
            break;
        }
        buf_addf(&lines, "  %s%s%s\n", pointer, *pointer ? ": " : "", message);
    }
    char *text = lines.len > 0 && !lines.failed ? strdup(lines.data) : NULL;
    buf_release(&lines);
    return text;
}

static enum err_code code_of(long status)
{
    switch (status) {
    case 401:
        return ERR_UNAUTHORIZED;
    case 403:
        return ERR_FORBIDDEN;
    case 404:
        return ERR_NOT_FOUND;
    case 409:
        return ERR_CONFLICT;
    default:
        return status >= 500 ? ERR_UNAVAILABLE : ERR_INVALID;
    }
}

/* Turns application/problem+json into an error. */
static void explain(struct client *c, const json_t *problem, long status, struct err *e)
{
    const char *title = json_string_value(json_object_get(problem, "title")),
               *detail = json_string_value(json_object_get(problem, "detail"));
    const char *hint = json_string_value(json_object_get(problem, "hint"));
    err_set(e, code_of(status), "%s",
            detail && *detail ? detail
            : title           ? title
                              : "the service refused");
    if (hint && *hint) {
        err_hint(e, "%s", hint);
    }
    free(c->problems);
    c->problems = list_problems(json_object_get(problem, "errors"), detail);
}

static json_t *read_answer(struct client *c, struct buf *answer, long status, struct err *e)
{
    json_t *j = answer->len > 0 ? jsonx_parse(answer->data, answer->len, e) : json_null();
    if (status >= 200 && status < 300) {
        return j;
    }
    c->refusal = (int)status;
    if (json_is_object(j)) {
        explain(c, j, status, e);
    } else {
        err_set(e, ERR_UNAVAILABLE, "%s answered %ld", c->url, status);
    }
    json_decref(j);
    return NULL;
}

static bool is_loopback(const char *url)
{
    static const char *const hosts[] = {"http://127.",  "http://localhost",  "http://[::1]",
                                        "https://127.", "https://localhost", "https://[::1]"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        if (strncmp(url, hosts[i], strlen(hosts[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- one request ----------------------------------------------------------------------------- */

/* A request, and where the answer goes. */
struct exchange {
    const char *method, *path, *type; /* type: of the body */
    const char *etag;                 /* ETag of the resource to change, or NULL */
    const void *body;                 /* NULL: none */
    size_t bytes;
    struct client_body *stream; /* in place of a body: it is made while it is sent; NULL: none */
    int64_t from;               /* only what follows after so many bytes; 0: all */
    bool bulk;                  /* it has no time limit while bytes move */
    bool endless;               /* and none while no bytes move */
    FILE *file;                 /* gets the content of a successful answer; NULL: `text` does */
    CURL *curl;
    struct buf text;
    long status;
};

static size_t take(char *bytes, size_t size, size_t n, void *ctx)
{
    struct exchange *x = ctx;
    long status = 0;
    curl_easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE, &status);
    if (x->file && status >= 200 && status < 300) {
        return fwrite(bytes, size, n, x->file) * size;
    }
    buf_add(&x->text, bytes, size * n);
    return x->text.failed ? 0 : size * n;
}

static size_t give(char *to, size_t size, size_t n, void *ctx)
{
    struct client_body *body = ctx;
    int64_t got = body->read(body->ctx, to, size * n, &body->err);
    return got < 0 ? CURL_READFUNC_ABORT : (size_t)got;
}

static void set_body(const struct exchange *x)
{
    if (x->stream) {
        curl_easy_setopt(x->curl, CURLOPT_POST, 1L);
        curl_easy_setopt(x->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)x->stream->bytes);
        curl_easy_setopt(x->curl, CURLOPT_READFUNCTION, give);
        curl_easy_setopt(x->curl, CURLOPT_READDATA, x->stream);
    } else if (x->body || strcmp(x->method, "POST") == 0) {
        curl_easy_setopt(x->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)x->bytes);
        curl_easy_setopt(x->curl, CURLOPT_POSTFIELDS, x->body ? x->body : "");
    }
}

/* libcurl calls it about once a second, also while nothing comes. */
static int look_for_a_reader(void *ctx, curl_off_t to, curl_off_t got, curl_off_t from,
                             curl_off_t sent)
{
    terminal_end_unread(stdout);
    return 0;
}

static void set_options(const struct client *c, const struct exchange *x, const char *url)
{
    CURL *curl = x->curl;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, x->method);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 10L);
    if (x->endless) { /* a host that is gone sends nothing either */
        curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
        curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, look_for_a_reader);
        curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    } else if (x->bulk) {
        curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 120L);
    } else {
        curl_easy_setopt(curl, CURLOPT_TIMEOUT, 120L);
    }
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    if (c->cacert) {
        curl_easy_setopt(curl, CURLOPT_CAINFO, c->cacert);
    }
    if (c->pin) { /* the key identifies the service, whatever the certificate says */
        curl_easy_setopt(curl, CURLOPT_PINNEDPUBLICKEY, c->pin);
        curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (is_loopback(c->url)) {
        curl_easy_setopt(curl, CURLOPT_PROXY,
                         ""); /* no proxy, whatever http_proxy says, since no other host reaches our
                                 loopback */
    }
    set_body(x);
}

static struct curl_slist *make_headers(const struct client *c, const struct exchange *x)
{
    char line[TOKEN_BYTES + 32];
    struct curl_slist *list = NULL;
    snprintf(line, sizeof line, "Authorization: Bearer %s", c->token);
    list = curl_slist_append(list, line);
    if (x->from > 0) {
        snprintf(line, sizeof line, "Range: bytes=%lld-", (long long)x->from);
        list = curl_slist_append(list, line);
    }
    if (x->etag) {
        snprintf(line, sizeof line, "If-Match: %s", x->etag);
        list = curl_slist_append(list, line);
    }
    snprintf(line, sizeof line, "Content-Type: %s", x->type);
    return curl_slist_append(list, line);
}

static void note_etag(struct client *c, CURL *curl)
{
    struct curl_header *etag = NULL;
    bool there = curl_easy_header(curl, "ETag", 0, CURLH_HEADER, -1, &etag) == CURLHE_OK;
    snprintf(c->etag, sizeof c->etag, "%s", there ? etag->value : "");
}

/* A hint where no answer came. */
static const char *advice(const struct client *c, CURLcode code)
{
    bool tls = strncmp(c->url, "https:", 6) == 0;
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_PINNEDPUBKEYNOTMATCH) {
        return "give the service's certificate (--cacert FILE) or its key (--pin KEY, from the "
               "service's log)";
    }
    if (tls && code == CURLE_SSL_CONNECT_ERROR) {
        return "without --tls-cert a service speaks no TLS: its address begins with http://";
    }
    if (!tls && (code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR ||
                 code == CURLE_UNSUPPORTED_PROTOCOL)) {
        return "where the service speaks TLS, its address begins with https://";
    }
    return "is `evenstep serve` running there? EVENSTEP_URL or --url names another address";
}

/* Sends the request. The caller releases x->text in any case. */
static int perform(struct client *c, struct exchange *x, struct err *e)
{
    char why[CURL_ERROR_SIZE] = "";
    struct buf url;
    int rc = 0;
    buf_init(&x->text, MOST_BYTES);
    client_address(&url);
    buf_addf(&url, "%s%s", c->url, x->path);
    c->refusal = 0;
    x->curl = curl_easy_init();
    struct curl_slist *headers = make_headers(c, x);
    if (!x->curl || !headers || url.failed) {
        rc = err_set(e, ERR_MEMORY, "cannot ask the service: memory ran out");
        goto out;
    }
    set_options(c, x, url.data);
    curl_easy_setopt(x->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(x->curl, CURLOPT_ERRORBUFFER, why);
    CURLcode code = curl_easy_perform(x->curl);
    curl_easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE, &x->status);
    note_etag(c, x->curl);
    /* a service that refuses a long body may close the connection before it has read all of it */
    if (code != CURLE_OK && !(code == CURLE_SEND_ERROR && x->status >= 400)) {
        rc = err_set(e, ERR_UNAVAILABLE, "cannot reach %s: %s", c->url,
                     *why ? why : curl_easy_strerror(code));
        err_hint(e, "%s", advice(c, code));
    }
out:
    curl_slist_free_all(headers);
    curl_easy_cleanup(x->curl);
    buf_release(&url);
    return rc;
}

/* ---- what commands ask ----------------------------------------------------------------------- */

static json_t *exchange_json(struct client *c, struct exchange *x, struct err *e)
{
    json_t *out = perform(c, x, e) < 0 ? NULL : read_answer(c, &x->text, x->status, e);
    buf_release(&x->text);
    return out;
}

static json_t *send_json(struct client *c, const char *method, const char *path, const char *etag,
                         const json_t *body, struct err *e)
{
    size_t n = 0;
    char *text = body ? jsonx_dump(body, false, &n) : NULL;
    struct exchange x = {.method = method,
                         .path = path,
                         .type = "application/json",
                         .etag = etag,
                         .body = text,
                         .bytes = n};
    if (body && !text) {
        err_set(e, ERR_MEMORY, "cannot ask the service: memory ran out");
        return NULL;
    }
    json_t *out = exchange_json(c, &x, e);
    free(text);
    return out;
}

json_t *client_call(struct client *c, const char *method, const char *path, const json_t *body,
                    struct err *e)
{
    return send_json(c, method, path, NULL, body, e);
}

json_t *client_change(struct client *c, const char *path, const char *etag, const json_t *body,
                      struct err *e)
{
    return send_json(c, "PATCH", path, etag, body, e);
}

json_t *client_upload(struct client *c, const char *path, const char *type, const void *bytes,
                      size_t n, struct err *e)
{
    struct exchange x = {
        .method = "POST", .path = path, .type = type, .body = bytes, .bytes = n, .bulk = true};
    return exchange_json(c, &x, e);
}

json_t *client_stream(struct client *c, const char *path, const char *type,
                      struct client_body *body, struct err *e)
{
    struct exchange x = {
        .method = "POST", .path = path, .type = type, .stream = body, .bulk = true};
    json_t *answer = exchange_json(c, &x, e);
    if (body->err.code && !answer && c->refusal == 0) { /* the service got the beginning of it */
        *e = body->err;
    }
    return answer;
}

static int exchange_file(struct client *c, struct exchange *x, struct err *e)
{
    int rc = perform(c, x, e);
    if (rc == 0 && (x->status < 200 || x->status >= 300)) {
        json_decref(read_answer(c, &x->text, x->status, e));
        rc = -(int)e->code;
    }
    buf_release(&x->text);
    return rc;
}

int client_download(struct client *c, const char *path, FILE *file, struct err *e)
{
    struct exchange x = {
        .method = "GET", .path = path, .type = "application/json", .bulk = true, .file = file};
    return exchange_file(c, &x, e);
}

int client_listen(struct client *c, const char *path, FILE *file, struct err *e)
{
    struct exchange x = {
        .method = "GET", .path = path, .type = "application/json", .endless = true, .file = file};
    return exchange_file(c, &x, e);
}

char *client_text(struct client *c, const char *path, int64_t from, size_t *n, struct err *e)
{
    struct exchange x = {.method = "GET", .path = path, .type = "application/json", .from = from};
    char *out = NULL;
    if (perform(c, &x, e) == 0) {
        bool nothing = x.status == 416 || (x.status == 200 && from > 0);
        if (nothing) {
            buf_reset(&x.text);
        }
        if (nothing || (x.status >= 200 && x.status < 300)) {
            out = buf_take(&x.text, n);
        } else {
            json_decref(read_answer(c, &x.text, x.status, e));
        }
    }
    buf_release(&x.text);
    return out;
}

bool client_is_there(const char *url)
{
    char none[] = "";
    struct client c = {.token = none};
    struct exchange x = {.method = "GET", .path = "/healthz", .type = "application/json"};
    bool there = take_url(&c, url, NULL) == 0 && perform(&c, &x, NULL) == 0 && x.status == 200 &&
                 x.text.len > 0 && strstr(x.text.data, "\"status\"");
    buf_release(&x.text);
    return there;
}

void client_address(struct buf *address)
{
    buf_init(address, MOST_BYTES);
}

void client_add_escaped(struct buf *address, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        buf_addf(address, isalnum(*p) || strchr("-._", *p) ? "%c" : "%%%02X", *p);
    }
}

void client_add_param(struct buf *address, const char *name, const char *value)
{
    if (value) {
        buf_addf(address, "%c%s=", address->len && strchr(address->data, '?') ? '&' : '?', name);
        client_add_escaped(address, value);
    }
}
