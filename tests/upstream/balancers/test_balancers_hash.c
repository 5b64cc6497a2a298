/*
 * Balancers that hash: which peer a client or a key goes to. The expected peers are those that
 * Debian's nginx 1.22 chose, over all tries of a request to a group where nobody answers.
 */
#include "upstream/balancers.h"

#include "upstream/balancers/hash.c"
#include "upstream/balancers/ip_hash.c"
#include "upstream/picking/ring.h"

/* ---- ip_hash ---- */

static struct str client;

static bool get_client(struct variable_env *unused, const struct variable *variable,
                       struct str *out)
{
    *out = client;
    return client.data != NULL;
}

static struct variable client_variable = {.name = STR_INIT("binary_remote_addr"),
                                          .get = get_client,
                                          .flags = VARIABLE_VOLATILE};

static void add_three(void)
{
    add_peer("127.1.10.1:9", 1);
    add_peer("127.1.10.2:9", 1);
    add_peer("127.1.10.3:9", 1);
}

static void add_weighted(void)
{
    add_peer("127.1.10.1:9", 1);
    add_peer("127.1.10.2:9", 2);
    add_peer("127.1.10.3:9", 3);
}

static void from(const char *address, size_t length)
{
    client = (struct str){address, length};
}

static void ip_hash_of_three(void **state)
{
    add_three();
    use_balancer(&balancer_ip_hash, &client_variable);
    from("\1\2\3\4", 4);
    assert_text(all_picks(), "1 2 0");
    from("\12\0\0\1", 4);
    assert_text(all_picks(), "0 1 2");
    from("\143\1\7\1", 4);
    assert_text(all_picks(), "1 0 2");
}

static void ip_hash_takes_three_bytes(void **state)
{
    char address[4] = {10, 20, 30, 0};

    add_three();
    use_balancer(&balancer_ip_hash, &client_variable);
    from(address, 4);
    begin_pick();
    int first = next_pick();
    for (int last = 1; last < 256; last++) {
        address[3] = (char) last;
        begin_pick();
        assert_int_equal(next_pick(), first);
    }
}

static void ip_hash_by_weight(void **state)
{
    add_weighted();
    use_balancer(&balancer_ip_hash, &client_variable);
    from("\1\2\3\4", 4);
    assert_text(all_picks(), "1 2 0");
    from("\12\0\0\1", 4);
    assert_text(all_picks(), "2 1 0");
    from("\310\3\4\5", 4);
    assert_text(all_picks(), "2 0 1");
}

static void ip_hash_of_ipv6(void **state)
{
    static const char documentation[16] = {0x20, 0x01, 0x0d, (char) 0xb8, [15] = 1};
    static const char loopback[16] = {[15] = 1};
    static const char local[16] = {(char) 0xfe, (char) 0x80, [13] = 1, [15] = 2};

    add_three();
    add_peer("127.1.10.4:9", 1);
    add_peer("127.1.10.5:9", 1);
    use_balancer(&balancer_ip_hash, &client_variable);
    from(documentation, 16);
    assert_text(all_picks(), "0 2 3 1 4");
    from(loopback, 16);
    assert_text(all_picks(), "0 2 1 4 3");
    from(local, 16);
    assert_text(all_picks(), "1 0 2 4 3");
}

/* n is 295 for three zeros: the second of three peers, for 295 mod 3 is 1. */
static void ip_hash_without_ip_address(void **state)
{
    add_three();
    use_balancer(&balancer_ip_hash, &client_variable);
    from("unix:", 5);
    begin_pick();
    assert_int_equal(next_pick(), 1);
    client = STR_NONE;
    begin_pick();
    assert_int_equal(next_pick(), 1);
}

static void down_peers_keep_their_share(void **state)
{
    add_three();
    servers[1].is_down = true;
    use_balancer(&balancer_ip_hash, &client_variable);
    from("\1\2\3\4", 4);
    assert_text(all_picks(), "2 0");
    from("\12\0\0\1", 4);
    assert_text(all_picks(), "0 2");
}

static void nobody_is_left(void **state)
{
    add_three();
    servers[0].is_down = servers[1].is_down = servers[2].is_down = true;
    use_balancer(&balancer_ip_hash, &client_variable);
    from("\1\2\3\4", 4);
    begin_pick();
    assert_int_equal(next_pick(), -1);
}

/* ---- hash ---- */

static void hash_with(const struct balancer *balancer, const char *key, const char *expected)
{
    if (group.balancer == NULL) {
        use_balancer(balancer, NULL);
    }
    group.balancer_settings = text_template(key);
    assert_str(all_picks(), str_of(expected));
}

static void hash_of_three(void **state)
{
    add_three();
    hash_with(&balancer_hash, "foo", "1 0 2");
    hash_with(&balancer_hash, "bar", "1 2 0");
    hash_with(&balancer_hash, "key637", "0 2 1");
}

static void hash_of_five(void **state)
{
    add_three();
    add_peer("127.1.10.4:9", 1);
    add_peer("127.1.10.5:9", 1);
    hash_with(&balancer_hash, "foo", "2 3 0 1 4");
    hash_with(&balancer_hash, "bar", "3 2 4 0 1");
    hash_with(&balancer_hash, "key261", "4 3 0 2 1");
    hash_with(&balancer_hash, "92cb1855fe", "2 1 4 3 0");
}

static void hash_by_weight(void **state)
{
    add_weighted();
    hash_with(&balancer_hash, "foo", "1 0 2");
    hash_with(&balancer_hash, "bar", "1 2 0");
    hash_with(&balancer_hash, "key759", "2 0 1");
}

/* Twenty peers in vain, and the next one is still found by hash; with one more round robin decides.
 */
static void hash_gives_up_after_twenty_misses(void **state)
{
    static const struct {
        const char *key;
        int peer;
    } rows[] = {{"k9", 23}, {"k11", 23}, {"k17", 7}, {"k19", 23}, {"k23", 23}};
    struct upstream_pick *p = &pick;

    for (unsigned i = 0; i < 40; i++) {
        add_peer("127.1.10.1:9", 1);
        servers[i].is_down = i != 7 && i != 23;
    }
    use_balancer(&balancer_hash, NULL);
    for (size_t i = 0; i < COUNT(rows); i++) {
        group.balancer_settings = text_template(rows[i].key);
        begin_pick();
        assert_int_equal(next_pick(), rows[i].peer);
        assert_in_range(p->rehash, 15, 21);
    }
    servers[7].is_down = servers[23].is_down = true;
    begin_pick();
    assert_int_equal(next_pick(), -1);
    assert_int_equal(p->rehash, CHOOSE_MISSES_MAX + 1);
}

static void empty_keys_go_round(void **state)
{
    add_three();
    use_balancer(&balancer_hash, text_template(""));
    for (int i = 0; i < 6; i++) {
        begin_pick();
        assert_int_equal(next_pick(), i % 3);
    }
}

/* ---- consistent ---- */

static void ring_of_three(void **state)
{
    add_three();
    hash_with(&balancer_hash_ring, "foo", "0 2 1");
    hash_with(&balancer_hash_ring, "bar", "2 1 0");
    hash_with(&balancer_hash_ring, "a", "1 0 2");
    hash_with(&balancer_hash_ring, "key759", "2 0 1");
    hash_with(&balancer_hash_ring, "/index.html", "1 0 2");
}

static void ring_by_weight(void **state)
{
    add_weighted();
    hash_with(&balancer_hash_ring, "foo", "1 2 0");
    hash_with(&balancer_hash_ring, "bar", "2 1 0");
    hash_with(&balancer_hash_ring, "a", "2 1 0");
    hash_with(&balancer_hash_ring, "key759", "2 1 0");
}

static void ring_by_address_as_written(void **state)
{
    add_peer("localhost:9", 1);
    add_peer("127.0.0.2", 1);
    add_peer("unix:/tmp/h3/x.sock", 1);
    add_peer("127.1.10.9:99", 1);
    add_peer("[::1]:9", 1);
    hash_with(&balancer_hash_ring, "foo", "3 1 0 4 2");
    hash_with(&balancer_hash_ring, "bar", "3 0 2 4 1");
    hash_with(&balancer_hash_ring, "a", "1 0 3 4 2");
    hash_with(&balancer_hash_ring, "b", "4 2 0 3 1");
    hash_with(&balancer_hash_ring, "c", "3 4 1 0 2");
}

/* Two addresses of one name lie at the same points; a key always begins with the same of them. */
static void ring_of_a_name_with_two_addresses(void **state)
{
    unsigned begins[3] = {0};

    add_peer("a.example:80", 1);
    add_peer("a.example:80", 1);
    add_peer("b.example:80", 1);
    peers[0].name = STR("10.0.0.1:80");
    peers[1].name = STR("10.0.0.2:80");
    use_balancer(&balancer_hash_ring, NULL);
    for (int i = 0; i < 300; i++) {
        char key[16];

        snprintf(key, sizeof(key), "key%d", i);
        group.balancer_settings = text_template(key);
        begin_pick();
        int first = next_pick();
        begin_pick();
        assert_int_equal(next_pick(), first);
        begins[first]++;
    }
    assert_true(begins[0] > 40 && begins[1] > 40 && begins[2] > 80);
}

/* The keys of a peer that is away go to others; no other key moves. */
static void ring_moves_few_keys(void **state)
{
    unsigned moved = 0;

    for (unsigned i = 0; i < 10; i++) {
        char *name = arena_cstr(&arena, arena_printf(&arena, "10.0.0.%u:80", i));

        add_peer(name, 1);
    }
    use_balancer(&balancer_hash_ring, NULL);
    for (int i = 0; i < 1000; i++) {
        char key[16];

        snprintf(key, sizeof(key), "key%d", i);
        group.balancer_settings = text_template(key);
        servers[4].is_down = false;
        begin_pick();
        int before = next_pick();
        servers[4].is_down = true;
        begin_pick();
        int after = next_pick();
        assert_int_not_equal(after, 4);
        if (before == 4) {
            moved++;
        } else {
            assert_int_equal(after, before);
        }
    }
    assert_in_range(moved, 50, 200);
}

static void ring_when_nobody_is_left(void **state)
{
    add_three();
    servers[0].is_down = servers[1].is_down = servers[2].is_down = true;
    use_balancer(&balancer_hash_ring, text_template("foo"));
    begin_pick();
    assert_int_equal(next_pick(), -1);
}

/* ---- tables of weights ---- */

static void table_finds_every_place(void **state)
{
    static const unsigned expected[] = {0, 1, 1, 2, 2, 2};
    struct weight_table *table;

    add_weighted();
    table = weight_table_new(&list.primary);
    assert_int_equal(table->total, 6);
    for (unsigned i = 0; i < COUNT(expected); i++) {
        assert_int_equal(weight_table_at(table, i), expected[i]);
    }
    weight_table_free(table);
}

static void table_of_large_weights(void **state)
{
    struct weight_table *table;

    for (unsigned i = 0; i < 3; i++) {
        add_peer("a", 4000000000u);
    }
    table = weight_table_new(&list.primary);
    assert_true(table->total == 12000000000u);
    assert_int_equal(weight_table_at(table, 3999999999u), 0);
    assert_int_equal(weight_table_at(table, 4000000000u), 1);
    assert_int_equal(weight_table_at(table, 11999999999u), 2);
    weight_table_free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        balancer_test(table_finds_every_place),
        balancer_test(table_of_large_weights),
        balancer_test(ip_hash_of_three),
        balancer_test(ip_hash_takes_three_bytes),
        balancer_test(ip_hash_by_weight),
        balancer_test(ip_hash_of_ipv6),
        balancer_test(ip_hash_without_ip_address),
        balancer_test(down_peers_keep_their_share),
        balancer_test(nobody_is_left),
        balancer_test(hash_of_three),
        balancer_test(hash_of_five),
        balancer_test(hash_by_weight),
        balancer_test(hash_gives_up_after_twenty_misses),
        balancer_test(empty_keys_go_round),
        balancer_test(ring_of_three),
        balancer_test(ring_by_weight),
        balancer_test(ring_by_address_as_written),
        balancer_test(ring_of_a_name_with_two_addresses),
        balancer_test(ring_moves_few_keys),
        balancer_test(ring_when_nobody_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
