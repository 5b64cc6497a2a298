/* ngx_mail_smtp_module: SMTP. */
#include "mail/modules/smtp/smtp.h"
#include "mail/words/sasl.h"
#include "server/module.h"

/* clang-format off */
static const struct directive_word auth_words[] = {
    {"plain", MAIL_PLAIN},
    {"login", MAIL_LOGIN},
    {"cram-md5", MAIL_CRAM_MD5},
    {"external", MAIL_EXTERNAL},
    {"none", MAIL_NONE},
    {NULL, 0},
};
/* clang-format on */

#define S struct smtp_settings
static const struct directive rows[] = {
    {"smtp_client_buffer", IN_MAIL_ALL, SIZE(S, client_buffer), .initial = "4k", .min = 64,
     .max = 1 << 20, .doc = "Largest size of a command."},
    {"smtp_greeting_delay", IN_MAIL_ALL, MSEC(S, greeting_delay_ms), .initial = "0",
     .doc = "Delay before the greeting. A client that sends data during the delay is rejected."},
    {"smtp_auth", IN_MAIL_ALL, BITS(S, auth, auth_words), .initial = "plain login",
     .repeat = REPEAT_APPEND,
     .doc = "Authentication methods for SMTP clients. With `none`, clients may send MAIL and "
            "RCPT without authentication."},
    {"smtp_capabilities", IN_MAIL_ALL, STRINGS(S, listed), .repeat = REPEAT_APPEND,
     .doc = "Extensions listed in the response to EHLO. AUTH and STARTTLS are added "
            "automatically."},
    {0},
};
#undef S

/* The reply "250-a", "250 b" for these lines. */
static struct str mail_smtp_answer(struct arena *arena, const struct vec *lines)
{
    struct str text = STR("");

    for (size_t i = 0; i < lines->count; i++) {
        struct str line = *vec_at(lines, struct str, i);

        text = arena_printf(arena, "%.*s250%c%.*s\r\n", STR_ARG(text),
                            i + 1 == lines->count ? ' ' : '-', STR_ARG(line));
    }
    return text;
}

static bool mail_smtp_finish(struct conf_scope *scope, void *arg)
{
    struct smtp_settings *settings = arg;
    struct arena *arena = scope->conf->arena;
    const struct mail_server *server = conf_settings(scope, &mail_server_key);
    struct str auth = STR("AUTH");
    struct vec lines = {0};

    *vec_add(&lines, arena, struct str) = server->server_name;
    for (size_t i = 0; i < settings->listed.count; i++) {
        *vec_add(&lines, arena, struct str) = *vec_at(&settings->listed, struct str, i);
    }
    struct vec bare = vec_copy(&lines, arena, sizeof(struct str));
    for (const struct sasl_name *known = sasl_names; known->method != 0; known++) {
        if (settings->auth & known->method) {
            auth = arena_printf(arena, "%.*s %.*s", STR_ARG(auth), STR_ARG(known->name));
        }
    }
    if (auth.len > sizeof("AUTH")) {
        *vec_add(&lines, arena, struct str) = auth;
    }
    settings->capabilities = mail_smtp_answer(arena, &lines);
    *vec_add(&lines, arena, struct str) = STR("STARTTLS");
    *vec_add(&bare, arena, struct str) = STR("STARTTLS");
    settings->starttls_capabilities = mail_smtp_answer(arena, &lines);
    settings->starttls_only_capabilities = mail_smtp_answer(arena, &bare);
    return true;
}

struct settings_key smtp_key;

static const struct mail_module hooks = {.protocol = &smtp_protocol};

const struct module ngx_mail_smtp_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_mail_smtp_module",
    .kind = MODULE_MAIL,
    .table = {.key = &smtp_key,
              .rows = rows,
              .contexts = IN_MAIL_ALL,
              .size = sizeof(struct smtp_settings),
              .finish = mail_smtp_finish},
    .hooks = &hooks,
};
