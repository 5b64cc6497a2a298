"""browser: who is modern, who is ancient, by what a User-Agent says."""

from ..engine import Config

AGENTS = (
    "", "x", "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)", "Mozilla/4.0 (compatible; MSIE 5.0; Windows 98)",
    "Mozilla/4.0 (compatible; MSIE 5.5; Windows 98)", "Mozilla/5.0 (Windows NT 10.0; WOW64; Trident/7.0; rv:11.0) like Gecko",
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", "Mozilla/5.0 (X11; U; Linux; en-US; rv:1.8.1) Gecko/2006 Firefox/2.0",
    "Mozilla/5.0 (X11; U; Linux; en-US; rv:1.0.0) Gecko/2002", "Mozilla/5.0 (X11; U; Linux; en-US; rv:0.9.4) Gecko/2001",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; U; PPC Mac OS X; en) AppleWebKit/412 (KHTML, like Gecko) Safari/412",
    "Mozilla/5.0 (compatible; Konqueror/3.5; Linux) KHTML/3.5.5 (like Gecko)", "Mozilla/5.0 (compatible; Konqueror/2.2.1; Linux)",
    "Opera/9.80 (X11; Linux) Presto/2.12.388 Version/12.16", "Mozilla/4.0 (compatible; MSIE 6.0; X11; Linux) Opera 8.50", "Opera/8.0",
    "Mozilla/5.0 (X11; rv:1.8) Gecko Opera 9.5", "Opera", "Opera/", "Opera9", "OPERA/9.5", "MSIE 6.0", "MSIE ", "MSIE 6", "MSIE 6.", "aMSIE 6.0b",
    "Mozilla/4.8 [en] (X11; U; Linux)", "Mozilla/3.0 (Win95; I)", "Mozilla/4.8", "Mozilla/5.0 (something)", "Links (2.1; Linux)", "ELinks", "links",
    "Lynx/2.8", "Mozilla/4.0 (compatible; MSIE 6.0) Links", "Mozilla/4.0 (compatible; MSIE 5.0) MSIE 6.0", "Mozilla/4.0 (compatible; MSIE x) MSIE 6.0",
    "Mozilla/4.0 (compatible; MSIE 99999999999999999999.0)", "Mozilla/4.0 (compatible; MSIE 6", "Mozilla/4.0 (compatible; MSIE ",
    "Mozilla/5.0 (compatible; Konqueror/3.5) Safari/400", "Mozilla/5.0 (rv:1) MSIE 6.0", "curl/8.5.0")

CONFIGS = [
    Config("browser", r"""
        add_header X-Modern "<$modern_browser>" always;
        add_header X-Ancient "<$ancient_browser>" always;
        add_header X-MSIE "<$msie>" always;
        log_format oracle_browser "$status $modern_browser $ancient_browser $msie";
        server {
            listen 127.0.0.1:@PORT@;
            access_log logs/oracle.browser oracle_browser;
            location / { empty_gif; }
            location /all { modern_browser msie 5.5; modern_browser gecko 1.0.0; modern_browser opera 9.0; modern_browser safari 413;
                modern_browser konqueror 3.0; modern_browser unlisted; ancient_browser Links Lynx netscape4; empty_gif;
                location /all/values { modern_browser_value first; modern_browser_value new$uri; ancient_browser_value old; empty_gif; }
                location /all/unlisted { modern_browser unlisted; empty_gif; }
                location /all/links { ancient_browser Links; empty_gif; }
                location /all/msie { modern_browser msie 6; empty_gif; } }
            location /listed { modern_browser safari 413; modern_browser konqueror 3.0; modern_browser msie 5.5; modern_browser gecko 1.8; empty_gif; }
            location /rest { modern_browser unlisted; ancient_browser Opera; empty_gif; }
            location /any { modern_browser unlisted; ancient_browser ""; empty_gif; }
            location /set { set $msie mine; set $modern_browser yours; empty_gif; }
            location /if { modern_browser unlisted; if ($modern_browser) { return 403; } empty_gif; }
        }
        """, "\n".join("GET %s | User-Agent: %s" % (target, agent) for target in ("/all", "/listed", "/rest") for agent in AGENTS)
        + "\n" + "\n".join("GET %s | User-Agent: %s" % (target, agent) for target in (
            "/", "/all/values", "/all/unlisted", "/all/links", "/all/msie", "/any", "/set", "/if")
            for agent in ("x", "Links", "Lynx", "Opera 9", "Mozilla/4.0 (compatible; MSIE 5.9)", "Mozilla/5.0 (X11; rv:1.8)"))
        + "\n" + "\n".join("GET " + target for target in ("/", "/all", "/listed", "/rest", "/any", "/set"))
        + "\nGET /all | User-Agent: Links | User-Agent: x\nHEAD /all | User-Agent: Links\nGET /all HTTP/1.0 | User-Agent: Links"),
]
