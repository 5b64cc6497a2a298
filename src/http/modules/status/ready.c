/* ngx_http_ready_module: whether this node should get requests, for load balancers and probes. */
#include "http/request/request.h"
#include "server/generation.h"
#include "server/module.h"

static enum handler_result ready_answer(struct request *request)
{
    bool is_leaving = service_is_draining() || (worker_is_quitting && !worker_is_replaced);

    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return request_fail(request, 405);
    }
    return is_leaving ? response_memory(request, 503, STR("text/plain"), STR("draining\n"))
                      : response_memory(request, 200, STR("text/plain"), STR("ready\n"));
}

static bool ready_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    content_set(scope_location(scope), ready_answer, NULL);
    return true;
}

static const struct directive ready_rows[] = {
    {"ready", IN_LOCATION, CUSTOM(ready_apply), ARGS(0, 0), .repeat = REPEAT_CUSTOM,
     .doc = "Responds with 200, and with 503 when the server is about to shut down, for "
            "the readiness probes of Kubernetes or a load balancer. `shutdown_delay` gives "
            "them time to notice it."},
    {0},
};

const struct module ngx_http_ready_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_ready_module",
    .kind = MODULE_HTTP,
    .table = {.rows = ready_rows},
};
