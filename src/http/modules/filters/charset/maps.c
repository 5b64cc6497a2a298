/* Reads charset_map blocks. */
#include "http/modules/filters/charset/maps.h"

#include "base/parse.h"
#include "base/text.h"

const struct recode_table *charset_maps_find(const struct charset_maps *maps, struct str from,
                                             struct str to)
{
    vec_each(const struct charset_way, way, &maps->ways) {
        if (str_equal_nocase(way->from, from) && str_equal_nocase(way->to, to)) {
            return way->table;
        }
    }
    return NULL;
}

static void add_way(struct charset_maps *maps, struct arena *arena, struct str from, struct str to,
                    const struct recode_table *table)
{
    *vec_add(&maps->ways, arena, struct charset_way) = (struct charset_way){from, to, table};
}

static bool parse_byte(struct str text, unsigned char *out)
{
    uint64_t number;

    if (!parse_hex(text, &number) || number > 0xff) {
        return false;
    }
    *out = (unsigned char) number;
    return true;
}

/* Parses the UTF-8 bytes, in hex, of one code point beyond ASCII: "D18E". */
static bool parse_utf8(struct str text, uint32_t *out)
{
    unsigned char bytes[4];
    size_t count = text.len / 2;

    if (count < 2 || count > sizeof(bytes) || !hex_decode(text, bytes)) {
        return false;
    }
    return utf8_decode(bytes, count, out) == (int) count;
}

static bool invalid_value(struct conf *conf, const struct conf_node *line, struct str value)
{
    return conf_error(conf, line, "invalid value \"%.*s\"", STR_ARG(value));
}

/* A block while it is read. */
struct map_reading {
    struct conf *conf;
    struct recode_table *forth; /* in the direction in which the lines are written */
    struct recode_table *back;
};

static bool charset_maps_read_line(struct map_reading *map, const struct conf_node *line)
{
    unsigned char one;
    unsigned char other;
    uint32_t code_point;

    if (line->count != 2) {
        return conf_error(map->conf, line, "invalid parameters number");
    }
    if (!parse_byte(line->args[0], &one)) {
        return invalid_value(map->conf, line, line->args[0]);
    }
    if (map->forth->kind == RECODE_TO_UTF8) {
        if (!parse_utf8(line->args[1], &code_point)) {
            return invalid_value(map->conf, line, line->args[1]);
        }
        recode_set_char(map->forth, map->back, map->conf->arena, one, code_point);
        return true;
    }
    if (!parse_byte(line->args[1], &other)) {
        return invalid_value(map->conf, line, line->args[1]);
    }
    recode_set_byte(map->forth, one, other);
    recode_set_byte(map->back, other, one);
    return true;
}

bool charset_maps_read(struct charset_maps *maps, struct conf *conf, const struct conf_node *block)
{
    struct str one = block->args[1];
    struct str other = block->args[2];
    bool is_good = true;

    if (str_equal_nocase(one, other)) {
        return conf_error(conf, block,
                          "\"charset_map\" between the same charsets \"%.*s\" and \"%.*s\"",
                          STR_ARG(one), STR_ARG(other));
    }
    if (charset_maps_find(maps, one, other) != NULL) {
        return conf_error(conf, block, "duplicate \"charset_map\" between \"%.*s\" and \"%.*s\"",
                          STR_ARG(one), STR_ARG(other));
    }
    if (str_equal_nocase(one, STR("utf-8"))) {
        return conf_error(conf, block,
                          "\"utf-8\" can only be the second charset of \"charset_map\"");
    }
    bool is_utf8 = str_equal_nocase(other, STR("utf-8"));
    struct map_reading map = {
        .conf = conf,
        .forth = recode_table_new(conf->arena, is_utf8 ? RECODE_TO_UTF8 : RECODE_BYTES),
        .back = recode_table_new(conf->arena, is_utf8 ? RECODE_FROM_UTF8 : RECODE_BYTES),
    };
    for (const struct conf_node *line = block->children; line != NULL; line = line->next) {
        is_good &= charset_maps_read_line(&map, line);
    }
    add_way(maps, conf->arena, one, other, map.forth);
    add_way(maps, conf->arena, other, one, map.back);
    return is_good;
}
