/* The certificate of `serve --tls-cert FILE --tls-key FILE`, for libmicrohttpd's TLS (GnuTLS).
 *
 * Both files are PEM; the certificate may be followed by those that lead to its authority. They are
 * looked at again at a handshake, at most once a second, so a renewed certificate is used without a
 * restart. A pair that cannot be used (half written, a key of another certificate) is logged, and
 * the one before stays.
 */
#ifndef HTTP_ACCESS_TLS_H
#define HTTP_ACCESS_TLS_H

#include "common/err.h"

enum { TLS_PIN = 64 };

struct tls;

/* NULL: the files cannot be read, or do not belong together. */
struct tls *tls_open(const char *cert_file, const char *key_file, struct err *e);
void tls_close(struct tls *t); /* after the daemon has stopped; NULL is fine */
/* "sha256//BASE64" of the public key, as curl's --pinnedpubkey takes it. It stays when a
 * certificate is renewed with the same key. */
void tls_pin(struct tls *t, char out[TLS_PIN]);
/* Checks both files now instead of at the next handshake. */
void tls_read_again(struct tls *t);
/* The argument of MHD_OPTION_HTTPS_CERT_CALLBACK. libmicrohttpd passes it no context: it serves the
 * pair that was opened last, so a process has one service with TLS at a time. */
void *tls_callback(void);

#endif
