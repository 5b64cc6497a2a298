/* Fuzzes QPACK: encoder streams and field sections against one table, feedback against an encoder,
 * and each field back and forth. */
#include <stdlib.h>

#include "base/arena.h"
#include "http/message/prefixed.h"
#include "http/message/qpack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct ends {
    struct qpack_decoder decoder, mirror;
    struct qpack_encoder encoder, victim;
};

/* What was decoded must come back the same from our own encoder. */
static void check_field(struct ends *ends, const struct coded_field *field, uint64_t stream)
{
    struct arena arena;
    struct qpack_writer writer;
    struct qpack_section section = {.max_string = 65536};
    struct coded_field again;
    char answer[2 * PREFIXED_INTEGER_ROOM];

    arena_init(&arena);
    char *room =
        arena_text(&arena, QPACK_PREFIX_ROOM + qpack_field_room(field->name, field->value));
    qpack_begin(&writer, &ends->encoder, stream, room);
    qpack_put_field(&writer, field->name, field->value, field->never_indexed);
    struct str block = qpack_finish(&writer);
    if (!qpack_decoder_feed(&ends->mirror, (struct str){ends->encoder.instructions,
                                                        ends->encoder.instructions_size}) ||
        qpack_section_begin(&ends->mirror, block, &section) != QPACK_FIELD ||
        qpack_decode(&ends->mirror, &section, &arena, &again) != QPACK_FIELD ||
        !str_equal_nocase(again.name, field->name) || !str_equal(again.value, field->value) ||
        ends->mirror.table.size != ends->encoder.table.size || section.rest.len != 0) {
        abort();
    }
    ends->encoder.instructions_size = 0;
    char *at = qpack_put_acknowledgment(answer, &ends->mirror, &section, stream);
    at = qpack_put_increment(at, &ends->mirror);
    if (!qpack_encoder_feed(&ends->encoder, str_from(answer, at))) {
        abort();
    }
    arena_free(&arena);
}

static bool take_section(struct ends *ends, struct str block, uint64_t stream)
{
    struct arena arena;
    struct qpack_section section = {.max_string = 4096};
    struct coded_field field;

    arena_init(&arena);
    enum qpack_result result = qpack_section_begin(&ends->decoder, block, &section);
    while (result == QPACK_FIELD &&
           (result = qpack_decode(&ends->decoder, &section, &arena, &field)) == QPACK_FIELD) {
        if (field.value.len > 4096 || field.name.len > 4096) {
            abort();
        }
        check_field(ends, &field, stream);
    }
    arena_free(&arena);
    return result != QPACK_BAD;
}

/* A byte says what follows and how long it is. */
static bool take_piece(struct ends *ends, struct str piece, unsigned kind, uint64_t stream)
{
    switch (kind) {
    case 0:
    case 1:
        return take_section(ends, piece, stream);
    case 2:
        return qpack_encoder_feed(&ends->victim, piece);
    default:
        return qpack_decoder_feed(&ends->decoder, piece) &&
               ends->decoder.table.size <= ends->decoder.table.capacity;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ends ends;
    bool is_sound = true;

    qpack_decoder_init(&ends.decoder, 220);
    qpack_decoder_init(&ends.mirror, QPACK_TABLE_DEFAULT);
    qpack_encoder_init(&ends.encoder);
    qpack_encoder_init(&ends.victim);
    qpack_encoder_allow(&ends.encoder, QPACK_TABLE_DEFAULT);
    for (size_t at = 0; is_sound && at < size;) {
        unsigned kind = data[at] & 3;
        size_t length = data[at++] >> 2;
        length = length < size - at ? length : size - at;
        char *copy = malloc(length == 0 ? 1 : length);

        if (copy == NULL) {
            break;
        }
        memcpy(copy, data + at, length);
        is_sound = take_piece(&ends, (struct str){copy, length}, kind, at);
        free(copy);
        at += length;
    }
    qpack_decoder_free(&ends.decoder);
    qpack_decoder_free(&ends.mirror);
    qpack_encoder_free(&ends.encoder);
    qpack_encoder_free(&ends.victim);
    return 0;
}
