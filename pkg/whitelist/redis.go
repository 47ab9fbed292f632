package whitelist

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// DefaultPrefix stands before the route's name in the key of its Redis Set.
const DefaultPrefix = "gateway:canary:"

var errURL = errors.New("not the URL of a Redis server: want redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], rediss:// for TLS, or unix:///PATH")

// CheckURL says why nothing can be asked at a URL. It never shows it.
func CheckURL(url string) error {
	if _, err := redis.ParseURL(url); err != nil {
		return errURL // not err, which may have a part of the password in it
	}
	return nil
}

// RedisOptions say where the sets are.
type RedisOptions struct {
	URL    string // redis://, rediss:// or unix://
	Prefix string // "": DefaultPrefix
	Logger *slog.Logger
}

// Redis makes a whitelist of the Redis Sets PREFIX + route. It connects when it is
// asked for the first time: a server that is away is no reason not to start.
func Redis(o RedisOptions) (*Whitelist, error) {
	settings, err := redis.ParseURL(o.URL)
	if err != nil {
		return nil, errURL // not err, which may have a part of the password in it
	}
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	logging.Disable() // else go-redis writes each failure to stderr
	client := redis.NewClient(tuned(settings))
	count := &counts{}
	answers := newMemo(capacity, count, logger(o.Logger), func(ctx context.Context, route, id string) (bool, error) {
		member, err := client.SIsMember(ctx, o.Prefix+route, id).Result()
		return member, fault(err)
	})
	return &Whitelist{
		count: count,
		ask: func(ctx context.Context, route, id string) (bool, bool) {
			a := answers.get(ctx, strconv.Itoa(len(route))+":"+route+id, route, id)
			return a.value, a.known
		},
		close: func() error {
			if !answers.close() {
				return nil
			}
			err := client.Close()
			answers.wait()
			return err
		},
	}, nil
}

// tuned sets what a look-up of a few milliseconds needs. One try is enough but
// for a connection that the server has just closed.
func tuned(o *redis.Options) *redis.Options {
	o.Dialer = dialer(o.TLSConfig)
	o.Protocol = 2 // nothing of RESP 3 is used
	o.ContextTimeoutEnabled = true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = patience, patience, patience, patience
	o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff = 1, -1, -1
	o.DialerRetries = 1
	o.ReadBufferSize, o.WriteBufferSize = 4096, 4096
	o.PipelinePoolSize = -1
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return o
}

// dialer connects directly: a proxy of the environment may be lane's own. Unlike
// go-redis's dialer it ends with its context also during the TLS handshake.
func dialer(conf *tls.Config) func(context.Context, string, string) (net.Conn, error) {
	direct := &net.Dialer{Timeout: patience, KeepAlive: 15 * time.Second}
	if conf == nil {
		return direct.DialContext
	}
	return (&tls.Dialer{NetDialer: direct, Config: conf}).DialContext
}

// codes are the errors of a server that say what is wrong, and whether it is so
// with one key alone.
var codes = []struct {
	code  string
	kind  Kind
	route bool
}{
	{"WRONGTYPE", Broken, true}, {"MOVED", Broken, true}, {"NOPERM", Denied, true},
	{"NOAUTH", Denied, false}, {"WRONGPASS", Denied, false},
}

// fault says what the server has said.
func fault(err error) error {
	for _, c := range codes {
		if err != nil && redis.HasErrorPrefix(err, c.code) {
			return &LookupError{Kind: c.kind, Route: c.route, Err: err}
		}
	}
	if errors.Is(err, io.EOF) { // it has closed the connection
		return &LookupError{Kind: Unreachable, Err: err}
	}
	return err
}
