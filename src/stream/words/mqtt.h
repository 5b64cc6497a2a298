/* CONNECT, the first packet of an MQTT client (MQTT 3.1.1, 3.1; MQTT 5.0, 3.1): parsing, changing,
 * writing. */
#ifndef STREAM_WORDS_MQTT_H
#define STREAM_WORDS_MQTT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* The largest string in a packet, and the largest packet, in bytes. */
#define MQTT_TEXT_MAX 65535u
#define MQTT_MESSAGE_MAX 268435455u

/* Flags of CONNECT for the fields of its payload. */
enum mqtt_flag {
    MQTT_HAS_WILL = 0x04,
    MQTT_HAS_PASSWORD = 0x40,
    MQTT_HAS_USERNAME = 0x80,
};

/* The fields that can be changed. */
enum mqtt_field { MQTT_CLIENTID, MQTT_USERNAME, MQTT_PASSWORD, MQTT_FIELD_COUNT };

/* The parts of a CONNECT, as slices of the input, in the order of the packet. */
struct mqtt_connect {
    size_t size;                         /* of the packet with its fixed header; 0 = unknown yet */
    struct str protocol;                 /* name and level, unchanged */
    unsigned level;                      /* 3 is 3.1, 4 is 3.1.1, 5 is 5.0 */
    unsigned flags;                      /* enum mqtt_flag, and other flags, which are kept */
    struct str settings;                 /* keep alive, and properties of 5.0, unchanged */
    struct str will;                     /* unchanged; with MQTT_HAS_WILL */
    struct str fields[MQTT_FIELD_COUNT]; /* the client id, and those that the flags announce */
    bool has_names;                      /* the client id and the user name are known, or absent */
};

enum mqtt_result {
    MQTT_MORE, /* the packet is not complete */
    MQTT_DONE, /* everything is known */
    MQTT_NONE, /* not a CONNECT of a known version, or malformed */
};

/*
 * Parses all input so far. `size`, and both names with `has_names`, are known before the packet is
 * complete.
 */
enum mqtt_result mqtt_connect_read(struct str input, struct mqtt_connect *out);

/*
 * Sets a field to a value of at most MQTT_TEXT_MAX bytes, which must stay valid. An empty user name
 * or password removes the field. Removing the user name also removes the password; setting a
 * password after that is allowed. Before 5.0 it comes with an empty user name.
 */
void mqtt_connect_set(struct mqtt_connect *connect, enum mqtt_field field, struct str value);

/* Bytes of the packet with its changes; it may be written if they are at most MQTT_MESSAGE_MAX. */
size_t mqtt_connect_size(const struct mqtt_connect *connect);
/* Writes the packet; `at` has mqtt_connect_size bytes. */
void mqtt_connect_write(const struct mqtt_connect *connect, char *at);

#endif
