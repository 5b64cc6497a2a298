/*
 * Fuzz target: User-Agent, as user_agent and browser read it. Which value a table gives follows
 * from the words and versions of the text alone: a second look at it, byte after byte, finds the
 * same.
 */
#include <stdlib.h>

#include "http/modules/values/user_agent.c"

#include "http/modules/values/browser.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct version_range all[] = {{0, UINT64_MAX, STR_INIT("all")}};
static struct version_range some[] = {{1ull << 48, (2ull << 48) - 1, STR_INIT("1")},
                                      {5ull << 48, UINT64_MAX, STR_INIT("5+")}};
static struct agent_word words[] = {
    {.text = STR_INIT("Chrome"), .ranges = {some, 2, 2}},
    {.text = STR_INIT("MSIE"), .is_greedy = true, .ranges = {some, 2, 2}},
    {.text = STR_INIT("MS"), .ranges = {some, 1, 1}},
    {.text = STR_INIT("a"), .is_greedy = true, .ranges = {all, 1, 1}},
};

static bool is_value(struct str value)
{
    static const struct str values[] = {STR_INIT("none"), STR_INIT("all"), STR_INIT("1"),
                                        STR_INIT("5+")};

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        if (str_equal(value, values[i])) {
            return true;
        }
    }
    return false;
}

static void check_table(struct str agent)
{
    static struct agent_table table = {.words = {words, 4, 4}, .fallback = STR_INIT("none")};
    bool has_word = false;

    for (size_t i = 0; i < table.words.count; i++) {
        table.begins[(unsigned char) words[i].text.data[0]] = true;
        has_word |= str_find(agent, words[i].text) != NULL;
    }
    struct str value = agent_value(&table, agent);
    if (!is_value(value) || (!has_word && !str_is(value, "none")) ||
        !str_equal(value, agent_value(&table, agent))) {
        abort();
    }
}

static void check_version(struct str text)
{
    struct version_range range;
    agent_version version;
    struct str rest = text;

    if (take_version(&rest, &version) && rest.len >= text.len) {
        abort();
    }
    if (read_range(text, &range) && range.first > range.last) {
        abort();
    }
}

static void check_browsers(struct str agent)
{
    static const struct version oldest = {{0}};
    struct version version;

    for (unsigned kind = 0; kind < BROWSER_COUNT; kind++) {
        bool is_there = find_browser(agent, (enum browser) kind, &version);
        if (is_there &&
            (str_find(agent, kinds[kind].token) == NULL || is_older(&version, &oldest))) {
            abort();
        }
    }
    if (is_netscape(agent) && !str_starts(agent, STR("Mozilla/"))) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str agent = {(const char *) data, size};

    if (size != 0) {
        check_version(agent);
    }
    check_table(agent);
    check_browsers(agent);
    return 0;
}
