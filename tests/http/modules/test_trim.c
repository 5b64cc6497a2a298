/* Tests of trimming HTML, scripts and styles, however the text is cut. */
#include "base/unit.h"

#include "base/arena.h"
#include "http/modules/filters/trim/trimmer.h"

static struct arena arena;

static int set_up(void **state)
{
    arena_init(&arena);
    return 0;
}

static int tear_down(void **state)
{
    arena_free(&arena);
    return 0;
}

/* The text, trimmed in pieces of `step` bytes. */
static struct str trimmed(struct str text, size_t step, bool is_all)
{
    struct trimmer trimmer = {.trims_scripts = is_all, .trims_styles = is_all};
    char *start = arena_text(&arena, text.len + TRIM_HELD);
    char *at = start;
    bool is_last;

    do {
        struct str piece = str_head(text, step);
        char *copy = arena_cstr(&arena, piece); /* a place of its own: what is read later is seen */

        text = str_skip(text, piece.len);
        is_last = text.len == 0;
        at = trimmer_feed(&trimmer, (struct str){copy, piece.len}, is_last, at);
        memset(copy, '#', piece.len);
    } while (!is_last);
    return str_from(start, at);
}

#define assert_trimmed(text, expected)                                                             \
    do {                                                                                           \
        for (size_t step = 1; step <= sizeof(text); step++) {                                      \
            assert_text(trimmed(STR(text), step, true), expected);                                 \
        }                                                                                          \
    } while (0)

/* Of a script, of a style. */
#define assert_script(text, expected)                                                              \
    assert_trimmed("<script>" text "</script>", "<script>" expected "</script>")
#define assert_style(text, expected)                                                               \
    assert_trimmed("<style>" text "</style>", "<style>" expected "</style>")

static void text_loses_white_space(void **state)
{
    assert_trimmed("", "");
    assert_trimmed("a b", "a b");
    assert_trimmed("a   b\t\tc", "a b c");
    assert_trimmed("a\r\n\r\n\nb", "a\nb");
    assert_trimmed("a \n  b", "a \n b");
    assert_trimmed("1 < 2  and 3 <  4", "1 < 2 and 3 < 4");
    assert_trimmed("a <", "a <");
    assert_trimmed("<<  <a>", "<< <a>");
}

static void tags_keep_what_is_quoted(void **state)
{
    assert_trimmed("<a   href='x  y'\r\n\ttitle=\"a  >  b\"  >  t</a  >",
                   "<a href='x  y' title=\"a  >  b\"> t</a>");
    assert_trimmed("<a title=it's   b>  x's  y", "<a title=it's b> x's y");
    assert_trimmed("<a title = \"a  b\">", "<a title=\"a  b\">");
    assert_trimmed("<a title\n=\t'a  b' x  y=1   />  z", "<a title='a  b' x y=1 /> z");
    assert_trimmed("< a  =  b>", "< a = b>");
    assert_trimmed("<!DOCTYPE   html>\n\n<p>", "<!DOCTYPE html>\n<p>");
    assert_trimmed("<!DOCTYPE  html  PUBLIC\n  \"-//W3C//DTD  X//EN\"  'a  b'  >  x",
                   "<!DOCTYPE html PUBLIC \"-//W3C//DTD  X//EN\" 'a  b'> x");
    assert_trimmed("<!DOCTYPE html \"a  >  b  \"  c", "<!DOCTYPE html \"a  > b \" c");
    assert_trimmed("<!>  x", "<!> x");
    assert_trimmed("<?xml   version='1'?>", "<?xml version='1'?>");
}

static void elements_keep_their_text(void **state)
{
    assert_trimmed("<pre  x>\n  a  <!-- b -->\n</pre>  c", "<pre x>\n  a  <!-- b -->\n</pre> c");
    assert_trimmed("<TextArea>  a\r\n\r\n</textAREA >  b", "<TextArea>  a\r\n\r\n</textAREA> b");
    assert_trimmed("<prex>  a", "<prex> a");
    assert_trimmed("<pre/>  a</pre", "<pre/>  a</pre");
    assert_trimmed("<pre>  </prefix>  </pre>  a", "<pre>  </prefix>  </pre> a");
    assert_trimmed("<pre>  <PRE >  </pre>  <pre\n>  </pre >  </pre>  a  <pre>  </pre>  b",
                   "<pre>  <PRE >  </pre>  <pre\n>  </pre >  </pre> a <pre>  </pre> b");
    assert_trimmed("<pre>  <prefix>  </pre>  a", "<pre>  <prefix>  </pre> a");
    assert_trimmed("<textarea>  <pre>  <textarea>  </textarea>  a",
                   "<textarea>  <pre>  <textarea>  </textarea> a");
    assert_trimmed("<script src=a>  a  </script>  b", "<script src=a>  a  </script> b");
    assert_trimmed("<script type='module'>a  b</script>", "<script type='module'>a  b</script>");
    assert_text(trimmed(STR("<script>a  b</script>  <style>a  b</style>  c"), 3, false),
                "<script>a  b</script> <style>a  b</style> c");
}

static void comments_go(void **state)
{
    assert_trimmed("a<!-- b -->c", "ac");
    assert_trimmed("a <!-- b --> c", "a c");
    assert_trimmed("a<!-->b<!--->c<!---->d<!-- x --!>e<!----->f", "abcdef");
    assert_trimmed("a<!--!>b-->c", "ac");
    assert_trimmed("a<!-- -- > -->b", "ab");
    assert_trimmed("a<!- b  c>", "a<!- b c>");
    assert_trimmed("a<!-- b", "a");
    assert_trimmed("a<!--e--><!--[x--><!--es-->b", "ab");
}

static void some_comments_stay(void **state)
{
    assert_trimmed("<!--#include   virtual='x' -->  a", "<!--#include   virtual='x' --> a");
    assert_trimmed("<!--esi  <p>  -->  a", "<!--esi  <p>  --> a");
    assert_trimmed("<!--[if IE]>  <p>  --> <![endif]-->  a",
                   "<!--[if IE]>  <p>  --> <![endif]--> a");
    assert_trimmed("<!--[IF  x", "<!--[IF  x");
    assert_trimmed("a<!--es", "a<!--es");
}

static void scripts(void **state)
{
    assert_script("\n  var  a =\n  1;\r\n\n  f ( a , b ) ;\n", "var a =1;f (a ,b ) ;");
    assert_script("a\nb  c", "a\nb c");
    assert_script("a\t b \tc  \n\t d\t=\te", "a\tb c\nd\t=e");
    assert_script("a // b\nc /* d */ e /* \n */ f", "a\nc e\nf");
    assert_script("a/*x*/b", "a b");
    assert_script("a/*x*/= 1/**/;", "a=1;");
    assert_script("f(/*x*/a/*y*/,/*z*/b)/**/;", "f(a,b);");
    assert_script("a +/**/+ b", "a + + b");
    assert_script("a+/**/+b - 1/**/.x", "a+ +b - 1 .x");
    assert_script("a</**/!--b", "a< !--b");
    assert_script("a/*\n*/b", "a\nb");
    assert_script("'a  //  b' + \"/*  x\"", "'a  //  b' + \"/*  x\"");
    assert_script("'it\\'s  x' + 'a\\\r\n  b'  + c", "'it\\'s  x' + 'a\\\r\n  b' + c");
    assert_script("x = /a  [/*]  \\/ b/g ;  y", "x =/a  [/*]  \\/ b/g ;y");
    assert_script("x = a / b  / c;  // d\ny", "x =a / b / c;y");
    assert_script("return  /a  b/.test(c)", "return /a  b/.test(c)");
    assert_script("x = a++  / 2  // y", "x =a++ / 2  // y");
    assert_script("if (a)  /b  c/.test(d)", "if (a) /b  c/.test(d)");
    assert_script("a;  b = `x  ${1}`;  c  // d", "a;b =`x  ${1}`;  c  // d");
    assert_script("a;\n<!--  b\nc  d\n//-->", "a;<!--  b\nc  d\n//-->");
    assert_script("//-->", "");
    assert_script("// a </script>  b <script>", "</script> b <script>");
    assert_trimmed("<script>/* a </SCRIPT >  b", "<script></SCRIPT> b");
    assert_trimmed("<script>  a  /", "<script>a /");
    assert_trimmed("<script  type=\"text/javascript\" > a  = 1</script>",
                   "<script type=\"text/javascript\">a =1</script>");
    assert_trimmed("<script type = 'text/javascript'> a  = 1</script>",
                   "<script type='text/javascript'>a =1</script>");
    assert_trimmed("<script type=text/javascript> a  = 1</script>",
                   "<script type=text/javascript>a =1</script>");
    assert_script("a = '</scripty>'  + b", "a ='</scripty>' + b");
}

/* Tengine's documentation has this page. */
static void a_page_as_it_is_documented(void **state)
{
    assert_trimmed(
        "<!DOCTYPE html>\n<textarea  >\n   trim\n        module\n</textarea  >\n<!--remove all-->\n"
        "<!--[if IE]> trim module <![endif]-->\n<!--[if !IE ]>--> trim module  <!--<![endif]-->\n"
        "<!--# ssi-->\n<!--esi-->\n<pre    style  =\n    \"color:   blue\"  >Welcome    to    nginx!"
        "</pre  >\n<script type=\"text/javascript\">\n/***  muitl comment \n                   ***/\n"
        "//// single comment\nstr.replace(/     /,\"hello\");\n</script>\n<style   type=\"text/css\"  >\n"
        "/*** css comment\n                 ! ***/\nbody\n{\n  font-size:  20px ;\n"
        "  line-height: 150% ;\n}\n</style>\n",
        "<!DOCTYPE html>\n<textarea>\n   trim\n        module\n</textarea>\n"
        "<!--[if IE]> trim module <![endif]-->\n<!--[if !IE ]>--> trim module  <!--<![endif]-->\n"
        "<!--# ssi-->\n<!--esi-->\n<pre style=\"color:   blue\">Welcome    to    nginx!</pre>\n"
        "<script type=\"text/javascript\">str.replace(/     /,\"hello\");</script>\n"
        "<style type=\"text/css\">body{font-size:20px;line-height:150%;}</style>\n");
}

static void styles(void **state)
{
    assert_style("\n a  b ,\r\n c > d {\n color : red ;\n margin: 1px  2px }\n",
                 "a b,c>d{color:red;margin:1px 2px}");
    assert_style("a  :hover{x:y}", "a :hover{x:y}");
    assert_style("@media x  { a  :hover { b : c ; d : e  f } } g  :h { i : j }",
                 "@media x{a :hover{b:c;d:e f}}g :h{i:j}");
    assert_style("@font-face  { a : b } @page  :first { c : d } e  :f { g : h }",
                 "@font-face{a:b}@page :first{c:d}e :f{g:h}");
    assert_style("@import  'a' ; b  :c { d : e } ", "@import 'a';b :c{d:e}");
    assert_style("a /* b */ c{}", "a c{}");
    assert_style("a/* b */.c{} a{margin:1px/**/2px}", "a.c{}a{margin:1px/**/2px}");
    assert_style("a/**/b a[b]/**/.c #/**/d", "a/**/b a[b].c #/**/d");
    assert_style("a{/* b */c:d;/* e */}", "a{c:d;}");
    assert_style("html>/**/body {}", "html>/**/body{}");
    assert_style("a {} /*\\*/ b  {  } /* end  */  c {}", "a{}/*\\*/ b  {  } /* end  */c{}");
    assert_style("a:after { content: '  ;  ' }", "a:after{content:'  ;  '}");
    assert_style(".a\\;  b {}", ".a\\; b{}");
    assert_style("a { b: url( x  /*y ) ; c: url( '  )  ' ) }",
                 "a{b:url( x  /*y );c:url( '  )  ' )}");
    assert_style("/* a </style>  b <style>", "</style> b <style>");
    assert_style("font: 12px / 14px  x", "font:12px / 14px x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_loses_white_space),
        cmocka_unit_test(tags_keep_what_is_quoted),
        cmocka_unit_test(elements_keep_their_text),
        cmocka_unit_test(comments_go),
        cmocka_unit_test(some_comments_stay),
        cmocka_unit_test(scripts),
        cmocka_unit_test(styles),
        cmocka_unit_test(a_page_as_it_is_documented),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
