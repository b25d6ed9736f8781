/* Steps taken together: see window.h.
 *
 *      quota   ██░░░░░░░░██░░░░░░░░██░░░░░░░░     it may compute in █
 *      steps   ┊┊┊┊┊┊┊▔▔▔▔▔▔▔▔▔┊┊┊┊┊▔▔▔▔▔▔▔▔▔
 *      windows |────────────────|────────────     a mean of ┊ and ▔
 */
#include "job/minibatch/window.h"

bool window_add(struct window *w, double length, int batch, double seconds, double now,
                struct window *out)
{
    if (w->steps > 0 && batch != w->batch && batch != w->other) {
        w->other = batch;
        return false;
    }
    if (w->steps == 0 || batch != w->batch) {
        *w = (struct window){.batch = batch, .began = now - seconds};
    }
    w->other = 0;
    w->steps++;
    w->sum += seconds;
    if (now - w->began < length) {
        return false;
    }
    *out = *w;
    w->steps = 0;
    return true;
}
