package cmd

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/printer"

	"github.com/spf13/cobra"
)

type verifyOptions struct {
	url     string
	lane    string
	headers []string
	limit   time.Duration
	json    bool
}

func newVerifyCmd(f *factory) *cobra.Command {
	o := &verifyOptions{}
	c := &cobra.Command{
		Use:   "verify URL",
		Short: "Send one tagged and one untagged request, and check where each was served",
		Long: `Send the URL twice through the session's proxy, once tagged with the lane and once
untagged, with GET. It exits 0 only if the lane served the first one and the
baseline the second one.`,
		Example:           `  lane verify http://order-service/api/orders/42`,
		Args:              takes("URL"),
		ValidArgsFunction: f.completeURL,
		RunE: func(c *cobra.Command, args []string) error {
			o.url = args[0]
			return runVerify(c.Context(), f, o)
		},
	}
	addFlag(c, &o.lane, "lane", "", aLane, "the lane, if several sessions run")
	addFlags(c, &o.headers, "header,H", aHeader, "header of both requests")
	addFlag(c, &o.limit, "timeout", "30s", duration(time.Millisecond, longest), "how long each request may take")
	jsonFlag(c, &o.json)
	_ = c.RegisterFlagCompletionFunc("lane", f.completeLanes)
	return c
}

// verifyResult is the JSON form of `lane verify`.
type verifyResult struct {
	Schema string        `json:"schema"`
	URL    string        `json:"url"`
	Lane   string        `json:"lane"`
	OK     bool          `json:"ok"`
	Checks []verifyCheck `json:"checks"`
}

// verifyCheck is one request and where it was served.
type verifyCheck struct {
	Request  string `json:"request"` // tagged | untagged
	OK       bool   `json:"ok"`
	Want     string `json:"want"`
	Decision string `json:"decision"` // X-Lane-Decision, as received
	Status   int    `json:"status"`
	Error    string `json:"error,omitempty"`
}

func runVerify(ctx context.Context, f *factory, o *verifyOptions) error {
	target, head, err := request(o.url, o.headers)
	if err != nil {
		return err
	}
	s, client, err := f.prober(ctx, target, o.lane, o.limit)
	if err != nil {
		return err
	}
	client.Transport.(*http.Transport).DisableKeepAlives = true
	name := string(s.Status.Lane)
	res := verifyResult{Schema: "lane.verify/v1", URL: target.String(), Lane: name}
	for _, c := range []struct{ request, tag, want string }{
		{"tagged", name, string(lane.KindLaneMatch) + "; lane=" + name},
		{"untagged", lane.BaselineTag, string(lane.KindBaseline)},
	} {
		check := ask(ctx, client, target, head, c.tag)
		check.Request, check.Want = c.request, c.want
		check.OK = check.Error == "" && served(check.Decision, c.want)
		res.Checks = append(res.Checks, check)
	}
	res.OK = res.Checks[0].OK && res.Checks[1].OK
	if err := f.printVerify(o.json, &res); err != nil {
		return err
	}
	if !res.OK {
		return &exitError{code: exitFailed}
	}
	return nil
}

// prober is a session, and a client that sends through its proxy and by nobody else's.
func (f *factory) prober(ctx context.Context, target *url.URL, name string, limit time.Duration) (control.Found, *http.Client, error) {
	if target.Scheme != "http" && target.Scheme != "https" {
		return control.Found{}, nil, usagef("ask for http://"+target.Host+"/", "%q is neither http nor https", target.Scheme+"://"+target.Host)
	}
	s, err := f.session(ctx, name)
	if err != nil {
		return s, nil, err
	}
	if target.Scheme == "https" && len(s.Status.Mitm) == 0 {
		return s, nil, usagef("ask for http://"+target.Host+"/, or list it under mitm in lane.yaml", "what is in TLS cannot be tagged: lane %s opens none", s.Status.Lane)
	}
	roots, err := f.sessionRoots(&s.Status)
	if err != nil {
		return s, nil, err
	}
	proxy, err := url.Parse(s.Status.Proxy)
	if err != nil {
		return s, nil, fmt.Errorf("the session's proxy: %w", err)
	}
	return s, &http.Client{
		Timeout: limit,
		Transport: &http.Transport{Proxy: http.ProxyURL(proxy),
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
		// Where the first answer came from is the question.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// served says whether a decision is the wanted one: its first words.
func served(decision, want string) bool {
	return decision == want || len(decision) > len(want) && decision[:len(want)] == want && decision[len(want)] == ';'
}

func ask(ctx context.Context, client *http.Client, target *url.URL, head http.Header, tag string) verifyCheck {
	var c verifyCheck
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		c.Error = err.Error()
		return c
	}
	for k, v := range head {
		req.Header[k] = v
	}
	req.Header.Set(lane.HeaderTag, tag)
	res, err := client.Do(req)
	if err != nil {
		c.Error = err.Error()
		return c
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20)) // where it came from is in the head
	c.Status, c.Decision = res.StatusCode, res.Header.Get(lane.HeaderDecision)
	return c
}

func (f *factory) printVerify(asJSON bool, res *verifyResult) error {
	if asJSON {
		return f.printJSON(res)
	}
	t := printer.NewTable(f.io, "REQUEST", "RESULT", "STATUS", "SERVED BY")
	for _, c := range res.Checks {
		result := printer.As(printer.Good, "ok")
		if !c.OK {
			result = printer.As(printer.Bad, "wrong: expected "+c.Want)
		}
		from := c.Decision
		if c.Error != "" {
			from = c.Error
		}
		who := c.Request
		if c.Request == "tagged" {
			who += " " + res.Lane
		}
		t.Row(printer.Text(who), result, printer.Text(fmt.Sprint(c.Status)), printer.Text(from))
	}
	return t.Flush()
}
