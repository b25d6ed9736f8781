/* See pictures.h. The threads of an album wait for a visit, then take its pictures one by one; the
 * calling thread is one of them. One thread handles a picture from its file to the visit's call, so
 * only the next number is shared. Several visits take turns (`turn`).
 */
#include "worker/data/images/pictures.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/rng.h"
#include "worker/data/dataset.h"

enum { THREADS_MOST = 64 };

struct visit_all {
    const struct pictures *pictures;
    const int64_t *index;
    int64_t n, next, left; /* next: the first picture not taken; left: pictures not finished */
    void (*visit)(void *ctx, int64_t i, const uint8_t *values);
    void *ctx;
};

struct album {
    struct folders folders;
    char *roots;
    struct image_form form;
    int users; /* parts, and who made it; not for several threads at once */
    pthread_mutex_t turn;
    pthread_mutex_t lock; /* guards what follows, and the stamps of the pictures */
    pthread_cond_t changed;
    struct visit_all *work; /* NULL: nothing to do */
    bool stopping;
    struct err failed; /* code 0: no picture failed */
    int n_threads;
    pthread_t threads[THREADS_MOST];
    uint8_t *own; /* the asking thread's sample, guarded by `turn` */
};

struct pictures {
    struct album *album;
    int64_t *order; /* NULL: first + i; owned */
    int64_t first, n;
};

/* ---- one picture ----------------------------------------------------------------------------- */

static uint64_t stamp_of(const struct stat *st)
{
    uint64_t time = (uint64_t)st->st_mtim.tv_sec * 1000000000ull + (uint64_t)st->st_mtim.tv_nsec;
    return rng_mix((uint64_t)st->st_size, time) | 1;
}

static int check_stamp(struct album *a, int64_t picture, const struct stat *st, struct err *e)
{
    uint64_t now = stamp_of(st), *known = &a->folders.pictures[picture].stamp;
    pthread_mutex_lock(&a->lock);
    bool changed = *known != 0 && *known != now;
    *known = now;
    pthread_mutex_unlock(&a->lock);
    return changed ? err_set(e, ERR_DATA, "'%s' was changed while the job reads it",
                             folders_name(&a->folders, picture))
                   : 0;
}

static uint8_t *read_all(int fd, size_t n, const char *name, struct err *e)
{
    uint8_t *bytes = malloc(n + 1);
    if (!bytes) {
        err_set(e, ERR_MEMORY, "cannot read '%s': memory ran out", name);
        return NULL;
    }
    for (size_t at = 0; at < n;) {
        ssize_t got = read(fd, bytes + at, n - at);
        if (got <= 0) {
            got < 0 ? err_errno(e, ERR_IO, "cannot read '%s'", name)
                    : err_set(e, ERR_DATA, "'%s' was shortened while it was read", name);
            free(bytes);
            return NULL;
        }
        at += (size_t)got;
    }
    return bytes;
}

uint8_t *album_file(struct album *a, int64_t picture, size_t *n, struct err *e)
{
    const char *name = folders_name(&a->folders, picture);
    char path[FOLDERS_PATH];
    struct stat st;
    uint8_t *bytes = NULL;
    int fd = -1, rc = dataset_resolve(a->roots, a->folders.dir, name, path, e);
    if (rc < 0) {
        return NULL;
    }
    if (rc == RESOLVED_FOUND) { /* O_NONBLOCK: a pipe would wait for a writer */
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }
    if (fd < 0 || fstat(fd, &st) < 0) {
        err_errno(e, ERR_IO, "cannot open '%s'", name);
    } else if (!S_ISREG(st.st_mode) || st.st_size > IMAGE_BYTES) {
        err_set(e, ERR_DATA, "'%s' is %s", name,
                S_ISREG(st.st_mode) ? "larger than 256 MB" : "no regular file");
    } else if (check_stamp(a, picture, &st, e) == 0) {
        bytes = read_all(fd, (size_t)st.st_size, name, e);
        *n = (size_t)st.st_size;
    }
    if (fd >= 0) {
        close(fd);
    }
    return bytes;
}

static void read_picture(struct album *a, int64_t picture, uint8_t *to)
{
    struct err why = {0};
    size_t n = 0;
    uint8_t *bytes = album_file(a, picture, &n, &why);
    int rc = bytes ? image_read(bytes, n, folders_name(&a->folders, picture), &a->form, to, &why)
                   : -(int)why.code;
    free(bytes);
    if (rc < 0) {
        memset(to, 0, image_form_bytes(&a->form));
        pthread_mutex_lock(&a->lock);
        if (a->failed.code == ERR_NONE) {
            a->failed = why;
        }
        pthread_mutex_unlock(&a->lock);
    }
}

/* ---- threads --------------------------------------------------------------------------------- */

static int64_t picture_at(const struct pictures *p, int64_t i)
{
    return p->order ? p->order[i] : p->first + i;
}

/* Takes pictures of the visit until none is left. Holds `lock` at the call and on return. */
static void work_on(struct album *a, struct visit_all *w, uint8_t *values)
{
    while (w->next < w->n) {
        int64_t i = w->next++;
        pthread_mutex_unlock(&a->lock);
        read_picture(a, picture_at(w->pictures, w->index ? w->index[i] : i), values);
        w->visit(w->ctx, i, values);
        pthread_mutex_lock(&a->lock);
        if (--w->left == 0) {
            pthread_cond_broadcast(&a->changed);
        }
    }
}

static void *decoder_main(void *arg)
{
    struct album *a = arg;
    uint8_t *values = malloc(image_form_bytes(&a->form));
    pthread_setname_np(pthread_self(), "decoder");
    pthread_mutex_lock(&a->lock);
    while (values && !a->stopping) {
        if (a->work && a->work->next < a->work->n) {
            work_on(a, a->work, values);
        } else {
            pthread_cond_wait(&a->changed, &a->lock);
        }
    }
    pthread_mutex_unlock(&a->lock);
    free(values);
    return NULL;
}

void pictures_visit(const struct pictures *p, const int64_t *index, int64_t n,
                    void (*visit)(void *ctx, int64_t i, const uint8_t *values), void *ctx)
{
    struct album *a = p->album;
    struct visit_all w = {p, index, n, 0, n, visit, ctx};
    pthread_mutex_lock(&a->turn);
    pthread_mutex_lock(&a->lock);
    a->work = &w;
    pthread_cond_broadcast(&a->changed);
    work_on(a, &w, a->own);
    while (w.left > 0) {
        pthread_cond_wait(&a->changed, &a->lock);
    }
    a->work = NULL;
    pthread_mutex_unlock(&a->lock);
    pthread_mutex_unlock(&a->turn);
}

void album_staff(struct album *a, int threads)
{
    pthread_mutex_lock(&a->lock);
    a->stopping = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    while (a->n_threads > 0) {
        pthread_join(a->threads[--a->n_threads], NULL);
    }
    a->stopping = false;
    threads = threads < THREADS_MOST ? threads : THREADS_MOST;
    while (a->n_threads < threads - 1 && /* fewer threads take longer, but work */
           pthread_create(&a->threads[a->n_threads], NULL, decoder_main, a) == 0) {
        a->n_threads++;
    }
}

int pictures_check(const struct pictures *p, struct err *e)
{
    struct album *a = p->album;
    pthread_mutex_lock(&a->lock);
    struct err failed = a->failed;
    pthread_mutex_unlock(&a->lock);
    if (failed.code == ERR_NONE) {
        return 0;
    }
    if (e) {
        *e = failed;
    }
    return -(int)failed.code;
}

/* ---- albums and parts ------------------------------------------------------------------------ */

struct album *album_new(struct folders *folders, const char *roots, struct err *e)
{
    struct album *a = calloc(1, sizeof(*a));
    char *own_roots = strdup(roots);
    if (!a || !own_roots) {
        err_set(e, ERR_MEMORY, "cannot read '%.200s': memory ran out", folders->dir);
        folders_release(folders);
        free(own_roots);
        free(a);
        return NULL;
    }
    a->roots = own_roots;
    a->folders = *folders;
    memset(folders, 0, sizeof(*folders));
    a->users = 1;
    pthread_mutex_init(&a->turn, NULL);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    return a;
}

int album_form(struct album *a, const struct image_form *form, struct err *e)
{
    a->form = *form;
    a->own = malloc(image_form_bytes(form));
    return a->own ? 0
                  : err_set(e, ERR_MEMORY, "cannot hold a picture of %d x %d: memory ran out",
                            form->height, form->width);
}

const struct folders *album_folders(const struct album *a)
{
    return &a->folders;
}

void album_close(struct album *a)
{
    if (!a || --a->users > 0) {
        return;
    }
    album_staff(a, 1);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    pthread_mutex_destroy(&a->turn);
    folders_release(&a->folders);
    free(a->roots);
    free(a->own);
    free(a);
}

struct pictures *pictures_new(struct album *a, int64_t *order, int64_t first, int64_t n)
{
    struct pictures *p = malloc(sizeof(*p));
    if (!p) {
        free(order);
        return NULL;
    }
    *p = (struct pictures){a, order, first, n};
    a->users++;
    return p;
}

struct album *pictures_album(const struct pictures *p)
{
    return p->album;
}

struct pictures *pictures_pick(const struct pictures *p, const int64_t *order, int64_t n)
{
    int64_t *own = malloc(((size_t)n + 1) * sizeof(*own));
    for (int64_t i = 0; own && i < n; i++) {
        own[i] = picture_at(p, order[i]);
    }
    return own ? pictures_new(p->album, own, 0, n) : NULL;
}

void pictures_free(struct pictures *p)
{
    if (p) {
        album_close(p->album);
        free(p->order);
    }
    free(p);
}
