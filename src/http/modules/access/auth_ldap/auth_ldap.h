/* Shared by the files of ngx_http_auth_ldap_module. Implemented in ask.c. */
#ifndef HTTP_MODULES_ACCESS_AUTH_LDAP_AUTH_LDAP_H
#define HTTP_MODULES_ACCESS_AUTH_LDAP_AUTH_LDAP_H

#include <stdbool.h>

#include "base/arena.h"
#include "conf/template.h"

enum ldap_require_kind { REQUIRE_VALID_USER, REQUIRE_USER, REQUIRE_GROUP };

/* One `require` directive. */
struct ldap_require {
    enum ldap_require_kind kind;
    struct template *value; /* USER, GROUP: the name */
};

/* An ldap_server block. Strings are NUL-terminated; NULL if not set. */
struct ldap_server {
    struct str name;
    const char *uri;       /* scheme, host and port */
    const char *base;      /* base DN of the search for users */
    int scope;             /* scope of that search: LDAP_SCOPE_* */
    const char *attribute; /* attribute with the user name */
    const char *filter;    /* additional filter for users; "(…)" */
    const char *bind_name; /* DN for the search; NULL = anonymous */
    const char *bind_password;
    const char *group_attribute; /* attribute of groups that lists their members */
    bool group_lists_names;      /* members are listed by user name, not by DN */
    struct vec requires;         /* struct ldap_require */
    bool any_is_enough;          /* `satisfy any` */
    bool checks_certificate;
    bool follows_referrals;
    const char *ca_file;
    const char *ca_directory;
    uint64_t connect_ms, bind_ms, request_ms; /* timeouts of the steps */
};

enum ldap_answer {
    LDAP_YES,
    LDAP_NOT_FOUND, /* no such user, or more than one */
    LDAP_WRONG_PASSWORD,
    LDAP_NOT_ALLOWED, /* `require` is not satisfied */
    LDAP_BROKEN,      /* the server did not answer, or returned an error */
};

#define LDAP_REASON_SIZE 256

/* One question to one server; on the stack of the fiber that waits for the answer. */
struct ldap_question {
    const struct ldap_server *server;
    const char *user;          /* NUL-terminated, as all strings here */
    const char *password;      /* not empty */
    const char *filter;        /* complete, with the user name */
    const char *const *values; /* of server->requires, evaluated */
    enum ldap_answer answer;
    char reason[LDAP_REASON_SIZE]; /* for LDAP_BROKEN */
};

/* Runs on a thread: asks the server, and sets the result. */
void ldap_ask(void *question);

#endif
