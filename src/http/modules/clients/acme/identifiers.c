/* Identifiers of certificates: names and addresses of the configuration; keys. */
#include <arpa/inet.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "base/parse.h"
#include "base/text.h"
#include "http/modules/clients/acme/acme.h"
#include "http/modules/clients/acme/conf.h"
#include "net/addr/addr.h"
#include "shared/names/server_names.h"

/* ---- keys ---- */

bool acme_key_type_parse(struct str text, struct acme_key_type *out)
{
    struct str rest = text;
    struct str algorithm = str_cut(&rest, ':');
    uint64_t bits;

    *out = (struct acme_key_type){.is_rsa = str_is(algorithm, "rsa")};
    if (!out->is_rsa && !str_is(algorithm, "ecdsa")) {
        return false;
    }
    bits = out->is_rsa ? 2048 : 256;
    if (rest.data != NULL && !parse_uint(rest, &bits)) {
        return false;
    }
    out->bits = (unsigned) bits;
    return out->is_rsa ? bits >= 2048 && bits <= 8192 && bits % 8 == 0
                       : bits == 256 || bits == 384 || bits == 521;
}

/* ---- names ---- */

/* Letters, digits and hyphens between dots (RFC 5890), optionally after "*.". */
static bool is_dns_name(struct str name)
{
    size_t length = 0; /* of the current label */

    if (str_starts(name, STR("*."))) {
        name = str_skip(name, 2);
    }
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char) name.data[i];
        bool is_edge = length == 0 || i + 1 == name.len || name.data[i + 1] == '.';

        if (c == '.') {
            if (length == 0) {
                return false;
            }
            length = 0;
            continue;
        }
        if (!ascii_is_digit(c) && (unsigned char) (c - 'a') >= 26 && c != '_' &&
            (c != '-' || is_edge)) {
            return false;
        }
        if (++length > 63) {
            return false;
        }
    }
    return length != 0 && name.len <= 253;
}

static bool is_ascii(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char) text.data[i] >= 128) {
            return false;
        }
    }
    return true;
}

static struct str lower_case(struct arena *arena, struct str text)
{
    char *made = arena_text(arena, text.len);

    for (size_t i = 0; i < text.len; i++) {
        made[i] = (char) ascii_lower((unsigned char) text.data[i]);
    }
    return (struct str){made, text.len};
}

/* An address in the format of RFC 5952, which CAs use in responses. */
static struct str address_text(struct arena *arena, const struct addr *addr)
{
    char text[INET6_ADDRSTRLEN];
    const void *bytes = addr->any.sa_family == AF_INET ? (const void *) &addr->v4.sin_addr
                                                       : (const void *) &addr->v6.sin6_addr;

    return arena_dup(arena, str_of(inet_ntop(addr->any.sa_family, bytes, text, sizeof(text))));
}

bool acme_identifier_add(struct conf *conf, const struct conf_node *node, struct vec *list,
                         struct str text)
{
    struct acme_identifier made = {.value = lower_case(conf->arena, text)};
    struct addr addr;

    if (addr_parse_ip(text, &addr)) {
        made = (struct acme_identifier){address_text(conf->arena, &addr), true};
    } else if (!is_dns_name(made.value)) {
        return conf_error(conf, node, "\"%.*s\" is no name that a certificate can be for%s",
                          STR_ARG(text),
                          is_ascii(text) ? "" : ": write it as DNS has it, with \"xn--\"");
    }
    vec_each(const struct acme_identifier, known, list) {
        if (str_equal(known->value, made.value)) {
            return true;
        }
    }
    if (list->count == ACME_IDENTIFIERS_MAX) {
        return conf_error(conf, node, "a certificate has at most %d names", ACME_IDENTIFIERS_MAX);
    }
    *vec_add(list, conf->arena, struct acme_identifier) = made;
    return true;
}

static bool add_server_name(struct conf *conf, const struct conf_node *node, struct vec *list,
                            const struct server_name *name)
{
    if (name->kind == NAME_REGEX || name->kind == NAME_TAIL) {
        return conf_error(conf, node,
                          "no certificate can be for the server name \"%.*s\": name what it is for",
                          STR_ARG(name->written));
    }
    if (name->name.len == 0 || str_is(name->name, "_")) {
        return true; /* the usual names of a default server */
    }
    if (name->kind != NAME_HEAD && !acme_identifier_add(conf, node, list, name->name)) {
        return false;
    }
    return name->kind == NAME_EXACT ||
           acme_identifier_add(conf, node, list, arena_concat(conf->arena, STR("*."), name->name));
}

bool acme_identifiers_of_server(struct conf *conf, const struct conf_node *node, struct vec *list,
                                const struct vec *names)
{
    vec_each(const struct server_name, name, names) {
        if (!add_server_name(conf, node, list, name)) {
            return false;
        }
    }
    return list->count != 0 ||
           conf_error(conf, node,
                      "the server has no server_name that a certificate can be for: name what it "
                      "is for in \"acme_certificate\"");
}

/* ---- the name of a certificate ---- */

static int compare(const void *a, const void *b)
{
    const struct acme_identifier *left = a, *right = b;

    return str_compare(left->value, right->value);
}

/* The name of its file: the first identifier, for readability, and a digest of all its properties,
 * with the directory URL of its CA. */
struct str acme_certificate_name(struct arena *arena, const struct acme_certificate *certificate)
{
    unsigned char digest[32];
    char hex[16];
    struct str text =
        arena_printf(arena, "%.*s %s:%u", STR_ARG(certificate->issuer->uri),
                     certificate->key.is_rsa ? "rsa" : "ecdsa", certificate->key.bits);
    struct vec sorted = vec_copy(&certificate->identifiers, arena, sizeof(struct acme_identifier));
    struct str first = ((const struct acme_identifier *) certificate->identifiers.items)->value;
    struct str shown = str_head(lower_case(arena, first), 100);

    qsort(sorted.items, sorted.count, sizeof(struct acme_identifier), compare);
    vec_each(const struct acme_identifier, one, &sorted) {
        const struct str parts[] = {text, STR(" "), one->value};
        text = arena_join(arena, parts, 3);
    }
    for (size_t i = 0; i < shown.len; i++) {
        if (shown.data[i] == '*' || shown.data[i] == ':') {
            ((char *) (uintptr_t) shown.data)[i] = '_';
        }
    }
    sha256_of(text, digest);
    hex_encode(hex, digest, 8);
    return arena_printf(arena, "%.*s-%.*s", STR_ARG(shown), 16, hex);
}
