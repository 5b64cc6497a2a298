/* Fuzzes the reader of DNS answers: any bytes as the answer to questions for A, AAAA and SRV
 * records of www.example with the id 0x1234; and any text as a name. */
#include <stdlib.h>

#include "net/resolver/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void read_as(struct str message, const struct dns_name *name, uint16_t type)
{
    struct arena arena;
    struct dns_answer answer;

    const struct dns_question question = {name, type, 0x1234};

    arena_init(&arena);
    enum dns_verdict verdict = dns_answer_read(message, &question, &arena, &answer);

    check((verdict == DNS_FOUND) == (answer.records.count != 0) || verdict == DNS_MALFORMED);
    check(answer.records.count <= DNS_RECORDS_MAX);
    check(answer.aliases <= DNS_ALIASES_MAX + 1);
    if (verdict == DNS_FOUND) {
        check(answer.has_ttl && answer.ttl_s <= INT32_MAX);
    }
    if (verdict == DNS_ALIAS) {
        unsigned char query[DNS_QUERY_MAX];

        check(answer.name.len != 0 && answer.name.wire[answer.name.len - 1] == 0);
        check(dns_query_write(&answer.name, type, 1, query) <= sizeof(query));
    }
    vec_each(const struct dns_record, record, &answer.records) {
        check(record->type == type);
        check((type == DNS_SRV || type == DNS_PTR) == (record->target.len != 0));
        for (size_t i = 0; i < record->target.len; i++) {
            check((unsigned char) record->target.data[i] > ' ');
        }
    }
    arena_free(&arena);
}

/* A name that has a text has the same wire form again. */
static void read_as_name(struct str text)
{
    struct dns_name name, again;
    struct arena arena;
    struct str back;

    arena_init(&arena);
    if (dns_name_parse(text, &name)) {
        check(name.len >= 3 && name.wire[name.len - 1] == 0);
        if (dns_name_format(&name, &arena, &back)) {
            check(dns_name_parse(back, &again) && dns_name_equal(&name, &again));
        }
    }
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A copy of its own, so that a byte read too far is seen. */
    char *copy = malloc(size == 0 ? 1 : size);
    struct dns_name name;

    if (copy == NULL) {
        return 0;
    }
    if (size != 0) {
        memcpy(copy, data, size);
    }
    struct str message = {copy, size};

    check(dns_name_parse(STR("www.example"), &name));
    read_as(message, &name, DNS_A);
    read_as(message, &name, DNS_AAAA);
    read_as(message, &name, DNS_SRV);
    read_as(message, &name, DNS_PTR);
    read_as_name(message);
    free(copy);
    return 0;
}
