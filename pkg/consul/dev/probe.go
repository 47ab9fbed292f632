package dev

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const probeTimeout = 10 * time.Second // Consul's default

func (r *Registry) dueProbes(now time.Time) []*agentCheck {
	var out []*agentCheck
	for _, ac := range r.agent.checks {
		if !ac.probing && due(ac.nextProbe, now) {
			ac.probing = true
			out = append(out, ac)
		}
	}
	return out
}

// probe makes one HTTP or TCP check and takes its result, unless the check was
// replaced meanwhile.
func (r *Registry) probe(ctx context.Context, ac *agentCheck) {
	timeout := time.Duration(ac.def.Timeout)
	if timeout <= 0 {
		timeout = probeTimeout
	}
	probing, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var status, output string
	if ac.def.HTTP != "" {
		status, output = probeHTTP(probing, ac.def)
	} else {
		status, output = probeTCP(probing, ac.def)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	ac.probing = false
	ac.nextProbe = r.now().Add(time.Duration(ac.def.Interval))
	r.poke()
	if ctx.Err() != nil || r.agent.checks[ac.check.CheckID] != ac {
		return
	}
	r.takeResult(ac, status, output)
}

// takeResult counts results before it believes them.
func (r *Registry) takeResult(ac *agentCheck, status, output string) {
	if status != critical {
		ac.successes, ac.failures = ac.successes+1, 0
		if ac.successes >= ac.def.SuccessBeforePassing {
			r.updateCheck(ac, status, output)
		}
		return
	}
	ac.failures, ac.successes = ac.failures+1, 0
	warn := ac.def.FailuresBeforeWarning
	if warn == 0 {
		warn = ac.def.FailuresBeforeCritical
	}
	switch {
	case ac.failures >= ac.def.FailuresBeforeCritical:
		r.updateCheck(ac, critical, output)
	case ac.failures >= warn:
		r.updateCheck(ac, warning, output)
	}
}

func probeHTTP(ctx context.Context, def *checkType) (status, output string) {
	method := def.Method
	if method == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, def.HTTP, strings.NewReader(def.Body))
	if err != nil {
		return critical, err.Error()
	}
	for k, v := range def.Header {
		req.Header[http.CanonicalHeaderKey(k)] = v
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "Consul Health Check")
	}
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "text/plain, text/*, */*")
	}
	// Its own transport, with no proxy ever: a check that went through the
	// developer's proxy would ask the wrong service.
	transport := &http.Transport{
		Proxy:             nil,
		DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			ServerName:         def.TLSServerName,
			InsecureSkipVerify: def.TLSSkipVerify, //nolint:gosec // the check's own definition asks for it
		},
	}
	client := &http.Client{Transport: transport}
	if def.DisableRedirects {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	resp, err := client.Do(req)
	if err != nil {
		return critical, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, checkMaxOutput))
	output = fmt.Sprintf("HTTP %s %s: %s Output: %s", method, def.HTTP, resp.Status, body)
	switch {
	case resp.StatusCode/100 == 2:
		return passing, output
	case resp.StatusCode == http.StatusTooManyRequests:
		return warning, output
	}
	return critical, output
}

func probeTCP(ctx context.Context, def *checkType) (status, output string) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", def.TCP)
	if err != nil {
		return critical, err.Error()
	}
	_ = conn.Close()
	return passing, fmt.Sprintf("TCP connect %s: Success", def.TCP)
}
