package cmd

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"lane/pkg/iostreams"
	"lane/pkg/session"
)

// errInterrupted is the cause of a context that a signal ended, or that whoever read
// the output did by closing it. Each way has a value of its own, and each is this one
// to errors.Is.
var (
	errInterrupted error = &session.InterruptedError{How: "by its owner with Ctrl-C"}
	errTerminated  error = &session.InterruptedError{How: "by a SIGTERM to its process"}
	errHungUp      error = &session.InterruptedError{How: "with its terminal, which was closed"}
	errKilledInt   error = &session.InterruptedError{How: "by a SIGINT to its process"} // without a terminal
)

// interruption is that cause with the way in which the signal came.
func interruption(sig os.Signal) error {
	switch sig {
	case syscall.SIGTERM:
		return errTerminated
	case syscall.SIGHUP:
		return errHungUp
	}
	return errInterrupted
}

// Main is the program: it runs the command line of this process and returns its
// exit code.
func Main() int {
	held := takeLeash()
	defer held.close()
	ctx, stop := context.Background(), func() {}
	streams := iostreams.System()
	var force <-chan struct{}
	var hangups func() <-chan struct{}
	if !brief(os.Args[1:]) {
		ctx, force, hangups, stop = signals(held.pulls())
		var end context.CancelCauseFunc
		ctx, end = context.WithCancelCause(ctx)
		defer end(nil)
		streams.OnReaderGone(func() {
			end(&session.InterruptedError{How: "because nobody read its output any more"})
		})
	}
	defer stop()
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	f := &factory{
		io: streams, getenv: os.Getenv, environ: os.Environ(), dir: dir, now: time.Now, force: force, hangups: hangups, continued: continued,
		held: held, executable: os.Executable, build: debug.ReadBuildInfo,
	}
	return f.run(ctx, os.Args[1:])
}

// brief reports whether a command waits for nothing, and leaves nothing half done:
// a signal may end it as it ends any program. To be told of signals costs a thread.
func brief(args []string) bool {
	return len(args) > 0 && (args[0] == "version" || args[0] == gateName || args[0] == bypassName)
}

// signals makes the one signal context: the first signal ends it, the second
// one closes force, which ends the waiting of a clean end. Whoever calls hangups
// gets those signals from then on, and they end nothing: they are not about a terminal.
// What was ignored when the process began stays so: nohup, and a shell without job
// control that has put it behind itself, say by that that it is to go on. pulls are those
// of the process's leash.
func signals(pulls <-chan pull) (ctx context.Context, force <-chan struct{}, hangups func() <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	got := make(chan os.Signal, 4)
	signal.Notify(got, syscall.SIGTERM)
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if !signal.Ignored(sig) {
			signal.Notify(got, sig)
		}
	}
	// `lane … | head -1` would end the process at its next write, with all that it has
	// to remove. Asked for, the signal ends nothing: the write fails, and that ends it
	// as Ctrl-C does. A socket's broken pipe sends it too, so nobody looks at it here.
	// Ignored instead, it would be so in the commands that lane runs.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	again, quit, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var taken atomic.Bool
	hung := make(chan struct{}, 1)
	go func() {
		defer close(done)
		var asked wishes
		for n := 0; ; {
			var sig os.Signal
			var p pull
			select {
			case <-quit:
				return
			case p = <-pulls:
				asked = asked.pulled(p)
			case sig = <-got:
			}
			if sig == syscall.SIGHUP && taken.Load() {
				select {
				case hung <- struct{}{}:
				default: // one that nobody has answered yet says the same
				}
				continue
			}
			why := p.why()
			if sig != nil {
				asked.direct++
				why = interruption(sig)
				if sig == os.Interrupt && taken.Load() {
					why = errKilledInt
				}
			}
			for ; n < asked.count(); n++ {
				switch n {
				case 0:
					cancel(why)
				case 1:
					close(again)
				}
			}
		}
	}()
	// The signals are not given back: the process ends now, with the code that is
	// decided, and each of the three would wait for the runtime's own thread.
	hangups = func() <-chan struct{} {
		taken.Store(true)
		signal.Notify(got, syscall.SIGHUP) // whoever asks has a use for those too that nohup would keep away
		return hung
	}
	return ctx, again, hangups, func() {
		close(quit)
		<-done
		cancel(nil)
	}
}
