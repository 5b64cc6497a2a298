/* Asks one LDAP server, on a thread: finds the user, verifies the password, checks the
 * requirements. */
#include <errno.h>
#include <lber.h>
#include <ldap.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/time.h>
#include <time.h>

#include "http/modules/access/auth_ldap/auth_ldap.h"

/* A connection during the question. */
struct dialogue {
    struct ldap_question *question;
    const struct ldap_server *server;
    LDAP *ldap;
    char *dn; /* of the user; freed by ldap_memfree */
    struct ldap_conncb callback;
    uint64_t deadline_ms; /* of the current step */
};

static struct timeval auth_ldap_ask_time_of(uint64_t ms)
{
    return (struct timeval){.tv_sec = (time_t) (ms / 1000),
                            .tv_usec = (suseconds_t) (ms % 1000 * 1000)};
}

/* Records the error. Returns false. */
static bool auth_ldap_ask_fail(struct dialogue *dialogue, const char *step, int error)
{
    char *text = NULL;

    if (dialogue->ldap != NULL) {
        ldap_get_option(dialogue->ldap, LDAP_OPT_DIAGNOSTIC_MESSAGE, &text);
    }
    snprintf(dialogue->question->reason, LDAP_REASON_SIZE, "%s: %s%s%.150s", step,
             ldap_err2string(error), text == NULL || *text == '\0' ? "" : ": ",
             text == NULL ? "" : text);
    ldap_memfree(text);
    dialogue->question->answer = LDAP_BROKEN;
    return false;
}

static bool deny(struct dialogue *dialogue, enum ldap_answer answer)
{
    dialogue->question->answer = answer;
    return false;
}

/* ---- deadlines ---- */

/* libldap waits indefinitely in a TLS handshake, and in an incomplete TLS record: a stalled server
 * would block the thread forever. So a layer between the socket and TLS waits until the deadline of
 * the step, and then breaks the connection. */
static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

static void begin_step(struct dialogue *dialogue, uint64_t limit_ms)
{
    dialogue->deadline_ms = now_ms() + limit_ms;
}

static int layer_setup(Sockbuf_IO_Desc *layer, void *arg)
{
    layer->sbiod_pvt = arg;
    return 0;
}

static int layer_nothing(Sockbuf_IO_Desc *layer)
{
    return 0;
}

static int layer_control(Sockbuf_IO_Desc *layer, int option, void *arg)
{
    return LBER_SBIOD_CTRL_NEXT(layer, option, arg);
}

/* False with errno: the deadline has passed. */
static bool wait_for(Sockbuf_IO_Desc *layer, short events)
{
    const struct dialogue *dialogue = layer->sbiod_pvt;
    struct pollfd wanted = {.fd = -1, .events = events};
    int found;

    ber_sockbuf_ctrl(layer->sbiod_sb, LBER_SB_OPT_GET_FD, &wanted.fd);
    do {
        uint64_t now = now_ms();
        uint64_t left = now < dialogue->deadline_ms ? dialogue->deadline_ms - now : 0;
        found = left == 0 ? 0 : poll(&wanted, 1, left < INT32_MAX ? (int) left : INT32_MAX);
    } while (found == -1 && errno == EINTR);
    if (found == 0) {
        errno = ETIMEDOUT;
    }
    return found > 0;
}

static ber_slen_t layer_read(Sockbuf_IO_Desc *layer, void *buffer, ber_len_t size)
{
    return wait_for(layer, POLLIN) ? LBER_SBIOD_READ_NEXT(layer, buffer, size) : -1;
}

static ber_slen_t layer_write(Sockbuf_IO_Desc *layer, void *bytes, ber_len_t size)
{
    return wait_for(layer, POLLOUT) ? LBER_SBIOD_WRITE_NEXT(layer, bytes, size) : -1;
}

static Sockbuf_IO deadline_layer = {.sbi_setup = layer_setup,
                                    .sbi_remove = layer_nothing,
                                    .sbi_ctrl = layer_control,
                                    .sbi_read = layer_read,
                                    .sbi_write = layer_write,
                                    .sbi_close = layer_nothing};

static int connected(LDAP *ldap, Sockbuf *socket, LDAPURLDesc *url, struct sockaddr *addr,
                     struct ldap_conncb *callback)
{
    return ber_sockbuf_add_io(socket, &deadline_layer, LBER_SBIOD_LEVEL_PROVIDER + 1,
                              callback->lc_arg);
}

static void disconnected(LDAP *ldap, Sockbuf *socket, struct ldap_conncb *callback)
{
}

/* ---- the steps ---- */

static int set_tls(LDAP *ldap, const struct ldap_server *server)
{
    int demand = server->checks_certificate ? LDAP_OPT_X_TLS_DEMAND : LDAP_OPT_X_TLS_NEVER;
    int as_client = 0;
    int error = ldap_set_option(ldap, LDAP_OPT_X_TLS_REQUIRE_CERT, &demand);

    if (error == LDAP_SUCCESS && server->ca_file != NULL) {
        error = ldap_set_option(ldap, LDAP_OPT_X_TLS_CACERTFILE, server->ca_file);
    }
    if (error == LDAP_SUCCESS && server->ca_directory != NULL) {
        error = ldap_set_option(ldap, LDAP_OPT_X_TLS_CACERTDIR, server->ca_directory);
    }
    return error != LDAP_SUCCESS ? error : ldap_set_option(ldap, LDAP_OPT_X_TLS_NEWCTX, &as_client);
}

static bool open_dialogue(struct dialogue *dialogue)
{
    const struct ldap_server *server = dialogue->server;
    const struct timeval connect_time = auth_ldap_ask_time_of(server->connect_ms);
    const struct timeval bind_time = auth_ldap_ask_time_of(server->bind_ms);
    int version = LDAP_VERSION3;
    int error = ldap_initialize(&dialogue->ldap, server->uri);

    if (error != LDAP_SUCCESS) {
        return auth_ldap_ask_fail(dialogue, "ldap_initialize()", error);
    }
    dialogue->callback =
        (struct ldap_conncb){.lc_add = connected, .lc_del = disconnected, .lc_arg = dialogue};
    ldap_set_option(dialogue->ldap, LDAP_OPT_CONNECT_CB, &dialogue->callback);
    begin_step(dialogue, server->connect_ms + server->bind_ms); /* the first bind connects */
    ldap_set_option(dialogue->ldap, LDAP_OPT_PROTOCOL_VERSION, &version);
    ldap_set_option(dialogue->ldap, LDAP_OPT_NETWORK_TIMEOUT, &connect_time);
    ldap_set_option(dialogue->ldap, LDAP_OPT_TIMEOUT, &bind_time);
    ldap_set_option(dialogue->ldap, LDAP_OPT_REFERRALS,
                    server->follows_referrals ? LDAP_OPT_ON : LDAP_OPT_OFF);
    if (strncmp(server->uri, "ldaps:", 6) == 0) {
        error = set_tls(dialogue->ldap, server);
    }
    return error == LDAP_SUCCESS || auth_ldap_ask_fail(dialogue, "TLS", error);
}

static int bind_as(struct dialogue *dialogue, const char *name, const char *password)
{
    struct berval given = {.bv_val = (char *) (uintptr_t) password,
                           .bv_len = password == NULL ? 0 : strlen(password)};

    return ldap_sasl_bind_s(dialogue->ldap, name, LDAP_SASL_SIMPLE, &given, NULL, NULL, NULL);
}

static bool bind_as_searcher(struct dialogue *dialogue)
{
    const struct ldap_server *server = dialogue->server;
    int error = server->bind_name == NULL
                    ? LDAP_SUCCESS
                    : bind_as(dialogue, server->bind_name, server->bind_password);

    return error == LDAP_SUCCESS || auth_ldap_ask_fail(dialogue, "bind of binddn", error);
}

/* Finds the single entry that matches the filter. */
static bool find_user(struct dialogue *dialogue)
{
    const struct ldap_server *server = dialogue->server;
    struct timeval limit = auth_ldap_ask_time_of(server->request_ms);
    uint64_t connect_ms = server->bind_name == NULL ? server->connect_ms : 0;
    char none[] = LDAP_NO_ATTRS;
    char *attributes[] = {none, NULL};
    LDAPMessage *result = NULL;

    begin_step(dialogue, connect_ms + server->request_ms);
    int error =
        ldap_search_ext_s(dialogue->ldap, server->base, server->scope, dialogue->question->filter,
                          attributes, 0, NULL, NULL, &limit, 2, &result);
    bool is_found = false;

    if (error == LDAP_SUCCESS && ldap_count_entries(dialogue->ldap, result) == 1) {
        dialogue->dn = ldap_get_dn(dialogue->ldap, ldap_first_entry(dialogue->ldap, result));
        is_found = dialogue->dn != NULL;
    }
    ldap_msgfree(result);
    if (error != LDAP_SUCCESS && error != LDAP_NO_SUCH_OBJECT && error != LDAP_SIZELIMIT_EXCEEDED) {
        return auth_ldap_ask_fail(dialogue, "search", error);
    }
    return is_found || deny(dialogue, LDAP_NOT_FOUND);
}

/* Do both names mean the same entry? A name that is not a DN is compared with the user name. */
static bool is_same_name(const struct dialogue *dialogue, const char *name)
{
    LDAPDN parsed[2] = {NULL, NULL};
    char *texts[2] = {NULL, NULL};
    const char *names[] = {dialogue->dn, name};
    bool is_same = strcmp(name, dialogue->question->user) == 0;

    for (unsigned i = 0; i < 2 && !is_same; i++) {
        if (ldap_str2dn(names[i], &parsed[i], LDAP_DN_FORMAT_LDAPV3) == LDAP_SUCCESS) {
            ldap_dn2str(parsed[i], &texts[i], LDAP_DN_FORMAT_LDAPV3);
        }
    }
    if (texts[0] != NULL && texts[1] != NULL) {
        is_same = strcasecmp(texts[0], texts[1]) == 0;
    }
    for (unsigned i = 0; i < 2; i++) {
        ldap_memfree(texts[i]);
        ldap_dnfree(parsed[i]);
    }
    return is_same;
}

/* Does the group list the user as a member? A group that does not exist has no members. */
static bool is_member(struct dialogue *dialogue, const char *group, bool *is_sound)
{
    const struct ldap_server *server = dialogue->server;
    char *member =
        server->group_lists_names ? (char *) (uintptr_t) dialogue->question->user : dialogue->dn;
    struct berval value = {.bv_val = member, .bv_len = strlen(member)};

    begin_step(dialogue, server->bind_ms); /* uses LDAP_OPT_TIMEOUT */
    int error =
        ldap_compare_ext_s(dialogue->ldap, group, server->group_attribute, &value, NULL, NULL);

    switch (error) {
    case LDAP_COMPARE_TRUE:
    case LDAP_COMPARE_FALSE:
    case LDAP_NO_SUCH_OBJECT:
    case LDAP_NO_SUCH_ATTRIBUTE:
    case LDAP_UNDEFINED_TYPE:
    case LDAP_INVALID_SYNTAX:
    case LDAP_INVALID_DN_SYNTAX:
        break;
    default:
        *is_sound = auth_ldap_ask_fail(dialogue, "compare", error);
        break;
    }
    return error == LDAP_COMPARE_TRUE;
}

static bool meets_requirements(struct dialogue *dialogue)
{
    const struct vec *requires = &dialogue->server->requires;
    bool any_is_enough = dialogue->server->any_is_enough;
    size_t met = 0;

    for (size_t i = 0; i < requires->count; i++) {
        const char *value = dialogue->question->values[i];
        bool is_sound = true;
        bool is_met = true;

        switch (vec_at(requires, struct ldap_require, i)->kind) {
        case REQUIRE_VALID_USER:
            break;
        case REQUIRE_USER:
            is_met = is_same_name(dialogue, value);
            break;
        case REQUIRE_GROUP:
            is_met = is_member(dialogue, value, &is_sound);
            break;
        }
        if (!is_sound) {
            return false;
        }
        met += is_met;
    }
    return met == requires->count || (any_is_enough && met != 0) ||
           deny(dialogue, LDAP_NOT_ALLOWED);
}

static bool check_password(struct dialogue *dialogue)
{
    begin_step(dialogue, dialogue->server->bind_ms);
    int error = bind_as(dialogue, dialogue->dn, dialogue->question->password);

    if (error == LDAP_INVALID_CREDENTIALS || error == LDAP_INAPPROPRIATE_AUTH ||
        error == LDAP_NO_SUCH_OBJECT) {
        return deny(dialogue, LDAP_WRONG_PASSWORD);
    }
    return error == LDAP_SUCCESS || auth_ldap_ask_fail(dialogue, "bind of the user", error);
}

void ldap_ask(void *arg)
{
    struct ldap_question *question = arg;
    struct dialogue dialogue = {.question = question, .server = question->server};

    if (open_dialogue(&dialogue) && bind_as_searcher(&dialogue) && find_user(&dialogue) &&
        meets_requirements(&dialogue) && check_password(&dialogue)) {
        question->answer = LDAP_YES;
    }
    ldap_memfree(dialogue.dn);
    if (dialogue.ldap != NULL) {
        begin_step(&dialogue, dialogue.server->bind_ms);
        ldap_unbind_ext_s(dialogue.ldap, NULL, NULL);
    }
}
