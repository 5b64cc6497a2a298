/* `require` of a match block: variables are made for requests, so a probe's answer is shown to them as
 * that of an exchange which stands at the place of the check. */
#include <stdlib.h>

#include "http/connection.h"
#include "http/exchange/exchange.h"
#include "http/modules/health_check/match.h"
#include "http/request.h"

/* Nothing of this request is ever sent or received. */

static void send_no_head(struct request *request)
{
    (void) request;
}

static bool send_no_body(struct request *request, const struct body_piece *piece, bool is_last)
{
    (void) request;
    (void) piece;
    (void) is_last;
    return false;
}

static void send_no_interim(struct request *request, unsigned status, const struct fields *fields)
{
    (void) request;
    (void) status;
    (void) fields;
}

static ssize_t read_no_body(struct request *request, void *at, size_t size)
{
    (void) request;
    (void) at;
    (void) size;
    return 0;
}

static void end_nothing(struct request *request, enum flow flow)
{
    (void) request;
    (void) flow;
}

static uint64_t no_backlog(const struct request *request, uint64_t more)
{
    (void) more;
    (void) request;
    return 0;
}

static const struct http_wire no_wire = {
    .send_head = send_no_head,
    .send_body = send_no_body,
    .send_interim = send_no_interim,
    .read_body = read_no_body,
    .ended = end_nothing,
    .backlog = no_backlog,
};

static const struct protocol no_protocol = {.name = STR_INIT("http")};
static const struct exchange_settings no_settings;

/* The exchange that such an answer would have come by. */
static struct exchange *exchange_of(struct request *request, const struct health_probe *probe,
                                    const struct probe_answer *answer)
{
    struct exchange *x = arena_new(&request->arena, struct exchange);

    x->magic = EXCHANGE_MAGIC;
    x->request = request;
    x->protocol = &no_protocol;
    x->settings = &no_settings;
    x->group = (struct upstream_group *) (uintptr_t) probe->group;
    x->answer.status = answer->status;
    x->answer.version = (enum http_version) answer->version;
    x->answer.fields = answer->fields;
    x->answer.content_length = -1;
    x->body_received = answer->body.len;
    x->attempt = vec_push(&x->attempts, &request->arena, sizeof(*x->attempt));
    x->attempt->peer = probe->peer->name;
    x->attempt->status = answer->status;
    x->attempt->response_length = answer->body.len;
    return x;
}

bool match_required(const struct vec *required, const struct http_location *location,
                    const struct health_probe *probe, const struct probe_answer *answer)
{
    struct http_connection http = {
        .magic = HTTP_CONNECTION_MAGIC,
        .requests = 1,
        .conn = probe->conn,
        .listen = *vec_at(&location->server->listens, const struct http_listen *, 0),
    };
    bool are_good = true;

    list_init(&http.unfinished);
    struct request *request = request_new(probe->conn, &http, &no_wire);
    request_set_location(request, location);
    request->method_name = STR("GET");
    request->method = METHOD_GET;
    request->version = HTTP_1_1;
    request->uri = request->target = STR("/");
    request->line = STR("GET / HTTP/1.1");
    request->host = probe->group->name;
    request->content_length = -1;
    request->is_body_read = true;
    request->exchange = exchange_of(request, probe, answer);
    vec_each(struct template *const, text, required) {
        struct str value = template_text(*text, &request->env);
        are_good &= value.len != 0 && !str_equal(value, STR("0"));
    }
    request_free(request);
    free(http.details);
    return are_good;
}
