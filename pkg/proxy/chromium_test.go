//go:build unix

package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lane/pkg/rules"
)

// browsed is what a page does, and says of it: each answer's text, or that there is none.
const browsed = `<script>(async () => {
  const said = {};
  const ask = async (name, url, options) => {
    try { said[name] = await (await fetch(url, options)).text(); } catch (e) { said[name] = e.name; }
  };
  const tag = { headers: { "x-lane-tag": "dev-alice" } };
  const post = { method: "POST", body: "{}", headers: { "x-lane-tag": "dev-alice", "content-type": "application/json" } };
  for (const [name, url] of Object.entries(GATEWAYS)) {
    await ask(name + " post", url + "/post", post);
    await ask(name + " lane", url + "/first-the-lane", tag);
    await ask(name + " lane, then base", url + "/first-the-lane");
    await ask(name + " base", url + "/first-the-base");
    await ask(name + " base, then lane", url + "/first-the-base", tag);
  }
  await fetch("/said", { method: "POST", body: JSON.stringify(said) });
})();</script>`

// A real browser sends the tag across origins where it is allowed to, and shows no lane's
// answer to another where no copy may be kept; and without either it is as it was.
func TestChromium(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("there is no chromium: scripts/tools installs it")
	}
	said := make(chan map[string]string, 1)
	var gateways atomic.Pointer[string] // the browser comes when it is there, of which the race detector does not know
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, strings.Replace(browsed, "GATEWAYS", *gateways.Load(), 1))
		case "/said":
			var all map[string]string
			if json.NewDecoder(r.Body).Decode(&all) == nil {
				said <- all
			}
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(pages.Close)
	// The service lets that page in, knows of no tag, and has its answers kept.
	served := func(name string) *backend {
		return newBackend(t, name, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Access-Control-Allow-Origin", pages.URL)
			w.Header().Set("Access-Control-Allow-Headers", "content-type")
			w.Header().Set("Cache-Control", "max-age=3600")
			if r.Method != http.MethodOptions {
				fmt.Fprint(w, name)
			}
		})
	}
	mine, base := served("lane"), served("base")
	urls := map[string]string{}
	for name, b := range map[string]Browsers{
		"plain": {}, "tag": {AllowTag: true}, "lane": {AllowTag: true, NoStore: NoStoreLane}, "all": {AllowTag: true, NoStore: NoStoreAll},
	} {
		e := newEnv(t, func(c *Config) { c.Browsers = b })
		e.reg.set(service("svc", instance("l", mine.addr(), "dev-alice"), instance("b", base.addr(), "")))
		g, err := NewGateway(e.tr, GatewayConfig{Routes: []Route{{Service: "svc"}},
			Color: func(_ context.Context, r *rules.Request) (rules.Result, rules.Revision) {
				return rules.Result{Tag: r.Tag, Source: rules.SourceHeader}, rules.Revision{}
			}})
		if err != nil {
			t.Fatal(err)
		}
		urls[name] = "http://" + e.serve(g.Serve)
	}
	text, err := json.Marshal(urls)
	if err != nil {
		t.Fatal(err)
	}
	list := string(text)
	gateways.Store(&list)

	profile, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--no-proxy-server", "--remote-debugging-port=0", "--user-data-dir="+profile, pages.URL+"/")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + profile}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its renderers too
		_ = cmd.Wait()
		_ = os.RemoveAll(profile)
	})
	const refused = "TypeError" // what fetch makes of a preflight that does not allow it
	want := map[string]string{
		"plain post": refused, "plain lane": refused, "plain lane, then base": "base", "plain base": "base", "plain base, then lane": refused,
		"tag post": "lane", "tag lane": "lane", "tag lane, then base": "lane", "tag base": "base", "tag base, then lane": "base",
		"lane post": "lane", "lane lane": "lane", "lane lane, then base": "base", "lane base": "base", "lane base, then lane": "base",
		"all post": "lane", "all lane": "lane", "all lane, then base": "base", "all base": "base", "all base, then lane": "lane",
	}
	select {
	case got := <-said:
		for name, text := range want {
			if got[name] != text {
				t.Errorf("%s: %q, want %q", name, got[name], text)
			}
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the page has said nothing")
	}
}
