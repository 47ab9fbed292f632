package tui

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"lane/pkg/control"
	"lane/pkg/traffic"
	"lane/tui/internal/quiet"
)

// By now the library has been initialised without asking the terminal.
func init() { quiet.Restore() }

// Source is the session that is shown.
type Source interface {
	// Batch waits for exchanges newer than after and returns them, of more than most
	// the newest and the figures of the rest (traffic.Log.Batch). io.EOF says that the
	// session has ended by itself; any other error is tried again.
	Batch(ctx context.Context, after uint64, most int) (traffic.Batch, error)
	// Status returns at once. The same errors as Batch; with io.EOF the session's last
	// status, if it has told one.
	Status(ctx context.Context) (control.Status, error)
}

// Options are the terminal and the ways out.
type Options struct {
	// In and Out are the terminal: its *os.File, for raw mode and for its size.
	In  io.Reader
	Out io.Writer
	// Color allows ANSI's 16 colours; bold and reverse are used without it too.
	Color bool
	// UTF8 allows characters beyond ASCII, both ours and those of the traffic;
	// without it they are escaped.
	UTF8 bool
	// Demo says that the session ends with the screen, that nothing of the user's
	// is at stake, and that no other command reaches it: q asks nothing, the help
	// says what it does, and no command is proposed.
	Demo bool
	// Hint stands above the list, and Try is behind the key t: what there is to do
	// besides looking, a line each, headings without a blank before them. Empty: no
	// such line, no such key.
	Hint string
	Try  []string
	// FPS is how often the screen is drawn at most; 0 is 15, more than 15 is 15.
	FPS int
	// Attached says that somebody else owns the session: q leaves it running.
	// Otherwise q asks whether to stop exposing.
	Attached bool
	// Detach makes ready what the owner's session needs to go on without this terminal: d
	// after q. If it can, Run gives the terminal back and returns ErrDetached; if not, the
	// screen stays and says why. Nil: the session belongs to its terminal.
	Detach func(ctx context.Context) error
	// Deeds do what keys ask for outside of the screen: copy, replay, export. Nil:
	// there are no such keys.
	Deeds Deeds
	// Version is this program's, for files that it writes.
	Version string
	// Now is the clock, time.Now if nil. Times are shown in its location.
	Now func() time.Time
	// Continued, if set, waits until the process goes on after it was stopped: the terminal
	// is taken anew, and all is drawn. False says that ctx has ended.
	Continued func(ctx context.Context) bool
	// OnStop, if set, is called once, before Run returns, when the owner has
	// said to stop: y after q, or ctrl+c. It is never called when Attached or Demo.
	OnStop func()
}

var (
	// ErrInterrupted is returned by Run after ctrl+c.
	ErrInterrupted = errors.New("interrupted")
	// ErrDetached is returned by Run when the session is to go on without its terminal.
	ErrDetached = errors.New("detached")
)

const (
	defaultFPS = 15
	// statusEvery is how often the session's status is asked for.
	statusEvery = time.Second
	// stepEvery is the same while its start is shown, whose steps are short.
	stepEvery = statusEvery / 5
)

// Run shows src until the user quits, which is nil, presses ctrl+c, which is
// ErrInterrupted, detaches, which is ErrDetached, or ctx ends, which is ctx's error. It takes over the terminal
// and gives it back as it was. It sets no signal handler.
func Run(ctx context.Context, src Source, o Options) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.FPS <= 0 || o.FPS > defaultFPS {
		o.FPS = defaultFPS
	}
	// Deeds run beside the screen, and end with it.
	deedCtx, drop := context.WithCancel(ctx)
	var deeds crew
	m := newModel(o)
	m.work = func(f func(context.Context) tea.Msg) tea.Cmd {
		return func() tea.Msg {
			if !deeds.begin() {
				return nil
			}
			defer deeds.wg.Done()
			c, cancel := context.WithTimeout(deedCtx, deedLimit)
			defer cancel()
			return f(c)
		}
	}
	m.wait = after(m.work)
	f := feed{src: src, now: o.Now, every: time.Second / time.Duration(o.FPS),
		hurry: [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}}
	m.hurry, m.raw = f.asks, func() { takeKeys(o.In) }
	p, run := program(ctx, m, o)
	f.send = p.Send

	feedCtx, stop := context.WithCancel(ctx)
	var feeds sync.WaitGroup
	feeds.Go(func() { f.exchanges(feedCtx) })
	feeds.Go(func() { f.status(feedCtx) })
	feeds.Go(func() {
		for o.Continued != nil && o.Continued(feedCtx) {
			p.Send(continuedMsg{})
		}
	})

	end, err := run()
	stop()
	drop()
	feeds.Wait()
	deeds.end()

	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	how := end.(model).leaving
	if o.OnStop != nil && !o.Attached && !o.Demo && (how == leaveStop || how == leaveInterrupt) {
		o.OnStop()
	}
	switch how {
	case leaveInterrupt:
		return ErrInterrupted
	case leaveDetach:
		return ErrDetached
	}
	return nil
}

// quitLimit is how long a program has to end by itself.
const quitLimit = 2 * time.Second

// program makes a program and the function that runs it until it ends or ctx does.
// At ctx's end it is asked to quit, and killed only if it does not: one that is
// killed does not wait for its reader of keys, and that may take the first key
// from the program behind it (bubbletea v1.3.10, Program.shutdown).
func program(ctx context.Context, m tea.Model, o Options) (*tea.Program, func() (tea.Model, error)) {
	late, kill := context.WithCancel(context.WithoutCancel(ctx))
	p := tea.NewProgram(m,
		tea.WithContext(late),
		tea.WithInput(o.In),
		tea.WithOutput(o.Out),
		tea.WithFPS(o.FPS),
		tea.WithAltScreen(),
		tea.WithoutSignalHandler(),
	)
	return p, func() (tea.Model, error) {
		done, asked := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(asked)
			select {
			case <-done:
			case <-ctx.Done():
				t := time.AfterFunc(quitLimit, kill)
				defer t.Stop()
				p.Quit()
				<-done
			}
		}()
		end, err := p.Run()
		close(done)
		<-asked
		kill()
		return end, err
	}
}

// crew are the deeds under way. The library starts them on goroutines of its own
// and waits for none.
type crew struct {
	mu   sync.Mutex
	over bool
	wg   sync.WaitGroup
}

func (c *crew) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.wg.Add(1)
	}
	return !c.over
}

func (c *crew) end() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.wg.Wait()
}
