/* Generates configuration for oidc_provider blocks: locations for requests to the provider, and
 * zones for sessions. */
#include "base/buf.h"
#include "http/modules/access/oidc/oidc.h"
#include "http/routing/hooks.h"
#include "shared/tls/client.h"

#define GENERATED "oidc_provider" /* file name in messages */

bool oidc_is_generated(const struct conf_node *node)
{
    return node->file != NULL && str_is(node->file->name, GENERATED);
}

/* The value of a directive in a block; empty: it is absent. */
static struct str line_of(const struct conf_node *block, const char *name)
{
    for (const struct conf_node *line = block->children; line != NULL; line = line->next) {
        if (str_is(line->args[0], name) && line->count == 2) {
            return line->args[1];
        }
    }
    return STR_NONE;
}

/* Writes a location that only a subrequest reaches. Proxy directives of the blocks around it do not
 * apply there. */
static void put_location(struct buf *out, const struct conf_node *block)
{
    struct str trusted = line_of(block, "ssl_trusted_certificate");
    struct str crl = line_of(block, "ssl_crl");

    buf_printf(out, "location \"@oidc/%.*s\" {", STR_ARG(block->args[1]));
    buf_append(
        out,
        STR(" proxy_pass $oidc_request_url; proxy_http_version 1.1; proxy_set_header Host $proxy_host;"
            " proxy_method \"\"; proxy_set_body $request_body; proxy_store off; proxy_ssl_name $proxy_host;"
            " proxy_pass_request_headers on; proxy_pass_request_body on;"
            " proxy_cache off; proxy_intercept_errors off; proxy_ignore_client_abort on;"
            " proxy_buffering on; proxy_connect_timeout 10s; proxy_send_timeout 10s;"
            " proxy_read_timeout 10s; proxy_ssl_server_name on; proxy_ssl_verify on;"
            " proxy_ssl_verify_depth 8; log_subrequest off; satisfy all;"));
    buf_printf(out, " proxy_ssl_trusted_certificate \"%.*s\";",
               STR_ARG(trusted.len != 0 ? trusted : STR(TLS_SYSTEM_AUTHORITIES)));
    if (crl.len != 0) {
        buf_printf(out, " proxy_ssl_crl \"%.*s\";", STR_ARG(crl));
    }
    buf_append(out, STR(" }\n"));
}

static void add_children(struct conf *conf, struct conf_node *block, struct str text)
{
    struct conf_file *file = arena_new(conf->arena, struct conf_file);
    struct conf_node *nodes = arena_new(conf->arena, struct conf_node);
    struct conf_node *last = block->last_child;

    file->name = STR(GENERATED);
    file->text = arena_dup(conf->arena, text);
    nodes->is_block = true;
    struct conf_node *root = conf->root;
    conf->root = nodes;
    conf_parse_text(conf, file);
    conf->root = root;
    for (struct conf_node *node = nodes->children; node != NULL; node = node->next) {
        node->parent = block;
    }
    if (last == NULL) {
        block->children = nodes->children;
    } else {
        last->next = nodes->children;
    }
    block->last_child = nodes->last_child;
}

static bool has_odd_name(const struct conf_node *block)
{
    for (size_t i = 0; i < block->args[1].len; i++) {
        unsigned char c = (unsigned char) block->args[1].data[i];
        if (c <= ' ' || c == '"' || c == '\\' || c == '$' || c == 127) {
            return true;
        }
    }
    return block->args[1].len == 0;
}

static void generate(struct conf *conf, struct conf_node *http)
{
    struct buf locations = {0};
    struct buf zones = {0};

    for (struct conf_node *node = http->children; node != NULL; node = node->next) {
        if (!node->is_block || node->count != 2 || !str_is(node->args[0], "oidc_provider") ||
            has_odd_name(node)) {
            continue; /* an error, which its row reports */
        }
        put_location(&locations, node);
        if (line_of(node, "session_store").len == 0) {
            buf_printf(&zones, "keyval_zone \"zone=oidc_default_store_%.*s:8m\";\n",
                       STR_ARG(node->args[1]));
        }
    }
    for (struct conf_node *node = http->children; locations.len != 0 && node != NULL;
         node = node->next) {
        if (node->is_block && str_is(node->args[0], "server")) {
            add_children(conf, node, buf_str(&locations));
        }
    }
    if (zones.len != 0) {
        add_children(conf, http, buf_str(&zones));
    }
    buf_free(&locations);
    buf_free(&zones);
}

bool oidc_generate(struct conf *conf, struct http_main *main)
{
    for (struct conf_node *node = conf->root->children; node != NULL; node = node->next) {
        if (node->is_block && str_is(node->args[0], "http")) {
            generate(conf, node);
        }
    }
    return true;
}
