/* Sends deliveries to webhooks through libcurl; see send.h. */
#include "coordinator/webhooks/send.h"

#include <curl/curl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/machine/netaddr.h"
#include "common/version.h"

enum { CONNECT_SECONDS = 5, HASH = 32, KEY_MOST = 96, STAMP = 160 };

struct sending {
    struct sending *next, **back;
    CURL *curl;
    struct curl_slist *headers;
    void *ctx;
    const struct webhook_sender *sender;
    bool answered;  /* the answer's header is complete */
    bool forbidden; /* an address must not be reached */
    char why[CURL_ERROR_SIZE];
};

struct webhook_sender {
    CURLM *multi;
    bool local;
    struct sending *first;
};

struct webhook_sender *send_open(bool local, struct err *e)
{
    struct webhook_sender *s = calloc(1, sizeof *s);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    if (!s || !(s->multi = curl_multi_init())) {
        free(s);
        err_set(e, ERR_MEMORY, "cannot send to webhooks: memory ran out");
        return NULL;
    }
    s->local = local;
    return s;
}

/* Ends the sending if it is under way, and frees it. */
static void sending_free(struct sending *x)
{
    if (x->back) {
        curl_multi_remove_handle(x->sender->multi, x->curl);
        *x->back = x->next;
        if (x->next) {
            x->next->back = x->back;
        }
    }
    curl_slist_free_all(x->headers);
    curl_easy_cleanup(x->curl);
    free(x);
}

void send_close(struct webhook_sender *s)
{
    if (s) {
        while (s->first) {
            sending_free(s->first);
        }
        curl_multi_cleanup(s->multi);
        free(s);
    }
}

/* ---- the signature --------------------------------------------------------------------------- */

/* Decodes a secret. Returns its number of bytes; negative: it is no secret. */
static int key_of(const char *secret, unsigned char key[KEY_MOST])
{
    static const char prefix[] = "whsec_";
    size_t n = strlen(secret);
    const char *text = secret + sizeof prefix - 1;
    if (strncmp(secret, prefix, sizeof prefix - 1) != 0 || n - (sizeof prefix - 1) > KEY_MOST) {
        return -1;
    }
    int bytes = EVP_DecodeBlock(key, (const unsigned char *)text, (int)strlen(text));
    int filled = n > 2 && secret[n - 1] == '=' ? secret[n - 2] == '=' ? 2 : 1 : 0;
    return bytes > filled ? bytes - filled : -1;
}

int send_sign(const struct send_wish *w, char out[SEND_SIGNATURE], struct err *e)
{
    unsigned char key[KEY_MOST], hash[HASH];
    unsigned n = sizeof hash;
    size_t bytes = strlen(w->id) + strlen(w->body) + 32;
    int rc = -(int)ERR_MEMORY, key_bytes = key_of(w->secret, key);
    char *text = malloc(bytes);
    if (key_bytes < 0) {
        rc = err_set(e, ERR_DATA, "the webhook's secret is damaged");
    } else if (text) {
        int len = snprintf(text, bytes, "%s.%lld.%s", w->id, (long long)w->seconds, w->body);
        HMAC(EVP_sha256(), key, key_bytes, (unsigned char *)text, (size_t)len, hash, &n);
        snprintf(out, SEND_SIGNATURE, "v1,");
        EVP_EncodeBlock((unsigned char *)out + 3, hash, sizeof hash);
        rc = 0;
    } else {
        err_set(e, ERR_MEMORY, "cannot sign a delivery: memory ran out");
    }
    free(text);
    return rc;
}

/* ---- one delivery ---------------------------------------------------------------------------- */

/* Takes a line of the answer's header. An empty one ends it, and ends the sending: nothing else of
 * the answer is used, and its body may be long or never end. */
static size_t take_header(char *line, size_t size, size_t n, void *ctx)
{
    struct sending *x = ctx;
    long status = 0;
    curl_easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE, &status);
    bool ends = size * n > 0 && (line[0] == '\r' || line[0] == '\n');
    x->answered = x->answered || (ends && status >= 200); /* after 1xx comes another header */
    return x->answered ? 0 : size * n;
}

static size_t take_none(char *bytes, size_t size, size_t n, void *ctx)
{
    (void)bytes;
    (void)size;
    (void)n;
    (void)ctx;
    return 0;
}

static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *at)
{
    struct sending *x = ctx;
    (void)purpose;
    if (!x->sender->local && netaddr_is_local(&at->addr)) {
        x->forbidden = true;
        return CURL_SOCKET_BAD;
    }
    return socket(at->family, at->socktype | SOCK_CLOEXEC, at->protocol);
}

static int add_headers(struct sending *x, const struct send_wish *w, struct err *e)
{
    char signature[SEND_SIGNATURE], line[STAMP];
    static const char *const fixed[] = {"Content-Type: application/json",
                                        ("User-Agent: evenstep/" EVENSTEP_VERSION), "Expect:"};
    int rc = send_sign(w, signature, e);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        x->headers = curl_slist_append(x->headers, fixed[i]);
    }
    snprintf(line, sizeof line, "webhook-id: %s", w->id);
    x->headers = curl_slist_append(x->headers, line);
    snprintf(line, sizeof line, "webhook-timestamp: %lld", (long long)w->seconds);
    x->headers = curl_slist_append(x->headers, line);
    if (rc == 0) {
        snprintf(line, sizeof line, "webhook-signature: %s", signature);
        x->headers = curl_slist_append(x->headers, line);
    }
    return rc < 0 || x->headers
               ? rc
               : err_set(e, ERR_MEMORY, "cannot send to a webhook: memory ran out");
}

static void set_options(struct sending *x, const struct send_wish *w)
{
    curl_easy_setopt(x->curl, CURLOPT_URL, w->address);
    curl_easy_setopt(x->curl, CURLOPT_HTTPHEADER, x->headers);
    curl_easy_setopt(x->curl, CURLOPT_POSTFIELDS, w->body);
    curl_easy_setopt(x->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(x->curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(x->curl, CURLOPT_PROXY, "");
    curl_easy_setopt(x->curl, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(x->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(x->curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(x->curl, CURLOPT_QUICK_EXIT, 1L); /* closing does not wait for a name to be
                                                          looked up */
    curl_easy_setopt(x->curl, CURLOPT_TIMEOUT, (long)SEND_SECONDS);
    curl_easy_setopt(x->curl, CURLOPT_FORBID_REUSE, 1L); /* so that each connection's address is
                                                            checked */
    curl_easy_setopt(x->curl, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(x->curl, CURLOPT_OPENSOCKETDATA, x);
    curl_easy_setopt(x->curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(x->curl, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(x->curl, CURLOPT_WRITEFUNCTION, take_none);
    curl_easy_setopt(x->curl, CURLOPT_ERRORBUFFER, x->why);
    curl_easy_setopt(x->curl, CURLOPT_PRIVATE, x);
}

int send_begin(struct webhook_sender *s, const struct send_wish *w, struct err *e)
{
    struct sending *x = calloc(1, sizeof *x);
    if (!x || !(x->curl = curl_easy_init())) {
        free(x);
        return err_set(e, ERR_MEMORY, "cannot send to a webhook: memory ran out");
    }
    x->ctx = w->ctx;
    x->sender = s;
    int rc = add_headers(x, w, e);
    if (rc == 0) {
        set_options(x, w);
        if (curl_multi_add_handle(s->multi, x->curl) != CURLM_OK) {
            rc = err_set(e, ERR_MEMORY, "cannot send to a webhook: memory ran out");
        }
    }
    if (rc < 0) {
        sending_free(x);
        return rc;
    }
    x->next = s->first;
    x->back = &s->first;
    if (x->next) {
        x->next->back = &x->next;
    }
    s->first = x;
    return 0;
}

bool send_under_way(const struct webhook_sender *s)
{
    return s->first != NULL;
}

void send_wait(struct webhook_sender *s, int ms)
{
    int running = 0;
    curl_multi_perform(s->multi, &running);
    curl_multi_poll(s->multi, NULL, 0, ms, NULL);
    curl_multi_perform(s->multi, &running);
}

static void judge(const struct sending *x, CURLcode code, struct sent *out)
{
    long status = 0;
    if (x->answered) {
        curl_easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE, &status);
    }
    curl_off_t later = 0;
    curl_easy_getinfo(x->curl, CURLINFO_RETRY_AFTER, &later);
    out->ctx = x->ctx;
    out->status = (int)status;
    out->later = later;
    out->why[0] = '\0';
    if (x->forbidden && status == 0) { /* and no other address of its name answered */
        snprintf(out->why, sizeof out->why,
                 "its address is of the coordinator's host, its link or a metadata service");
    } else if (status >= 300 && status < 400) {
        snprintf(out->why, sizeof out->why, "it answered %ld; redirects are not followed", status);
    } else if (status >= 400) {
        snprintf(out->why, sizeof out->why, "it answered %ld", status);
    } else if (status < 200) {
        snprintf(out->why, sizeof out->why, "%.280s", *x->why ? x->why : curl_easy_strerror(code));
    }
}

bool send_ended(struct webhook_sender *s, struct sent *out)
{
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(s->multi, &left));) {
        struct sending *x = NULL;
        CURLcode code = m->data.result;
        if (m->msg != CURLMSG_DONE) {
            continue;
        }
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&x);
        judge(x, code, out);
        sending_free(x);
        return true;
    }
    return false;
}
