/* Reading a request: headers, query, body, path; see request.h. An unknown query parameter is an
 * error, because ?dryrun=true (for dryRun) would otherwise start a job.
 */
#include "http/request/request.h"

#include <errno.h>
#include <math.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "http/content/accept.h"

const char *request_header(const struct request *q, const char *name)
{
    return MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, name);
}

struct count {
    const char *name;
    int n;
};

static enum MHD_Result count_header(void *ctx, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    struct count *c = ctx;
    (void)kind;
    (void)value;
    c->n += strcasecmp(name, c->name) == 0;
    return MHD_YES;
}

int request_headers(const struct request *q, const char *name)
{
    struct count c = {.name = name};
    MHD_get_connection_values(q->connection, MHD_HEADER_KIND, count_header, &c);
    return c.n;
}

const struct sockaddr *request_address(const struct request *q)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(q->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    return info ? info->client_addr : NULL;
}

bool request_reads_only(const struct request *q)
{
    return strcmp(q->method, "GET") == 0 || strcmp(q->method, "HEAD") == 0 ||
           strcmp(q->method, "OPTIONS") == 0;
}

const char *request_param(const struct request *q, const char *name)
{
    const char *joined = json_string_value(json_object_get(q->words, name));
    return joined ? joined
                  : MHD_lookup_connection_value(q->connection, MHD_GET_ARGUMENT_KIND, name);
}

long request_int(const struct request *q, const char *name, long fallback)
{
    const char *text = request_param(q, name);
    return text && *text ? strtol(text, NULL, 10) : fallback;
}

double request_real(const struct request *q, const char *name, double fallback)
{
    const char *text = request_param(q, name);
    return text && *text ? strtod(text, NULL) : fallback;
}

bool request_bool(const struct request *q, const char *name)
{
    const char *text = request_param(q, name);
    return text && (strcmp(text, "true") == 0 || strcmp(text, "1") == 0);
}

static bool is_choice(const char *choices, const char *value)
{
    size_t n = strlen(value);
    for (const char *at = choices; n > 0 && at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
        if (strncmp(at, value, n) == 0 && (at[n] == '|' || at[n] == '\0')) {
            return true;
        }
    }
    return false;
}

/* Is each of the words, separated by commas, among the choices? NULL: any word is. */
static bool are_choices(const char *choices, const char *words)
{
    char word[64];
    for (;; words++) {
        size_t n = strcspn(words, ",");
        snprintf(word, sizeof(word), "%.*s", (int)(n < sizeof(word) ? n : 0), words);
        if (n == 0 || n >= sizeof(word) || (choices && !is_choice(choices, word))) {
            return false;
        }
        words += n;
        if (*words == '\0') {
            return true;
        }
    }
}

static void check_value(struct jsonx_problems *problems, const struct route_param *p,
                        const char *value)
{
    const char *pointer = p->name;
    char *end = NULL;
    if (p->type == ROUTE_BOOL) {
        if (!is_choice("true|false|1|0", value)) {
            jsonx_problem(problems, pointer,
                          "query parameter '%s' is '%.60s', expected true or false", p->name,
                          value);
        }
    } else if (p->type == ROUTE_WORDS) {
        const char *choices = p->choices && p->choices[0] != '^' ? p->choices : NULL;
        if (!are_choices(choices, value)) { /* words of a pattern are checked by the handler */
            jsonx_problem(problems, pointer,
                          "query parameter '%s' is '%.60s', expected %s, separated by commas",
                          p->name, value, choices ? choices : "names");
        }
    } else if (p->type == ROUTE_STRING) {
        if (p->choices && !is_choice(p->choices, value)) {
            jsonx_problem(problems, pointer, "query parameter '%s' is '%.60s', expected one of %s",
                          p->name, value, p->choices);
        }
    } else {
        errno = 0;
        double number =
            p->type == ROUTE_INT ? (double)strtol(value, &end, 10) : strtod(value, &end);
        bool digits = value[0] != '+' && value[strspn(value, "-+.0123456789eE")] == '\0';
        if (!*value || *end || errno || !digits || !isfinite(number) || number < p->min ||
            number > p->max) {
            jsonx_problem(problems, pointer,
                          "query parameter '%s' is '%.60s', expected %s from %.15g to %.15g",
                          p->name, value, p->type == ROUTE_INT ? "a whole number" : "a number",
                          p->min, p->max);
        }
    }
}

static bool is_text(const char *value)
{
    json_t *j = json_string(value);
    json_decref(j);
    return j != NULL;
}

/* Joins the words of a list. Generated clients repeat the parameter for each word, whatever the
 * API's description says. */
static void join_words(struct request *q, const char *key, const char *value)
{
    q->words = q->words ? q->words : json_object();
    json_object_set_new(q->words, key, json_sprintf("%s,%s", request_param(q, key), value));
}

static const struct route_param *param_named(const struct route *route, const char *name)
{
    const struct route_param *p = route->params;
    while (p && p->name && strcmp(p->name, name) != 0) {
        p++;
    }
    return p && p->name ? p : NULL;
}

static void say_unknown(struct request *q, const char *key)
{
    const char *names[ROUTE_PARAMS + 1];
    int n = 0;
    for (const struct route_param *p = q->match.route->params; p && p->name; p++) {
        names[n++] = p->name;
    }
    const char *near = jsonx_nearest(key, names, n);
    jsonx_problem(&q->problems, key, "unknown query parameter '%.60s'%s%s%s", key,
                  near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static void take_param(struct request *q, const struct route_param *p, const char *value)
{
    check_value(&q->problems, p, value ? value : "");
    if (p->check) {
        p->check(value ? value : "", &q->problems);
    }
}

static enum MHD_Result check_param(void *ctx, enum MHD_ValueKind kind, const char *key,
                                   size_t key_bytes, const char *value, size_t value_bytes)
{
    struct request *q = ctx;
    const struct route_param *p = param_named(q->match.route, key);
    if (memchr(key, 0, key_bytes) ||
        (value && memchr(value, 0, value_bytes))) { /* what follows the NUL would not be seen */
        jsonx_problem(&q->problems, key, "query parameter '%.60s' contains a zero byte", key);
    } else if (value && !is_text(value)) {
        jsonx_problem(&q->problems, key, "query parameter '%.60s' is not UTF-8", key);
    } else if (!p) {
        say_unknown(q, key);
    } else if (MHD_lookup_connection_value(q->connection, kind, key) == value) {
        take_param(q, p, value);
    } else if (p->type == ROUTE_WORDS) {
        join_words(q, key, value ? value : "");
        take_param(q, p, value);
    } else {
        jsonx_problem(&q->problems, key, "query parameter '%s' is given twice", key);
    }
    return MHD_YES;
}

int request_not_valid(const struct request *q, const char *what, struct err *e)
{
    return err_set(e, ERR_INVALID, "%s is not valid: %s", what, q->problems.items[0].message);
}

int request_document_not_valid(const struct request *q, const char *what, struct err *e)
{
    char first[JSONX_FIRST];
    int n = q->problems.count + q->problems.dropped;
    return err_set(e, ERR_INVALID, "%s is not valid: %s%s", what,
                   jsonx_problems_first(&q->problems, first), n > 1 ? ", and more" : "");
}

int request_blame(struct request *q, const char *param, const struct err *e)
{
    if (e->code == ERR_INVALID) {
        jsonx_problem(&q->problems, param, "%s", e->message);
    }
    return -(int)e->code;
}

int request_check_query(struct request *q, struct err *e)
{
    MHD_get_connection_values_n(q->connection, MHD_GET_ARGUMENT_KIND, check_param, q);
    if (q->problems.count == 0) {
        return 0;
    }
    return request_not_valid(q, "the query of this request", e);
}

struct wanted {
    const char *type;
    int quality; /* the greatest quality of all Accept headers; -1: there is none */
};

static enum MHD_Result ask_accept(void *ctx, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    struct wanted *w = ctx;
    (void)kind;
    if (strcasecmp(name, "Accept") == 0) {
        int quality = accept_type(value, w->type);
        w->quality = quality > w->quality ? quality : w->quality;
    }
    return MHD_YES;
}

int request_accepts(const struct request *q, const char *type)
{
    struct wanted w = {type, -1};
    MHD_get_connection_values(q->connection, MHD_HEADER_KIND, ask_accept, &w);
    return w.quality;
}

bool request_wants_csv(const struct request *q)
{
    const char *format = request_param(q, "format");
    return format ? strcmp(format, "csv") == 0
                  : request_accepts(q, "text/csv") > request_accepts(q, "application/json");
}

bool request_matches(const struct request *q, const char *etag, struct reply *out)
{
    const char *wanted = request_header(q, "If-Match");
    if (!wanted || accept_etag(wanted, etag, false)) {
        return true;
    }
    reply_precondition(out);
    return false;
}

json_t *request_json(struct request *q, struct err *e)
{
    if (q->body.len == 0) {
        err_set(e, ERR_SYNTAX, "the body is empty, expected a JSON document (line 1, column 1)");
        return NULL;
    }
    return jsonx_parse(q->body.data, q->body.len, e);
}

json_t *request_object(struct request *q, const char *const *keys, struct err *e)
{
    json_t *body = request_json(q, e), *value;
    const char *key;
    char pointer[200];
    int n = 0;
    if (!body) {
        return NULL;
    }
    for (; keys[n]; n++) {
    }
    if (!json_is_object(body)) {
        jsonx_problem(&q->problems, "", "expected an object");
    }
    json_object_foreach(body, key, value) {
        bool known = false;
        for (int i = 0; i < n; i++) {
            known |= strcmp(keys[i], key) == 0;
        }
        if (!known) {
            const char *near = jsonx_nearest(key, keys, n);
            jsonx_join(pointer, sizeof(pointer), "", key);
            jsonx_problem(&q->problems, pointer, "unknown key '%.60s', expected '%s'", key,
                          near ? near : keys[0]);
        }
    }
    if (q->problems.count > 0) {
        request_not_valid(q, "the body", e);
        json_decref(body);
        return NULL;
    }
    return body;
}

struct store *request_store(const struct request *q, struct err *e)
{
    return connections_store(q->server->connections, e);
}

int request_idempotency_key(const struct request *q, const char *kind, char scoped[REQUEST_KEY],
                            struct err *e)
{
    const char *key = request_header(q, "Idempotency-Key");
    size_t n = key ? strlen(key) : 0;
    if (!key) {
        return 0;
    }
    if (request_headers(q, "Idempotency-Key") > 1) {
        return err_set(e, ERR_INVALID, "this request has several Idempotency-Key headers");
    }
    if (n == 0 || n > REQUEST_KEY_MOST) {
        return err_set(e, ERR_INVALID, "the Idempotency-Key has %zu characters, expected 1 to %d",
                       n, (int)REQUEST_KEY_MOST);
    }
    snprintf(scoped, REQUEST_KEY, "%s%s %s", kind, q->who.by_proxy ? q->who.owner : q->who.token,
             key);
    return 1;
}

bool request_is_job(const char *id)
{
    return strlen(id) == STORE_ID - 1 && strspn(id, "0123456789abcdef") == STORE_ID - 1;
}

const char *request_job(const struct request *q, struct err *e)
{
    const char *id = q->match.args[0];
    if (!request_is_job(id)) {
        err_set(e, ERR_NOT_FOUND, "there is no job '%.60s'", id);
        return NULL;
    }
    return id;
}

int request_job_path(const struct request *q, const char *sub, char *out, size_t bytes,
                     struct err *e)
{
    const char *id = request_job(q, e);
    if (!id) {
        return -(int)e->code;
    }
    int n = snprintf(out, bytes, "%s/jobs/%s%s%s", q->server->data_dir, id, *sub ? "/" : "", sub);
    return n < (int)bytes ? 0 : err_set(e, ERR_INVALID, "the path of job '%s' is too long", id);
}

int request_job_folder(const struct request *q, const char *sub, char *out, size_t bytes,
                       struct err *e)
{
    struct stat st;
    enum job_state state;
    int made = request_job_path(q, "", out, bytes, e);
    if (made == 0 && stat(out, &st) < 0) {
        struct store *store = request_store(q, e);
        made = store ? store_job_state(store, q->match.args[0], &state, e) : -(int)e->code;
    }
    return made < 0 ? made : request_job_path(q, sub, out, bytes, e);
}

json_t *request_whole_job(const struct request *q, struct err *e)
{
    const char *id = request_job(q, e);
    struct store *store = id ? request_store(q, e) : NULL;
    return store ? store_job_get(store, id, e) : NULL;
}
