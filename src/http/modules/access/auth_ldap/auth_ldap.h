/* Inside ngx_http_auth_ldap_module: what its files share. Implemented in ask.c. */
#ifndef HTTP_MODULES_ACCESS_AUTH_LDAP_AUTH_LDAP_H
#define HTTP_MODULES_ACCESS_AUTH_LDAP_AUTH_LDAP_H

#include <stdbool.h>

#include "base/arena.h"
#include "conf/template.h"

enum ldap_require_kind { REQUIRE_VALID_USER, REQUIRE_USER, REQUIRE_GROUP };

/* A `require` line. */
struct ldap_require {
    enum ldap_require_kind kind;
    struct template *value; /* USER, GROUP: its name */
};

/* An ldap_server block. Texts are NUL-terminated; NULL where nothing was said. */
struct ldap_server {
    struct str name;
    const char *uri;       /* scheme, host and port */
    const char *base;      /* where users are searched for */
    int scope;             /* how deep users are searched for: LDAP_SCOPE_* */
    const char *attribute; /* that holds the user's name */
    const char *filter;    /* that users meet, besides; "(…)" */
    const char *bind_name; /* as whom they are searched for; NULL = nobody */
    const char *bind_password;
    const char *group_attribute; /* of groups, that lists their members */
    bool group_lists_names;      /* members are listed by what they log in with, not by DN */
    struct vec requires;         /* struct ldap_require */
    bool any_is_enough;          /* satisfy any */
    bool checks_certificate;
    bool follows_referrals;
    const char *ca_file;
    const char *ca_directory;
    uint64_t connect_ms, bind_ms, request_ms; /* how long each may take */
};

enum ldap_answer {
    LDAP_YES,
    LDAP_NOT_FOUND, /* no such user, or several */
    LDAP_WRONG_PASSWORD,
    LDAP_NOT_ALLOWED, /* `require` is not met */
    LDAP_BROKEN,      /* the server did not answer, or with an error */
};

#define LDAP_REASON_SIZE 256

/* One question to one server; on the stack of the fiber that waits for its end. */
struct ldap_question {
    const struct ldap_server *server;
    const char *user;          /* NUL-terminated, as all texts here */
    const char *password;      /* not empty */
    const char *filter;        /* whole, with the user in it */
    const char *const *values; /* of server->requires, evaluated */
    enum ldap_answer answer;
    char reason[LDAP_REASON_SIZE]; /* of LDAP_BROKEN */
};

/* On a thread: asks, and fills in the answer. */
void ldap_ask(void *question);

#endif
