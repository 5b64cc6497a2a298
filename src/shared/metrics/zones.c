/* Whether requests and sessions are counted, and the `status_zone` directives; issuers whose orders
   are counted. */
#include "shared/metrics/zones.h"

#include "shared/metrics/orders.h"

struct status_zones *status_zones_of(struct conf *conf)
{
    return conf_state(conf, "status zones", sizeof(struct status_zones));
}

void status_zone_add(struct conf *conf, enum series_kind kind, struct str name)
{
    struct status_zones *zones = status_zones_of(conf);

    vec_each(const struct status_zone, zone, &zones->zones) {
        if (zone->kind == kind && str_equal(zone->name, name)) {
            return;
        }
    }
    *vec_add(&zones->zones, conf->arena, struct status_zone) = (struct status_zone){kind, name};
}

bool status_zones_start(struct conf *conf)
{
    const struct status_zones *zones = status_zones_of(conf);

    if (zones->zone == NULL || !metrics_use(zones->zone)) {
        return false;
    }
    metrics_worker_start();
    return true;
}

/* ---- issuers whose orders are counted ---- */

struct vec *issuer_counts_of(struct conf *conf)
{
    return conf_state(conf, "issuer counts", sizeof(struct vec));
}
