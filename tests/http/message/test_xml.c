/* Tests of the reader of XML documents. */
#include "base/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "http/message/xml.h"

/* What it reads, in short: "<space|local", ">", "text". "!" at the end: an error. */
static const char *read_all(const char *document)
{
    static char out[4096];
    struct arena arena;
    struct xml_reader reader;
    enum xml_event event;
    size_t len = strlen(document), used = 0;
    char *copy = malloc(len + 1);

    memcpy(copy, document, len);
    arena_init(&arena);
    xml_begin(&reader, &arena, (struct str){copy, len});
    out[0] = '\0';
    do {
        event = xml_next(&reader);
        const char *format = event == XML_START ? "<%.*s|%.*s" : event == XML_END ? ">" : "";
        used += (size_t) snprintf(out + used, sizeof(out) - used, format,
                                  STR_ARG(reader.name.space), STR_ARG(reader.name.local));
        if (event == XML_TEXT) {
            used +=
                (size_t) snprintf(out + used, sizeof(out) - used, "'%.*s'", STR_ARG(reader.text));
        }
    } while (event != XML_EOF && event != XML_ERROR);
    snprintf(out + used, sizeof(out) - used, "%s", event == XML_ERROR ? "!" : "");
    arena_free(&arena);
    free(copy);
    return out;
}

static void documents(void **state)
{
    const char *const rows[][2] = {
        {"<a/>", "<|a>"},
        {"<a></a >", "<|a>"},
        {"<?xml version=\"1.0\"?>\n<!-- c --><a/><!-- d -->", "'\n'<|a>"},
        {"\xef\xbb\xbf<a/>", "<|a>"},
        {"<a>x<b/>y</a>", "<|a'x'<|b>'y'>"},
        {"<a xmlns='DAV:'><b/></a>", "<DAV:|a<DAV:|b>>"},
        {"<D:a xmlns:D=\"DAV:\"><D:b/><c/></D:a>", "<DAV:|a<DAV:|b><|c>>"},
        {"<p:a xmlns:p='1'><p:b xmlns:p='2'><p:c/></p:b><p:d/></p:a>", "<1|a<2|b<2|c>><1|d>>"},
        {"<a xmlns='1'><b xmlns=''/></a>", "<1|a<|b>>"},
        {"<a x='1' y = \"2>\"/>", "<|a>"},
        {"<a>&lt;&gt;&amp;&quot;&apos;&#65;&#x20ac;&#x1f600;</a>",
         "<|a'<>&\"'A\xe2\x82\xac\xf0\x9f\x98\x80'>"},
        {"<a><![CDATA[<&]]></a>", "<|a'<&'>"},
        {"<a><!-- <b> --><?pi <c>?></a>", "<|a>"},
        {"<?xml version='1.1' encoding=\"UTF-8\" standalone='no' ?><a/>", "<|a>"},
        {"<?xml  version = '1.0'\n?><a/>", "<|a>"},
        {"<a xmlns='http://u:p@a.b:80/c%20d;e?f=/g#h'/>", "<http://u:p@a.b:80/c%20d;e?f=/g#h|a>"},
        {"<a xmlns='http://[::1]:80'/>", "<http://[::1]:80|a>"},
        {"<a xmlns='file:///x'/>", "<file:///x|a>"},
        {"<a xmlns='urn:schemas-microsoft-com:'/>", "<urn:schemas-microsoft-com:|a>"},
        {"<a xmlns='../x:y'/>", "<../x:y|a>"},
        {"<xml:a/>", "<http://www.w3.org/XML/1998/namespace|a>"},
        {"<\xc3\xa4/>", "<|\xc3\xa4>"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_string_equal(read_all(rows[i][0]), rows[i][1]);
    }
}

static void what_is_no_document(void **state)
{
    const char *const rows[] = {
        "",
        " ",
        "text",
        "<",
        "<a",
        "<a>",
        "</a>",
        "<a></b>",
        "<a/><b/>",
        "<a/>text",
        "<a b/>",
        "<a b=c/>",
        "<a b='c/>",
        "<a b='1'c='2'/>",
        "<a b='<'/>",
        "<p:a/>",
        "<a xmlns:p=''/>",
        "<:a/>",
        "<p:a:b xmlns:p='1'/>",
        "<1/>",
        "<-/>",
        "< a/>",
        "<a>&</a>",
        "<a>&nbsp;</a>",
        "<a>&#0;</a>",
        "<a>&#xd800;</a>",
        "<a>&#x110000;</a>",
        "<a>&#99999999999999999999;</a>",
        "<a>&lt</a>",
        "<!DOCTYPE a><a/>",
        "<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><a>&x;</a>",
        "<a><!ELEMENT b></a>",
        "<!-- <a/>",
        "<? <a/>",
        "<a><![CDATA[</a>",
        "<![CDATA[x]]><a/>",
        "<a>\x01</a>",
        "<a>\xff</a>",
        "<a>\xc3</a>",
        "<a x='1'",
        "<a/",
        "<a><b></a></b>",
        /* What libxml2 refuses of 400,000 mutated documents, one of each kind. */
        "<?xml?><a/>",
        "<?xml version1.0\"?><a/>",
        "<?xml vion=\"1.0\"?><a/>",
        "<?xml version='1.0' enco-8'?><a/>",
        "<?xml version='1.0' encoding='u?><a/>",
        "<?xml version='1.0' encoding='\tutf-8'?><a/>",
        "<?xml version='1.0' encoding=utf-8'?><a/>",
        "<?xml version='1.0'encoding='utf-8'?><a/>",
        "<?xml version='1.0' encoding='utf-16'?><a/>",
        "<?xml version='2.0'?><a/>",
        "<?xml version='1.0' standalone='x'?><a/>",
        "<?xml version='1.0' standalone='yes' encoding='utf-8'?><a/>",
        " <?xml version='1.0'?><a/>",
        "<a><?xml version='1.0'?></a>",
        "<?XML version='1.0'?><a/>",
        "<a xmlns='a b'/>",
        "<a xmlns=' DAV:'/>",
        "<a xmlns='DA\nV:'/>",
        "<a xmlns='&#9;u'/>",
        "<a xmlns='DA&lt;V:'/>",
        "<a xmlns='DA;V:'/>",
        "<a xmlns='2AV:'/>",
        "<a xmlns=':q'/>",
        "<a xmlns='u?>'/>",
        "<a xmlns='u&quot;'/>",
        "<a xmlns='u\x7f'/>",
        "<a xmlns='\xc3\xbc'/>",
        "<a xmlns='\xc2\x85'/>",
        "<a xmlns='%zz'/>",
        "<a xmlns='%a'/>",
        "<a xmlns=']]>'/>",
        "<a xmlns='u#a#b'/>",
        "<a xmlns='http://a:b/'/>",
        "<a xmlns='http://:/'/>",
        "<a xmlns='http://z:/'/>",
        "<a xmlns='http://z:123456/'/>",
        "<a xmlns='http://a@/'/>",
        "<a xmlns='http://[::1/'/>",
        "<a xmlns:p='1' xmlns:p='2'/>",
        "<a xmlns:p='1' xmlns:q='1' p:x='' q:x=''/>",
        "<a q:x=''/>",
        "<a xmlns:xml='a'/>",
        "<a xmlns:b='http://www.w3.org/XML/1998/namespace'/>",
        "<a>]]></a>",
        "<a><!-- -- --></a>",
        "<a><?p:q?></a>",
        "<a><?1?></a>",
        "<a>&#xfffe;</a>",
        "<a>\xef\xbf\xbf</a>",
        "<a>\xed\xa0\x80</a>",
        "<a>\xc0\x80</a>",
        "<a>\xf4\x90\x80\x80</a>",
        "<a b='&x;'/>",
        "<a b='\x0b'/>",
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *got = read_all(rows[i]);
        if (got[0] == '\0' || got[strlen(got) - 1] != '!') {
            fail_msg("\"%s\" was read as %s", rows[i], got);
        }
    }
}

static void depth_and_bindings_are_bounded(void **state)
{
    char text[8192];
    size_t used = 0;

    for (int i = 0; i < XML_DEPTH_MAX; i++) {
        used += (size_t) snprintf(text + used, sizeof(text) - used, "<a>");
    }
    size_t half = used;
    for (int i = 0; i < XML_DEPTH_MAX; i++) {
        used += (size_t) snprintf(text + used, sizeof(text) - used, "</a>");
    }
    assert_null(strchr(read_all(text), '!'));
    memmove(text + half + 4, text + half, used - half + 1);
    memcpy(text + half, "<a/>", 4);
    assert_non_null(strchr(read_all(text), '!'));
    used = (size_t) snprintf(text, sizeof(text), "<a");
    for (int i = 0; i <= XML_BINDINGS_MAX; i++) {
        used += (size_t) snprintf(text + used, sizeof(text) - used, " xmlns:p%d='u'", i);
    }
    snprintf(text + used, sizeof(text) - used, "/>");
    assert_string_equal(read_all(text), "!");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents),
        cmocka_unit_test(what_is_no_document),
        cmocka_unit_test(depth_and_bindings_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
