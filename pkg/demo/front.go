package demo

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
)

// front is what productpage has for people in front of a browser: a page of plain
// HTML that loads nothing, and links that make them somebody else.
type front struct {
	says atomic.Pointer[signs] // known when the gateway is
}

// signs are what the page says besides who served it.
type signs struct {
	try    []Try
	visits []visit
}

// visit is a link of the page: who one is behind it, and what is to be seen.
type visit struct {
	href, who, sees string
}

// signIn is where a link becomes a cookie, and hello where nobody else is asked.
const (
	signIn = "/as"
	hello  = "/hello"
)

// wantsHTML tells a browser from a program, which gets JSON.
func wantsHTML(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// other answers what is not the shop's page.
func (f *front) other(w http.ResponseWriter, r *http.Request) bool {
	switch path := r.URL.Path; {
	case path == signIn:
		f.become(w, r)
	case path == hello:
		_, _ = io.WriteString(w, "hello\n") // the caller has gone away
	case path == "/" || strings.HasPrefix(path, "/"+productpage+"/"):
		return false
	default:
		http.NotFound(w, r)
	}
	return true
}

// become sets the cookie by which the rules know a user, and goes to the page.
// The cookie is for this visit: it is kept no longer than the browser runs.
func (f *front) become(w http.ResponseWriter, r *http.Request) {
	c := &http.Cookie{Name: userCookie, Value: r.URL.Query().Get("user"), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode} //nolint:gosec // not Secure: the shop is on loopback, without TLS
	if !userName(c.Value) {
		c.Value, c.MaxAge = "", -1
	}
	http.SetCookie(w, c)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// userName says whether a text may be a user's name: nothing else goes into a
// cookie.
func userName(s string) bool {
	if s == "" || len(s) > 20 {
		return false
	}
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

const style = `body{font:16px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
h1{margin-bottom:0}table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.4rem .6rem;border-bottom:1px solid #ddd;vertical-align:top}
code,pre{font:14px/1.6 monospace}pre{background:#f4f4f4;padding:.8rem;overflow:auto}small{color:#666}
.b{padding:.1rem .5rem;border-radius:1rem;background:#e4e4e4;white-space:nowrap}.l{background:#bfe8c5}.f{background:#ffe2ac}.e{background:#ffc9c4}`

// write shows a page. All that comes from a request or from another service is
// escaped, and the browser is told to run and to load nothing.
func (f *front) write(w http.ResponseWriter, r *http.Request, p *page) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	var b strings.Builder
	b.WriteString("<!DOCTYPE html>\n<html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">" +
		"<title>lane demo: the bookshop</title><style>" + style + "</style>\n")
	fmt.Fprintf(&b, "<h1>The bookshop</h1>\n<p>%s\n", whoAmI(r, p))
	b.WriteString("<h2>Who served this page</h2>\n<table><tr><th>part<th>what it says<th>served by<th>instance\n")
	row(&b, p.Service, p.Says, served(p.By, "", ""), p.Instance)
	p.all(func(c *call) {
		if c.Page == nil {
			row(&b, c.Service, fmt.Sprintf("%d %s", c.Status, c.Code), badge("e", "nobody"), "")
			return
		}
		row(&b, c.Service, c.Page.Says, served(c.Page.By, kind(c.Decision), c.Page.Tag), c.Page.Instance)
	})
	said := f.says.Load()
	if said == nil {
		said = &signs{}
	}
	b.WriteString("</table>\n<h2>Be somebody else</h2>\n<table>\n")
	for _, v := range said.visits {
		fmt.Fprintf(&b, "<tr><td><a href=\"%s\">%s</a><td>%s\n", html.EscapeString(v.href), html.EscapeString(v.who), html.EscapeString(v.sees))
	}
	b.WriteString("</table>\n<h2>In another terminal</h2>\n<p>Each takes effect at once: reload this page.\n<pre>")
	for _, t := range said.try {
		if t.What != "" {
			fmt.Fprintf(&b, "<small># %s</small>\n", html.EscapeString(t.What))
		}
		b.WriteString(html.EscapeString(t.Command) + "\n")
	}
	b.WriteString("</pre>\n")
	_, _ = io.WriteString(w, b.String()) // the caller has gone away
}

func row(b *strings.Builder, part, says, served, instance string) {
	fmt.Fprintf(b, "<tr><td>%s<td>%s<td>%s<td><code>%s</code>\n", html.EscapeString(part), html.EscapeString(says), served, html.EscapeString(instance))
}

func badge(class, text string) string {
	return `<span class="b ` + class + `">` + html.EscapeString(text) + "</span>"
}

// served says who served a part, and why it was not the lane that was asked for.
func served(by, kind, asked string) string {
	switch {
	case by != baseline:
		return badge("l", "lane "+by)
	case strings.HasPrefix(kind, "FALLBACK"):
		return badge("f", baseline) + " <small>lane " + html.EscapeString(asked) + " has none</small>"
	case strings.HasPrefix(kind, "KILL"):
		return badge("f", baseline) + " <small>lane " + html.EscapeString(asked) + " is killed</small>"
	}
	return badge("", baseline)
}

// whoAmI says who the gateway takes the visitor for.
func whoAmI(r *http.Request, p *page) string {
	who := "You are nobody in particular"
	if c, err := r.Cookie(userCookie); err == nil && userName(c.Value) {
		who = "You are user <b>" + html.EscapeString(c.Value) + "</b>"
	}
	if p.Tag == "" || p.Tag == baseline {
		return who + ": no rule gives you a lane, and the baseline serves you."
	}
	return who + ": the gateway's rules give you lane " + badge("l", p.Tag)
}

// open has the page say where the shop is, and what can be tried.
func (f *front) open(w *World) {
	one, other := shareOf(sharePercent)[0], notIn(morePercent)
	f.says.Store(&signs{try: w.Try(), visits: []visit{
		{asUser(""), "nobody", "the baseline serves everything"},
		{asUser(laneAlice), "user " + laneAlice, "the reviews are those on alice's machine; ratings, which they call, are the baseline's (a cookie)"},
		{"/?preview=ratings", "a visitor with ?preview=ratings", "the ratings are those on bob's machine (the query)"},
		{asUser(one), "user " + one, fmt.Sprintf("one of the %d %% of the users who get the next details (a hash of the name)", sharePercent)},
		{asUser(other), "user " + other, "not one of them"},
	}})
}

// asUser is the link that makes one a user; "" is nobody.
func asUser(name string) string {
	if name == "" {
		return signIn
	}
	return signIn + "?" + url.Values{"user": {name}}.Encode()
}
