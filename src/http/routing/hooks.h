/* What a module adds to http: variables, phase handlers, filters. */
#ifndef HTTP_ROUTING_HOOKS_H
#define HTTP_ROUTING_HOOKS_H

#include "conf/template.h"
#include "http/routing/settings.h"

/* Phases in which modules may have handlers, in order. Content handlers of a location are set by
 * directives. */
enum http_phase {
    PHASE_POST_READ,
    PHASE_SERVER_REWRITE,
    PHASE_REWRITE,
    PHASE_PREACCESS,
    PHASE_ACCESS,
    PHASE_PRECONTENT,
    PHASE_DIRECTORY, /* content of what ends in a slash, where the location has no handler of its
                        own */
    PHASE_CONTENT,   /* content of all that nobody has answered so far */
    PHASE_LOG,
    PHASE_COUNT
};

/*
 * Names say where a hook is among those of its kind. Those of our own are in one list
 * (request/hooks.c), which says their order whether they are built in or not. Any other says one of
 * `after` and `before`; several after the same one stand in the order of their modules. A name that
 * nobody has is an error of the configuration.
 */

/* A row: run in phase. */
struct phase_hook {
    enum http_phase phase;
    const char *name;   /* of the module, without ngx_http_ and _module */
    const char *after;  /* the hook of this phase that it stands after; or NULL */
    const char *before; /* the hook of this phase that comes after this one; or NULL */
    request_handler run;
    /*
     * Locations that need it: those where the setting is set, and for which is_active (may be NULL)
     * is true. Asked when the configuration is read, so that a request pays for nothing it does not
     * use.
     */
    struct settings_condition when;
    bool (*is_active)(const struct http_location *location);
};

/*
 * A header filter; may install body filters, and may turn the response into a failure by a status
 * of 400 and above. Those that change the body stand in the order in which they see it, and each
 * puts its body filter after the others (response_append_filter); after them stands range, whose
 * body filter comes before all others (response_add_filter). What a subrequest gives went through
 * filters of its own and comes in after the filter that asked for it.
 */
struct filter_hook {
    const char *name;   /* as in phase_hook */
    const char *after;  /* the filter that it stands after; or NULL */
    const char *before; /* the filter that comes after this one; or NULL */
    header_filter run;
    struct settings_condition when; /* these two as in phase_hook */
    bool (*is_active)(const struct http_location *location);
};

/* A content coding (RFC 9110, 8.4.1); those that there are stand in codings/choice.h. */
struct content_coding {
    struct str token;      /* as in Content-Encoding */
    struct str suffix;     /* of a file that was encoded before */
    unsigned rank;         /* of two that a client likes as much, the lower one is chosen */
    bool heeds_gzip_rules; /* gzip_http_version, gzip_proxied and gzip_disable hold for it */
};

/* What a module has to do with a coding: it encodes responses, or has files that are sent encoded.
 */
struct coding_hook {
    const struct content_coding *coding;
    struct settings_condition when; /* these two as in phase_hook */
    bool (*is_active)(const struct http_location *location);
    /* Of one that encodes: is it worth it, going by type and length? */
    bool (*fits)(const struct request *request);
    /* Of files: are they sent to clients that do not ask for the coding, too? */
    bool (*is_forced)(const struct http_location *location);
};

/*
 * A function that a directive of its name makes values with, such as set_md5; known to all modules
 * by that name (value_function_find), so that others can apply it, too.
 */
struct value_function {
    const char *name;
    unsigned least, most; /* arguments; a text without an argument is 0 of them */
    /* The value, as long as the request lives. False: the request fails with 500; the reason was
     * logged. Never waits. */
    bool (*compute)(struct request *request, const struct str *args, unsigned count,
                    struct str *value);
};

/*
 * What a line does among those of the rewrite module, in the order of lines (`set` is one). It
 * stands in a struct of the module that has the line. HANDLER_NEXT: go on; or request_fail. Never
 * waits.
 */
struct rewrite_step {
    enum handler_result (*run)(struct request *request, const struct rewrite_step *step);
};

/*
 * Values that are fetched before variables are asked for them, since a variable does not wait
 * (keyval_zone_redis). Who is about to evaluate something that was assigned in the same phase calls
 * these.
 */
struct fetched_values {
    bool (*are_due)(struct request *request); /* Never waits. */
    void (*fetch)(struct request *request);   /* MAY WAIT */
};

/* struct module.hooks of an http module. Each list is ended by an entry with NULL run (or empty
 * name). */
struct http_module {
    const struct variable *variables;
    const struct phase_hook *phases;
    const struct filter_hook *filters;
    const struct value_function *functions; /* ended by a NULL name */
    const struct coding_hook *encoder;      /* the content coding that it applies; or NULL */
    const struct coding_hook *coded_files;  /* the one of which it sends files; or NULL */
    const struct http_protocol *protocol;   /* that it speaks with clients; see client/protocol.h */
    const struct http_handshake *handshake; /* TLS before that */
    /* Before the rows of the http block are applied: make own state. Optional. */
    bool (*begin)(struct conf *conf, struct http_main *main);
    /* After the whole http block was applied. Optional. */
    bool (*end)(struct conf *conf, struct http_main *main);
};

/* All hooks in order. */
struct http_hooks {
    struct vec phases[PHASE_COUNT]; /* const struct phase_hook * */
    struct vec filters;             /* const struct filter_hook * */
    struct vec encoders;            /* const struct coding_hook *, by rank */
    struct vec coded_files;         /* the same of files */
    struct vec functions;           /* const struct value_function * */
    /* Of the rewrite module, or NULL where there is none: a step of the block that is being read.
     */
    void (*add_step)(struct conf_scope *scope, const struct rewrite_step *step);
    /* Of the rewrite module, or NULL: what a step assigns to, the variable of a word "$name"; gives
     * NULL after conf_error. */
    struct variable *(*assigned)(struct conf_scope *scope, const struct conf_node *node,
                                 struct str word);
    const struct fetched_values *fetched_values; /* NULL: there are none */
};

struct module;

/* The hooks of all http modules, in order; the list of modules is NULL-ended. After conf_error some
 * are left out. */
struct http_hooks *hooks_collect(struct conf *conf, const struct module *const *modules);

/* The hook of a phase that this handler is of, or NULL; and what a phase is called. */
const struct phase_hook *phase_hook_find(const struct http_hooks *hooks, request_handler run);
extern const char *const phase_words[PHASE_COUNT];

/* The function of this name, or NULL. */
const struct value_function *value_function_find(const struct http_hooks *hooks, struct str name);

/* Fills the lists of all locations, and those that hold everywhere, from the hooks that are active;
 * when all blocks have been read. */
void hooks_link_main(struct http_main *main);

#endif
