/* The HTTP proxy module: its settings at a location, what it keeps for a request, and its parts'
 * faces to each other. */
#ifndef HTTP_MODULES_BACKENDS_PROXY_PROXY_H
#define HTTP_MODULES_BACKENDS_PROXY_PROXY_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/regex.h"
#include "conf/template.h"
#include "http/exchange/exchange.h"
#include "http/exchange/heads/request_head.h"
#include "base/chunked.h"

/* Where a request goes: scheme, address and URI of proxy_pass, apart. */
struct proxy_url {
    struct str text;    /* as written: "http://up/x/" */
    struct str address; /* "up", "127.0.0.1:8080", "unix:/path" */
    struct str uri;     /* "/x/"; empty = none was written */
    struct str
        host; /* $proxy_host: the address without the usual port; "localhost" of a unix socket */
    struct str port; /* $proxy_port; empty of a unix socket */
    bool is_https;
};

/* What proxy_pass of a location says. */
struct proxy_target {
    struct proxy_url url;         /* of one without variables */
    struct upstream_group *group; /* the servers of that URL */
    struct template *text;        /* with variables: the whole of it; else NULL */
    struct str prefix;            /* of URIs, whose place the URI takes: the name of the location */
};

/* proxy_redirect, proxy_cookie_domain, proxy_cookie_path: a text that is replaced. */
struct rewrite_rule {
    const struct template *text; /* what the value begins with, or equals; NULL = regex */
    struct regex *regex;
    const struct template *replacement;
};

/* proxy_cookie_flags of one cookie. */
struct flags_rule {
    const struct template *name; /* NULL = regex */
    struct regex *regex;
    struct vec flags; /* struct template * */
};

/* The directives of one location. */
struct proxy_settings {
    struct proxy_target *target; /* NULL: no proxy_pass here */
    struct template *method;     /* NULL = the client's */
    unsigned version;            /* HTTP_1_0, HTTP_1_1, HTTP_2, HTTP_3 */
    struct vec set_headers;      /* struct key_template */
    unsigned header_inherit;     /* enum list_inherit */
    struct template *set_body;   /* NULL = the client's */
    struct vec redirects;        /* struct rewrite_rule */
    struct vec cookie_domains;   /* struct rewrite_rule */
    struct vec cookie_paths;     /* struct rewrite_rule */
    struct vec cookie_flags;     /* struct flags_rule */
    bool has_redirects;          /* proxy_redirect was written here or further out: no default */
    bool has_default_redirect;   /* `default` is among them, at this very level */
    bool pass_trailers;
    bool proxy_protocol; /* a PROXY header goes first, on connections that are not kept */
    bool adapts_fields;  /* derived: there are redirects or rules for cookies */
    int64_t headers_hash_max_size, headers_hash_bucket_size; /* understood */
    struct head_plan *plan;                                  /* derived; NULL without proxy_pass */
    const struct protocol *protocol;                         /* derived, as plan is */
};

/* How the end of an answer's body is known. */
enum body_end {
    BODY_NONE,         /* there is none */
    BODY_COUNTED,      /* Content-Length */
    BODY_CHUNKED,      /* the last chunk */
    BODY_UNTIL_CLOSED, /* the connection's end */
};

/* What the module keeps for one exchange, as exchange.state; in the request's arena. */
struct proxy_state {
    struct proxy_url url; /* of this request; uri is as it is sent, with arguments */
    struct str method;
    int64_t body_length; /* of the body that is sent; -1 = none, or not known */
    bool is_chunked;     /* the body is sent in chunks */
    bool says_close;     /* *_set_header announces that this request is the connection's last */

    /* The answer. */
    bool has_status;    /* its first line was read */
    bool may_stay_open; /* it lets the connection be kept */
    bool is_at_trailers;
    enum body_end end;
    uint64_t left; /* bytes of the body to come; UINT64_MAX where none are counted */
    struct chunked chunked;
};

/* ---- url.c ---- */

/* Cuts the text after the scheme into address and URI. */
void proxy_url_cut(struct str rest, struct proxy_url *url);
/* Fills host and port from address and scheme. */
void proxy_url_name(struct proxy_url *url);
/* Takes "http://" or "https://" off; *is_https tells which. False: another scheme. */
bool proxy_url_scheme(struct str *text, bool *is_https);

/* ---- request.c ---- */

/* *uri, which holds that of proxy_pass, becomes the one that a request asks the backend for, with
 * its arguments. False: it would lead out of that of proxy_pass. */
bool proxy_request_uri(struct request *request, const struct proxy_target *target, struct str *uri);
bool proxy_make_request(struct exchange *x);
/* The same in HTTP/2. */
bool proxy_make_h2_request(struct exchange *x);
/* The same in HTTP/3. */
bool proxy_make_h3_request(struct exchange *x);
/* Where a PROXY header goes first: it, and the head. */
void proxy_send_announced(struct exchange *x);
/* The PROXY header that tells of the client. */
struct str proxy_announcement(struct exchange *x);
void proxy_send_body(struct exchange *x, const struct body_piece *piece, bool is_last);

/* ---- response.c ---- */

void proxy_begin_response(struct exchange *x);
enum head_result proxy_read_head(struct exchange *x);
enum body_result proxy_read_body(struct exchange *x, struct str *data);
enum body_result proxy_body_ended(struct exchange *x);

/* ---- redirect.c ---- */

bool proxy_redirect_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings);
/* The rule that holds where none is written. */
void redirect_default(struct conf_scope *scope, struct proxy_settings *settings);
/* A value of Location or Refresh as the client is to see it. */
void redirect_adapt(struct exchange *x, struct field *field);

/* Reads "text replacement" (is_nocase: a regular expression is without case) into a rule. */
bool rewrite_rule_read(struct conf_scope *scope, const struct conf_node *node, bool is_nocase,
                       struct rewrite_rule *rule);

/* ---- cookies.c ---- */

bool proxy_cookie_domain_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings);
bool proxy_cookie_path_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings);
bool proxy_cookie_flags_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings);
/* A value of Set-Cookie as the client is to see it. */
void cookie_adapt(struct exchange *x, struct field *field);

/* ---- proxy.c ---- */

/* Begins a list of rules, or ends it by `off`: false after conf_error when one stands beside `off`.
 * *is_off: nothing more is to be read. */
bool rules_begin(struct conf_scope *scope, const struct directive *row,
                 const struct conf_node *node, struct vec *rules, bool *is_off);

/* Stands a proxy_pass in this block, above? */
bool proxy_pass_is_set(const struct conf_scope *scope);

#endif
