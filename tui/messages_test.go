package tui

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"lane/pkg/traffic"
	"lane/tui/internal/scene"
)

// grpcDoer has gRPC bodies for every exchange.
type grpcDoer struct {
	doer
	err   error
	asked int
	kind  string
}

func (d *grpcDoer) Whole(context.Context, uint64) (traffic.Exchange, error) {
	e := scene.Exchanges()[6]
	e.ReqHeader = traffic.HeadText("Content-Type: " + d.kind + "\r\n")
	e.ResHeader = e.ReqHeader
	e.ReqBody = &traffic.Body{Bytes: append(frame([]byte("\x0a\x01a")), frame([]byte("\x12\x01b"))...)}
	e.ResBody = &traffic.Body{Bytes: frame([]byte("\x0a\x01c"))}
	e.ReqSize, e.ResSize = 16, 8
	return e, nil
}

func (d *grpcDoer) Messages(context.Context, uint64) (traffic.Messages, error) {
	d.asked++
	return d.messages, d.err
}

// describing is a session whose servers say this of a call.
func describing(m traffic.Messages) func(*Options) {
	return func(o *Options) { o.Deeds = &grpcDoer{doer: doer{messages: m}, kind: "application/grpc"} }
}

// The messages of a gRPC call stand there by name where its server describes them,
// masked as any JSON; else by number, and a line says why.
func TestMessagesByName(t *testing.T) {
	long, err := json.Marshal(map[string]any{"parts": []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	d := &grpcDoer{kind: "application/grpc"}
	d.messages = traffic.Messages{Req: []string{`{"user":"ann","apiToken":"hunter2"}`, string(long)}, Res: []string{`{"ok":true}`}}
	u := newUser(t, 80, 40, func(o *Options) { o.Deeds = d }).running(keeping)
	u.deeds("enter", "2").wantScreen("Message 1, 3 B", `"user": "ann"`, `"apiToken": "***"`, "Message 2, 3 B", `  "parts": [`, "not:hunter2", "not:1: ", "not:by number")
	u.deeds("3").wantScreen("Message 1, 3 B", `"ok": true`)

	// One that could not be read is there by number.
	d.messages = traffic.Messages{Req: []string{`{"user":"ann"}`, ""}, Res: []string{`{"ok":true}`}, Note: "not as its server describes shop.Order"}
	u.deeds("esc", "enter", "2").wantScreen("Fields by number, not by name: not as its server describes shop.Order", `"user": "ann"`, `2: "b"`)
	u.deeds("3").wantScreen(`"ok": true`, "not as its server describes shop.Order", "not:by number")

	d.messages = traffic.Messages{Note: "its server offers no reflection"}
	u.deeds("esc", "enter", "2").wantScreen("Fields by number, not by name: its server offers no reflection", `1: "a"`, `2: "b"`)
	d.messages, d.err = traffic.Messages{}, errors.New("the session has ended")
	u.deeds("esc", "enter", "2").wantScreen("Fields by number, not by name: the session has ended", `1: "a"`)

	// Nobody is asked who has no such body, or before the exchange is opened.
	d.kind, d.err = "application/json", nil
	asked := d.asked
	u.deeds("esc", "enter", "2", "esc", "k", "j").wantScreen("not:by number")
	if d.asked != asked {
		t.Errorf("asked %d times", d.asked-asked)
	}
}
