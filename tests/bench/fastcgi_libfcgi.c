/* fastcgi_libfcgi: the smallest FastCGI application on libfcgi, as many are: one request at a time,
 * and one connection; spawn-fcgi starts several processes of it. The answer has 13 bytes. */
#include <fcgiapp.h>

int main(void)
{
    FCGX_Stream *in, *out, *err;
    FCGX_ParamArray params;

    while (FCGX_Accept(&in, &out, &err, &params) >= 0)
        FCGX_PutS("Content-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, world\n", out);
    return 0;
}
