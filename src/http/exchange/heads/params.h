/* Parameters of the CGI kinds (fastcgi_param, uwsgi_param, scgi_param): compiled when the
 * configuration is read, evaluated to names and values for a request; how they are framed is the
 * protocol's business. */
#ifndef HTTP_EXCHANGE_HEADS_PARAMS_H
#define HTTP_EXCHANGE_HEADS_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "conf/directive.h"
#include "conf/template.h"
#include "http/exchange/exchange.h"

/* One `*_param name value [if_not_empty]` line. */
struct param {
    struct str name;                 /* as it is sent */
    struct template *value;          /* evaluated for each request */
    const struct variable *variable; /* the value is this variable and nothing else; or NULL */
    bool skips_empty;                /* if_not_empty */
};

/* The parameters of one location, and which of the client's fields they stand for. */
struct params {
    struct param *items; /* in the order written */
    unsigned count;      /* of items */
    uint64_t hidden_ids; /* bit n: the client's field number n is not passed on */
    /* Fields without a number that are not passed on: "HTTP_X_NAME" -> anything. */
    struct map hidden_names;
};

/* The row `PREFIX_param`: what is written goes to the member (struct vec of struct param) of the
 * settings S. */
#define PARAM_ROW(PREFIX, S, member)                                                               \
    {                                                                                              \
        PREFIX "_param", IN_HTTP_ALL, CUSTOM_FIELD(S, member, param_apply), ARGS(2, 3),            \
            .repeat = REPEAT_APPEND, .is_late = true, .syntax = "parameter value [if_not_empty]",  \
            .doc =                                                                                 \
                "Adds a parameter to the request to the backend. The client's header fields are "  \
                "passed as HTTP_*."                                                                \
    }
/* The row `PREFIX_param_inherit`; its member is an enum list_inherit. */
#define PARAM_INHERIT_ROW(PREFIX, S, member)                                                       \
    {                                                                                              \
        PREFIX "_param_inherit", IN_HTTP_ALL, ENUM(S, member, list_inherit_words),                 \
            .initial = "on",                                                                       \
            .doc = "How the lines of an outer block are inherited by a block with its own " PREFIX \
                   "_param: `on` means that its own replace them, `merge` adds those with other "  \
                   "names; `off` disables inheritance altogether."                                 \
    }
/* For conf_list_inherit: the member (struct vec of struct param) of the settings S. */
#define PARAM_LIST(PREFIX, S, member, settings_key)                                                \
    (struct inherited_list)                                                                        \
    {                                                                                              \
        .key = &(settings_key), .row = PREFIX "_param", .offset = offsetof(S, member),             \
        .item_size = sizeof(struct param)                                                          \
    }
bool param_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                 void *settings);

/* For the finish hook of the module's table: compiles the list (struct param) of this location,
 * which may be empty. Never NULL. */
const struct params *params_compile(struct conf *conf, const struct vec *list);

/* A parameter as it is sent. */
struct param_value {
    struct str name;  /* never empty */
    struct str value; /* may be empty */
};

/* All parameters of a request, in order: configured ones, then HTTP_* of the client's fields. */
struct param_values {
    struct param_value *items; /* in the request's arena, as are all bytes */
    unsigned count;            /* of items */
    size_t bytes; /* sum of the lengths of names and values: a frame with 8 bytes around each
                     needs bytes + 8 * count */
};

/*
 * Evaluates them for x->request. The client's fields are added where
 * x->settings->pass_request_headers says so, several of one name joined (", "; cookies "; ");
 * HTTP_HOST is the host that was asked for unless it is configured. Where the response may come to
 * the cache (x->is_cacheable) the client's conditional and range fields are left out, and those
 * that renew a stored response are added. room: items that the caller adds itself after them (items
 * has room for so many more). Does not wait. Names and values may be of any length: the protocol
 * checks what it can frame.
 */
void params_evaluate(const struct params *params, struct exchange *x, unsigned room,
                     struct param_values *out);

#endif
