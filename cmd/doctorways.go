package cmd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"time"

	"lane/pkg/childenv"
	"lane/pkg/doctor"
	"lane/pkg/lane"

	"golang.org/x/net/http/httpproxy"
)

// ways sends tagged requests to a listener of its own on the advertised address:
// directly, and through the proxy that the environment names, if that would take them.
func (d *diagnosis) ways(ctx context.Context, a doctor.Address) []doctor.Finding {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", netip.AddrPortFrom(a.IP, 0).String())
	if err != nil {
		a.Err = err
		return a.Findings()
	}
	e := &ear{heard: map[string]http.Header{}}
	srv := &http.Server{Handler: e, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(ln) // it ends with Close
	}()
	defer func() {
		_ = srv.Close()
		<-served
	}()
	target := &url.URL{Scheme: "http", Host: ln.Addr().String()}
	direct := d.way(ctx, e, target, nil)
	if direct.Err != nil {
		a.Err = direct.Err
		return a.Findings()
	}
	out := append(a.Findings(), direct.Findings()...)
	if by := d.inherited(target); by != nil {
		out = append(out, d.way(ctx, e, target, by).Findings()...)
	}
	return out
}

// inherited is the proxy of the environment, if it is not one of ours, that a program
// would use for a URL.
func (d *diagnosis) inherited(target *url.URL) *url.URL {
	var own []string
	for _, s := range d.seen.Running {
		own = append(own, s.Status.Proxy)
	}
	var cfg httpproxy.Config
	cfg.HTTPProxy, cfg.HTTPSProxy, cfg.NoProxy = childenv.Inherited(d.f.environ, runtime.GOOS == "windows", own...)
	by, err := cfg.ProxyFunc()(target)
	if err != nil {
		return nil // the check of the variables says so
	}
	return by
}

// way sends one tagged request through a proxy, nil for none, and compares what
// arrives.
func (d *diagnosis) way(ctx context.Context, e *ear, target, by *url.URL) doctor.Way {
	w := doctor.Way{By: "directly to " + target.Host}
	if by != nil {
		w.By = "through " + by.Host
	}
	token := "/" + rand.Text()
	head, err := d.tagged(probeTag())
	if err != nil {
		w.Err = err
		return w
	}
	if _, err := d.get(ctx, target.JoinPath(token), head, by); err != nil {
		w.Err = err
		return w
	}
	got := e.got(token)
	if got == nil {
		w.Err = errors.New("the proxy answers, and has not passed the request on: it does not reach this machine")
		return w
	}
	w.Sent, w.Got = map[string]string{}, map[string]string{}
	for name := range head {
		w.Sent[name], w.Got[name] = head.Get(name), strings.Join(got.Values(name), ", ")
	}
	return w
}

// probeTag is a lane that nobody has.
func probeTag() string { return "doctor-" + strings.ToLower(rand.Text()[:8]) }

// tagged is the head of a request with a tag, as the settings' carriers have it.
func (d *diagnosis) tagged(tag string) (http.Header, error) {
	car := lane.DefaultCarriers()
	if d.invalid == nil {
		var err error
		if car, err = d.settings.Carriers(); err != nil {
			return nil, err
		}
	}
	written := map[string][]string{}
	car.Write(written, tag)
	head := http.Header{}
	for name, values := range written {
		for _, v := range values {
			head.Add(name, v)
		}
	}
	return head, nil
}

// heard is what is of use of an answer.
type heard struct {
	status         int
	decision, body string
}

func (d *diagnosis) get(ctx context.Context, target *url.URL, head http.Header, by *url.URL) (heard, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return heard{}, err
	}
	req.Header = head.Clone()
	t := &http.Transport{Proxy: http.ProxyURL(by), DisableKeepAlives: true}
	res, err := t.RoundTrip(req)
	if err != nil {
		return heard{}, err
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return heard{res.StatusCode, res.Header.Get(lane.HeaderDecision), string(body)}, err
}

// checkProbe sends one tagged request to where the user said.
func (d *diagnosis) checkProbe(ctx context.Context) []doctor.Finding {
	if d.o.probe == "" {
		return nil
	}
	p := doctor.Probe{URL: d.o.probe, Tag: d.settings.Lane}
	if p.Tag == "" {
		p.Tag = probeTag()
	}
	target, _, err := request(d.o.probe, nil)
	if err != nil {
		p.Err = err
		return p.Findings()
	}
	head, err := d.tagged(p.Tag)
	if err != nil {
		p.Err = err
		return p.Findings()
	}
	res, err := d.get(ctx, target, head, d.inherited(target))
	if err != nil {
		p.Err = err
		return p.Findings()
	}
	p.Status, p.Decision, p.Echoed = res.status, res.decision, strings.Contains(res.body, p.Tag)
	return p.Findings()
}

// ear hears what arrives, by path.
type ear struct {
	mu    sync.Mutex
	heard map[string]http.Header
}

func (e *ear) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.heard) < 8 { // anybody may call it
		e.heard[r.URL.Path] = r.Header
	}
	fmt.Fprintln(w, "lane doctor")
}

func (e *ear) got(path string) http.Header {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heard[path]
}
