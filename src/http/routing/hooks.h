/* What modules add to http: variables, phase handlers, filters. */
#ifndef HTTP_ROUTING_HOOKS_H
#define HTTP_ROUTING_HOOKS_H

#include "conf/template.h"
#include "http/routing/settings.h"

/* Phases in which modules may have handlers, in order. Content handlers of a location are set by
 * its directives. */
enum http_phase {
    PHASE_POST_READ,
    PHASE_SERVER_REWRITE,
    PHASE_REWRITE,
    PHASE_PREACCESS,
    PHASE_ACCESS,
    PHASE_PRECONTENT,
    PHASE_DIRECTORY, /* content for a URI that ends in a slash, if the location has no handler */
    PHASE_CONTENT,   /* content for all requests that have no response so far */
    PHASE_LOG,
    PHASE_COUNT
};

/* Names determine the order of hooks of the same kind. The hooks of our own modules are in one list
 * (request/hooks.c), in order, whether they are built in or not. Every other hook sets either
 * `after` or `before`; several with the same `after` are in the order of their modules. An unknown
 * name is a configuration error. */

/* A hook in a phase: calls `run`. */
struct phase_hook {
    enum http_phase phase;
    const char *name;   /* of the module, without ngx_http_ and _module */
    const char *after;  /* the hook of this phase before it; or NULL */
    const char *before; /* the hook of this phase after it; or NULL */
    request_handler run;
    /* The hook is active in locations where the setting is set and is_active (may be NULL) is true.
     * Evaluated when the configuration is read, so that a request pays only for what it uses. */
    struct settings_condition when;
    bool (*is_active)(const struct http_location *location);
};

/* A filter of response headers; it may install body filters, and may turn the response into an
 * error by a status of 400 and above. Filters that change the body are in the order in which they
 * get the body, and each adds its body filter after the others (response_append_filter); after them
 * comes range, whose body filter precedes all others (response_add_filter). The output of a
 * subrequest has passed its own filters, and enters after the filter that made the subrequest. */
struct filter_hook {
    const char *name;   /* as in phase_hook */
    const char *after;  /* the filter before it; or NULL */
    const char *before; /* the filter after it; or NULL */
    header_filter run;
    struct settings_condition when; /* both as in phase_hook */
    bool (*is_active)(const struct http_location *location);
};

/* A content coding (RFC 9110, 8.4.1); all of them are in codings/choice.h. */
struct content_coding {
    struct str token;  /* as in Content-Encoding */
    struct str suffix; /* suffix of precompressed files */
    unsigned rank; /* of two codings with the same weight, the one with the lower rank is chosen */
    bool heeds_gzip_rules; /* gzip_http_version, gzip_proxied and gzip_disable apply to it */
};

/* A module that uses a coding: it encodes responses, or sends precompressed files. */
struct coding_hook {
    const struct content_coding *coding;
    struct settings_condition when; /* both as in phase_hook */
    bool (*is_active)(const struct http_location *location);
    /* For encoders: should this response be encoded, by its type and length? */
    bool (*fits)(const struct request *request);
    /* For files: are they sent even to clients that do not accept the coding? */
    bool (*is_forced)(const struct http_location *location);
};

/* A function that computes values for the directive with its name, such as set_md5; other modules
 * can find it by this name (value_function_find). */
struct value_function {
    const char *name;
    unsigned least, most; /* number of arguments */
    /* Computes the value, which lives as long as the request. False: the request fails with 500;
     * the reason was logged. Never waits. */
    bool (*compute)(struct request *request, const struct str *args, unsigned count,
                    struct str *value);
};

/* An instruction of another module among those of the rewrite module, in the order of the
 * directives (as `set` is one). Embedded in a struct of that module. Returns HANDLER_NEXT:
 * continue; or request_fail. Never waits. */
struct rewrite_step {
    enum handler_result (*run)(struct request *request, const struct rewrite_step *step);
};

/* Values that are fetched before variables are evaluated, since variables do not wait
 * (keyval_zone_redis). Called before values are evaluated that were assigned in the same phase. */
struct fetched_values {
    bool (*are_due)(struct request *request); /* Never waits. */
    void (*fetch)(struct request *request);   /* MAY WAIT */
};

/* struct module.hooks of an http module. Each list ends with an entry with NULL run (or empty
 * name). */
struct http_module {
    const struct variable *variables;
    const struct phase_hook *phases;
    const struct filter_hook *filters;
    const struct value_function *functions; /* ended by a NULL name */
    const struct coding_hook *encoder;      /* the content coding that it implements; or NULL */
    const struct coding_hook
        *coded_files; /* the coding of the precompressed files that it sends; or NULL */
    const struct http_protocol *protocol;   /* a protocol for clients; see client/protocol.h */
    const struct http_handshake *handshake; /* the TLS handshake that precedes the protocol */
    /* Called before the rows of the http block are applied, to make state. Optional. */
    bool (*begin)(struct conf *conf, struct http_main *main);
    /* Called after the whole http block was applied. Optional. */
    bool (*end)(struct conf *conf, struct http_main *main);
};

/* All hooks in order. */
struct http_hooks {
    struct vec phases[PHASE_COUNT]; /* const struct phase_hook * */
    struct vec filters;             /* const struct filter_hook * */
    struct vec encoders;            /* const struct coding_hook *, by rank */
    struct vec coded_files;         /* const struct coding_hook *, by rank: for files */
    struct vec functions;           /* const struct value_function * */
    /* Set by the rewrite module, or NULL without it: adds an instruction to the block that is being
     * read. */
    void (*add_step)(struct conf_scope *scope, const struct rewrite_step *step);
    /* Set by the rewrite module, or NULL: the variable to which an instruction assigns, by its name
     * "$name"; NULL after conf_error. */
    struct variable *(*assigned)(struct conf_scope *scope, const struct conf_node *node,
                                 struct str word);
    const struct fetched_values *fetched_values; /* NULL: none */
};

struct module;

/* Collects the hooks of all http modules in order; the list of modules ends with NULL. After
 * conf_error some are missing. */
struct http_hooks *hooks_collect(struct conf *conf, const struct module *const *modules);

/* The hook with this handler, or NULL; and the names of the phases. */
const struct phase_hook *phase_hook_find(const struct http_hooks *hooks, request_handler run);
extern const char *const phase_words[PHASE_COUNT];

/* The function with this name, or NULL. */
const struct value_function *value_function_find(const struct http_hooks *hooks, struct str name);

/* Makes the lists of all locations, and the global ones, from the active hooks; called after all
 * blocks were read. */
void hooks_link_main(struct http_main *main);

#endif
