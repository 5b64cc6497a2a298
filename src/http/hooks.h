/* What a module adds to http: variables, phase handlers, filters. */
#ifndef HTTP_HOOKS_H
#define HTTP_HOOKS_H

#include "conf/template.h"
#include "http/settings.h"

/* Phases in which modules may have handlers, in order. Content handlers of a location are set by
 * directives. */
enum http_phase {
    PHASE_POST_READ,
    PHASE_SERVER_REWRITE,
    PHASE_REWRITE,
    PHASE_PREACCESS,
    PHASE_ACCESS,
    PHASE_PRECONTENT,
    PHASE_CONTENT, /* asked in turn when the location has no handler of its own */
    PHASE_LOG,
    PHASE_COUNT
};

/* A row: run in phase, by rising order among rows of one phase. */
struct phase_hook {
    enum http_phase phase;
    int order;
    request_handler run;
    /* Does this place need it? NULL = always. Asked when the configuration is read, so that a
     * request pays for nothing it does not use. */
    bool (*is_active)(const struct http_location *location);
};

/*
 * A header filter; may install body filters, and may turn the response into a failure by a status of
 * 400 and above. By rising order: 10 not_modified, 20 headers; 30 to 80 those that change the body, in
 * the order in which they see it, each of which puts its body filter behind the others
 * (response_append_filter): 30 gunzip, 40 sub, 45 image, 50 xslt, 55 charset, 60 ssi, 70 addition, 80
 * gzip; 85 copy and 90 range, whose body filters come before all others (response_add_filter). What a
 * subrequest gives went through filters of its own and comes in behind the filter that asked for it. */
struct filter_hook {
    int order;
    header_filter run;
    bool (*is_active)(const struct http_location *location);
};

/* struct module.hooks of an http module. Each list is ended by an entry with NULL run (or empty
 * name). */
struct http_module {
    const struct variable *variables;
    const struct phase_hook *phases;
    const struct filter_hook *filters;
    /* Before the rows of the http block are applied: make own state. Optional. */
    bool (*begin)(struct conf *conf, struct http_main *main);
    /* After the whole http block was applied. Optional. */
    bool (*end)(struct conf *conf, struct http_main *main);
};

/* All hooks in order. */
struct http_hooks {
    struct vec phases[PHASE_COUNT]; /* const struct phase_hook * */
    struct vec filters;             /* const struct filter_hook * */
};

struct module;

/* The hooks of all http modules, sorted; the list of modules is NULL-ended. */
struct http_hooks *hooks_collect(struct arena *arena, const struct module *const *modules);

/* Fills the handler lists of a location from the hooks that are active there; called for every
 * block when its rows were applied. */
void hooks_link_location(struct http_main *main, struct http_location *location);

/* … and those that hold everywhere. */
void hooks_link_main(struct http_main *main);

#endif
