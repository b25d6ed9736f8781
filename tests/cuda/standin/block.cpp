/* A grid of threads on one thread of the host. Threads of a block run one after the other on one
 * fiber as long as none of them waits; one that comes to a barrier or tells its warp something
 * keeps its fiber, and the next thread gets another. So a kernel without barriers costs a function
 * call per thread, and one with barriers does what it would on a GPU.
 *
 * Every other grid runs its blocks and threads backwards: a result that depends on their order, for
 * want of a barrier, changes.
 *
 * What a newcomer would get wrong: a fiber is switched by hand, so AddressSanitizer must be told of
 * it, and threadIdx set again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <vector>

#include "tests/cuda/standin/standin.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define LEAVE(save, bottom, bytes) __sanitizer_start_switch_fiber(save, bottom, bytes)
#define ARRIVE(save, bottom, bytes) __sanitizer_finish_switch_fiber(save, bottom, bytes)
#else
#define LEAVE(save, bottom, bytes) ((void)(save), (void)(bottom), (void)(bytes))
#define ARRIVE(save, bottom, bytes) ((void)(save), (void)(bottom), (void)(bytes))
#endif

enum { STACK = 256 << 10, WARP = 32, MOST = 1024 };

struct standin_index threadIdx, blockIdx, blockDim, gridDim;

/* Saves what a function must keep, puts the stack pointer into *from, and goes on where `to` was
 * left. */
extern "C" void standin_switch(void **from, void *to);
#if defined(__x86_64__)
__asm__(
    ".text\n.globl standin_switch\n.hidden standin_switch\nstandin_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
    ".section .note.GNU-stack,\"\",@progbits\n.text\n");
#else
#error "the host build switches fibers on x86-64 only"
#endif

enum state { NEW, RUNNING, AT_BARRIER, AT_WARP, READY, DONE };

struct fiber {
    void *sp;
    char *stack;
    void *fake; /* AddressSanitizer's */
    int thread;
};

struct scheduler {
    const std::function<void()> *thread;
    int n, next, done;
    bool backwards;
    enum state state[MOST];
    struct fiber *fiber[MOST]; /* of a thread that has begun and not ended */
    uint64_t word[2][MOST];    /* what lanes deposit, in turns */
    unsigned turn[MOST];
    std::vector<struct fiber *> all, idle;
    struct fiber *current;
    void *scheduler; /* its stack pointer */
    void *scheduler_fake;
    const void *scheduler_bottom;
    size_t scheduler_bytes;
};
static struct scheduler &b = *new scheduler{}; /* never destroyed: fibers are kept to the end */

static void to_scheduler(struct fiber *f)
{
    LEAVE(&f->fake, b.scheduler_bottom, b.scheduler_bytes);
    standin_switch(&f->sp, b.scheduler);
    ARRIVE(f->fake, &b.scheduler_bottom, &b.scheduler_bytes);
}

/* Threads that have not begun, one after the other, then idle until the next block. */
static void fiber_main(void)
{
    struct fiber *f = b.current;
    ARRIVE(f->fake, &b.scheduler_bottom, &b.scheduler_bytes);
    for (;;) {
        while (b.next < b.n) {
            int t = b.backwards ? b.n - 1 - b.next : b.next;
            b.next++;
            f->thread = t;
            b.fiber[t] = f;
            b.state[t] = RUNNING;
            threadIdx.x = (unsigned)t;
            (*b.thread)();
            b.state[t] = DONE;
            b.done++;
        }
        b.idle.push_back(f);
        to_scheduler(f);
        f = b.current;
    }
}

static struct fiber *fiber_new(void)
{
    struct fiber *f = new fiber{};
    f->stack = (char *)mmap(NULL, STACK, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->stack == MAP_FAILED || mprotect(f->stack, 4096, PROT_NONE) != 0) {
        standin_die("no memory for a fiber");
    }
    void **top = (void **)(f->stack + STACK) - 2;
    *top = (void *)fiber_main; /* where the first switch returns to; the stack is then aligned as
                                  after a call */
    f->sp = top - 6;
    b.all.push_back(f);
    return f;
}

static void resume(struct fiber *f)
{
    b.current = f;
    LEAVE(&b.scheduler_fake, f->stack, STACK);
    standin_switch(&b.scheduler, f->sp);
    ARRIVE(b.scheduler_fake, NULL, NULL);
}

static void wait_in(enum state state)
{
    struct fiber *f = b.current;
    int t = f->thread;
    b.state[t] = state;
    to_scheduler(f);
    b.state[t] = RUNNING;
    threadIdx.x = (unsigned)t;
}

void standin_sync(void)
{
    wait_in(AT_BARRIER);
}

uint64_t standin_exchange(uint64_t word, int mask)
{
    int t = b.current->thread;
    unsigned turn = b.turn[t]++ % 2;
    b.word[turn][t] = word;
    wait_in(AT_WARP);
    return b.word[turn][t ^ mask];
}

/* Threads first … last-1 go on if all of them wait for each other in the same way. */
static bool release(int first, int last, enum state state)
{
    for (int t = first; t < last; t++) {
        if (b.state[t] != state) {
            return false;
        }
    }
    for (int t = first; t < last; t++) {
        b.state[t] = READY;
    }
    return true;
}

static void run_block(void)
{
    b.next = b.done = 0;
    for (int t = 0; t < b.n; t++) {
        b.state[t] = NEW;
        b.turn[t] = 0;
    }
    while (b.done < b.n) {
        bool moved = false;
        while (b.next < b.n) {
            struct fiber *f = b.idle.empty() ? fiber_new() : b.idle.back();
            if (!b.idle.empty()) {
                b.idle.pop_back();
            }
            resume(f);
            moved = true;
        }
        for (int i = 0; i < b.n; i++) {
            int t = b.backwards ? b.n - 1 - i : i;
            if (b.state[t] == READY) {
                resume(b.fiber[t]);
                moved = true;
            }
        }
        for (int w = 0; w < b.n; w += WARP) {
            moved = release(w, w + WARP < b.n ? w + WARP : b.n, AT_WARP) || moved;
        }
        moved = release(0, b.n, AT_BARRIER) || moved;
        if (!moved && b.done < b.n) {
            standin_die(
                "threads of a block wait for others that have left the kernel or wait elsewhere");
        }
    }
}

void standin_run_grid(unsigned blocks, unsigned threads, const std::function<void()> &thread)
{
    LOCKED;
    static long grids;
    if (b.thread) {
        standin_die("a kernel starts a kernel");
    }
    b.thread = &thread;
    b.n = (int)threads;
    b.backwards = grids++ % 2;
    gridDim.x = blocks;
    blockDim.x = threads;
    for (unsigned i = 0; i < blocks; i++) {
        blockIdx.x = b.backwards ? blocks - 1 - i : i;
        run_block();
    }
    b.thread = NULL;
}
