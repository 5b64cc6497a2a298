/* Fuzzes the reader of CONNECT of MQTT, and what is written of it: pieces say the same as the
 * whole; what is written is read as what was said. */
#include <stdlib.h>

#include "stream/words/mqtt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool is_so)
{
    if (!is_so) {
        abort();
    }
}

/* In memory of its own size, so that a byte read too far is seen. */
static char *copy_of(const uint8_t *data, size_t size)
{
    char *copy = malloc(size == 0 ? 1 : size);

    demand(copy != NULL);
    if (size != 0) {
        memcpy(copy, data, size);
    }
    return copy;
}

static void check_same(const struct mqtt_connect *a, const struct mqtt_connect *b)
{
    demand(a->level == b->level && a->flags == b->flags && str_equal(a->protocol, b->protocol) &&
           str_equal(a->settings, b->settings) && str_equal(a->will, b->will));
    for (unsigned field = 0; field < MQTT_FIELD_COUNT; field++) {
        demand(str_equal(a->fields[field], b->fields[field]));
    }
}

/* Written, and read again. */
static void check_written(const struct mqtt_connect *connect)
{
    size_t size = mqtt_connect_size(connect);
    char *text = malloc(size);
    struct mqtt_connect again;

    demand(text != NULL && size != 0);
    mqtt_connect_write(connect, text);
    demand(mqtt_connect_read((struct str){text, size}, &again) == MQTT_DONE && again.size == size);
    check_same(connect, &again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = copy_of(data, size);
    struct mqtt_connect whole, piece;
    enum mqtt_result result = mqtt_connect_read((struct str){copy, size}, &whole);

    for (size_t seen = 0; seen < size && seen < 300; seen++) {
        char *start = copy_of(data, seen);
        enum mqtt_result early = mqtt_connect_read((struct str){start, seen}, &piece);

        demand(early == MQTT_MORE || early == result);
        demand(piece.size == 0 || piece.size == whole.size);
        demand(!piece.has_names ||
               (whole.has_names &&
                str_equal(piece.fields[MQTT_CLIENTID], whole.fields[MQTT_CLIENTID]) &&
                str_equal(piece.fields[MQTT_USERNAME], whole.fields[MQTT_USERNAME])));
        free(start);
    }
    if (result == MQTT_DONE) {
        demand(whole.has_names && whole.size <= size);
        check_written(&whole);
        for (unsigned wish = 0; wish < 27; wish++) { /* each field kept, empty or given */
            const unsigned wishes[] = {wish % 3, wish / 3 % 3, wish / 9};
            struct mqtt_connect changed = whole;

            for (unsigned field = 0; field < MQTT_FIELD_COUNT; field++) {
                if (wishes[field] != 0) {
                    mqtt_connect_set(&changed, field, wishes[field] == 1 ? STR("") : STR("given"));
                }
            }
            demand(changed.flags == whole.flags || wish / 3 != 0);
            check_written(&changed);
        }
    }
    free(copy);
    return 0;
}
