/* Which ids of QUIC and DTLS are read, of backends and of clients. */
#include "base/unit.h"

#include "net/datagram/ids.h"

static void quic(void **state)
{
    const struct str answer = STR("\xc0\0\0\0\1\4abcd\10serverid rest");
    const struct str none = STR("\xc0\0\0\0\1\10clientid\0 rest");
    const struct str versions = STR("\x80\0\0\0\0\4abcd\10serverid");
    const struct str first = STR("\xc0\0\0\0\1\10serverid\4abcd");
    const struct str later = STR("\x40serverid rest");
    bool is_open;

    assert_text(datagram_id_given(DATAGRAM_IDS_QUIC, answer), "serverid");
    assert_int_equal(datagram_id_given(DATAGRAM_IDS_QUIC, none).len, 0);
    assert_int_equal(datagram_id_given(DATAGRAM_IDS_QUIC, versions).len, 0);
    assert_int_equal(datagram_id_given(DATAGRAM_IDS_QUIC, later).len, 0);
    assert_int_equal(datagram_id_given(DATAGRAM_IDS_QUIC, str_head(answer, 18)).len, 0);
    assert_int_equal(datagram_id_given(DATAGRAM_IDS_NONE, answer).len, 0);

    assert_text(datagram_id_borne(DATAGRAM_IDS_QUIC, first, &is_open), "serverid");
    assert_false(is_open);
    assert_text(datagram_id_borne(DATAGRAM_IDS_QUIC, later, &is_open), "serverid rest");
    assert_true(is_open);
    assert_int_equal(datagram_id_borne(DATAGRAM_IDS_QUIC,
                                       STR("\x40"
                                           "abc"),
                                       &is_open)
                         .len,
                     0);
    assert_int_equal(datagram_id_borne(DATAGRAM_IDS_QUIC, STR_NONE, &is_open).len, 0);
    assert_int_equal(datagram_id_borne(DATAGRAM_IDS_NONE, later, &is_open).len, 0);
}

/* Ids that are guessed too soon, and those that are longer than any. */
static void bounds(void **state)
{
    assert_int_equal(datagram_id_given(DATAGRAM_IDS_QUIC, STR("\xc0\0\0\0\1\0\3abc")).len, 0);
    assert_int_equal(datagram_id_given(DATAGRAM_IDS_QUIC, STR("\xc0\0\0\0\1\0\4abcd")).len, 4);
    assert_int_equal(datagram_id_given(DATAGRAM_IDS_QUIC, STR("\xc0\0\0\0\1\0\x20"
                                                              "0123456789abcdef0123456789abcdef"))
                         .len,
                     0);
}

/* type, version, epoch, number, length; the message's type, length, number, offset, length */
#define RECORD "\x16\xfe\xfd\0\0\0\0\0\0\0\1\0\x41"
#define MESSAGE "\2\0\0\x35\0\0\0\0\0\0\0\x35"
/* version, random, session, cipher, compression, extensions: one of another kind, then the id */
#define HELLO                                                                                      \
    "\xfe\xfd"                                                                                     \
    "0123456789abcdef0123456789abcdef"                                                             \
    "\0\xc0\x2b\0\0\x0d\xff\1\0\0\0\x36\0\5\4wxyz"

static void dtls(void **state)
{
    const struct str hello = STR(RECORD MESSAGE HELLO);
    const struct str behind = STR("\x16\xfe\xfd\0\0\0\0\0\0\0\0\0\1x" RECORD MESSAGE HELLO);
    const struct str part = STR(RECORD "\2\0\0\x40\0\0\0\0\0\0\0\x35" HELLO);
    const struct str later = STR("\x19\xfe\xfd\0\1\0\0\0\0\0\1wxyz\0\1!");
    const struct str plain = STR("\x17\xfe\xfd\0\1\0\0\0\0\0\1\0\1!");
    const struct str unified = STR("\x3fwxyz rest");
    const struct str without = STR("\x2fwxyz rest");
    bool is_open;

    assert_text(datagram_id_given(DATAGRAM_IDS_DTLS, hello), "wxyz");
    assert_text(datagram_id_given(DATAGRAM_IDS_DTLS, behind), "wxyz");
    assert_int_equal(datagram_id_given(DATAGRAM_IDS_DTLS, part).len, 0);
    for (size_t len = 0; len < hello.len; len++) {
        assert_int_equal(datagram_id_given(DATAGRAM_IDS_DTLS, str_head(hello, len)).len, 0);
    }
    assert_text(datagram_id_borne(DATAGRAM_IDS_DTLS, unified, &is_open), "wxyz rest");
    struct str borne = datagram_id_borne(DATAGRAM_IDS_DTLS, later, &is_open);
    assert_true(is_open);
    assert_text(str_head(borne, 4), "wxyz");
    assert_int_equal(datagram_id_borne(DATAGRAM_IDS_DTLS, plain, &is_open).len, 0);
    assert_int_equal(datagram_id_borne(DATAGRAM_IDS_DTLS, without, &is_open).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quic),
        cmocka_unit_test(bounds),
        cmocka_unit_test(dtls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
