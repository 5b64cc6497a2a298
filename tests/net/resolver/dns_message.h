/* DNS messages made by hand, right ones and wrong ones. */
#ifndef TESTS_NET_DNS_MESSAGE_H
#define TESTS_NET_DNS_MESSAGE_H

#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>

#include "net/resolver/dns.h"

enum {
    REPLY = 0x8180,     /* an answer, recursion desired and available */
    TRUNCATED = 0x0200, /* flag */
    SERVFAIL = 2,       /* rcodes */
    NXDOMAIN = 3,
    REFUSED = 5,
};

/* A message that is being written. */
struct message {
    unsigned char bytes[DNS_MESSAGE_MAX];
    size_t size;
};

static inline void put_u8(struct message *message, unsigned value)
{
    message->bytes[message->size++] = (unsigned char) value;
}

static inline void put_u16(struct message *message, unsigned value)
{
    put_u8(message, value >> 8);
    put_u8(message, value & 0xff);
}

static inline void put_u32(struct message *message, uint32_t value)
{
    put_u16(message, value >> 16);
    put_u16(message, value & 0xffff);
}

static inline void set_u16(struct message *message, size_t at, unsigned value)
{
    message->bytes[at] = (unsigned char) (value >> 8);
    message->bytes[at + 1] = (unsigned char) value;
}

/* Labels of a name with dots, as they are; "" is the root. */
static inline void put_name(struct message *message, const char *name)
{
    while (*name != '\0') {
        size_t length = strcspn(name, ".");

        put_u8(message, (unsigned) length);
        memcpy(message->bytes + message->size, name, length);
        message->size += length;
        name += length + (name[length] == '.');
    }
    put_u8(message, 0);
}

static inline void put_pointer(struct message *message, size_t offset)
{
    put_u16(message, 0xc000 | (unsigned) offset);
}

/* A header with these counts of records. */
static inline void put_header(struct message *message, unsigned id, unsigned flags,
                              unsigned questions, unsigned answers, unsigned authorities)
{
    put_u16(message, id);
    put_u16(message, flags);
    put_u16(message, questions);
    put_u16(message, answers);
    put_u16(message, authorities);
    put_u16(message, 0);
}

static inline void put_question(struct message *message, const char *name, unsigned type)
{
    put_name(message, name);
    put_u16(message, type);
    put_u16(message, 1);
}

/* What stands behind the name of a record; gives the place of its length. */
static inline size_t put_type(struct message *message, unsigned type, uint32_t ttl_s)
{
    put_u16(message, type);
    put_u16(message, 1);
    put_u32(message, ttl_s);
    put_u16(message, 0);
    return message->size - 2;
}

/* The data of a record is complete: its length is known. */
static inline void end_data(struct message *message, size_t length_at)
{
    set_u16(message, length_at, (unsigned) (message->size - length_at - 2));
}

/* One more record of the answer section. */
static inline void count_answer(struct message *message)
{
    set_u16(message, 6, (message->bytes[6] << 8 | message->bytes[7]) + 1u);
}

/* An address of `name`; "" means the name of the question, by a pointer. */
static inline void put_address(struct message *message, const char *name, uint32_t ttl_s,
                               const char *address)
{
    bool is_v6 = strchr(address, ':') != NULL;

    if (*name == '\0') {
        put_pointer(message, 12);
    } else {
        put_name(message, name);
    }
    size_t length_at = put_type(message, is_v6 ? DNS_AAAA : DNS_A, ttl_s);
    inet_pton(is_v6 ? AF_INET6 : AF_INET, address, message->bytes + message->size);
    message->size += is_v6 ? 16 : 4;
    end_data(message, length_at);
    count_answer(message);
}

/* A record whose data is a name. */
static inline void put_reference(struct message *message, const char *name, uint16_t type,
                                 uint32_t ttl_s, const char *target)
{
    put_name(message, name);
    size_t length_at = put_type(message, type, ttl_s);
    put_name(message, target);
    end_data(message, length_at);
    count_answer(message);
}

static inline void put_alias(struct message *message, const char *name, uint32_t ttl_s,
                             const char *target)
{
    put_reference(message, name, DNS_CNAME, ttl_s, target);
}

static inline void put_service(struct message *message, const char *name, uint32_t ttl_s,
                               unsigned priority, unsigned weight, unsigned port,
                               const char *target)
{
    put_name(message, name);
    size_t length_at = put_type(message, DNS_SRV, ttl_s);
    put_u16(message, priority);
    put_u16(message, weight);
    put_u16(message, port);
    put_name(message, target);
    end_data(message, length_at);
    count_answer(message);
}

/* The zone's SOA among the authorities. */
static inline void put_soa(struct message *message, uint32_t ttl_s, uint32_t minimum_s)
{
    put_name(message, "example");
    size_t length_at = put_type(message, DNS_SOA, ttl_s);
    put_name(message, "ns.example");
    put_name(message, "admin.example");
    put_u32(message, 1);
    put_u32(message, 7200);
    put_u32(message, 3600);
    put_u32(message, 86400);
    put_u32(message, minimum_s);
    end_data(message, length_at);
    set_u16(message, 8, (message->bytes[8] << 8 | message->bytes[9]) + 1u);
}

#endif
