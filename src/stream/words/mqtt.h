/* CONNECT, the first message of a client of MQTT (MQTT 3.1.1, 3.1; MQTT 5.0, 3.1): read, changed,
 * written. */
#ifndef STREAM_WORDS_MQTT_H
#define STREAM_WORDS_MQTT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* Bytes that a text of the message has at most, and a message. */
#define MQTT_TEXT_MAX 65535u
#define MQTT_MESSAGE_MAX 268435455u

/* Flags of CONNECT that say what its payload has. */
enum mqtt_flag {
    MQTT_HAS_WILL = 0x04,
    MQTT_HAS_PASSWORD = 0x40,
    MQTT_HAS_USERNAME = 0x80,
};

/* What of it may be changed. */
enum mqtt_field { MQTT_CLIENTID, MQTT_USERNAME, MQTT_PASSWORD, MQTT_FIELD_COUNT };

/* A CONNECT in its parts, which are slices of the input, in the order in which they stand there. */
struct mqtt_connect {
    size_t size;                         /* of the message, its head included; 0 = not known yet */
    struct str protocol;                 /* name and level, as they came */
    unsigned level;                      /* 3 is 3.1, 4 is 3.1.1, 5 is 5.0 */
    unsigned flags;                      /* enum mqtt_flag, and those that are kept as they came */
    struct str settings;                 /* keep alive, and of 5.0 the properties, as they came */
    struct str will;                     /* as it came; with MQTT_HAS_WILL */
    struct str fields[MQTT_FIELD_COUNT]; /* those of which the flags tell, and the client id */
    bool has_names;                      /* the client id and the user name are known, or absent */
};

enum mqtt_result {
    MQTT_MORE, /* it is not whole */
    MQTT_DONE, /* everything is known */
    MQTT_NONE, /* this is no CONNECT of a version that is known, or a broken one */
};

/*
 * Looks at all that has come so far, and says what is known of it. `size`, and both names with
 * `has_names`, are known before the message is whole.
 */
enum mqtt_result mqtt_connect_read(struct str input, struct mqtt_connect *out);

/*
 * Gives a field this value, of at most MQTT_TEXT_MAX bytes, which has to stay. An empty user name
 * or password is none; without a user name there is no password but one that is given later.
 * Before 5.0 that comes with an empty user name.
 */
void mqtt_connect_set(struct mqtt_connect *connect, enum mqtt_field field, struct str value);

/* Bytes of the message as it is now; it may be written if these are MQTT_MESSAGE_MAX at most. */
size_t mqtt_connect_size(const struct mqtt_connect *connect);
/* Writes so many. */
void mqtt_connect_write(const struct mqtt_connect *connect, char *at);

#endif
