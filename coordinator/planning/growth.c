/* See growth.h. A cluster of twice the speed saves half of the time that is left. The margin
 * `worth` covers the higher cost of exchanges. */
#include "coordinator/planning/growth.h"

static const double usual_cost = 5;

bool growth_is_settled(const struct growth_rules *rules, double since, double now)
{
    return now - since >= rules->settle;
}

bool growth_is_worth(const struct growth_rules *rules, const struct growth *g)
{
    double cost = g->cost > 0 ? g->cost : usual_cost;
    if (g->then <= g->workers || g->age < rules->every || !(g->speed_then > g->speed)) {
        return false;
    }
    return g->left < 0 || g->left * (1 - g->speed / g->speed_then) >= rules->worth * cost;
}
