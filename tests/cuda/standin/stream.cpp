/* Streams, events, capture and graphs. Work on a stream stays there until somebody waits for it (or
 * for an event behind it), and then runs as late as the order allows: so whoever forgets to wait,
 * or to order two streams, sees what was there before. set_eager turns that round: then work runs
 * at once, and whoever changes what it reads too late is seen. So do the branches of a graph: what
 * was captured on streams that joined a capture runs when the first stream waits for it, or as soon
 * as it can.
 */
#include <algorithm>
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
    long capture, mark; /* the last was captured: the graph's id, and which of its marks */
};

struct item {
    std::function<void()> work; /* or: */
    cudaEvent_t record, wait;
    long version;
};

/* The same of a graph, whose marks are 1, 2, …; 0 is none. */
struct node {
    std::function<void()> work;
    long record, wait;
};
struct standin_graph {
    long id, marks;
    bool broken;                       /* what happened while capturing cannot be captured */
    std::vector<cudaStream_t> streams; /* that are captured; the first is the one where it began */
    std::vector<std::vector<struct node>> lanes; /* of each */
};
struct standin_exec {
    std::vector<std::function<void()>> late, early;
};

struct standin_stream {
    std::deque<struct item> items;
    struct standin_graph *graph; /* capturing */
    size_t lane;                 /* which of its lanes */
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
    if (s->items.empty()) {
        return;
    }
    struct standin_working here;
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
    standin_need_here(stream, "stream");
    if (stream->graph) {
        stream->graph->lanes[stream->lane].push_back({work, 0, 0});
        return cudaSuccess;
    }
    if (standin_forbidden()) {
        standin_die("work for another stream while one is captured");
    }
    put(stream, {work, NULL, NULL, 0});
    return cudaSuccess;
}

/* ---- streams --------------------------------------------------------------------------------- */

extern "C" cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    CALL("cudaStreamCreateWithFlags", cudaErrorLaunchFailure);
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
    CALL("cudaStreamSynchronize", cudaErrorLaunchFailure);
    standin_need(stream, "stream");
    if (stream->graph) {
        stream->graph->broken = true;
        return standin_result(cudaErrorStreamCaptureUnsupported);
    }
    drain(stream, NULL, 0);
    return cudaSuccess;
}

/* ---- what is captured ------------------------------------------------------------------------ */

static std::set<struct standin_graph *> captures;

static void join(struct standin_graph *g, cudaStream_t stream)
{
    stream->graph = g;
    stream->lane = g->lanes.size();
    g->lanes.push_back({});
    g->streams.push_back(stream);
}

/* The stream becomes a part of the event's capture, if it is none yet. */
static void wait_in_capture(cudaStream_t stream, cudaEvent_t event)
{
    auto found = std::find_if(captures.begin(), captures.end(),
                              [=](struct standin_graph *g) { return g->id == event->capture; });
    if (found == captures.end() || (stream->graph && stream->graph != *found)) {
        standin_die("a stream waits for an event of a capture that it is no part of");
    }
    if (!stream->graph) {
        join(*found, stream);
    }
    stream->graph->lanes[stream->lane].push_back({nullptr, 0, event->mark});
}

static void end_capture(struct standin_graph *g)
{
    for (cudaStream_t stream : g->streams) {
        stream->graph = NULL;
    }
    captures.erase(g);
}

/* One order of the graph's work: that of the other lanes when the first one waits for it, or
 * (early) as soon as it can run. */
struct order {
    const struct standin_graph *g;
    bool early;
    std::vector<size_t> at; /* of each lane */
    std::set<long> made;    /* marks */
    std::vector<std::function<void()>> work;
};

static void make_mark(struct order *o, long mark);

static bool step_lane(struct order *o, size_t lane, bool may_make)
{
    if (o->at[lane] == o->g->lanes[lane].size()) {
        return false;
    }
    const struct node &n = o->g->lanes[lane][o->at[lane]];
    if (n.wait && !o->made.count(n.wait)) {
        if (!may_make) {
            return false;
        }
        make_mark(o, n.wait);
    }
    o->at[lane]++;
    if (n.record) {
        o->made.insert(n.record);
    } else if (n.work) {
        o->work.push_back(n.work);
    }
    return true;
}

static void make_mark(struct order *o, long mark)
{
    for (size_t lane = 0; lane < o->at.size(); lane++) {
        const std::vector<struct node> &nodes = o->g->lanes[lane];
        if (std::any_of(nodes.begin() + (long)o->at[lane], nodes.end(),
                        [=](const struct node &n) { return n.record == mark; })) {
            while (!o->made.count(mark)) {
                step_lane(o, lane, true);
            }
            return;
        }
    }
}

static struct order order_of(const struct standin_graph *g, bool early)
{
    struct order o = {g, early, std::vector<size_t>(g->lanes.size()), {}, {}};
    while (step_lane(&o, 0, true)) {
        for (size_t lane = 1; early && lane < g->lanes.size(); lane++) {
            while (step_lane(&o, lane, false)) {
            }
        }
    }
    return o;
}

/* Whether the first stream has waited for all that others do. */
static bool joined(const struct standin_graph *g)
{
    struct order o = order_of(g, false);
    for (size_t lane = 0; lane < g->lanes.size(); lane++) {
        if (o.at[lane] < g->lanes[lane].size()) {
            return false;
        }
    }
    return true;
}

/* ---- events ---------------------------------------------------------------------------------- */

extern "C" cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    CALL("cudaEventCreateWithFlags", cudaErrorLaunchFailure);
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
    CALL("cudaEventRecord", cudaErrorLaunchFailure);
    standin_need_here(event, "event");
    standin_need_here(stream, "stream");
    event->capture = stream->graph ? stream->graph->id : 0;
    if (stream->graph) {
        event->mark = ++stream->graph->marks;
        stream->graph->lanes[stream->lane].push_back({nullptr, event->mark, 0});
        return cudaSuccess;
    }
    event->stream = stream;
    event->asked++;
    put(stream, {nullptr, event, NULL, event->asked});
    return cudaSuccess;
}

extern "C" cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    CALL("cudaStreamWaitEvent", cudaErrorLaunchFailure);
    standin_need(event, "event");
    standin_need(stream, "stream");
    if (event->capture) {
        wait_in_capture(stream, event);
    } else if (stream->graph) {
        standin_die("a captured stream waits for an event of another that is not");
    } else if (event->asked > 0) {
        put(stream, {nullptr, NULL, event, event->asked});
    }
    return cudaSuccess;
}

extern "C" cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    CALL("cudaEventSynchronize", cudaErrorLaunchFailure);
    standin_need(event, "event");
    if (event->capture) {
        standin_die("an event of a captured stream is no event that the host can wait for");
    }
    if (event->done < event->asked) {
        drain(event->stream, event, event->asked);
    }
    return cudaSuccess;
}

extern "C" cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    CALL("cudaEventElapsedTime", cudaErrorLaunchFailure);
    standin_need(begin, "event");
    standin_need(end, "event");
    if (!begin->timed || !end->timed || begin->asked == 0 || end->asked == 0) {
        return standin_result(cudaErrorInvalidResourceHandle);
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

/* ---- graphs ---------------------------------------------------------------------------------- */

extern "C" cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    CALL("cudaStreamBeginCapture", cudaErrorLaunchFailure);
    standin_need_here(stream, "stream");
    if (stream->graph) {
        standin_die("a stream is captured twice");
    }
    if (mode != cudaStreamCaptureModeThreadLocal) {
        standin_die("a capture that another thread's allocation would break");
    }
    static long ids;
    struct standin_graph *g = new standin_graph{};
    g->id = ++ids;
    join(g, stream);
    captures.insert(g);
    standin_capturing(true);
    return cudaSuccess;
}

extern "C" cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    LOCKED;
    bool fails = standin_call("cudaStreamEndCapture");
    standin_need_here(stream, "stream");
    *out = NULL;
    struct standin_graph *g = stream->graph;
    if (!g || stream->lane != 0) {
        standin_die("the end of a capture that did not begin");
    }
    standin_capturing(false);
    end_capture(g);
    if (g->broken || fails || !joined(g)) {
        cudaError_t code =
            g->broken || fails ? cudaErrorStreamCaptureInvalidated : cudaErrorStreamCaptureUnjoined;
        delete g;
        return standin_result(code);
    }
    *out = g;
    standin_born(g, "graph");
    return cudaSuccess;
}

extern "C" cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph,
                                            unsigned long long flags)
{
    CALL("cudaGraphInstantiate", cudaErrorLaunchFailure);
    standin_need_here(graph, "graph");
    *out = new standin_exec{order_of(graph, false).work, order_of(graph, true).work};
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
    CALL("cudaGraphLaunch", cudaErrorLaunchFailure);
    standin_need_here(exec, "executable graph");
    standin_need_here(stream, "stream");
    standin_launched();
    for (const std::function<void()> &work : eager ? exec->early : exec->late) {
        put(stream, {work, NULL, NULL, 0});
    }
    return cudaSuccess;
}
