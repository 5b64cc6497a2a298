/* ngx_http_charset_filter_module: sets the charset of responses, and converts their bodies. */
#include <stdlib.h>

#include "base/fatal.h"
#include "http/files/file.h"
#include "http/request/body_filter.h"
#include "http/routing/hooks.h"
#include "http/modules/filters/charset/maps.h"
#include "http/request/request.h"
#include "http/message/type_set.h"
#include "server/module.h"

#define OUTPUT_SIZE 16384 /* bytes that are converted before they are passed on */

struct charset_settings {
    struct template *charset; /* charset for clients; NULL = off */
    struct template *source;  /* charset of bodies that do not name one; NULL = unknown */
    struct type_set *types;
    bool overrides;            /* a charset that a backend names is used as the source charset */
    struct charset_maps *maps; /* of the http block; NULL = none */
};

static struct settings_key charset_key;

/* All charsets that are named anywhere in the http block: X-Accel-Charset may select one of
 * these. */
struct charset_names {
    struct vec names; /* struct str */
};

static struct settings_key names_key;
static const struct directive_table names_table = {
    .key = &names_key,
    .contexts = IN_HTTP,
    .size = sizeof(struct charset_names),
};

static bool is_named(const struct charset_names *known, struct str name)
{
    vec_each(const struct str, one, &known->names) {
        if (str_equal_nocase(*one, name)) {
            return true;
        }
    }
    return false;
}

static void charset_add_name(struct conf_scope *scope, struct str name)
{
    struct charset_names *known = conf_settings(scope, &names_key);

    if (!is_named(known, name)) {
        *vec_add(&known->names, scope->conf->arena, struct str) = name;
    }
}

/* ---- the body ---- */

/* Per response, in the request's arena. */
struct charset_filter {
    struct body_filter filter;
    struct recoder recoder;
    char *output; /* OUTPUT_SIZE bytes from malloc; NULL until something is converted */
};

static void free_output(void *arg)
{
    free(((struct charset_filter *) arg)->output);
}

/* Converts a whole piece and passes it on. MAY WAIT. False: the client is gone. */
static bool give_recoded(struct charset_filter *charset, struct request *request,
                         const struct body_piece *piece, bool is_last)
{
    struct str in = piece == NULL ? STR_NONE : piece->bytes;
    bool is_flush = piece != NULL && piece->is_flush;
    bool is_done;

    if (charset->output == NULL) {
        charset->output = malloc(OUTPUT_SIZE);
        if (charset->output == NULL) {
            fatal_no_memory(OUTPUT_SIZE);
        }
        arena_on_free(&request->arena, free_output, charset);
    }
    do {
        struct writer out = {charset->output, charset->output + OUTPUT_SIZE};

        is_done = recode(&charset->recoder, &in, is_last, &out);
        struct body_piece given = {.bytes = str_from(charset->output, out.at),
                                   .fd = -1,
                                   .is_volatile = true,
                                   .is_flush = is_flush && is_done};
        bool is_empty = given.bytes.len == 0 && !given.is_flush;
        if (is_empty && !(is_done && is_last)) {
            continue; /* held until more input comes */
        }
        if (!body_filter_next(&charset->filter, request, is_empty ? NULL : &given,
                              is_done && is_last)) {
            return false;
        }
    } while (!is_done);
    return true;
}

static bool charset_send(struct body_filter *filter, struct request *request,
                         const struct body_piece *piece, bool is_last)
{
    struct charset_filter *charset = container_of(filter, struct charset_filter, filter);

    if (recode_is_needless(&charset->recoder, piece == NULL ? STR_NONE : piece->bytes)) {
        return body_filter_next(filter, request, piece, is_last);
    }
    bool is_sound = give_recoded(charset, request, piece, is_last);
    if (piece != NULL && piece->release != NULL) {
        piece->release(piece->release_arg);
    }
    return is_sound;
}

/* Converts the body to another charset. If each byte becomes one byte, the length is unchanged and
 * ranges remain possible. The validators stay, because the same file always gives the same
 * bytes. */
static void recode_body(struct request *request, const struct recode_table *table)
{
    struct response *response = &request->response;

    if (response->content_length == 0) {
        return;
    }
    if (table->kind != RECODE_BYTES) {
        struct str etag = response->etag;
        response_change_body(request, true);
        response->etag = etag;
    }
    if (response->is_header_only) {
        return;
    }
    struct charset_filter *charset = arena_new(&request->arena, struct charset_filter);
    charset->filter.send = charset_send;
    charset->recoder.table = table;
    response_needs_memory(request);
    response_append_filter(request, &charset->filter);
}

/* ---- the header ---- */

/* The charset parameter of a Content-Type: from its ';' to the next one outside of quotes. */
struct charset_parameter {
    size_t start;     /* offset of the ';' */
    size_t end;       /* offset of the end of the value */
    struct str value; /* without quotes */
};

static size_t parameter_end(struct str type, size_t at)
{
    bool is_quoted = false;

    for (; at < type.len && (is_quoted || type.data[at] != ';'); at++) {
        if (type.data[at] == '"') {
            is_quoted = !is_quoted;
        } else if (is_quoted && type.data[at] == '\\' && at + 1 < type.len) {
            at++;
        }
    }
    return at;
}

static bool find_charset(struct str type, struct charset_parameter *out)
{
    static const struct str name = STR_INIT("charset=");

    for (size_t at = parameter_end(type, 0); at < type.len; at = out->end) {
        out->start = at;
        out->end = parameter_end(type, at + 1);
        struct str text = str_trim((struct str){type.data + at + 1, out->end - (out->start + 1)});
        if (str_starts_nocase(text, name)) {
            struct str value = str_skip(text, name.len);
            if (value.len >= 2 && *value.data == '"' && value.data[value.len - 1] == '"') {
                value = (struct str){value.data + 1, value.len - 2};
            }
            out->value = value;
            return true;
        }
    }
    return false;
}

/* The charset that the response names; empty if none. */
static struct str named_charset(const struct response *response)
{
    struct charset_parameter parameter;

    return find_charset(response->content_type, &parameter) ? parameter.value : response->charset;
}

/* Sets the charset of the response, in place of the current one. */
static void announce(struct request *request, struct str name)
{
    struct response *response = &request->response;
    struct charset_parameter parameter;

    if (find_charset(response->content_type, &parameter)) {
        response->content_type =
            arena_concat(&request->arena, str_head(response->content_type, parameter.start),
                         str_skip(response->content_type, parameter.end));
    }
    response->charset = name;
}

/* A conversion. */
struct change {
    struct str from;
    struct str to;
    bool has_from; /* the source charset is set, though its value may be empty */
};

static bool wants_main(const struct request *request, const struct charset_settings *settings,
                       struct change *change)
{
    const struct response *response = &request->response;

    if (response->wanted_charset.len != 0) {
        change->to = response->wanted_charset;
        return true;
    }
    if (settings->charset == NULL || !type_set_has(settings->types, response->content_type) ||
        (change->has_from && !settings->overrides)) {
        return false;
    }
    /* Very old browsers used the charset of a redirect for the next page. */
    return response->status != 301 && response->status != 302;
}

/* Decides on the conversion of the response; false: it stays as it is. */
static bool choose(struct request *request, const struct charset_settings *settings,
                   struct change *change)
{
    struct response *response = &request->response;
    bool is_wanted;

    change->from = named_charset(response);
    change->has_from = change->from.len != 0;
    if (request != request->main) {
        change->to = named_charset(&request->main->response);
        is_wanted = change->to.len != 0;
    } else {
        is_wanted = wants_main(request, settings, change);
    }
    if (!is_wanted) {
        return false;
    }
    if (change->to.len == 0) {
        change->to = template_text(settings->charset, &request->env);
    }
    if (!change->has_from && settings->source != NULL) {
        change->from = template_text(settings->source, &request->env);
        change->has_from = true;
    }
    return !str_is(change->to, "off");
}

/* Finds the table for the conversion. False: there is none, or the body has a content coding. */
static bool find_table(struct request *request, const struct charset_settings *settings,
                       const struct change *change, const struct recode_table **table)
{
    if (fields_get(&request->response.fields, FIELD_CONTENT_ENCODING) != NULL) {
        return false;
    }
    *table =
        settings->maps == NULL ? NULL : charset_maps_find(settings->maps, change->from, change->to);
    if (*table == NULL) {
        if (request->log.action == NULL) {
            request->log.action = "sending response to client";
        }
        log_error(&request->log, 0, "no \"charset_map\" between the charsets \"%.*s\" and \"%.*s\"",
                  STR_ARG(change->from), STR_ARG(change->to));
        return false;
    }
    return true;
}

/* A charset in X-Accel-Charset that is not in the configuration leaves the response as it is. */
static void check_wanted(struct request *request)
{
    struct response *response = &request->response;
    struct str wanted = response->wanted_charset;

    if (wanted.len == 0 || str_is(wanted, "off") ||
        is_named(location_settings(request->location, &names_key), wanted)) {
        return;
    }
    log_error(&request->log, 0, "unknown charset \"%.*s\" to override", STR_ARG(wanted));
    response->wanted_charset = STR("off");
}

static void change_charset(struct request *request, const struct charset_settings *settings)
{
    struct response *response = &request->response;
    const struct recode_table *table = NULL;
    struct change change = {.has_from = false};

    if (response->content_type.len == 0 || response->framing == FRAMING_TUNNEL) {
        return;
    }
    check_wanted(request);
    if (!choose(request, settings, &change)) {
        return;
    }
    bool is_other = change.has_from && !str_equal_nocase(change.from, change.to);
    if (is_other && !find_table(request, settings, &change, &table)) {
        return;
    }
    if (request == request->main && change.to.len != 0) {
        announce(request, field_value_safe(&request->arena, change.to));
    }
    if (table != NULL) {
        recode_body(request, table);
    }
}

/* Returns early for most responses, since this filter is active everywhere. */
static void charset_header(struct request *request)
{
    const struct charset_settings *settings = location_settings(request->location, &charset_key);

    if (settings->charset != NULL || request->response.wanted_charset.len != 0 ||
        (request != request->main && settings->maps != NULL)) {
        change_charset(request, settings);
    }
}

/* ---- directives ---- */

static bool charset_map_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *arg)
{
    struct charset_settings *settings = arg;

    if (settings->maps == NULL) {
        settings->maps = arena_new(scope->conf->arena, struct charset_maps);
    }
    charset_add_name(scope, node->args[1]);
    charset_add_name(scope, node->args[2]);
    return charset_maps_read(settings->maps, scope->conf, node);
}

static bool charset_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *arg)
{
    struct template **field = (struct template **) ((char *) arg + row->offset);

    *field = NULL;
    if (str_is(node->args[1], "off")) {
        return true;
    }
    if (!conf_value_template(scope, node, 1, field)) {
        return false;
    }
    if ((*field)->is_constant) {
        charset_add_name(scope, (*field)->constant);
    }
    return true;
}

/* Requires a table between two fixed charsets if one of them is set in this block. */
static bool charset_finish(struct conf_scope *scope, void *arg)
{
    const struct charset_settings *settings = arg;
    struct str from;
    struct str to;

    if (settings->charset == NULL || settings->source == NULL || !settings->charset->is_constant ||
        !settings->source->is_constant ||
        (!conf_is_set(scope, &charset_key, "charset") &&
         !conf_is_set(scope, &charset_key, "source_charset"))) {
        return true;
    }
    from = settings->source->constant;
    to = settings->charset->constant;
    if (str_equal_nocase(from, to) ||
        (settings->maps != NULL && charset_maps_find(settings->maps, from, to) != NULL)) {
        return true;
    }
    return conf_error(scope->conf, NULL,
                      "no \"charset_map\" between the charsets \"%.*s\" and \"%.*s\"",
                      STR_ARG(from), STR_ARG(to));
}

#define S struct charset_settings
#define CHARSET_CONTEXTS (IN_HTTP_ALL | IN_LOCATION_IF)
static const struct directive charset_rows[] = {
    {"charset", CHARSET_CONTEXTS, CUSTOM_FIELD(S, charset, charset_apply), ARGS(1, 1),
     .initial = "off", .syntax = "charset | off",
     .doc = "Charset that is added to the field Content-Type of responses. Bodies are "
            "converted if source_charset is different. The value may contain variables."},
    {"source_charset", CHARSET_CONTEXTS, CUSTOM_FIELD(S, source, charset_apply), ARGS(1, 1),
     .syntax = "charset",
     .doc = "Charset of response bodies before conversion. The value may contain variables."},
    {"override_charset", CHARSET_CONTEXTS, FLAG(S, overrides), .initial = "off",
     .doc = "Whether responses of backends are converted if their Content-Type contains a "
            "charset."},
    {"charset_types", IN_HTTP_ALL, CUSTOM_FIELD(S, types, type_set_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND,
     .initial = "text/html text/xml text/plain text/vnd.wap.wml application/javascript "
                "application/rss+xml",
     .syntax = "mime-type ...",
     .doc = "Media types of responses to which `charset` applies, in addition to "
            "text/html; * matches any type."},
    {"charset_map", IN_HTTP, FREE_FORM(charset_map_apply), ARGS(2, 2), .repeat = REPEAT_CUSTOM,
     .syntax = "charset1 charset2",
     .doc = "Conversion table between two charsets, for both directions: each line "
            "contains two codes in hexadecimal. The second charset may be utf-8, with "
            "codes of several bytes such as D18E."},
    {0},
};
#undef CHARSET_CONTEXTS
#undef S

static const struct directive_table charset_table = {
    .key = &charset_key,
    .rows = charset_rows,
    .contexts = IN_HTTP_LOCATION_SETTINGS,
    .size = sizeof(struct charset_settings),
    .finish = charset_finish,
};
static const struct directive_table *const charset_tables[] = {&names_table, &charset_table, NULL};

/* Active everywhere: X-Accel-Charset may select a charset that is named later in the configuration,
 * and subrequests are converted to the charset of their main response. */
static const struct filter_hook charset_filters[] = {
    {.name = "charset", .run = charset_header},
    {.run = NULL},
};
static const struct http_module charset_hooks = {.filters = charset_filters};

const struct module ngx_http_charset_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_charset_filter_module",
    .kind = MODULE_HTTP,
    .tables = charset_tables,
    .hooks = &charset_hooks,
};
