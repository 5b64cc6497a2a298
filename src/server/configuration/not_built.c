/* Finds the module of an unknown directive among those that this build does not have. */
#include "server/configuration/not_built.h"

#include <string.h>

#include "server/configuration/not_built_rows.h"
#include "server/configuration/registry.h"
#include "server/generation.h"
#include "server/module.h"

#define ROW_COUNT (sizeof(not_built_rows) / sizeof(not_built_rows[0]))

/* Was it built as an object that load_module can load? */
static bool is_loadable(const char *module)
{
    for (const char *const *name = loadable_modules; *name != NULL; name++) {
        if (str_is(str_of(*name), module)) {
            return true;
        }
    }
    return false;
}

static bool is_among(const struct module *const *modules, const char *name)
{
    for (const struct module *const *m = modules; *m != NULL; m++) {
        if (str_is(str_of((*m)->name), name)) {
            return true;
        }
    }
    return false;
}

/* Does this reading have the module, linked or loaded? Then only the directive is missing. */
static bool is_present(const struct conf *conf, const char *module)
{
    const struct generation *generation = conf->generation;

    return is_among(generation != NULL && generation->modules != NULL ? generation->modules
                                                                      : linked_modules,
                    module);
}

static bool needs_tls(struct str directive)
{
    return str_find(directive, STR("_ssl_")) != NULL || str_find(directive, STR("_ntls")) != NULL;
}

/* The reason why a directive that needs another TLS library is missing; NULL = it needs none. */
static const char *library_of(struct str directive)
{
    if (str_find(directive, STR("enable_ntls")) != NULL ||
        str_find(directive, STR("ssl_sign_certificate")) != NULL ||
        str_find(directive, STR("ssl_enc_certificate")) != NULL) {
        return "it needs Tongsuo, a fork of OpenSSL; this binary is built with OpenSSL";
    }
    return str_is(directive, "ssl_async")
               ? "it needs an asynchronous engine of OpenSSL, which this binary does not support"
               : NULL;
}

static bool has_name(struct str names, struct str name)
{
    while (names.data != NULL) {
        if (str_equal(str_cut(&names, ' '), name)) {
            return true;
        }
    }
    return false;
}

/* The protocols whose modules may have directives of the same name. */
enum protocol { HTTP_OR_ANY, STREAM, MAIL, PROTOCOLS };

static const struct {
    uint32_t contexts;
    struct str prefix; /* of its modules' names; HTTP_OR_ANY has all other modules */
    const char *tls;   /* its module for TLS */
} protocols[PROTOCOLS] = {
    [HTTP_OR_ANY] = {0, STR_INIT(""), "ngx_http_ssl_module"},
    [STREAM] = {IN_STREAM | IN_STREAM_SERVER | IN_STREAM_UPSTREAM, STR_INIT("ngx_stream_"),
                "ngx_stream_ssl_module"},
    [MAIL] = {IN_MAIL | IN_MAIL_SERVER, STR_INIT("ngx_mail_"), "ngx_mail_ssl_module"},
};

static enum protocol protocol_of_context(uint32_t context)
{
    enum protocol protocol = MAIL;

    while (protocol != HTTP_OR_ANY && (protocols[protocol].contexts & context) == 0) {
        protocol--;
    }
    return protocol;
}

static enum protocol protocol_of_module(const char *module)
{
    enum protocol protocol = MAIL;

    while (protocol != HTTP_OR_ANY && !str_starts(str_of(module), protocols[protocol].prefix)) {
        protocol--;
    }
    return protocol;
}

/* The module that has the directive in that context; else a module that has it in another one; or
   NULL. */
static const struct not_built_row *find_row(struct str directive, uint32_t context)
{
    const struct not_built_row *elsewhere = NULL;

    for (size_t i = 0; i < ROW_COUNT && directive.len != 0; i++) {
        const struct not_built_row *row = &not_built_rows[i];

        if (!has_name(str_of(row->names), directive)) {
            continue;
        }
        if (protocol_of_module(row->module) == protocol_of_context(context)) {
            return row;
        }
        elsewhere = elsewhere == NULL ? row : elsewhere;
    }
    return elsewhere;
}

/* Can another build of this version have it? */
static bool is_left_out(const char *module)
{
    for (const char *const *name = omitted_modules; *name != NULL; name++) {
        if (str_is(str_of(*name), module)) {
            return true;
        }
    }
    return false;
}

/* Modules that are left out on purpose, and what to do instead: docs/what-is-not-there.md has the
 * reasons. */
static const struct {
    const char *module, *instead;
} never_built[] = {
    /* An interpreter that blocks the whole worker at each wait. Lua does not, and is there. */
    {"ngx_http_perl_module", ""},
    {"ngx_http_hls_module", ": make playlists and segments with ffmpeg, and serve them as files"},
    {"ngx_http_f4f_module", ": make HLS or DASH with ffmpeg, and serve it as files"},
};

/* NULL: it is not one of them. */
static const char *what_instead(const char *module)
{
    for (size_t i = 0; i < sizeof(never_built) / sizeof(never_built[0]); i++) {
        if (strcmp(module, never_built[i].module) == 0) {
            return never_built[i].instead;
        }
    }
    return NULL;
}

/* Why this build does not have an existing module. */
static const char *why_never(const char *module)
{
    if (is_left_out(module)) {
        return "not built";
    }
    return what_instead(module) != NULL ? "left out of Portunus on purpose" : "not in Portunus yet";
}

/* The module of the directive, and how to get it where that is possible. */
static struct str explain_absent(struct conf *conf, const char *module)
{
    return is_loadable(module)
               ? arena_printf(conf->arena,
                              "it belongs to %s, which is not loaded: add \"load_module "
                              "modules/%s.so;\" at the top",
                              module, module)
               : arena_printf(conf->arena, "it belongs to %s, which is %s%s", module,
                              why_never(module),
                              what_instead(module) == NULL ? "" : what_instead(module));
}

/* Third-party modules that are replaced by something of ours: names the replacement. NULL: none is
   known. */
static const char *what_does_the_same(struct str directive)
{
    return str_starts(directive, STR("vhost_traffic_status"))
               ? "it belongs to the module nginx-module-vts; \"metrics\" in a location shows the "
                 "traffic of servers and upstreams"
               : NULL;
}

struct str not_built_explain(struct conf *conf, struct str directive, uint32_t context)
{
    const struct not_built_row *row = find_row(directive, context);

    if (row != NULL) {
        if (!is_present(conf, row->module)) {
            return explain_absent(conf, row->module);
        }
        const char *library = library_of(directive);
        if (library != NULL) {
            return str_of(library);
        }
        if (needs_tls(directive) &&
            !is_present(conf, protocols[protocol_of_module(row->module)].tls)) {
            return STR("it needs TLS, which is not built");
        }
        return arena_printf(conf->arena, "%s of Portunus does not have it", row->module);
    }
    const char *same = what_does_the_same(directive);
    if (same != NULL) {
        return str_of(same);
    }
    struct str skipped = registry_skipped(conf, directive);
    return skipped.len == 0
               ? STR_NONE
               : arena_printf(conf->arena, "it may belong to %.*s, which could not be loaded",
                              STR_ARG(skipped));
}

const char *not_built_words(struct str module)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const char *name = not_built_rows[i].module;
        if (str_is(module, name)) {
            return is_among(linked_modules, name) || is_loadable(name) ? "" : why_never(name);
        }
    }
    return "";
}
