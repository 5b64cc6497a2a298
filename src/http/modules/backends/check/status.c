/* `check_status`: the checked peers as HTML, CSV, JSON, or for Prometheus. */
#include "http/modules/backends/check/status.h"
#include "http/request/request.h"

#include "base/text.h"
#include "server/generation.h"
#include "upstream/health.h"

/* One row of the page: a check of a peer. */
struct row {
    const struct upstream_group *group;
    struct str peer; /* name of the peer */
    const struct health_settings *check;
    bool is_up;
    uint32_t rise, fall;
};

/* Collected before anything is written. */
struct page {
    struct arena *arena;
    struct vec rows;   /* struct row: the peers to show */
    unsigned up, down; /* counts of these */
    int wants;         /* 1: only peers that are up, 0: only those that are down, -1: all */
};

static const struct {
    struct str name;
    struct str type; /* content type of the response */
} formats[FORMAT_NONE] = {
    [FORMAT_HTML] = {STR_INIT("html"), STR_INIT("text/html")},
    [FORMAT_CSV] = {STR_INIT("csv"), STR_INIT("text/plain")},
    [FORMAT_JSON] = {STR_INIT("json"), STR_INIT("application/json")},
    [FORMAT_PROMETHEUS] = {STR_INIT("prometheus"), STR_INIT("text/plain")},
};

enum check_format check_format_named(struct str name)
{
    enum check_format format = FORMAT_HTML;

    while (format < FORMAT_NONE && !str_equal_nocase(name, formats[format].name)) {
        format++;
    }
    return format;
}

/* ---- collecting ---- */

static void add_peer(const struct upstream_group *group, const struct peer *peer, void *arg)
{
    struct page *page = arg;
    uint32_t unhealthy = atomic_load(&peer->cell->is_unhealthy);
    unsigned index = 0;

    for (const struct health_settings *check = group->health; check != NULL; check = check->next) {
        const struct peer_check *cell = &peer->cell->checks[index];
        bool is_up = (unhealthy & 1u << index++) == 0 && !peer_is_down(peer);

        if (page->wants == -1 || page->wants == is_up) {
            struct row *row = vec_add(&page->rows, page->arena, struct row);
            *(is_up ? &page->up : &page->down) += 1;
            *row = (struct row){group,
                                peer->name,
                                check,
                                is_up,
                                atomic_load(&cell->rise),
                                atomic_load(&cell->fall)};
        }
    }
}

/* ---- writing ---- */

static void page_put(struct buf *out, const char *text)
{
    buf_append(out, str_of(text));
}

static void put_escaped(struct buf *out, struct str text, enum escape_set set)
{
    size_t size = escape_length(text, set);
    char *buffer = buf_reserve(out, size);

    escape_write(buffer, text, set);
    out->len += size;
}

static const char *check_status_state_of(const struct row *row)
{
    return row->is_up ? "up" : "down";
}

static void write_html(struct buf *out, const struct page *page)
{
    unsigned index = 0;

    buf_printf(out,
               "<!DOCTYPE html>\n<html>\n<head>\n<title>Health checks</title>\n"
               "<style>\nbody { font-family: sans-serif; }\n"
               "table { border-collapse: collapse; }\n"
               "th, td { border: 1px solid #999; padding: 0.2em 0.6em; text-align: left; }\n"
               ".down { background: #f99; }\n</style>\n</head>\n<body>\n"
               "<h1>Health checks</h1>\n"
               "<h2>Check upstream server number: %u, generation: %u</h2>\n<table>\n"
               "<tr><th>Index</th><th>Upstream</th><th>Name</th><th>Status</th>"
               "<th>Rise counts</th><th>Fall counts</th><th>Check type</th>"
               "<th>Check port</th></tr>\n",
               page->up + page->down, generation_now->number);
    vec_each(const struct row, row, &page->rows) {
        buf_printf(out, "<tr class=\"%s\"><td>%u</td><td>", check_status_state_of(row), index++);
        put_escaped(out, row->group->name, ESCAPE_HTML);
        page_put(out, "</td><td>");
        put_escaped(out, row->peer, ESCAPE_HTML);
        buf_printf(out, "</td><td>%s</td><td>%u</td><td>%u</td><td>%.*s</td><td>%u</td></tr>\n",
                   check_status_state_of(row), row->rise, row->fall, STR_ARG(row->check->type),
                   row->check->port);
    }
    page_put(out, "</table>\n</body>\n</html>\n");
}

static void write_csv(struct buf *out, const struct page *page)
{
    unsigned index = 0;

    vec_each(const struct row, row, &page->rows) {
        buf_printf(out, "%u,%.*s,%.*s,%s,%u,%u,%.*s,%u\n", index++, STR_ARG(row->group->name),
                   STR_ARG(row->peer), check_status_state_of(row), row->rise, row->fall,
                   STR_ARG(row->check->type), row->check->port);
    }
}

static void write_json(struct buf *out, const struct page *page)
{
    unsigned index = 0;

    buf_printf(out,
               "{\"servers\": {\n  \"total\": %u,\n  \"up\": %u,\n  \"down\": %u,\n"
               "  \"generation\": %u,\n  \"server\": [",
               page->up + page->down, page->up, page->down, generation_now->number);
    vec_each(const struct row, row, &page->rows) {
        buf_printf(out, "%s\n    {\"index\": %u, \"upstream\": \"", index == 0 ? "" : ",", index);
        put_escaped(out, row->group->name, ESCAPE_JSON);
        page_put(out, "\", \"name\": \"");
        put_escaped(out, row->peer, ESCAPE_JSON);
        buf_printf(out,
                   "\", \"status\": \"%s\", \"rise\": %u, \"fall\": %u, \"type\": \"%.*s\", "
                   "\"port\": %u}",
                   check_status_state_of(row), row->rise, row->fall, STR_ARG(row->check->type),
                   row->check->port);
        index++;
    }
    page_put(out, index == 0 ? "]\n}}\n" : "\n  ]\n}}\n");
}

/* ---- the exposition format of Prometheus ---- */

static void write_metric(struct buf *out, const char *name, const char *help, const char *type)
{
    buf_printf(out, "# HELP nginx_upstream_%s %s\n# TYPE nginx_upstream_%s %s\n", name, help, name,
               type);
}

static void write_gauge(struct buf *out, const char *name, const char *help, unsigned value)
{
    write_metric(out, name, help, "gauge");
    buf_printf(out, "nginx_upstream_%s %u\n", name, value);
}

enum series { SERIES_RISE, SERIES_FALL, SERIES_ACTIVE };

static unsigned series_value(const struct row *row, enum series series)
{
    return series == SERIES_RISE ? row->rise : series == SERIES_FALL ? row->fall : row->is_up;
}

static void write_series(struct buf *out, const struct page *page, const char *name,
                         enum series series)
{
    unsigned index = 0;

    vec_each(const struct row, row, &page->rows) {
        buf_printf(out, "nginx_upstream_%s{index=\"%u\",upstream_name=\"", name, index++);
        put_escaped(out, row->group->name, ESCAPE_JSON);
        page_put(out, "\",name=\"");
        put_escaped(out, row->peer, ESCAPE_JSON);
        buf_printf(out, "\",status=\"%s\",type=\"%.*s\",port=\"%u\"} %u\n",
                   check_status_state_of(row), STR_ARG(row->check->type), row->check->port,
                   series_value(row, series));
    }
}

static void write_prometheus(struct buf *out, const struct page *page)
{
    write_gauge(out, "count", "Checked servers", page->up + page->down);
    write_gauge(out, "up", "Checked servers that are up", page->up);
    write_gauge(out, "down", "Checked servers that are down", page->down);
    write_gauge(out, "generation", "Readings of the configuration", generation_now->number);
    write_metric(out, "server_rise", "Good answers in a row", "gauge");
    write_series(out, page, "server_rise", SERIES_RISE);
    write_metric(out, "server_fall", "Bad answers in a row", "gauge");
    write_series(out, page, "server_fall", SERIES_FALL);
    write_metric(out, "server_active", "1 when the server is up, else 0", "gauge");
    write_series(out, page, "server_active", SERIES_ACTIVE);
}

/* ---- the response ---- */

/* Finds an argument of the query; false: it is absent. */
static bool find_argument(struct str args, const char *name, struct str *value)
{
    while (args.data != NULL) {
        struct str part = str_cut(&args, '&');
        if (str_is(str_cut(&part, '='), name)) {
            *value = part;
            return true;
        }
    }
    return false;
}

enum handler_result check_status_answer(struct request *request, const struct upstream_set *set,
                                        enum check_format format)
{
    static void (*const writers[])(struct buf *, const struct page *) = {
        [FORMAT_HTML] = write_html,
        [FORMAT_CSV] = write_csv,
        [FORMAT_JSON] = write_json,
        [FORMAT_PROMETHEUS] = write_prometheus,
    };
    struct page page = {.arena = &request->arena, .wants = -1};
    struct buf out = {0};
    struct str value;

    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return request_fail(request, 405);
    }
    if (find_argument(request->args, "format", &value) &&
        check_format_named(value) != FORMAT_NONE) {
        format = check_format_named(value);
    }
    if (find_argument(request->args, "status", &value)) {
        page.wants = str_equal_nocase(value, STR("up"))     ? 1
                     : str_equal_nocase(value, STR("down")) ? 0
                                                            : -1;
    }
    health_each_peer(set, add_peer, &page);
    writers[format](&out, &page);
    return response_gathered(request, 200, formats[format].type, &out);
}
