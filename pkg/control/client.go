package control

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// Client talks to one session.
type Client struct {
	sock     string
	http     *http.Client
	patience time.Duration // how long one call waits beyond what it asks to wait
	viewer   string        // the name by which it polls
	polled   atomic.Bool
	last     atomic.Pointer[Status] // of the session's end
}

// Last is the status with which the session ended, if it has told it: one that was
// polled before tells.
func (c *Client) Last() (Status, bool) {
	if st := c.last.Load(); st != nil {
		return *st, true
	}
	return Status{}, false
}

// ErrGone says that the session has ended.
var ErrGone = errors.New("the session has ended")

// Dial makes a client of the session with the process id pid; it connects at
// its first call.
func Dial(dir string, pid int) *Client {
	return dial(filepath.Join(dir, strconv.Itoa(pid)+".sock"))
}

func dial(sock string) *Client {
	var d net.Dialer
	return &Client{sock: sock, patience: patience, viewer: rand.Text(), http: &http.Client{Transport: &http.Transport{
		Proxy:             nil, // never through an inherited proxy
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", sock)
		},
	}}}
}

// SilentError says that sessions' processes are there and do not answer: somebody
// has stopped them, or they hang. Nobody knows which lanes they hold.
type SilentError struct{ PIDs []string }

func (e *SilentError) Error() string {
	if len(e.PIDs) == 1 {
		return "the session with the process id " + e.PIDs[0] + " does not answer"
	}
	return "the sessions with the process ids " + strings.Join(e.PIDs, ", ") + " do not answer"
}

// Found is a running session and its client.
type Found struct {
	Status Status
	Client *Client
}

// Seen is what the sockets of a directory tell of this user's sessions.
type Seen struct {
	Running []Found  // by lane, and then by age
	Dead    []string // sockets whose process has died
	Silent  []string // process ids of sessions that do not answer
}

// patience is how long a session has to answer. What is known of it is in its memory.
const patience = 2 * time.Second

// describing is how long it has beside that to ask a server for a description.
const describing = 5 * time.Second

// Refused says that nobody listens behind a socket any more: its process has died.
func Refused(err error) bool { return refused(err) }

// Look asks every session in dir, and changes nothing.
func Look(ctx context.Context, dir string) (Seen, error) {
	socks, err := filepath.Glob(filepath.Join(dir, "*.sock"))
	if err != nil {
		return Seen{}, err
	}
	all, errs := make([]Found, len(socks)), make([]error, len(socks))
	var asked sync.WaitGroup
	for i, sock := range socks { // at once: each silent one takes its time
		asked.Go(func() {
			all[i].Client = dial(sock)
			all[i].Status, errs[i] = all[i].Client.Status(ctx)
		})
	}
	asked.Wait()
	var out Seen
	for i, sock := range socks {
		var silent *SilentError
		switch err := errs[i]; {
		case err == nil:
			out.Running = append(out.Running, all[i])
		case refused(err):
			out.Dead = append(out.Dead, sock)
		case errors.Is(err, ErrGone):
		case errors.As(err, &silent):
			out.Silent = append(out.Silent, silent.PIDs...)
		default:
			return Seen{}, fmt.Errorf("session at %s: %w", sock, err)
		}
	}
	sort.Slice(out.Running, func(i, j int) bool {
		a, b := out.Running[i].Status, out.Running[j].Status
		if a.Lane != b.Lane {
			return a.Lane < b.Lane
		}
		return a.Started.Before(b.Started)
	})
	return out, nil
}

// Sessions finds this user's running sessions in dir, by lane and then by age.
// silent are those beside them that do not answer, nil if there are none. It
// removes the sockets of processes that have died.
func Sessions(ctx context.Context, dir string) (found []Found, silent *SilentError, err error) {
	seen, err := Look(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	for _, sock := range seen.Dead {
		if err := os.Remove(sock); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("remove the socket of a dead session: %w", err)
		}
	}
	if len(seen.Silent) > 0 {
		silent = &SilentError{PIDs: seen.Silent}
	}
	return seen.Running, silent, nil
}

// Holding finds the running session that holds a service in a lane.
func Holding(found []Found, l lane.Name, service string) (Found, bool) {
	for _, f := range found {
		for _, s := range f.Status.Services {
			if f.Status.Lane == l && s.Name == service {
				return f, true
			}
		}
	}
	return Found{}, false
}

// do makes one call that the session answers at once, or within some time.
func (c *Client) do(ctx context.Context, method, path string, within time.Duration, into any) error {
	raw, _, err := c.ask(ctx, method, path, "", within)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// endless is the time of a call that waits for what its caller bounds.
const endless = -1

// ask makes one call, with an answer in a form that is wished, if the session has it. A
// process that was stopped, or hangs, takes calls and never answers: who waited for it
// without end would show its last state as that of now. within is what the session may
// take by right.
func (c *Client) ask(ctx context.Context, method, path, form string, within time.Duration) (raw []byte, as string, err error) {
	if c.last.Load() != nil {
		return nil, "", fmt.Errorf("%w (%s)", ErrGone, c.pid())
	}
	outer := ctx
	if within != endless {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within+c.patience)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://lane"+path, nil)
	if err != nil {
		return nil, "", err
	}
	if form != "" { // a poll
		req.Header.Set("Accept", form)
		c.polled.Store(true)
	}
	if c.polled.Load() {
		req.Header.Set(headerViewer, c.viewer)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, "", c.ended(outer, ctx, err)
	}
	defer res.Body.Close()
	if n := res.ContentLength; n >= 0 && n <= expectMost {
		raw = make([]byte, n)
		_, err = io.ReadFull(res.Body, raw)
	} else {
		raw, err = io.ReadAll(res.Body)
	}
	if err != nil {
		return nil, "", c.ended(outer, ctx, err)
	}
	if res.StatusCode != http.StatusOK {
		var f failure
		if err := json.Unmarshal(raw, &f); err != nil || f.Error == "" {
			return nil, "", fmt.Errorf("session answered %s", res.Status)
		}
		return nil, "", errors.New(f.Error)
	}
	if end := res.Header.Get(headerEnd); end != "" {
		st := new(Status)
		if json.Unmarshal([]byte(end), st) == nil {
			c.last.Store(st)
		}
	}
	return raw, res.Header.Get("Content-Type"), nil
}

// expectMost bounds the memory that is taken for an answer before it is there.
const expectMost = 64 << 20

// ended says what a call that broke off means. net/http has a dozen errors for a
// connection that ends at one byte or another, and on this socket they all mean that
// its session has ended: ErrGone. One that answers nothing in time, or no longer takes
// calls because nobody fetches them, is silent. A caller that gave up, and a socket
// that cannot be opened, are what they are.
func (c *Client) ended(outer, ctx context.Context, err error) error {
	var op *net.OpError
	dial := errors.As(err, &op) && op.Op == "dial"
	switch {
	case outer.Err() != nil:
		return err
	case ctx.Err() != nil, dial && errors.Is(err, syscall.EAGAIN):
		return &SilentError{PIDs: []string{c.pid()}}
	case dial && !errors.Is(err, fs.ErrNotExist) && !refused(err):
		return err
	}
	return fmt.Errorf("%w (%s): %w", ErrGone, c.pid(), err)
}

// pid is the process id of the session.
func (c *Client) pid() string { return strings.TrimSuffix(filepath.Base(c.sock), ".sock") }

// Status asks for the session's status.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var st Status
	err := c.do(ctx, http.MethodGet, "/v1/status", 0, &st)
	return st, err
}

// Whole asks for one exchange with its bodies and with its secrets.
func (c *Client) Whole(ctx context.Context, seq uint64) (traffic.Exchange, error) {
	var w Whole
	if err := c.do(ctx, http.MethodGet, "/v1/exchanges/"+strconv.FormatUint(seq, 10), 0, &w); err != nil {
		return traffic.Exchange{}, err
	}
	return w.Traffic(), nil
}

// Messages asks for the messages of one exchange's gRPC bodies. The session asks the
// server that answered it for their description, if nobody has before.
func (c *Client) Messages(ctx context.Context, seq uint64) (traffic.Messages, error) {
	var m traffic.Messages
	err := c.do(ctx, http.MethodGet, "/v1/exchanges/"+strconv.FormatUint(seq, 10)+"/messages", describing, &m)
	return m, err
}

// Stop ends the session and waits until it is gone, or ctx ends. A session that
// is gone already is no error.
func (c *Client) Stop(ctx context.Context, force bool) error {
	var none struct{}
	err := c.do(ctx, http.MethodPost, "/v1/stop?force="+strconv.FormatBool(force), endless, &none)
	if errors.Is(err, ErrGone) {
		return nil
	}
	return err
}

// Reconnect has the session try again at once what it waits to try again.
func (c *Client) Reconnect(ctx context.Context) error {
	var none struct{}
	return c.do(ctx, http.MethodPost, "/v1/reconnect", 0, &none)
}

// AllHeads asks for the heads of every row; 0 for none.
const AllHeads = math.MaxInt32

// patient is how long one call waits for exchanges.
const patient = 20 * time.Second

// rowsMost is how many rows one call asks for.
const rowsMost = 5000

// Next returns the exchanges newer than after, waiting for the first one, and
// how many of them are lost for good. They have their heads only if there are at
// most heads of them: a reader that can do without, and asks Whole for the one that
// somebody looks at, is spared the cost of heads that come by the thousand.
func (c *Client) Next(ctx context.Context, after uint64, heads int) ([]traffic.Exchange, uint64, error) {
	for {
		b, err := c.batch(ctx, after, "limit="+strconv.Itoa(rowsMost), heads, patient)
		if err != nil || len(b.Rows) > 0 {
			return b.Rows, b.Lost, err
		}
		if err := ctx.Err(); err != nil {
			return nil, b.Lost, err
		}
	}
}

// Batch is traffic's Log.Batch of the session's log, with heads as Next has them. A
// session of an older version counts nothing: it sends all rows.
func (c *Client) Batch(ctx context.Context, after uint64, most, heads int) (traffic.Batch, error) {
	for {
		// The limit is for an older session; this one takes none beside most.
		b, err := c.batch(ctx, after, "limit=0&most="+strconv.Itoa(most), heads, patient)
		if err != nil || len(b.Rows) > 0 {
			return b, err
		}
		if err := ctx.Err(); err != nil {
			return b, err
		}
	}
}

// Since returns the exchanges newer than after that there are now, with their
// heads as Next does.
func (c *Client) Since(ctx context.Context, after uint64, heads int) ([]traffic.Exchange, uint64, error) {
	b, err := c.batch(ctx, after, "limit="+strconv.Itoa(rowsMost), heads, 0)
	return b.Rows, b.Lost, err
}

func (c *Client) batch(ctx context.Context, after uint64, bound string, heads int, wait time.Duration) (traffic.Batch, error) {
	raw, form, err := c.ask(ctx, http.MethodGet, fmt.Sprintf("/v1/exchanges?after=%d&%s&wait=%s&heads=%d", after, bound, wait, heads), rowsType, wait)
	if err != nil {
		return traffic.Batch{}, err
	}
	if form == rowsType {
		return readBatch(string(raw))
	}
	var p page // of a session of another version
	if err := json.Unmarshal(raw, &p); err != nil {
		return traffic.Batch{}, err
	}
	b := traffic.Batch{Rows: make([]traffic.Exchange, len(p.Rows)), Lost: p.Lost}
	for i := range p.Rows {
		b.Rows[i] = p.Rows[i].Traffic()
	}
	return b, nil
}
