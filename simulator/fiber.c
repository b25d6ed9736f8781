/* Fibers: see fiber.h. ucontext makes a fiber's stack and enters it the first time; from then on _setjmp and _longjmp switch, because
 * swapcontext asks the kernel for the signal mask each time. The running fiber is a thread-local, so several schedulers may live in one
 * process. */
#include "simulator/fiber.h"

#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

struct fiber {
    ucontext_t first; /* before it has run */
    jmp_buf mine, caller;
    bool begun;
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
    if (getcontext(&f->first) != 0) {
        return false;
    }
    f->first.uc_stack.ss_sp = f->stack + page;
    f->first.uc_stack.ss_size = f->bytes - page;
    f->first.uc_link = NULL;
    makecontext(&f->first, begin, 0);
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
    if (_setjmp(f->caller) == 0) {
        if (f->begun) {
            _longjmp(f->mine, 1);
        }
        f->begun = true;
        setcontext(&f->first);
    }
    running = NULL;
}

void fiber_yield(void)
{
    struct fiber *f = running;
    BUG_ON(!f);
    if (_setjmp(f->mine) == 0) {
        _longjmp(f->caller, 1);
    }
}

bool fiber_ended(const struct fiber *f)
{
    return f->ended;
}
