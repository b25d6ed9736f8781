/* Fibers: see fiber.h. ucontext makes a fiber's stack and enters it the first time; from then on
 * _setjmp and _longjmp switch, because swapcontext asks the kernel for the signal mask each time.
 * The running fiber is a thread-local, so several schedulers may live in one process. leave() and
 * arrive() report each switch to AddressSanitizer, which would otherwise take a fiber's stack for a
 * thread's that grew by gigabytes. */
#include "simulator/fiber.h"

#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#ifdef WITH_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

/* a stack that is not running: where it is, and AddressSanitizer's record of it */
struct stack {
    const void *bottom;
    size_t bytes;
    void *kept;
};

struct fiber {
    ucontext_t first; /* its context until it has run */
    jmp_buf mine, caller;
    bool begun;
    void (*fn)(void *arg);
    void *arg;
    void (*outside)(void *arg); /* NULL, or a function to run before it is resumed */
    void *outside_arg;
    char *stack;
    size_t bytes;
    struct stack own, callers;
    bool ended;
};

static _Thread_local struct fiber *running;

/* These two enclose each switch. The first leaves `from` for `to`, for good if `last`; the second
 * runs on `to` and arrives from `from`. */
static void leave(struct stack *from, const struct stack *to, bool last)
{
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(last ? NULL : &from->kept, to->bottom, to->bytes);
#endif
}

static void arrive(struct stack *to, struct stack *from)
{
#ifdef WITH_ASAN
    __sanitizer_finish_switch_fiber(to->kept, &from->bottom, &from->bytes);
#endif
}

static void begin(void)
{
    struct fiber *f = running;
    arrive(&f->own, &f->callers);
    f->fn(f->arg);
    f->ended = true;
    fiber_yield();
}

/* It is a function of its own, because the compiler assumes that getcontext() may return twice. */
static bool prepare(struct fiber *f, size_t page)
{
    if (getcontext(&f->first) != 0) {
        return false;
    }
    f->own.bottom = f->first.uc_stack.ss_sp = f->stack + page;
    f->own.bytes = f->first.uc_stack.ss_size = f->bytes - page;
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
    f->stack = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
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

static void switch_to(struct fiber *f)
{
    running = f;
    leave(&f->callers, &f->own, false);
    if (_setjmp(f->caller) == 0) {
        if (f->begun) {
            _longjmp(f->mine, 1);
        }
        f->begun = true;
        setcontext(&f->first);
    }
    arrive(&f->callers, &f->own);
    running = NULL;
}

void fiber_resume(struct fiber *f)
{
    BUG_ON(running || f->ended);
    switch_to(f);
    while (f->outside) {
        f->outside(f->outside_arg);
        f->outside = NULL;
        switch_to(f);
    }
}

void fiber_outside(void (*fn)(void *arg), void *arg)
{
    if (!running) {
        fn(arg);
        return;
    }
    running->outside = fn;
    running->outside_arg = arg;
    fiber_yield();
}

void fiber_yield(void)
{
    struct fiber *f = running;
    BUG_ON(!f);
    leave(&f->own, &f->callers, f->ended);
    if (_setjmp(f->mine) == 0) {
        _longjmp(f->caller, 1);
    }
    arrive(&f->own, &f->callers);
}

bool fiber_ended(const struct fiber *f)
{
    return f->ended;
}
