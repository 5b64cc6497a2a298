/* DNS messages: names, questions, answers of all kinds, and malformed ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "net/resolver/dns_message.h"

#define ID 0x1234

static struct arena arena;
static struct message message;
static struct dns_answer answer;

static struct dns_name name_of(const char *text)
{
    struct dns_name name;

    assert_true(dns_name_parse(str_of(text), &name));
    return name;
}

/* An answer to the question for this name begins. */
static void reply_to(const char *name, unsigned type)
{
    message.size = 0;
    put_header(&message, ID, REPLY, 1, 0, 0);
    put_question(&message, name, type);
}

/* Reads what was written, from memory that ends with it. */
static enum dns_verdict verdict_for(const char *name, unsigned type)
{
    struct dns_name asked = name_of(name);
    char *copy = malloc(message.size == 0 ? 1 : message.size);

    memcpy(copy, message.bytes, message.size);
    const struct dns_question question = {&asked, (uint16_t) type, ID};
    enum dns_verdict verdict =
        dns_answer_read((struct str){copy, message.size}, &question, &arena, &answer);
    free(copy);
    return verdict;
}

static const struct dns_record *record_at(unsigned index)
{
    assert_true(index < answer.records.count);
    return vec_at(&answer.records, struct dns_record, index);
}

static void assert_address(unsigned index, const char *text)
{
    unsigned char bytes[16];
    bool is_v6 = strchr(text, ':') != NULL;

    inet_pton(is_v6 ? AF_INET6 : AF_INET, text, bytes);
    assert_int_equal(record_at(index)->type, is_v6 ? DNS_AAAA : DNS_A);
    assert_memory_equal(record_at(index)->address, bytes, is_v6 ? 16 : 4);
}

static void assert_text(struct str got, const char *wanted)
{
    assert_int_equal(got.len, strlen(wanted));
    assert_memory_equal(got.data, wanted, got.len);
}

/* ---- names ---- */

static void names_from_text(void **state)
{
    static const char wire[] = "\3www\7example\3com";
    struct dns_name name = name_of("WWW.Example.com");
    struct dns_name dotted = name_of("www.example.COM.");
    struct str text;

    assert_int_equal(name.len, sizeof(wire));
    assert_memory_equal(name.wire, wire, sizeof(wire));
    assert_true(dns_name_equal(&name, &dotted));
    assert_true(dns_name_format(&name, &arena, &text));
    assert_text(text, "www.example.com");

    name = name_of("localhost");
    assert_int_equal(name.len, 11);
    name = name_of("_http._tcp.a-b.x");
    assert_true(dns_name_format(&name, &arena, &text));
    assert_text(text, "_http._tcp.a-b.x");
}

static void names_that_are_none(void **state)
{
    static const char *const wrong[] = {"",    ".",    "..",    "a..b", ".a",
                                        "a b", "a\tb", "a\x7f", "a.b.."};
    struct dns_name name;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(dns_name_parse(str_of(wrong[i]), &name));
    }
    assert_false(dns_name_parse((struct str){"a\0b", 3}, &name));
}

static void lengths_of_names(void **state)
{
    char text[300];
    struct dns_name name;
    struct str formatted;

    memset(text, 'a', sizeof(text));
    assert_true(dns_name_parse((struct str){text, 63}, &name));
    assert_false(dns_name_parse((struct str){text, 64}, &name));

    /* 63 + 63 + 63 + 61 and their dots are 253: 255 in a message. */
    text[63] = text[127] = text[191] = '.';
    assert_true(dns_name_parse((struct str){text, 253}, &name));
    assert_int_equal(name.len, 255);
    assert_true(dns_name_format(&name, &arena, &formatted));
    assert_int_equal(formatted.len, 253);
    assert_false(dns_name_parse((struct str){text, 254}, &name));
    text[253] = '.';
    assert_true(dns_name_parse((struct str){text, 254}, &name));
}

static void names_without_a_text(void **state)
{
    static const char *const labels[] = {"\3a.b", "\3a b", "\2a\\", "\1\n"};
    struct str text;

    for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
        struct dns_name name = {.len = (uint8_t) (strlen(labels[i]) + 1)};

        memcpy(name.wire, labels[i], name.len);
        assert_false(dns_name_format(&name, &arena, &text));
    }
    assert_false(dns_name_format(&(struct dns_name){.len = 1}, &arena, &text));
}

/* ---- questions ---- */

static void a_question(void **state)
{
    static const char wanted[] = "\x12\x34\1\0\0\1\0\0\0\0\0\0\3www\1x\0\0\x1c\0\1";
    struct dns_name name = name_of("www.X");
    unsigned char out[DNS_QUERY_MAX];

    assert_int_equal(dns_query_write(&name, DNS_AAAA, ID, out), sizeof(wanted) - 1);
    assert_memory_equal(out, wanted, sizeof(wanted) - 1);
}

/* ---- answers ---- */

static void addresses(void **state)
{
    reply_to("www.example", DNS_A);
    put_address(&message, "", 300, "10.0.0.1");
    put_address(&message, "WWW.EXAMPLE", 200, "10.0.0.2");
    put_address(&message, "", 400, "10.0.0.3");
    assert_int_equal(verdict_for("www.example", DNS_A), DNS_FOUND);
    assert_int_equal(answer.records.count, 3);
    assert_address(0, "10.0.0.1");
    assert_address(1, "10.0.0.2");
    assert_address(2, "10.0.0.3");
    assert_true(answer.has_ttl);
    assert_int_equal(answer.ttl_s, 200);

    reply_to("www.example", DNS_AAAA);
    put_address(&message, "", 300, "2001:db8::1");
    assert_int_equal(verdict_for("www.example", DNS_AAAA), DNS_FOUND);
    assert_address(0, "2001:db8::1");
}

static void the_case_of_the_question_does_not_matter(void **state)
{
    reply_to("wWw.eXaMpLe", DNS_A);
    put_address(&message, "", 1, "10.0.0.1");
    assert_int_equal(verdict_for("www.example", DNS_A), DNS_FOUND);
}

static void records_of_others_are_left_out(void **state)
{
    reply_to("www.example", DNS_A);
    put_address(&message, "evil.example", 1, "10.6.6.6");
    put_address(&message, "", 300, "2001:db8::1");
    put_address(&message, "", 300, "10.0.0.1");
    message.bytes[message.size - 11] = 3; /* class CHAOS */
    put_address(&message, "", 300, "10.0.0.2");
    assert_int_equal(verdict_for("www.example", DNS_A), DNS_FOUND);
    assert_int_equal(answer.records.count, 1);
    assert_address(0, "10.0.0.2");
    assert_int_equal(answer.ttl_s, 300);
}

static void a_ttl_with_its_highest_bit_is_none(void **state)
{
    reply_to("x", DNS_A);
    put_address(&message, "", 0x80000001u, "10.0.0.1");
    assert_int_equal(verdict_for("x", DNS_A), DNS_FOUND);
    assert_int_equal(answer.ttl_s, 0);
}

static void other_messages(void **state)
{
    reply_to("x", DNS_A);
    put_address(&message, "", 1, "10.0.0.1");
    assert_int_equal(verdict_for("x", DNS_A), DNS_FOUND);
    assert_int_equal(verdict_for("y", DNS_A), DNS_FOREIGN);
    assert_int_equal(verdict_for("x", DNS_AAAA), DNS_FOREIGN);

    message.bytes[1]++; /* id */
    assert_int_equal(verdict_for("x", DNS_A), DNS_FOREIGN);
    message.bytes[1]--;
    message.bytes[2] &= 0x7f; /* a question itself */
    assert_int_equal(verdict_for("x", DNS_A), DNS_FOREIGN);
    message.bytes[2] |= 0x80;
    message.bytes[18] = 4; /* class of the question */
    assert_int_equal(verdict_for("x", DNS_A), DNS_FOREIGN);
    message.bytes[18] = 1;
    message.bytes[5] = 2; /* two questions */
    assert_int_equal(verdict_for("x", DNS_A), DNS_FOREIGN);
    message.bytes[5] = 0;
    assert_int_equal(verdict_for("x", DNS_A), DNS_FOREIGN);
    message.bytes[5] = 1;
    assert_int_equal(verdict_for("x", DNS_A), DNS_FOUND);
    message.bytes[2] |= 0x10; /* opcode */
    assert_int_equal(verdict_for("x", DNS_A), DNS_MALFORMED);

    message.size = 11;
    assert_int_equal(verdict_for("x", DNS_A), DNS_FOREIGN);
    message.size = 0;
    assert_int_equal(verdict_for("x", DNS_A), DNS_FOREIGN);
}

static void refusals(void **state)
{
    static const unsigned rcodes[] = {1, SERVFAIL, 4, REFUSED, 15};

    for (size_t i = 0; i < sizeof(rcodes) / sizeof(rcodes[0]); i++) {
        reply_to("x", DNS_A);
        set_u16(&message, 2, REPLY | rcodes[i]);
        assert_int_equal(verdict_for("x", DNS_A), DNS_REFUSAL);
        assert_int_equal(answer.rcode, rcodes[i]);
    }
    /* A server that did not understand it gives no question back. */
    message.size = 0;
    put_header(&message, ID, REPLY | 1, 0, 0, 0);
    assert_int_equal(verdict_for("x", DNS_A), DNS_REFUSAL);
    message.size = 0;
    put_header(&message, ID, REPLY | NXDOMAIN, 0, 0, 0);
    assert_int_equal(verdict_for("x", DNS_A), DNS_FOREIGN);
    assert_string_equal(dns_rcode_text(SERVFAIL), "Server failure");
    assert_string_equal(dns_rcode_text(15), "Unknown error");
}

static void what_is_not_there(void **state)
{
    reply_to("x", DNS_A);
    assert_int_equal(verdict_for("x", DNS_A), DNS_NO_DATA);
    assert_false(answer.has_ttl);
    put_soa(&message, 60, 5);
    assert_int_equal(verdict_for("x", DNS_A), DNS_NO_DATA);
    assert_true(answer.has_ttl);
    assert_int_equal(answer.ttl_s, 5);

    reply_to("x", DNS_A);
    set_u16(&message, 2, REPLY | NXDOMAIN);
    put_soa(&message, 4, 50);
    assert_int_equal(verdict_for("x", DNS_A), DNS_NO_NAME);
    assert_int_equal(answer.ttl_s, 4);

    /* What is wrong with the SOA spoils nothing. */
    message.size -= 3;
    assert_int_equal(verdict_for("x", DNS_A), DNS_NO_NAME);
    assert_false(answer.has_ttl);

    /* Records of a name that does not exist are none. */
    reply_to("x", DNS_A);
    set_u16(&message, 2, REPLY | NXDOMAIN);
    put_address(&message, "", 1, "10.0.0.1");
    assert_int_equal(verdict_for("x", DNS_A), DNS_NO_NAME);
    assert_int_equal(answer.records.count, 0);
}

static void a_truncated_answer(void **state)
{
    reply_to("x", DNS_A);
    set_u16(&message, 2, REPLY | TRUNCATED);
    put_address(&message, "", 1, "10.0.0.1");
    message.size -= 2;
    assert_int_equal(verdict_for("x", DNS_A), DNS_TRUNCATED);
    assert_int_equal(verdict_for("y", DNS_A), DNS_FOREIGN);
}

/* ---- aliases ---- */

static void a_chain_of_aliases(void **state)
{
    reply_to("a.example", DNS_A);
    put_alias(&message, "a.example", 300, "b.example");
    put_alias(&message, "b.example", 100, "C.example");
    put_address(&message, "c.example", 200, "10.0.0.3");
    put_address(&message, "a.example", 10, "10.6.6.6");
    assert_int_equal(verdict_for("a.example", DNS_A), DNS_FOUND);
    assert_int_equal(answer.records.count, 1);
    assert_address(0, "10.0.0.3");
    assert_int_equal(answer.ttl_s, 100);
}

static void aliases_in_another_order(void **state)
{
    reply_to("a.example", DNS_A);
    put_address(&message, "c.example", 200, "10.0.0.3");
    put_alias(&message, "b.example", 100, "c.example");
    put_alias(&message, "a.example", 300, "b.example");
    assert_int_equal(verdict_for("a.example", DNS_A), DNS_FOUND);
    assert_address(0, "10.0.0.3");
}

static void an_alias_without_its_end(void **state)
{
    struct dns_name end = name_of("b.example");

    reply_to("a.example", DNS_A);
    put_alias(&message, "a.example", 300, "b.example");
    assert_int_equal(verdict_for("a.example", DNS_A), DNS_ALIAS);
    assert_true(dns_name_equal(&answer.name, &end));
    assert_int_equal(answer.ttl_s, 300);
    assert_int_equal(answer.aliases, 1);

    /* With the SOA of a zone it is known that there is nothing more. */
    put_soa(&message, 60, 30);
    assert_int_equal(verdict_for("a.example", DNS_A), DNS_NO_DATA);
    assert_int_equal(answer.ttl_s, 30);

    reply_to("a.example", DNS_A);
    set_u16(&message, 2, REPLY | NXDOMAIN);
    put_alias(&message, "a.example", 300, "b.example");
    assert_int_equal(verdict_for("a.example", DNS_A), DNS_NO_NAME);
}

static void aliases_in_circles(void **state)
{
    reply_to("a.example", DNS_A);
    put_alias(&message, "a.example", 300, "a.example");
    assert_int_equal(verdict_for("a.example", DNS_A), DNS_NO_NAME);

    reply_to("a.example", DNS_A);
    put_alias(&message, "a.example", 300, "b.example");
    put_alias(&message, "b.example", 300, "a.example");
    put_address(&message, "c.example", 200, "10.0.0.3");
    assert_int_equal(verdict_for("a.example", DNS_A), DNS_NO_NAME);
}

/* ---- services ---- */

static void services(void **state)
{
    const char *name = "_http._tcp.example";

    reply_to(name, DNS_SRV);
    put_service(&message, name, 60, 1, 50, 8080, "One.example");
    put_service(&message, name, 50, 2, 0, 8081, "two.example");
    put_service(&message, name, 40, 0, 0, 1, ""); /* RFC 2782: not available here */
    put_service(&message, name, 30, 0, 0, 1, "x y");
    assert_int_equal(verdict_for(name, DNS_SRV), DNS_FOUND);
    assert_int_equal(answer.records.count, 2);
    assert_text(record_at(0)->target, "one.example");
    assert_int_equal(record_at(0)->port, 8080);
    assert_int_equal(record_at(0)->priority, 1);
    assert_int_equal(record_at(0)->weight, 50);
    assert_text(record_at(1)->target, "two.example");
    assert_int_equal(record_at(1)->priority, 2);

    reply_to(name, DNS_SRV);
    put_service(&message, name, 40, 0, 0, 1, "");
    assert_int_equal(verdict_for(name, DNS_SRV), DNS_NO_DATA);
}

/* ---- names of addresses ---- */

static void names_of_addresses(void **state)
{
    const char *name = "1.0.0.127.in-addr.arpa";

    reply_to(name, DNS_PTR);
    put_alias(&message, name, 60, "x.example");
    put_reference(&message, "x.example", DNS_PTR, 50, "Mail.example");
    assert_int_equal(verdict_for(name, DNS_PTR), DNS_FOUND);
    assert_text(record_at(0)->target, "mail.example");

    reply_to(name, DNS_PTR);
    assert_int_equal(verdict_for(name, DNS_PTR), DNS_NO_DATA);

    reply_to(name, DNS_PTR);
    put_reference(&message, name, 39 /* DNAME */, 60, "mail.example");
    assert_int_equal(verdict_for(name, DNS_PTR), DNS_MALFORMED); /* says nothing of the name */
}

/* ---- what makes no sense ---- */

/* Wherever it is cut, nothing is read behind the end and nothing is found. */
static void every_cut(void **state)
{
    const char *name = "_http._tcp.example";

    reply_to(name, DNS_SRV);
    put_alias(&message, name, 60, "x.example");
    put_service(&message, "x.example", 60, 1, 50, 8080, "one.example");
    size_t whole = message.size;

    assert_int_equal(verdict_for(name, DNS_SRV), DNS_FOUND);
    for (size_t size = 0; size < whole; size++) {
        message.size = size;
        enum dns_verdict verdict = verdict_for(name, DNS_SRV);
        assert_true(verdict == DNS_MALFORMED || verdict == DNS_FOREIGN);
    }
}

static void pointers_that_lead_nowhere(void **state)
{
    size_t name_at = 12 + 3 + 4; /* behind the question for "x" */

    /* To itself, ahead, behind the end. */
    static const unsigned offsets[] = {12 + 3 + 4, 12 + 3 + 4 + 2, 12 + 3 + 4 + 16, 0x3fff};

    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        reply_to("x", DNS_A);
        put_address(&message, "", 1, "10.0.0.1");
        assert_int_equal(verdict_for("x", DNS_A), DNS_FOUND);
        set_u16(&message, name_at, 0xc000 | offsets[i]);
        assert_int_equal(verdict_for("x", DNS_A), DNS_MALFORMED);
    }
    /* A circle of two, one half of it in the data of the first record. */
    reply_to("x", DNS_A);
    put_pointer(&message, 12);
    size_t length_at = put_type(&message, 16, 1); /* TXT */
    put_pointer(&message, length_at + 2 + 2);     /* ahead: the next record's owner */
    end_data(&message, length_at);
    count_answer(&message);
    put_pointer(&message, length_at + 2);
    length_at = put_type(&message, DNS_A, 1);
    put_u32(&message, 1);
    end_data(&message, length_at);
    count_answer(&message);
    assert_int_equal(verdict_for("x", DNS_A), DNS_MALFORMED);
    /* The question may not point at all but into the header. */
    message.size = 0;
    put_header(&message, ID, REPLY, 1, 0, 0);
    put_pointer(&message, 12);
    put_u16(&message, DNS_A);
    put_u16(&message, 1);
    assert_int_equal(verdict_for("x", DNS_A), DNS_FOREIGN);
}

static void a_name_that_grows_too_long(void **state)
{
    char label[64];

    memset(label, 'a', 63);
    label[63] = '\0';
    reply_to("x", DNS_A);
    size_t before = 12;
    for (unsigned i = 0; i < 5; i++) {
        /* Each owner is one label more than the one before. */
        size_t at = message.size;
        put_u8(&message, 63);
        memcpy(message.bytes + message.size, label, 63);
        message.size += 63;
        put_pointer(&message, before);
        size_t length_at = put_type(&message, 16, 1);
        end_data(&message, length_at);
        count_answer(&message);
        before = at;
        /* 3 + 3 * 64 = 195, 3 + 4 * 64 = 259 */
        assert_int_equal(verdict_for("x", DNS_A), i < 3 ? DNS_NO_DATA : DNS_MALFORMED);
    }
}

static void odd_data(void **state)
{
    reply_to("x", DNS_A);
    put_address(&message, "", 1, "10.0.0.1");
    put_u8(&message, 0);
    message.bytes[message.size - 6]++; /* five bytes of an address */
    assert_int_equal(verdict_for("x", DNS_A), DNS_MALFORMED);

    reply_to("x", DNS_A);
    put_alias(&message, "x", 1, "y");
    put_u8(&message, 0);
    message.bytes[message.size - 5]++; /* a byte behind the name */
    assert_int_equal(verdict_for("x", DNS_A), DNS_MALFORMED);

    reply_to("x", DNS_A);
    put_u8(&message, 0x41); /* a label of a kind that there is not (RFC 6891, 5) */
    put_u8(&message, 0);
    end_data(&message, put_type(&message, DNS_A, 1));
    count_answer(&message);
    assert_int_equal(verdict_for("x", DNS_A), DNS_MALFORMED);

    /* More records are promised than there are. */
    reply_to("x", DNS_A);
    put_address(&message, "", 1, "10.0.0.1");
    count_answer(&message);
    assert_int_equal(verdict_for("x", DNS_A), DNS_MALFORMED);
}

static void more_records_than_anybody_needs(void **state)
{
    reply_to("x", DNS_A);
    for (unsigned i = 0; i < 4000; i++) {
        char text[32];

        snprintf(text, sizeof(text), "10.0.%u.%u", i >> 8, i & 0xff);
        put_address(&message, "", 1, text);
    }
    assert_int_equal(verdict_for("x", DNS_A), DNS_FOUND);
    assert_int_equal(answer.records.count, DNS_RECORDS_MAX);
    assert_address(255, "10.0.0.255");
}

static int setup(void **state)
{
    arena_init(&arena);
    return 0;
}

static int teardown(void **state)
{
    arena_free(&arena);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(names_from_text),
        TEST(names_that_are_none),
        TEST(lengths_of_names),
        TEST(names_without_a_text),
        TEST(a_question),
        TEST(addresses),
        TEST(the_case_of_the_question_does_not_matter),
        TEST(records_of_others_are_left_out),
        TEST(a_ttl_with_its_highest_bit_is_none),
        TEST(other_messages),
        TEST(refusals),
        TEST(what_is_not_there),
        TEST(a_truncated_answer),
        TEST(a_chain_of_aliases),
        TEST(aliases_in_another_order),
        TEST(an_alias_without_its_end),
        TEST(aliases_in_circles),
        TEST(services),
        TEST(names_of_addresses),
        TEST(every_cut),
        TEST(pointers_that_lead_nowhere),
        TEST(a_name_that_grows_too_long),
        TEST(odd_data),
        TEST(more_records_than_anybody_needs),
    };

    return cmocka_run_group_tests_name("net/dns", tests, NULL, NULL);
}
