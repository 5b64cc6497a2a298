/* The client of a session: its addresses, and log lines. */
#include <inttypes.h>
#include <sys/socket.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/text.h"
#include "mail/session/session.h"

void mail_client(const struct mail_session *session, struct addr *out)
{
    if (session->client != NULL) {
        *out = *session->client;
    } else {
        conn_peer(session->conn, out);
    }
}

struct str mail_client_text(struct mail_session *session)
{
    if (session->client_text.len == 0) {
        char text[ADDR_TEXT_MAX];
        struct addr client;

        mail_client(session, &client);
        if (client.len == 0 || client.any.sa_family == AF_UNIX) {
            session->client_text = STR("unix:");
        } else {
            session->client_text =
                arena_dup(&session->arena, (struct str){text, addr_format(&client, false, text)});
        }
    }
    return session->client_text;
}

void mail_client_believe(struct mail_session *session)
{
    const struct mail_realip *realip = mail_settings(session->server, &mail_realip_key);
    struct addr peer;

    conn_peer(session->conn, &peer);
    if (session->proxy != NULL && session->proxy->source.len != 0 &&
        forwarded_is_trusted(&realip->forwarded, &peer)) {
        session->client = &session->proxy->source;
        session->client_text = STR_NONE;
    }
}

bool mail_local(const struct mail_session *session, struct addr *out)
{
    socklen_t len = sizeof(*out) - offsetof(struct addr, any);

    if (!session->listen->address.needs_local_address) {
        *out = session->listen->address.listener->addr;
        return true;
    }
    *out = (struct addr){.len = 0};
    if (getsockname(session->conn->source.fd, &out->any, &len) == -1) {
        return false;
    }
    out->len = len;
    return true;
}

struct str mail_salt(struct mail_session *session)
{
    if (session->salt.len == 0) {
        uint32_t number;

        random_bytes(&number, sizeof(number));
        session->salt =
            arena_printf(&session->arena, "<%" PRIu32 ".%" PRId64 "@%.*s>", number,
                         (int64_t) clock_now.seconds, STR_ARG(session->server->server_name));
    }
    return session->salt;
}

/* Writes the login with control characters escaped, which could forge log lines. */
static void put_login(struct mail_session *session, struct writer *out)
{
    struct str login = session->login;
    size_t length = escape_length(login, ESCAPE_CONTROLS);

    log_member(out, "login");
    writer_put(out, STR("\""));
    if (length == login.len) {
        writer_put(out, login);
    } else if (length <= (size_t) (out->end - out->at)) {
        out->at = escape_write(out->at, login, ESCAPE_CONTROLS);
    }
    writer_put(out, STR("\""));
}

static void mail_client_describe(const struct log *log, struct writer *out)
{
    struct mail_session *session = log->subject;
    struct str client = mail_client_text(session);

    log_member(out, "client");
    writer_put(out, client);
    writer_put(out, session->is_starttls ? STR(" using starttls") : STR(""));
    log_member(out, "server");
    writer_put(out, session->listen->address.listener->text);
    if (session->login.len != 0) {
        put_login(session, out);
        if (session->upstream.len != 0) {
            log_member(out, "upstream");
            writer_put(out, session->upstream);
        }
    }
}

void mail_session_log_init(struct mail_session *session)
{
    session->log = (struct log){.sinks = session->server->error_log,
                                .level = session->server->error_log_level,
                                .connection = conn_number(session->conn),
                                .describe = mail_client_describe,
                                .subject = session};
}
