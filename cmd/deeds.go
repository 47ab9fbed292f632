package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"lane/pkg/compare"
	"lane/pkg/control"
	"lane/pkg/doctor"
	"lane/pkg/lane"
	"lane/pkg/traffic"
	"lane/tui"
)

// deeds do what keys of the terminal UI ask for: they fetch, send, copy and save.
type deeds struct {
	watched
	f *factory
}

var _ tui.Deeds = (*deeds)(nil)

// watched is a session as the terminal UI reads and asks it, in this process or
// behind its socket. Its status is asked each time: a session that was started
// again has another proxy.
type watched interface {
	tui.Source
	Whole(ctx context.Context, seq uint64) (traffic.Exchange, error)
	Messages(ctx context.Context, seq uint64) (traffic.Messages, error)
	Reconnect(ctx context.Context) error
}

// Doctor is what lane doctor finds about the session's lane.
func (d *deeds) Doctor(ctx context.Context) ([]doctor.Finding, error) {
	st, err := d.Status(ctx)
	if err != nil {
		return nil, err
	}
	examined := newDiagnosis(d.f, &doctorOptions{lane: string(st.Lane), services: asked(&st)})
	defer examined.close()
	found := examined.run(ctx)
	if c := examined.client; c != nil && c.Address() != st.Registry.Address && st.Registry.Address != "" {
		found = append([]doctor.Finding{{Check: "settings", Level: doctor.Note,
			What: fmt.Sprintf("this is about the registry at %s, which the settings here name; the session's is %s", c.Address(), st.Registry.Address),
			Do:   "start lane status with the settings with which lane up was started"}}, found...)
	}
	if !examined.relayed() { // its relay came by a flag: nobody has looked there
		found = append(tunnelled(st.Relay), found...)
	}
	return found, ctx.Err()
}

// tunnelled is what a session itself knows of its tunnel, if that is not as it should be.
func tunnelled(r *control.RelayStatus) []doctor.Finding {
	if r == nil || r.State == control.RelayOK {
		return nil
	}
	f := doctor.Finding{Check: "relay", Level: doctor.Wrong, Where: r.URL,
		What: "the session's tunnel is " + r.State, Do: "see whether the relay runs there, and is reached from here; R on the list tries again at once"}
	if r.Error != "" {
		f.What += ": " + r.Error
	}
	return []doctor.Finding{f}
}

// asked are the session's services as somebody would name them to lane doctor.
func asked(st *control.Status) []string {
	var out []string
	for _, v := range st.Services {
		local := v.Local
		if host, port, err := net.SplitHostPort(local); err == nil && net.ParseIP(host).IsLoopback() {
			local = port
		}
		out = append(out, v.Name+"="+local)
	}
	return out
}

// replayLimit bounds one request that is sent again, and answerMost what is read
// of its answer.
const (
	replayLimit = 15 * time.Second
	answerMost  = 8 << 20
)

func (d *deeds) Send(ctx context.Context, e *traffic.Exchange, tag string) (tui.Answer, error) {
	st, err := d.Status(ctx)
	if err != nil {
		return tui.Answer{}, err
	}
	roots, err := d.f.sessionRoots(&st)
	if err != nil {
		return tui.Answer{}, err
	}
	proxy, err := url.Parse(st.Proxy)
	if err != nil {
		return tui.Answer{}, fmt.Errorf("the session's proxy: %w", err)
	}
	req, err := newResent(ctx, e, tag)
	if err != nil {
		return tui.Answer{}, err
	}
	within, cancel := context.WithTimeout(ctx, replayLimit)
	defer cancel()
	began := time.Now()
	res, err := req.by(within, proxy.Host, roots)
	if err != nil {
		return tui.Answer{Answer: compare.Answer{Err: err.Error()}, Took: time.Since(began)}, ctx.Err()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, answerMost))
	a := tui.Answer{Took: time.Since(began), Decision: res.Header.Get(lane.HeaderDecision),
		Answer: compare.Answer{Status: res.StatusCode, Header: res.Header, Body: body}}
	if err != nil {
		a.Err = fmt.Sprintf("%d, and its body broke off: %v", res.StatusCode, err)
	}
	return a, ctx.Err()
}

// clipboardMost is the longest text that terminals take.
const clipboardMost = 70_000

// Copy uses tmux's own clipboard inside of tmux, which lets no sequence of a
// program through by default; else the terminal's, by OSC 52, which nobody
// acknowledges; and a file where there is neither.
func (d *deeds) Copy(ctx context.Context, text string) (string, error) {
	if d.f.getenv("TMUX") != "" {
		if tmux, err := exec.LookPath("tmux"); err == nil {
			c := exec.CommandContext(ctx, tmux, "load-buffer", "-w", "-")
			c.Stdin = bytes.NewBufferString(text)
			if c.Run() == nil {
				return "in tmux's buffer (prefix ] pastes it)", nil
			}
		}
	}
	if term := d.f.getenv("TERM"); len(text) <= clipboardMost && term != "linux" && d.f.getenv("TMUX") == "" {
		_, err := io.WriteString(d.f.io.Out, tui.OSC52(text))
		return "sent to the terminal's clipboard", err
	}
	dir, err := d.f.runtimeDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "copied.sh")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	return d.save(path, []byte(text+"\n"))
}

// Save writes into the directory in which lane was started.
func (d *deeds) Save(name string, content []byte) (string, error) {
	if _, err := d.save(filepath.Join(d.f.dir, name), content); err != nil {
		return "", err
	}
	return "./" + name, nil
}

// save never writes over a file that is there.
func (d *deeds) save(path string, content []byte) (string, error) {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = out.Write(content)
	if err := errors.Join(err, out.Close()); err != nil {
		return "", errors.Join(err, os.Remove(path))
	}
	return path, nil
}
