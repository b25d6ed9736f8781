/* Streams, events, capture and graphs. Work on a stream stays there until somebody waits for it (or for an event behind it), and then runs
 * as late as the order allows: so whoever forgets to wait, or to order two streams, sees what was there before. set_eager turns that round:
 * then work runs at once, and whoever changes what it reads too late is seen.
 */
#include <chrono>
#include <deque>
#include <set>
#include <vector>

#include "tests/cuda/standin/standin.h"

struct standin_event {
    cudaStream_t stream;
    long asked, done; /* records put on a stream; run */
    bool timed;
    std::chrono::steady_clock::time_point at; /* of the last that ran */
};

struct item {
    std::function<void()> work; /* or: */
    cudaEvent_t record, wait;
    long version;
};

struct standin_graph {
    std::vector<std::function<void()>> work;
};
struct standin_exec {
    std::vector<std::function<void()>> work;
};

struct standin_stream {
    std::deque<struct item> items;
    struct standin_graph *graph; /* capturing */
    bool broken;                 /* what happened while capturing cannot be captured */
    bool draining;
};

static std::set<cudaStream_t> streams;
static bool eager;

static void drain(cudaStream_t s, cudaEvent_t until, long version);

static void run_first(cudaStream_t s)
{
    struct item i = s->items.front();
    if (i.wait) {
        if (i.wait->done < i.version) {
            drain(i.wait->stream, i.wait, i.version);
        }
        s->items.pop_front();
        return;
    }
    s->items.pop_front();
    if (i.record) {
        i.record->done = i.version > i.record->done ? i.version : i.record->done;
        i.record->at = std::chrono::steady_clock::now();
    } else {
        i.work();
    }
}

/* Runs what is on the stream, to the end or until the event has been recorded often enough. */
static void drain(cudaStream_t s, cudaEvent_t until, long version)
{
    if (s->draining) {
        standin_die("streams wait for each other");
    }
    s->draining = true;
    while (!s->items.empty() && !(until && until->done >= version)) {
        run_first(s);
    }
    s->draining = false;
}

void standin_drain_all(void)
{
    LOCKED;
    for (cudaStream_t s : streams) {
        drain(s, NULL, 0);
    }
}

long standin_waiting(void)
{
    LOCKED;
    long n = 0;
    for (cudaStream_t s : streams) {
        n += (long)s->items.size();
    }
    return n;
}

void standin_set_eager(int on)
{
    LOCKED;
    eager = on;
}

static void put(cudaStream_t s, struct item i)
{
    s->items.push_back(i);
    if (eager) {
        drain(s, NULL, 0);
    }
}

cudaError_t standin_push(cudaStream_t stream, std::function<void()> work)
{
    LOCKED;
    standin_need(stream, "stream");
    if (stream->graph) {
        stream->graph->work.push_back(work);
        return cudaSuccess;
    }
    if (standin_forbidden()) {
        standin_die("work for another stream while one is captured");
    }
    put(stream, {work, NULL, NULL, 0});
    return cudaSuccess;
}

#define ENTER(name)                    \
    LOCKED;                            \
    if (standin_call(name)) {          \
        return cudaErrorLaunchFailure; \
    }

/* ---- streams ------------------------------------------------------------------------------------------------------------ */

extern "C" cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    ENTER("cudaStreamCreateWithFlags");
    if (flags != cudaStreamNonBlocking) {
        standin_die("a stream that waits for the default stream");
    }
    *out = new standin_stream{};
    streams.insert(*out);
    standin_born(*out, "stream");
    return cudaSuccess;
}

extern "C" cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    LOCKED;
    standin_gone(stream, "stream");
    drain(stream, NULL, 0);
    streams.erase(stream);
    delete stream;
    return cudaSuccess;
}

extern "C" cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    ENTER("cudaStreamSynchronize");
    standin_need(stream, "stream");
    if (stream->graph) {
        stream->broken = true;
        return cudaErrorStreamCaptureUnsupported;
    }
    drain(stream, NULL, 0);
    return cudaSuccess;
}

/* ---- events ---------------------------------------------------------------------------------------------------------------- */

extern "C" cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    ENTER("cudaEventCreateWithFlags");
    *out = new standin_event{};
    (*out)->timed = !(flags & cudaEventDisableTiming);
    standin_born(*out, "event");
    return cudaSuccess;
}

extern "C" cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    LOCKED;
    standin_drain_all();
    standin_gone(event, "event");
    delete event;
    return cudaSuccess;
}

extern "C" cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    ENTER("cudaEventRecord");
    standin_need(event, "event");
    standin_need(stream, "stream");
    if (stream->graph) {
        standin_die("an event of a captured stream is no event that the host can wait for");
    }
    event->stream = stream;
    event->asked++;
    put(stream, {nullptr, event, NULL, event->asked});
    return cudaSuccess;
}

extern "C" cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    ENTER("cudaStreamWaitEvent");
    standin_need(event, "event");
    standin_need(stream, "stream");
    if (event->asked > 0) {
        put(stream, {nullptr, NULL, event, event->asked});
    }
    return cudaSuccess;
}

extern "C" cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    ENTER("cudaEventSynchronize");
    standin_need(event, "event");
    if (event->done < event->asked) {
        drain(event->stream, event, event->asked);
    }
    return cudaSuccess;
}

extern "C" cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    ENTER("cudaEventElapsedTime");
    standin_need(begin, "event");
    standin_need(end, "event");
    if (!begin->timed || !end->timed || begin->asked == 0 || end->asked == 0) {
        return cudaErrorInvalidResourceHandle;
    }
    if (begin->done < begin->asked || end->done < end->asked) {
        standin_die("the time between events that nobody waited for");
    }
    *ms = std::chrono::duration<float, std::milli>(end->at - begin->at).count();
    return cudaSuccess;
}

extern "C" cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status)
{
    LOCKED;
    standin_need(stream, "stream");
    *status = stream->graph ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

/* ---- graphs ------------------------------------------------------------------------------------------------------------------- */

extern "C" cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    ENTER("cudaStreamBeginCapture");
    standin_need(stream, "stream");
    if (stream->graph) {
        standin_die("a stream is captured twice");
    }
    if (mode != cudaStreamCaptureModeThreadLocal) {
        standin_die("a capture that another thread's allocation would break");
    }
    stream->graph = new standin_graph{};
    stream->broken = false;
    standin_capturing(true);
    return cudaSuccess;
}

extern "C" cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    LOCKED;
    bool fails = standin_call("cudaStreamEndCapture");
    standin_need(stream, "stream");
    *out = NULL;
    if (!stream->graph) {
        standin_die("the end of a capture that did not begin");
    }
    standin_capturing(false);
    if (stream->broken || fails) {
        delete stream->graph;
        stream->graph = NULL;
        return cudaErrorStreamCaptureInvalidated;
    }
    *out = stream->graph;
    stream->graph = NULL;
    standin_born(*out, "graph");
    return cudaSuccess;
}

extern "C" cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    ENTER("cudaGraphInstantiate");
    standin_need(graph, "graph");
    *out = new standin_exec{graph->work};
    standin_born(*out, "executable graph");
    return cudaSuccess;
}

extern "C" cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    LOCKED;
    standin_gone(graph, "graph");
    delete graph;
    return cudaSuccess;
}

extern "C" cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    LOCKED;
    standin_drain_all();
    standin_gone(exec, "executable graph");
    delete exec;
    return cudaSuccess;
}

extern "C" cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    ENTER("cudaGraphLaunch");
    standin_need(exec, "executable graph");
    standin_need(stream, "stream");
    standin_launched();
    for (const std::function<void()> &work : exec->work) {
        put(stream, {work, NULL, NULL, 0});
    }
    return cudaSuccess;
}
