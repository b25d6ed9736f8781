/* Fibers on ucontext: see fiber.h. The running fiber is a thread-local, so several schedulers may live in one process. */
#include "simulator/fiber.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

struct fiber {
    ucontext_t mine, caller;
    void (*fn)(void *arg);
    void *arg;
    char *stack;
    size_t bytes;
    bool ended;
};

static _Thread_local struct fiber *running;

static void begin(void)
{
    struct fiber *f = running;
    f->fn(f->arg);
    f->ended = true;
    fiber_yield();
}

/* Apart, because getcontext may return twice in the eyes of the compiler. */
static bool prepare(struct fiber *f, size_t page)
{
    if (getcontext(&f->mine) != 0) {
        return false;
    }
    f->mine.uc_stack.ss_sp = f->stack + page;
    f->mine.uc_stack.ss_size = f->bytes - page;
    f->mine.uc_link = NULL;
    makecontext(&f->mine, begin, 0);
    return true;
}

struct fiber *fiber_new(void (*fn)(void *arg), void *arg, size_t stack_bytes, struct err *e)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct fiber *f = calloc(1, sizeof *f);
    if (!f) {
        err_set(e, ERR_MEMORY, "cannot make a virtual rank: memory ran out");
        return NULL;
    }
    f->bytes = (stack_bytes + page - 1) / page * page + page;
    f->stack = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    f->fn = fn;
    f->arg = arg;
    if (f->stack == MAP_FAILED || mprotect(f->stack, page, PROT_NONE) != 0 || !prepare(f, page)) {
        err_errno(e, ERR_MEMORY, "cannot make the stack of a virtual rank");
        if (f->stack != MAP_FAILED) {
            munmap(f->stack, f->bytes);
        }
        free(f);
        return NULL;
    }
    return f;
}

void fiber_free(struct fiber *f)
{
    if (f) {
        munmap(f->stack, f->bytes);
        free(f);
    }
}

void fiber_resume(struct fiber *f)
{
    BUG_ON(running || f->ended);
    running = f;
    swapcontext(&f->caller, &f->mine);
    running = NULL;
}

void fiber_yield(void)
{
    struct fiber *f = running;
    BUG_ON(!f);
    swapcontext(&f->mine, &f->caller);
}

bool fiber_ended(const struct fiber *f)
{
    return f->ended;
}
