/* Rules of `nginx -t --lint`. */
#include "http/config/lint.h"

#include "base/map.h"

bool lint_is_named(const struct conf_node *node, const char *name)
{
    return node->count != 0 && str_is(node->args[0], name);
}

const struct conf_node *lint_inside(const struct conf_node *node, const char *block)
{
    do {
        node = node->parent;
    } while (node != NULL && !lint_is_named(node, block));
    return node;
}

/* Does the location have the modifier of a regular expression: "~", "~*"? */
static bool is_regex_location(const struct conf_node *location)
{
    return location->count > 2 && location->args[1].len != 0 && location->args[1].data[0] == '~';
}

/* The pattern of a regex location, or empty. */
static struct str pattern_of(const struct conf_node *location)
{
    if (is_regex_location(location)) {
        return location->args[2];
    }
    struct str word = location->count > 1 ? location->args[1] : STR_NONE;

    if (word.len == 0 || word.data[0] != '~') {
        return STR_NONE;
    }
    word = str_skip(word, 1);
    return word.len != 0 && word.data[0] == '*' ? str_skip(word, 1) : word;
}

static bool is_path_variable(struct str name)
{
    return str_is(name, "uri") || str_is(name, "document_uri");
}

/* Finds the first variable in a text for which is_meant is true. */
static bool has_variable(struct str text, bool (*is_meant)(struct str name), struct str *found)
{
    while (lint_variable(&text, found)) {
        if (is_meant(*found)) {
            return true;
        }
    }
    return false;
}

/* ---- paths */

/* The prefix of a location that is replaced, and has no trailing slash; or an empty string. */
static struct str prefix_without_slash(const struct conf_node *location)
{
    if (location == NULL || !lint_is_named(location, "location") || location->count < 2) {
        return STR_NONE;
    }
    struct str path = location->args[location->count - 1];
    bool is_prefix = location->count == 2 ? path.len != 0 && path.data[0] == '/'
                                          : str_is(location->args[1], "^~");

    return is_prefix && !str_ends(path, STR("/")) ? path : STR_NONE;
}

static void check_alias(struct lint *lint, const struct conf_node *node)
{
    struct str path = prefix_without_slash(node->parent);

    if (path.len != 0 && node->count == 2 && str_ends(node->args[1], STR("/"))) {
        lint_report(lint, node,
                    "\"%.*s\" in the location \"%.*s\" without a slash at its end: \"%.*sx\" is "
                    "the file \"%.*sx\", and where nginx has this configuration \"%.*s../x\" is "
                    "one of the directory above",
                    STR_ARG(node->args[1]), STR_ARG(path), STR_ARG(path), STR_ARG(node->args[1]),
                    STR_ARG(path));
    }
}

static void check_pass_slash(struct lint *lint, const struct conf_node *node)
{
    struct str path = prefix_without_slash(node->parent);
    const char *scheme = node->count == 2 ? str_find(node->args[1], STR("://")) : NULL;

    if (path.len == 0 || scheme == NULL || !str_ends(node->args[1], STR("/")) ||
        str_find_char(node->args[1], '$') != NULL) {
        return;
    }
    lint_report(
        lint, node,
        "\"%.*s\" in the location \"%.*s\" without a slash at its end: \"%.*s/x\" is passed "
        "as \"//x\", and where nginx has this configuration \"%.*s../x\" as one of the path above",
        STR_ARG(node->args[1]), STR_ARG(path), STR_ARG(path), STR_ARG(path));
}

static void check_try_files_end(struct lint *lint, const struct conf_node *node)
{
    struct str last = node->count > 2 ? node->args[node->count - 1] : STR_NONE;

    if (str_is(last, "$uri") || str_is(last, "$uri/")) {
        lint_report(lint, node,
                    "\"%.*s\" is the last word, which is where a request without a file goes: to "
                    "itself, until it ends with 500",
                    STR_ARG(last));
    }
}

/* Does the block of an `if` leave the location? */
static bool leaves(const struct conf_node *block)
{
    for (const struct conf_node *node = NULL; (node = lint_next(block, node, "rewrite")) != NULL;) {
        if (!lint_has_arg(node, "break")) {
            return true;
        }
    }
    return lint_next(block, NULL, "return") != NULL;
}

static void check_try_files_if(struct lint *lint, const struct conf_node *node)
{
    const struct conf_node *location = node->parent;

    if (location == NULL || !lint_is_named(location, "location")) {
        return;
    }
    for (const struct conf_node *block = NULL;
         (block = lint_next(location, block, "if")) != NULL;) {
        if (!leaves(block)) {
            lint_report(lint, node, "it is not done where the \"if\" of line %u holds",
                        block->line);
            return;
        }
    }
}

static void check_try_files(struct lint *lint, const struct conf_node *node)
{
    const struct conf_node *alias =
        node->parent == NULL ? NULL : lint_next(node->parent, NULL, "alias");
    struct str name;

    if (alias == NULL || !lint_is_named(node->parent, "location") ||
        pattern_of(node->parent).len == 0) {
        return;
    }
    for (unsigned i = 1; i + 1 < node->count; i++) { /* the last argument is a URI */
        if (has_variable(node->args[i], is_path_variable, &name)) {
            lint_report(lint, node,
                        "\"$%.*s\" is appended to \"alias\" whole, since a regular expression "
                        "has no prefix to cut off: no file is found",
                        STR_ARG(name));
            return;
        }
    }
}

static void check_merge_slashes(struct lint *lint, const struct conf_node *node)
{
    if (lint_has_arg(node, "off")) {
        lint_report(lint, node,
                    "a request for \"//admin\" is not found by \"location /admin\" and its rules");
    }
}

bool lint_returns_refusal(const struct conf_node *block)
{
    const struct conf_node *answer = lint_next(block, NULL, "return");

    return answer != NULL && answer->count > 1 && answer->args[1].len == 3 &&
           answer->args[1].data[0] == '4';
}

/* Does the location reject everything? Then it is harmless that it matches too much. */
static bool is_refusing(const struct conf_node *location)
{
    const struct conf_node *deny = lint_next(location, NULL, "deny");

    return (deny != NULL && lint_has_arg(deny, "all")) || lint_returns_refusal(location);
}

static bool is_anchored(struct str pattern)
{
    for (size_t i = 0; i < pattern.len; i++) {
        if (pattern.data[i] == '\\') {
            i++;
        } else if (pattern.data[i] == '$' ||
                   (pattern.data[i] == '^' && (i == 0 || pattern.data[i - 1] != '['))) {
            return true;
        }
    }
    return str_find(pattern, STR("\\z")) != NULL || str_find(pattern, STR("\\Z")) != NULL ||
           str_find(pattern, STR("\\A")) != NULL;
}

static void check_anchor(struct lint *lint, const struct conf_node *node)
{
    struct str pattern = node->is_block ? pattern_of(node) : STR_NONE;

    if (pattern.len != 0 && !is_anchored(pattern) && !is_refusing(node)) {
        lint_report(lint, node,
                    "the regular expression \"%.*s\" matches anywhere in the path, also in the "
                    "middle of a name",
                    STR_ARG(pattern));
    }
}

/* ---- regular expressions */

static void check_pattern(struct lint *lint, const struct conf_node *node, struct str pattern)
{
    if (lint_is_slow_regex(pattern)) {
        lint_report(lint, node,
                    "the regular expression \"%.*s\" can match a text in many ways: a client can "
                    "make it slow until the match limit ends it",
                    STR_ARG(pattern));
    }
}

static void check_regex(struct lint *lint, const struct conf_node *node)
{
    if (node->count == 0) {
        return;
    }
    if (lint_is_named(node, "location")) {
        check_pattern(lint, node, pattern_of(node));
    } else if (lint_is_named(node, "rewrite") && node->count > 2) {
        check_pattern(lint, node, node->args[1]);
    } else if (lint_is_named(node, "server_name") ||
               (node->parent != NULL && lint_is_named(node->parent, "map"))) {
        for (unsigned i = lint_is_named(node, "server_name"); i < node->count; i++) {
            if (node->args[i].len > 1 && node->args[i].data[0] == '~') {
                check_pattern(lint, node, str_skip(node->args[i], 1));
            }
        }
    } else if (lint_is_named(node, "if") && node->count > 3 &&
               node->args[node->count - 2].len != 0 &&
               str_find_char(node->args[node->count - 2], '~') != NULL) {
        struct str pattern = node->args[node->count - 1];

        check_pattern(lint, node,
                      str_ends(pattern, STR(")")) ? str_head(pattern, pattern.len - 1) : pattern);
    }
}

static void check_origin(struct lint *lint, const struct conf_node *node)
{
    if (!node->is_block || node->count < 4 || str_find_char(node->args[2], '~') == NULL ||
        (str_find(node->args[1], STR("$http_origin")) == NULL &&
         str_find(node->args[1], STR("$http_referer")) == NULL)) {
        return;
    }
    struct str pattern = node->args[3];

    if (str_find_char(pattern, '^') == NULL ||
        (str_find_char(pattern, '$') == NULL && str_find(pattern, STR("/")) == NULL)) {
        lint_report(
            lint, node,
            "\"%.*s\" also matches an origin of others that only contains or begins with it",
            STR_ARG(pattern));
    }
}

/* ---- if */

static void check_if(struct lint *lint, const struct conf_node *node)
{
    static const char *const safe[] =
        {"return",     "rewrite",          "set",         "break", "access_log",
         "limit_rate", "limit_rate_after", "rewrite_log", "if"};

    if (!node->is_block || node->parent == NULL || !lint_is_named(node->parent, "location")) {
        return;
    }
    for (const struct conf_node *child = node->children; child != NULL; child = child->next) {
        bool is_safe = child->count == 0;

        for (size_t i = 0; !is_safe && i < sizeof(safe) / sizeof(safe[0]); i++) {
            is_safe = lint_is_named(child, safe[i]);
        }
        if (!is_safe && !str_starts(child->args[0], STR("set_"))) {
            lint_report(lint, child,
                        "\"%.*s\" in \"if\": the block is a location of its own that takes the "
                        "place of the one around it, with what it inherits and nothing else",
                        STR_ARG(child->args[0]));
            return;
        }
    }
}

/* ---- lists that hide inherited ones */

static bool has_first_arg(const struct conf_node *block, const char *name, struct str word)
{
    for (const struct conf_node *node = NULL; (node = lint_next(block, node, name)) != NULL;) {
        if (node->count > 1 && str_equal_nocase(node->args[1], word)) {
            return true;
        }
    }
    return false;
}

static void check_hidden(struct lint *lint, const struct conf_node *node, const char *inherit)
{
    const char *name = node->args[0].data;
    const struct conf_node *block = node->parent, *from = NULL, *rule_block = NULL;

    if (block == NULL || lint_next(block, NULL, name) != node) {
        return; /* the first one in a block reports for all */
    }
    const struct conf_node *rule = lint_inherited(block, inherit, &rule_block);

    if (rule != NULL && (lint_has_arg(rule, "merge") || lint_has_arg(rule, "on"))) {
        return;
    }
    for (const struct conf_node *upper = lint_inherited(block->parent, name, &from); upper != NULL;
         upper = lint_next(from, upper, name)) {
        if (upper->count > 1 && !has_first_arg(block, name, upper->args[1])) {
            lint_report(lint, node, "\"%s %.*s\" of line %u (%.*s) is not inherited here", name,
                        STR_ARG(upper->args[1]), upper->line, STR_ARG(upper->file->name));
            return;
        }
    }
}

static void check_add_header(struct lint *lint, const struct conf_node *node)
{
    check_hidden(lint, node, "add_header_inherit");
}

static void check_set_header(struct lint *lint, const struct conf_node *node)
{
    check_hidden(lint, node, "proxy_set_header_inherit");
}

static void check_content_type(struct lint *lint, const struct conf_node *node)
{
    if (node->count > 2 && str_equal_nocase(node->args[1], STR("Content-Type"))) {
        lint_report(lint, node, "the response may get a second Content-Type");
    }
}

/* ---- values from clients */

/* Does it respond with a Location? */
static bool is_redirect(const struct conf_node *node)
{
    if (lint_is_named(node, "return")) {
        return node->count == 2
                   ? str_find(node->args[1], STR("://")) != NULL
                   : node->count == 3 && node->args[1].len == 3 && node->args[1].data[0] == '3';
    }
    return lint_is_named(node, "rewrite") && node->count > 2 &&
           (lint_has_arg(node, "redirect") || lint_has_arg(node, "permanent") ||
            str_starts(node->args[2], STR("http")));
}

static void check_crlf(struct lint *lint, const struct conf_node *node)
{
    bool is_header = lint_is_named(node, "add_header") || lint_is_named(node, "add_trailer") ||
                     lint_is_named(node, "proxy_set_header");
    struct str name;

    if (node->count < 2 || !(is_header || is_redirect(node))) {
        return;
    }
    if (has_variable(node->args[node->count > 2 ? 2 : 1], is_path_variable, &name)) {
        lint_report(
            lint, node,
            "\"$%.*s\" is decoded: a client can put line ends into the field, and characters "
            "that change the target",
            STR_ARG(name));
    }
}

static bool is_client_host(struct str name)
{
    return str_is(name, "http_host");
}

static void check_host(struct lint *lint, const struct conf_node *node)
{
    struct str name;
    bool is_host = lint_is_named(node, "proxy_set_header") && node->count > 2 &&
                   (str_equal_nocase(node->args[1], STR("Host")) ||
                    str_equal_nocase(node->args[1], STR("X-Forwarded-Host")));

    if ((is_host || (node->count > 1 && is_redirect(node))) &&
        has_variable(node->args[node->count > 2 ? 2 : 1], is_client_host, &name)) {
        lint_report(lint, node,
                    "\"$http_host\" is what the client writes, also when the request line names "
                    "another host");
    }
}

/* Is it a variable that the client controls? */
static bool is_of_client(struct str name)
{
    return str_starts(name, STR("arg_")) || str_starts(name, STR("http_")) ||
           str_starts(name, STR("cookie_")) || str_is(name, "host") || str_is(name, "args") ||
           str_is(name, "query_string") || ascii_is_digit((unsigned char) name.data[0]);
}

/* The part of a redirect target that names the server. */
static struct str authority_of(struct str target)
{
    const char *scheme = str_find(target, STR("://"));

    if (scheme != NULL) {
        target = str_from(scheme + 3, target.data + target.len);
    }
    return str_cut(&target, '/');
}

static bool is_pass(const struct conf_node *node)
{
    static const char *const names[] = {"proxy_pass", "fastcgi_pass", "uwsgi_pass",
                                        "scgi_pass",  "grpc_pass",    "memcached_pass"};

    for (size_t i = 0; node->count == 2 && i < sizeof(names) / sizeof(names[0]); i++) {
        if (lint_is_named(node, names[i])) {
            return lint_inside(node, "http") != NULL;
        }
    }
    return false;
}

static void check_target(struct lint *lint, const struct conf_node *node)
{
    struct str name;

    if (!is_pass(node) || !has_variable(authority_of(node->args[1]), is_of_client, &name)) {
        return;
    }
    for (const struct conf_node *block = node->parent; block != NULL; block = block->parent) {
        if (lint_next(block, NULL, "internal") != NULL ||
            lint_next(block, NULL, "proxy_allow_upstream") != NULL) {
            return;
        }
    }
    lint_report(lint, node,
                "\"$%.*s\" in the server's name: a client chooses to which server its request goes",
                STR_ARG(name));
}

static void check_referers(struct lint *lint, const struct conf_node *node)
{
    if (lint_has_arg(node, "none")) {
        lint_report(lint, node,
                    "a request without Referer is valid, and every client can send one");
    }
}

/* ---- names resolved at run time */

static bool is_upstream(const struct conf_node *http, struct str name)
{
    for (const struct conf_node *node = NULL; (node = lint_next(http, node, "upstream")) != NULL;) {
        if (node->count > 1 && str_equal_nocase(node->args[1], name)) {
            return true;
        }
    }
    return false;
}

/* Is it an address, a socket or a group, for which no resolver is needed? */
static bool is_fixed(const struct conf_node *http, struct str value)
{
    struct str authority = authority_of(value);
    struct str host = authority;
    bool is_numeric = true;

    if (str_starts(authority, STR("unix:")) || str_starts(authority, STR("[")) || value.len == 0 ||
        is_upstream(http, str_cut(&host, ':')) || is_upstream(http, authority)) {
        return true;
    }
    host = authority;
    host = str_cut(&host, ':');
    for (size_t i = 0; i < host.len; i++) {
        is_numeric &= host.data[i] == '.' || ascii_is_digit((unsigned char) host.data[i]);
    }
    return is_numeric && host.len != 0;
}

/* Are all values that `set` and `map` assign to a variable fixed? False if it gets its value
 * elsewhere. */
static bool has_fixed_values(const struct conf_node *http, const struct conf_node *block,
                             struct str variable, bool *is_known)
{
    for (const struct conf_node *node = block->children; node != NULL; node = node->next) {
        if (lint_is_named(node, "set") && node->count == 3 && node->args[1].len != 0 &&
            str_equal(str_skip(node->args[1], 1), variable)) {
            *is_known = true;
            if (str_find_char(node->args[2], '$') != NULL || !is_fixed(http, node->args[2])) {
                return false;
            }
        }
        if (node->is_block &&
            (lint_is_named(node, "map") || lint_is_named(node, "split_clients")) &&
            node->count == 3 && node->args[2].len != 0 &&
            str_equal(str_skip(node->args[2], 1), variable)) {
            *is_known = true;
            for (const struct conf_node *entry = node->children; entry != NULL;
                 entry = entry->next) {
                if (entry->count == 2 && !is_fixed(http, entry->args[1])) {
                    return false;
                }
            }
        } else if (node->is_block && !has_fixed_values(http, node, variable, is_known)) {
            return false;
        }
    }
    return true;
}

static void check_resolver(struct lint *lint, const struct conf_node *node)
{
    const struct conf_node *http = is_pass(node) ? lint_inside(node, "http") : NULL, *of;
    struct str authority = http == NULL ? STR_NONE : authority_of(node->args[1]);
    struct str rest = authority, name;
    bool is_known = false;

    if (!lint_variable(&rest, &name) || lint_inherited(node->parent, "resolver", &of) != NULL) {
        return;
    }
    if (authority.data[0] == '$' && has_fixed_values(http, http, name, &is_known) && is_known) {
        return;
    }
    const char *dollar = str_find_char(authority, '$');
    struct str before = str_from(authority.data, dollar);

    if (before.len != 0 && is_fixed(http, before)) {
        return; /* only the part after the address has variables */
    }
    lint_report(lint, node,
                "the name in \"%.*s\" is resolved for each request, and there is no "
                "\"resolver\"",
                STR_ARG(node->args[1]));
}

/* ---- error pages */

static void check_error_page(struct lint *lint, const struct conf_node *node)
{
    if (lint_has_arg(node, "=200")) {
        lint_report(lint, node,
                    "errors become 200: caches, monitors and search engines take the page "
                    "for the answer");
    }
}

/* ---- TLS */

static bool names_tls(const struct conf_node *node, const char *suffix)
{
    return node->count > 1 && !node->is_block && str_ends(node->args[0], str_of(suffix));
}

static void check_tls(struct lint *lint, const struct conf_node *node)
{
    static const char *const weak[] = {"SSLv2", "SSLv3", "TLSv1", "TLSv1.1"};

    for (size_t i = 0; names_tls(node, "ssl_protocols") && i < sizeof(weak) / sizeof(weak[0]);
         i++) {
        if (lint_has_arg(node, weak[i])) {
            lint_report(lint, node, "%s is no longer secure (RFC 8996, RFC 7568)", weak[i]);
            return;
        }
    }
}

static void check_ciphers(struct lint *lint, const struct conf_node *node)
{
    static const char *const weak[] = {"RC4",   "DES", "3DES",   "MD5", "NULL", "eNULL",
                                       "aNULL", "ADH", "EXPORT", "EXP", "LOW",  "COMPLEMENTOFALL",
                                       "ALL"};

    if (!names_tls(node, "ssl_ciphers")) {
        return;
    }
    for (struct str rest = node->args[1]; rest.data != NULL;) {
        struct str word = str_cut(&rest, ':');

        for (size_t i = 0; i < sizeof(weak) / sizeof(weak[0]); i++) {
            bool is_excluded =
                str_is(word, "ALL") && str_find(node->args[1], STR("!aNULL")) != NULL;

            if (str_is(word, weak[i]) && !is_excluded) {
                lint_report(lint, node,
                            "\"%s\" has ciphers that are broken or without a certificate", weak[i]);
                return;
            }
        }
    }
}

/* ---- directives without effect, or with another one than expected */

static void check_error_log(struct lint *lint, const struct conf_node *node)
{
    if (node->count > 1 && str_is(node->args[1], "off")) {
        lint_report(lint, node, "the log is written to a file of the name \"off\"");
    }
}

static void check_hash(struct lint *lint, const struct conf_node *node)
{
    if (node->count == 2 && !node->is_block &&
        (str_ends(node->args[0], STR("_hash_bucket_size")) ||
         str_ends(node->args[0], STR("_hash_max_size")))) {
        lint_report(lint, node, "\"%.*s\" is accepted and ignored: tables grow as needed",
                    STR_ARG(node->args[0]));
    }
}

const struct lint_rule http_lint_rules[] = {
    {"alias-slash", "alias", check_alias, "end the location with a slash"},
    {"proxy-pass-slash", "proxy_pass", check_pass_slash, "end both with a slash, or none"},
    {"try-files-last", "try_files", check_try_files_end, "end it with \"=404\" or with a page"},
    {"try-files-if", "try_files", check_try_files_if,
     "use a \"map\" for the variable, or end the \"if\" with \"return\" or \"rewrite\""},
    {"try-files-alias", "try_files", check_try_files,
     "use \"root\", or a location without a regular expression"},
    {"merge-slashes", "merge_slashes", check_merge_slashes, "remove the line"},
    {"regex-anchor", "location", check_anchor, "begin it with \"^\" or end it with \"$\""},
    {"slow-regex", NULL, check_regex,
     "do not repeat a group whose content is repeated, or use possessive \"++\""},
    {"origin-regex", "if", check_origin, "write it as ^https://a\\.example$"},
    {"if-location", "if", check_if, "use a \"map\", or a location of its own by \"rewrite\""},
    {"add-header", "add_header", check_add_header,
     "repeat it, or set \"add_header_inherit merge\""},
    {"proxy-set-header", "proxy_set_header", check_set_header,
     "repeat it, or set \"proxy_set_header_inherit merge\""},
    {"content-type", "add_header", check_content_type, "use \"default_type\" or \"types\""},
    {"crlf", NULL, check_crlf, "use \"$request_uri\""},
    {"host-spoofing", NULL, check_host, "use \"$host\""},
    {"ssrf", NULL, check_target,
     "choose the server by a \"map\" of allowed names, or make the location \"internal\""},
    {"valid-referers", "valid_referers", check_referers, "remove \"none\""},
    {"resolver", NULL, check_resolver,
     "add \"resolver\" with the address of your name server to the http block"},
    {"allow-deny", "allow", lint_allow, "add \"deny all\" after it"},
    {"status-access", NULL, lint_status, "add \"allow 127.0.0.1; deny all;\" or a password"},
    {"real-ip-from", "set_real_ip_from", lint_real_ip, "name the addresses of your proxies alone"},
    {"default-server", "listen", lint_default,
     "say \"default_server\" at the one that is meant, such as one with \"return 444\""},
    {"return-access", "return", lint_return,
     "move \"return\" to a location of its own, or refuse by \"if\" or \"map\""},
    {"error-page-200", "error_page", check_error_page,
     "keep the status, or use \"try_files\" for pages that a script of the browser makes"},
    {"weak-tls", NULL, check_tls, "use TLSv1.2 and TLSv1.3"},
    {"weak-ciphers", NULL, check_ciphers, "remove it, or the whole line for the library's list"},
    {"error-log-off", "error_log", check_error_log, "use \"error_log /dev/null;\""},
    {"hash-size", NULL, check_hash, "remove the line"},
    {0},
};
