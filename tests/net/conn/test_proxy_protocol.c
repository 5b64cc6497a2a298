/* Tests of PROXY protocol headers, both versions. */
#include "base/unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "net/conn/proxy_protocol.h"

/* A copy of its own, so that a byte read too far is seen by the address sanitizer. */
static enum proxy_header_result parse(struct str input, struct proxy_header **out, size_t *used)
{
    char *copy = malloc(input.len == 0 ? 1 : input.len);

    assert_non_null(copy);
    if (input.len != 0) {
        memcpy(copy, input.data, input.len);
    }
    enum proxy_header_result result = proxy_header_parse((struct str){copy, input.len}, out, used);
    free(copy);
    return result;
}

static struct proxy_header *parse_good(struct str input)
{
    struct proxy_header *header = NULL;
    size_t used = 0;

    assert_int_equal(parse(input, &header, &used), PROXY_HEADER_DONE);
    assert_int_equal(used, input.len);
    /* Each part of it is a beginning, never an error. */
    for (size_t len = 0; len < input.len; len++) {
        struct proxy_header *none = NULL;
        assert_int_equal(parse(str_head(input, len), &none, &used), PROXY_HEADER_MORE);
    }
    return header;
}

static void assert_bad(struct str input)
{
    struct proxy_header *header = NULL;
    size_t used;

    if (parse(input, &header, &used) != PROXY_HEADER_BAD) {
        fail_msg("taken: \"%.*s\"", STR_ARG(input));
    }
}

static void assert_addr(const struct addr *addr, const char *expected)
{
    char text[ADDR_TEXT_MAX];

    assert_str(str_from(text, text + addr_format(addr, true, text)), str_of(expected));
}

static void version_1_with_ip4(void **state)
{
    struct proxy_header *header = parse_good(STR("PROXY TCP4 10.1.2.3 10.0.0.1 1024 443\r\n"));

    assert_addr(&header->source, "10.1.2.3:1024");
    assert_addr(&header->destination, "10.0.0.1:443");
    free(header);
}

static void version_1_with_ip6(void **state)
{
    struct proxy_header *header = parse_good(STR("PROXY TCP6 2001:db8::1 ::1 65535 0\r\n"));

    assert_addr(&header->source, "[2001:db8::1]:65535");
    assert_addr(&header->destination, "[::1]:0");
    free(header);
}

static void version_1_unknown_has_no_addresses(void **state)
{
    struct proxy_header *header = parse_good(STR("PROXY UNKNOWN\r\n"));
    assert_int_equal(header->source.len, 0);
    free(header);
    header = parse_good(STR("PROXY UNKNOWN whatever stands here\r\n"));
    assert_int_equal(header->source.len, 0);
    free(header);
}

static void what_follows_a_header_is_left_alone(void **state)
{
    struct proxy_header *header;
    size_t used;
    struct str input = STR("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1\r\n");

    assert_int_equal(parse(input, &header, &used), PROXY_HEADER_DONE);
    assert_int_equal(used, sizeof("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n") - 1);
    free(header);
}

static void bad_lines_of_version_1(void **state)
{
    static const struct str lines[] = {
        STR_INIT("GET / HTTP/1.1\r\n"),
        STR_INIT("PROXY\r\n"),
        STR_INIT("PROXY \r\n"),
        STR_INIT("proxy TCP4 1.2.3.4 5.6.7.8 1 2\r\n"),
        STR_INIT("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n"),
        STR_INIT("PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n"),
        STR_INIT("PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n"),
        STR_INIT("PROXY TCP4  1.2.3.4 5.6.7.8 1 2\r\n"),
        STR_INIT("PROXY TCP4 1.2.3.4 5.6.7.8 1 2 \r\n"),
        STR_INIT("PROXY TCP5 1.2.3.4 5.6.7.8 1 2\r\n"),
        STR_INIT("PROXY UNKNOWNX\r\n"),
        STR_INIT("PROXY TCP4 1.2.3 5.6.7.8 1 2\r\n"),
        STR_INIT("PROXY TCP4 1.2.3.4 ::1 1 2\r\n"),
        STR_INIT("PROXY TCP6 1.2.3.4 5.6.7.8 1 2\r\n"),
        STR_INIT("PROXY TCP6 [::1] [::1] 1 2\r\n"),
        STR_INIT("PROXY TCP4 1.2.3.4 5.6.7.8 65536 2\r\n"),
        STR_INIT("PROXY TCP4 1.2.3.4 5.6.7.8 01 2\r\n"),
        STR_INIT("PROXY TCP4 1.2.3.4 5.6.7.8 -1 2\r\n"),
        STR_INIT("PROXY TCP4 1.2.3.4 5.6.7.8 +1 2\r\n"),
        STR_INIT("PROXY TCP4 1.2.3.4 5.6.7.8 1 x\r\n"),
        STR_INIT("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\0\r\n"),
    };

    for (size_t i = 0; i < COUNT(lines); i++) {
        assert_bad(lines[i]);
    }
}

static void a_line_of_version_1_has_at_most_107_bytes(void **state)
{
    char text[200];
    struct proxy_header *header = NULL;
    size_t used;

    memset(text, 'x', sizeof(text));
    memcpy(text, "PROXY UNKNOWN ", 14);
    assert_int_equal(parse((struct str){text, 106}, &header, &used), PROXY_HEADER_MORE);
    assert_bad((struct str){text, 107});
    memcpy(text + 105, "\r\n", 2);
    free(parse_good((struct str){text, 107}));
}

/* ---- version 2 ---- */

static struct buf packet;

static void begin(unsigned char command, unsigned char family)
{
    packet.len = 0;
    buf_append(&packet, STR("\r\n\r\n\0\r\nQUIT\n"));
    buf_append_char(&packet, (char) command);
    buf_append_char(&packet, (char) family);
    buf_append(&packet, STR("\0\0"));
}

static void add_tlv(unsigned char type, struct str value)
{
    buf_append_char(&packet, (char) type);
    buf_append_char(&packet, (char) (value.len >> 8));
    buf_append_char(&packet, (char) value.len);
    buf_append(&packet, value);
}

static struct str end(void)
{
    size_t size = packet.len - 16;

    packet.data[14] = (char) (size >> 8);
    packet.data[15] = (char) size;
    return buf_str(&packet);
}

#define IP4_BLOCK STR("\x0a\x01\x02\x03\x0a\0\0\x01\x04\0\x01\xbb")

static void version_2_with_ip4(void **state)
{
    begin(0x21, 0x11);
    buf_append(&packet, IP4_BLOCK);
    struct proxy_header *header = parse_good(end());

    assert_addr(&header->source, "10.1.2.3:1024");
    assert_addr(&header->destination, "10.0.0.1:443");
    assert_int_equal(header->tlvs.len, 0);
    free(header);
}

static void version_2_with_ip6(void **state)
{
    begin(0x21, 0x21);
    buf_append(&packet, STR("\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01"));
    buf_append(&packet, STR("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01"));
    buf_append(&packet, STR("\0\x50\x1f\x90"));
    struct proxy_header *header = parse_good(end());

    assert_addr(&header->source, "[2001:db8::1]:80");
    assert_addr(&header->destination, "[::1]:8080");
    free(header);
}

static void version_2_with_unix_paths(void **state)
{
    char paths[216];

    memset(paths, 'p', sizeof(paths)); /* the first fills its room and has no end */
    memcpy(paths + 108, "/run/x\0", 7);
    begin(0x21, 0x31);
    buf_append(&packet, (struct str){paths, sizeof(paths)});
    struct proxy_header *header = parse_good(end());

    assert_int_equal(header->source.any.sa_family, AF_UNIX);
    assert_addr(&header->destination, "unix:/run/x");
    free(header);
}

static void version_2_local_and_unspecified_have_no_addresses(void **state)
{
    begin(0x20, 0x00);
    struct proxy_header *header = parse_good(end());
    assert_int_equal(header->source.len, 0);
    free(header);
    begin(0x20, 0x11);
    buf_append(&packet, STR("any bytes at all"));
    header = parse_good(end());
    assert_int_equal(header->source.len, 0);
    assert_int_equal(header->tlvs.len, 0);
    free(header);
    begin(0x21, 0x00);
    add_tlv(0x01, STR("h2"));
    header = parse_good(end());
    assert_int_equal(header->source.len, 0);
    free(header);
}

static void version_2_of_unknown_families_has_no_addresses(void **state)
{
    static const unsigned char families[] = {0x41, 0xf1};

    for (size_t i = 0; i < COUNT(families); i++) {
        begin(0x21, families[i]);
        buf_append(&packet, STR("\1\2\3\4"));
        struct proxy_header *header = parse_good(end());
        assert_int_equal(header->source.len, 0);
        assert_int_equal(header->tlvs.len, 0);
        free(header);
    }
}

static void values_are_found_by_name_and_number(void **state)
{
    struct str value;

    begin(0x21, 0x11);
    buf_append(&packet, IP4_BLOCK);
    add_tlv(0x01, STR("h2"));
    add_tlv(0x02, STR("name.example"));
    add_tlv(0x20, STR("\x07\0\0\x01\x02\x21\0\x07TLSv1.3\x22\0\x02me"));
    add_tlv(0xea, STR(""));
    add_tlv(0xeb, STR("vpce"));
    struct proxy_header *header = parse_good(end());

    static const struct str known[][2] = {
        {STR_INIT("alpn"), STR_INIT("h2")},
        {STR_INIT("0x01"), STR_INIT("h2")},
        {STR_INIT("authority"), STR_INIT("name.example")},
        {STR_INIT("ssl_version"), STR_INIT("TLSv1.3")},
        {STR_INIT("ssl_cn"), STR_INIT("me")},
        {STR_INIT("ssl_0x21"), STR_INIT("TLSv1.3")},
        {STR_INIT("ssl_verify"), STR_INIT("258")},
        {STR_INIT("0xEB"), STR_INIT("vpce")},
        {STR_INIT("0xea"), STR_INIT("")},
    };
    for (size_t i = 0; i < COUNT(known); i++) {
        assert_true(proxy_header_tlv(header, known[i][0], &value));
        assert_str(value, known[i][1]);
    }
    static const struct str absent[] = {
        STR_INIT("unique_id"), STR_INIT("netns"), STR_INIT("ssl_cipher"),
        STR_INIT("nothing"),   STR_INIT("0x"),    STR_INIT("0x100"),
        STR_INIT(""),          STR_INIT("ssl_"),  STR_INIT("0x21"),
    };
    for (size_t i = 0; i < COUNT(absent); i++) {
        assert_false(proxy_header_tlv(header, absent[i], &value));
    }
    free(header);
}

static void the_checksum_is_checked(void **state)
{
    /* Of an example that was computed apart: CRC-32C of the header with zeros in place of the sum.
     */
    begin(0x21, 0x11);
    buf_append(&packet, IP4_BLOCK);
    add_tlv(0x03, STR("\0\0\0\0"));
    end();
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < packet.len; i++) {
        crc ^= (unsigned char) packet.data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
        }
    }
    crc ^= UINT32_MAX;
    for (int i = 0; i < 4; i++) {
        packet.data[packet.len - 4 + i] = (char) (crc >> (24 - 8 * i));
    }
    free(parse_good(end()));
    packet.data[packet.len - 1] ^= 1;
    assert_bad(end());
    begin(0x21, 0x11);
    buf_append(&packet, IP4_BLOCK);
    add_tlv(0x03, STR("abc"));
    assert_bad(end());
}

static void bad_headers_of_version_2(void **state)
{
    static const unsigned char heads[][2] = {
        {0x11, 0x11}, {0x31, 0x11}, {0x22, 0x11}, {0x2f, 0x11}, {0x21, 0x13},
    };

    for (size_t i = 0; i < COUNT(heads); i++) {
        begin(heads[i][0], heads[i][1]);
        buf_append(&packet, IP4_BLOCK);
        assert_bad(end());
    }
    begin(0x21, 0x11); /* too short for its family */
    buf_append(&packet, str_head(IP4_BLOCK, 11));
    assert_bad(end());
    begin(0x21, 0x21);
    buf_append(&packet, IP4_BLOCK);
    assert_bad(end());
    begin(0x21, 0x11); /* a TLV that goes beyond the end, and a piece of one */
    buf_append(&packet, IP4_BLOCK);
    buf_append(&packet, STR("\x01\0\x05"
                            "four"));
    assert_bad(end());
    begin(0x21, 0x11);
    buf_append(&packet, IP4_BLOCK);
    buf_append(&packet, STR("\x01\0"));
    assert_bad(end());
    begin(0x21, 0x11); /* longer than is taken */
    buf_append(&packet, IP4_BLOCK);
    end();
    packet.data[14] = (char) 0xff;
    assert_bad(buf_str(&packet));
}

/* What is written for these ends in both versions, read again. */
static void assert_written(const char *source, const char *destination, const char *line,
                           const char *seen[2])
{
    char text[PROXY_HEADER_V1_MAX + PROXY_HEADER_V2_MAX];
    struct addr ends[2];

    assert_true(addr_parse_ip(str_of(source), &ends[0]));
    assert_true(addr_parse_ip(str_of(destination), &ends[1]));
    addr_set_port(&ends[0], 11);
    addr_set_port(&ends[1], 22);
    size_t size = proxy_header_write(&ends[0], &ends[1], text);
    assert_str(str_head(str_of(text), size), str_of(line));
    size = proxy_header_write_v2(&ends[0], &ends[1], text);
    struct proxy_header *header = parse_good((struct str){text, size});
    assert_addr(&header->source, seen[0]);
    assert_addr(&header->destination, seen[1]);
    free(header);
}

static void ends_of_different_families_are_both_written_as_ip6(void **state)
{
    assert_written("1.2.3.4", "5.6.7.8", "PROXY TCP4 1.2.3.4 5.6.7.8 11 22\r\n",
                   (const char *[]){"1.2.3.4:11", "5.6.7.8:22"});
    assert_written("2001:db8::1", "5.6.7.8", "PROXY TCP6 2001:db8::1 ::ffff:5.6.7.8 11 22\r\n",
                   (const char *[]){"[2001:db8::1]:11", "[::ffff:5.6.7.8]:22"});
    assert_written("1.2.3.4", "2001:db8::2", "PROXY TCP6 ::ffff:1.2.3.4 2001:db8::2 11 22\r\n",
                   (const char *[]){"[::ffff:1.2.3.4]:11", "[2001:db8::2]:22"});
}

static int free_packet(void **state)
{
    buf_free(&packet);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_1_with_ip4),
        cmocka_unit_test(version_1_with_ip6),
        cmocka_unit_test(version_1_unknown_has_no_addresses),
        cmocka_unit_test(what_follows_a_header_is_left_alone),
        cmocka_unit_test(bad_lines_of_version_1),
        cmocka_unit_test(a_line_of_version_1_has_at_most_107_bytes),
        cmocka_unit_test(version_2_with_ip4),
        cmocka_unit_test(version_2_with_ip6),
        cmocka_unit_test(version_2_with_unix_paths),
        cmocka_unit_test(version_2_local_and_unspecified_have_no_addresses),
        cmocka_unit_test(version_2_of_unknown_families_has_no_addresses),
        cmocka_unit_test(values_are_found_by_name_and_number),
        cmocka_unit_test(the_checksum_is_checked),
        cmocka_unit_test(bad_headers_of_version_2),
        cmocka_unit_test(ends_of_different_families_are_both_written_as_ip6),
    };

    return cmocka_run_group_tests(tests, NULL, free_packet);
}
