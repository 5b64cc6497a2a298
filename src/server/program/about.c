/* What -v and -V print, the variables of -ll, and -t --lint. */
#include "server/program/about.h"

#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "conf/template.h"
#include "config.h"
#include "net/tls/messages.h"
#include "net/tls/tls.h"
#include "server/module.h"
#include "server/program/lint_show.h"

#ifdef HAVE_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#endif
#ifdef HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef HAVE_JEMALLOC
#include <jemalloc/jemalloc.h>
#endif
#ifdef HAVE_VECTORSCAN
#include <hs/hs.h>
#endif

void about_version(struct buf *out)
{
    const char *name = BUILD_NAME;

    buf_printf(out, "Portunus version: Portunus/%s\n", PORTUNUS_VERSION);
    buf_printf(out, "nginx version: nginx/%s", NGINX_COMPAT_VERSION);
    if (name[0] != '\0') {
        buf_printf(out, " (%s)", name);
    }
    buf_append_char(out, '\n');
}

/* "built with NAME VERSION", and the version that is loaded when that differs. */
static void built_with(struct buf *out, const char *built, const char *running)
{
    buf_printf(out, "built with %s", built);
    if (strcmp(built, running) != 0) {
        buf_printf(out, " (running with %s)", running);
    }
    buf_append_char(out, '\n');
}

static void libraries(struct buf *out)
{
#ifdef HAVE_OPENSSL
    built_with(out, tls_version_built(), tls_version_running());
    buf_printf(out, "TLS SNI support enabled\nTLS of QUIC: %s, no 0-RTT\n", tls_messages_way());
#else
    (void) built_with;
    buf_printf(out, "TLS SNI support disabled\n");
#endif

    buf_printf(out, "libraries:");
#ifdef HAVE_PCRE2
    char pcre[64];

    if (pcre2_config(PCRE2_CONFIG_VERSION, NULL) <= (int) sizeof(pcre) &&
        pcre2_config(PCRE2_CONFIG_VERSION, pcre) > 0) {
        buf_printf(out, " pcre2 %s;", pcre);
    }
#endif
#ifdef HAVE_ZLIB
    buf_printf(out, " zlib %s;", zlibVersion());
#endif
#ifdef HAVE_JEMALLOC
    buf_printf(out, " jemalloc %s;", JEMALLOC_VERSION);
#endif
#ifdef HAVE_VECTORSCAN
    buf_printf(out, " vectorscan %.*s;", STR_ARG(str_trim(str_of(hs_version()))));
#endif
    if (out->data[out->len - 1] == ';') {
        out->len--;
    } else {
        buf_printf(out, " none");
    }
    buf_append_char(out, '\n');
}

void about_build(struct buf *out, struct generation *generation)
{
    buf_printf(out, "built by %s\n", BUILT_BY);
    libraries(out);
    buf_printf(out, "configure arguments:%s\n", CONFIGURE_ARGUMENTS);
    modules_list(generation, out);
}

static void put_variables(struct buf *out, const struct variable *rows)
{
    for (; rows->name.len != 0; rows++) {
        bool is_family = (rows->flags & VARIABLE_PREFIX) != 0;

        buf_printf(out, "| `$%.*s%s` | %s |\n", STR_ARG(rows->name), is_family ? "NAME" : "",
                   rows->doc == NULL ? "" : rows->doc);
    }
}

/* The variables of a module, for the protocol whose block `protocol` has. */
static void put_module_variables(struct buf *out, const struct module *protocol,
                                 const struct module *module)
{
    const struct variable *rows;

    for (unsigned list = 0; (rows = protocol->variables_of(module, list)) != NULL; list++) {
        if (list == 0) {
            buf_printf(out, "\n## %s\n\n| variable | value |\n| --- | --- |\n", module->name);
        }
        put_variables(out, rows);
    }
}

void about_variables(struct buf *out, const struct generation *generation)
{
    buf_append(out, STR("# Variables\n"));
    for (const struct module *const *protocol = generation->modules; *protocol != NULL;
         protocol++) {
        for (const struct module *const *m = generation->modules;
             (*protocol)->variables_of != NULL && *m != NULL; m++) {
            put_module_variables(out, *protocol, *m);
        }
    }
}

/* ---- -t --lint: runs the rules of all modules ---- */

/* The rules of the modules of a generation; NULL-ended. */
static const struct lint_rule *const *tables_of(struct generation *generation)
{
    struct vec tables = {0};

    for (const struct module *const *m = generation->modules; *m != NULL; m++) {
        if ((*m)->lint_rules != NULL) {
            *vec_add(&tables, &generation->arena, const struct lint_rule *) = (*m)->lint_rules;
        }
    }
    *vec_add(&tables, &generation->arena, const struct lint_rule *) = NULL;
    return tables.items;
}

int lint_show(struct generation *generation, struct str off)
{
    const struct lint_rule *const *tables = tables_of(generation);
    struct buf text = {0};

    if (!lint_options_check(off, tables, &text)) {
        log_write(log_main, LOG_STDERR, 0, "%.*s", STR_ARG(buf_str(&text)));
        buf_free(&text);
        return 1;
    }
    struct lint lint = {.conf = &generation->conf, .out = &text, .off = off};
    unsigned count = lint_run(&lint, tables);

    fs_write_all(STDOUT_FILENO, buf_str(&text));
    buf_free(&text);
    return count == 0 ? 0 : LINT_FOUND;
}
