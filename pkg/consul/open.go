package consul

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/consul/api"
)

// callTimeout is the deadline of every call that does not wait for a change.
const callTimeout = 5 * time.Second

// Config says which registry, and as whom. An empty field takes the value of
// Consul's own environment variable (CONSUL_HTTP_ADDR, CONSUL_HTTP_TOKEN,
// CONSUL_HTTP_TOKEN_FILE, CONSUL_HTTP_AUTH, CONSUL_HTTP_SSL,
// CONSUL_HTTP_SSL_VERIFY, CONSUL_TLS_SERVER_NAME, CONSUL_CACERT, CONSUL_CAPATH,
// CONSUL_CLIENT_CERT, CONSUL_CLIENT_KEY, CONSUL_NAMESPACE, CONSUL_PARTITION).
type Config struct {
	Address    string // host:port, http(s)://host[:port][/prefix] or unix:///path
	Datacenter string
	Namespace  string
	Partition  string
	Token      string
	TokenFile  string // wins over Token, as in Consul's own tools
	CAFile     string
	CertFile   string // client certificate; needs KeyFile
	KeyFile    string

	// Getenv reads the environment; nil is os.Getenv.
	Getenv func(string) string
}

// Client talks to one registry. It is safe for concurrent use.
type Client struct {
	api        *api.Client
	transport  *http.Transport
	scheme     string
	hostport   string // empty for a unix socket
	socket     string
	prefix     string
	namespace  string
	datacenter string // of the settings; empty: the agent's own
	token      string
	basic      *api.HttpBasicAuth        // nil: none
	reached    atomic.Pointer[string]    // where the registry last took a connection, by number
	astray     atomic.Pointer[time.Time] // the last write of which nobody knows what became
}

// Open validates the settings and makes a client. It sends nothing: use Ping.
// The error is a *ValidationError that names the setting.
func Open(cfg Config) (*Client, error) {
	env := cfg.Getenv
	if env == nil {
		env = os.Getenv
	}
	get := func(own, name string) string {
		if own != "" {
			return own
		}
		return env(name)
	}

	addr, err := parseAddress(get(cfg.Address, api.HTTPAddrEnvName))
	if err != nil {
		return nil, err
	}
	ssl, err := envBool(env, api.HTTPSSLEnvName, false)
	if err != nil {
		return nil, err
	}
	if ssl {
		addr.scheme = "https" // never back to http when TLS was asked for
	}
	verify, err := envBool(env, api.HTTPSSLVerifyEnvName, true)
	if err != nil {
		return nil, err
	}
	token, err := readToken(cfg, env)
	if err != nil {
		return nil, err
	}
	tls := api.TLSConfig{
		Address:            env(api.HTTPTLSServerName),
		CAFile:             get(cfg.CAFile, api.HTTPCAFile),
		CAPath:             env(api.HTTPCAPath),
		CertFile:           get(cfg.CertFile, api.HTTPClientCert),
		KeyFile:            get(cfg.KeyFile, api.HTTPClientKey),
		InsecureSkipVerify: !verify,
	}
	tlsConfig, err := api.SetupTLSConfig(&tls)
	if err != nil {
		return nil, &ValidationError{Field: "the registry's TLS settings", Value: tls.CAFile, Why: err.Error(),
			Fix: "check CONSUL_CACERT, CONSUL_CAPATH, CONSUL_CLIENT_CERT and CONSUL_CLIENT_KEY"}
	}

	dialer := &net.Dialer{Timeout: callTimeout, KeepAliveConfig: net.KeepAliveConfig{
		// A watch that hangs on a dead connection is found out within 30 s.
		Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
	}}
	transport := &http.Transport{
		// No proxy of the environment: with lane's own variables set, lane
		// would call itself.
		Proxy: nil,
		// A custom TLSClientConfig keeps HTTP/1.1: each watch has a connection of
		// its own, so one dead connection does not stall the others.
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: callTimeout,
		MaxIdleConns:        64,
		// All developers behind one address share the agent's limit of
		// connections: what is not in use is given back.
		MaxIdleConnsPerHost:   1,
		IdleConnTimeout:       10 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
	c := &Client{transport: transport, scheme: addr.scheme, hostport: addr.hostport,
		socket: addr.socket, prefix: addr.prefix}
	host := addr.hostport
	transport.DialContext = func(ctx context.Context, network, at string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, at)
		if err == nil {
			at := conn.RemoteAddr().String()
			c.reached.Store(&at)
		}
		return conn, err
	}
	if addr.socket != "" {
		host = "localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", addr.socket)
		}
	}
	c.namespace = get(cfg.Namespace, api.HTTPNamespaceEnvName)
	c.datacenter, c.token = cfg.Datacenter, token
	conf := &api.Config{
		Address: host, Scheme: addr.scheme, PathPrefix: addr.prefix,
		Datacenter: cfg.Datacenter, Namespace: c.namespace,
		Partition: get(cfg.Partition, api.HTTPPartitionEnvName),
		Token:     token, Transport: transport,
		HttpClient: &http.Client{Transport: transport},
	}
	if auth := env(api.HTTPAuthEnvName); auth != "" {
		user, pass, _ := strings.Cut(auth, ":")
		conf.HttpAuth = &api.HttpBasicAuth{Username: user, Password: pass}
		c.basic = conf.HttpAuth
	}
	if c.api, err = api.NewClient(conf); err != nil {
		return nil, &ValidationError{Field: "registry address", Value: addr.String(), Why: err.Error()}
	}
	return c, nil
}

// Close closes the idle connections. The client must not be in use.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Address returns the registry's address as a URL, without secrets.
func (c *Client) Address() string {
	return address{scheme: c.scheme, hostport: c.hostport, socket: c.socket, prefix: c.prefix}.String()
}

func envBool(env func(string) string, name string, def bool) (bool, error) {
	v := env(name)
	if v == "" {
		return def, nil
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, &ValidationError{Field: name, Value: v, Why: "is neither true nor false", Fix: "say one of the two, or unset it"}
	}
	return b, nil
}

// readToken follows the precedence of Consul's own tools: token file, token,
// then the same two of the environment.
func readToken(cfg Config, env func(string) string) (string, error) {
	file, field := cfg.TokenFile, "token file"
	if file == "" && cfg.Token == "" {
		file, field = env(api.HTTPTokenFileEnvName), api.HTTPTokenFileEnvName
	}
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", &ValidationError{Field: field, Value: file, Why: err.Error(), Fix: "write the token into it, or unset it"}
		}
		if token := strings.TrimSpace(string(data)); token != "" {
			return token, checkToken(field+" "+file, token)
		}
		return "", &ValidationError{Field: field, Value: file, Why: "is empty", Fix: "write the token into it, or unset it"}
	}
	if cfg.Token != "" {
		return cfg.Token, checkToken("token", cfg.Token)
	}
	token := env(api.HTTPTokenEnvName)
	return token, checkToken(api.HTTPTokenEnvName, token)
}

// checkToken refuses a token that no request could bear: the client library says of one
// that the registry cannot be reached.
func checkToken(field, token string) error {
	if i := strings.IndexFunc(token, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }); i >= 0 {
		return &ValidationError{Field: field, Why: fmt.Sprintf("the token has a control character (a line end?) as character %d: it has to be one line", 1+utf8.RuneCountInString(token[:i])), Secret: true}
	}
	return nil
}

type address struct{ scheme, hostport, socket, prefix string }

func (a address) String() string {
	if a.socket != "" {
		return "unix://" + a.socket
	}
	return a.scheme + "://" + a.hostport + a.prefix
}

// parseAddress reads a registry's address, refusing what the client library
// would only find out by a request to somewhere else.
func parseAddress(s string) (address, error) {
	bad := func(why, fix string) (address, error) {
		return address{}, &ValidationError{Field: "registry address", Value: redact(s), Why: why, Fix: fix}
	}
	if s == "" {
		return address{scheme: "http", hostport: "127.0.0.1:8500"}, nil
	}
	scheme, rest, hasScheme := strings.Cut(s, "://")
	if !hasScheme {
		scheme, rest = "http", s
	}
	switch scheme {
	case "unix":
		if rest == "" {
			return bad("names no socket", "write unix:///path/to/socket")
		}
		return address{scheme: "http", socket: rest}, nil
	case "http", "https":
	default:
		return bad(fmt.Sprintf("has an unknown scheme %q", scheme), "use http, https or unix")
	}
	u, err := url.Parse(scheme + "://" + rest)
	if err != nil {
		return bad("is no address", "write host:port, for example 127.0.0.1:8500")
	}
	if u.User != nil {
		return bad("holds a user name or password", "put them in CONSUL_HTTP_AUTH")
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return bad("has a query or a fragment", "write host:port or http://host:port/prefix")
	}
	host, port := u.Hostname(), u.Port()
	if host == "" {
		return bad("names no host", "write host:port, for example 127.0.0.1:8500")
	}
	if port == "" {
		if !hasScheme {
			return bad("names no port", fmt.Sprintf("write %s for Consul's usual port, or http://%s for port 80", net.JoinHostPort(host, "8500"), host))
		}
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return bad("has no port between 1 and 65535", "")
	}
	return address{scheme: scheme, hostport: net.JoinHostPort(host, port), prefix: strings.TrimSuffix(u.Path, "/")}, nil
}

// redact hides what may be a password in an address that is to be shown.
func redact(s string) string {
	if at := strings.LastIndex(s, "@"); at >= 0 {
		scheme, _, ok := strings.Cut(s[:at], "://")
		if ok {
			return scheme + "://***" + s[at:]
		}
		return "***" + s[at:]
	}
	return s
}
