/* What is said in mail: commands, logins, answers of an authentication server. */
#include "mail/words/auth_response.h"
#include "mail/words/commands.h"
#include "mail/words/sasl.h"
#include "base/unit.h"

/* ---- lines ---- */

static void words_of_smtp(void **state)
{
    struct mail_command command;

    assert_true(smtp_command_read(STR("MAIL  FROM:<a@b> SIZE=3 "), &command));
    assert_text(command.name, "MAIL");
    assert_int_equal(command.count, 2);
    assert_text(command.args[0], "FROM:<a@b>");
    assert_text(command.args[1], "SIZE=3");
    assert_true(smtp_command_read(STR("NOOP 1 2 3 4 5 6 7 8 9 10 11"), &command));
    assert_false(smtp_command_read(STR("NOOP 1 2 3 4 5 6 7 8 9 10 11 12"), &command));
    assert_false(smtp_command_read(STR(""), &command));
    assert_false(smtp_command_read(STR(" NOOP"), &command));
    assert_false(smtp_command_read(STR("NOOP\r"), &command));
    assert_false(smtp_command_read(STR("NOOP\0x"), &command));
}

static void passwords_have_blanks(void **state)
{
    struct mail_command command;

    assert_true(pop3_command_read(STR("pass  my secret "), &command));
    assert_int_equal(command.count, 1);
    assert_text(command.args[0], "my secret ");
    assert_true(pop3_command_read(STR("USER"), &command));
    assert_int_equal(command.count, 0);
    assert_false(pop3_command_read(STR("NOOP a b c d"), &command));
}

/* ---- IMAP ---- */

static void a_command_ends_with_a_line_without_literal(void **state)
{
    struct str text = STR("a LOGIN {3}\r\nx\ny {2}\r\nde\r\nb NOOP\r\n");
    struct imap_seen seen = {0};

    assert_int_equal(imap_command_extent(str_head(text, 5), &seen), IMAP_MORE);
    assert_int_equal(imap_command_extent(str_head(text, 13), &seen), IMAP_LITERAL);
    assert_int_equal(imap_command_extent(str_head(text, 15), &seen), IMAP_MORE);
    assert_int_equal(imap_command_extent(text, &seen), IMAP_LITERAL);
    assert_int_equal(imap_command_extent(text, &seen), IMAP_WHOLE);
    assert_text(str_skip(text, seen.size), "b NOOP\r\n");
}

static void a_literal_with_a_plus_is_not_waited_for(void **state)
{
    struct str text = STR("a LOGIN {3+}\r\nx\ny {2+}\r\nde\r\nb NOOP\r\n");
    struct imap_seen seen = {0};

    for (size_t n = 0; n < text.len - 8; n++) {
        assert_int_equal(imap_command_extent(str_head(text, n), &seen), IMAP_MORE);
    }
    assert_int_equal(imap_command_extent(text, &seen), IMAP_WHOLE);
    assert_text(str_skip(text, seen.size), "b NOOP\r\n");
    seen = (struct imap_seen){0};
    assert_int_equal(imap_command_extent(STR("a ID ({4+}\r\nb X\n) {1}\r\n"), &seen), IMAP_LITERAL);
    seen = (struct imap_seen){0};
    assert_int_equal(imap_command_extent(STR("a LOGIN {9999999999+}\r\n"), &seen), IMAP_ENDLESS);
    seen = (struct imap_seen){0};
    assert_int_equal(imap_command_extent(STR("a x{99999999999999999999+}\r\n"), &seen),
                     IMAP_ENDLESS);
}

static void what_looks_like_a_literal_is_none(void **state)
{
    static const struct str lines[] = {
        STR_INIT("a LOGIN a{3}\r\n"),
        STR_INIT("a LOGIN {3}x\r\n"),
        STR_INIT("a LOGIN {}\r\n"),
        STR_INIT("a LOGIN {+}\r\n"),
        STR_INIT("a LOGIN {3+}x\r\n"),
        STR_INIT("a LOGIN {3+ }\r\n"),
        STR_INIT("a LOGIN {99999999999999999999}\r\n"),
    };

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct imap_seen seen = {0};

        assert_int_equal(imap_command_extent(lines[i], &seen), IMAP_WHOLE);
        assert_int_equal(seen.size, lines[i].len);
    }
}

static void words_of_imap(void **state)
{
    struct mail_command command;
    struct arena arena;

    arena_init(&arena);
    assert_true(
        imap_command_read(STR("a1 login \"q\\\"\\\\x\" {4}\r\n\r\nde\r\n"), &arena, &command));
    assert_text(command.tag, "a1");
    assert_true(mail_command_is(&command, "LOGIN"));
    assert_text(command.args[0], "q\"\\x");
    assert_text(command.args[1], "\r\nde");
    assert_true(imap_command_read(STR("a1 login {1+}\r\n\n {2}\r\nde\r\n"), &arena, &command));
    assert_text(command.args[0], "\n");
    assert_text(command.args[1], "de");
    assert_false(imap_command_read(STR("a LOGIN \"x\"y z\r\n"), &arena, &command));
    assert_text(command.tag, "a");
    assert_false(imap_command_read(STR("a LOGIN \"x\r\n"), &arena, &command));
    assert_false(imap_command_read(STR("a LOGIN {9}\r\nabc\r\n"), &arena, &command));
    assert_false(imap_command_read(STR("a A 1 2 3 4\r\n"), &arena, &command));
    assert_false(imap_command_read(STR("* NOOP\r\n"), &arena, &command));
    assert_false(imap_command_read(STR("\r\n"), &arena, &command));
    assert_text(command.tag, "*");
    arena_free(&arena);
}

/* ---- logins ---- */

static void plain_has_three_parts(void **state)
{
    struct str login, password;

    assert_null(sasl_plain_read((struct str){"z\0tom\0pw", 8}, &login, &password));
    assert_text(login, "tom");
    assert_text(password, "pw");
    assert_null(sasl_plain_read((struct str){"\0tom\0", 5}, &login, &password));
    assert_int_equal(password.len, 0);
    assert_string_equal(sasl_plain_read(STR("tom"), &login, &password), "invalid login");
    assert_string_equal(sasl_plain_read((struct str){"\0tom", 4}, &login, &password),
                        "invalid password");
}

static void a_digest_is_the_last_word(void **state)
{
    struct str login, digest;

    assert_null(sasl_cram_md5_read(STR("t o m 0123456789abcdef0123456789abcdef"), &login, &digest));
    assert_text(login, "t o m");
    assert_non_null(sasl_cram_md5_read(STR("tom 0123"), &login, &digest));
    assert_non_null(sasl_cram_md5_read(STR("tom"), &login, &digest));
}

static void values_of_xclient_are_xtext(void **state)
{
    struct arena arena;

    arena_init(&arena);
    assert_text(xtext_encode(&arena, STR("tom@example")), "tom@example");
    assert_text(xtext_encode(&arena, STR("a+b=c\r\nd \x7f\xff")), "a+2Bb+3Dc+0D+0Ad+20+7F+FF");
    arena_free(&arena);
}

/* ---- answers ---- */

static void fields_of_an_answer(void **state)
{
    struct auth_response response;
    size_t seen = 0;
    struct str text =
        STR("HTTP/1.1 200 OK\r\nauth-status: x\r\nAuth-Status:  OK \r\nAuth-Server: ::1\r\n"
            "Auth-Port: 143\nAuth-Wait: 7\r\nX: y\r\n\r\nAuth-Status: body\r\n\r\n");

    for (size_t size = 0; size < text.len - 22; size++) {
        assert_int_equal(auth_response_read(str_head(text, size), &seen, &response), AUTH_MORE);
    }
    assert_int_equal(auth_response_read(text, &seen, &response), AUTH_DONE);
    assert_true(response.is_ok);
    assert_text(response.server, "::1");
    assert_text(response.port, "143");
    assert_int_equal(response.wait_s, 7);
    assert_null(response.user.data);
}

static void answers_that_are_none(void **state)
{
    static const struct str texts[] = {
        STR_INIT("what\r\n\r\n"),
        STR_INIT("HTTP/1.0 200 OK\r\nno colon\r\n\r\n"),
        STR_INIT("HTTP/1.0 200 OK\r\na b: c\r\n\r\n"),
        STR_INIT("HTTP/1.0 200 OK\r\n: c\r\n\r\n"),
        STR_INIT("HTTP/1.0 200 OK\r\na: \0\r\n\r\n"),
        STR_INIT("HTTP/1.0 200 OK\r\nAuth-Status: no\rA1 OK\r\n\r\n"),
        STR_INIT("HTTP/1.0 200 OK\r\nAuth-User: a\r\r\n\r\n"),
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct auth_response response;
        size_t seen = 0;

        assert_int_equal(auth_response_read(texts[i], &seen, &response), AUTH_BAD);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_smtp),
        cmocka_unit_test(passwords_have_blanks),
        cmocka_unit_test(a_command_ends_with_a_line_without_literal),
        cmocka_unit_test(a_literal_with_a_plus_is_not_waited_for),
        cmocka_unit_test(what_looks_like_a_literal_is_none),
        cmocka_unit_test(words_of_imap),
        cmocka_unit_test(plain_has_three_parts),
        cmocka_unit_test(a_digest_is_the_last_word),
        cmocka_unit_test(values_of_xclient_are_xtext),
        cmocka_unit_test(fields_of_an_answer),
        cmocka_unit_test(answers_that_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
