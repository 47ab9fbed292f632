package cmd

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"

	"lane/pkg/consul"
	"lane/pkg/session"
	"lane/tui"
)

// untilFree runs a start. Where somebody holds what it claims, and there is a
// screen, the user is asked what to do, and it is run again.
func (f *factory) untilFree(ctx context.Context, o *upOptions, run func() error) error {
	for {
		err := run()
		r, refused := refusal(err)
		if !refused || !f.draws(o) {
			return err
		}
		r.Here = r.Here || o.join // it was to be joined, and could not be
		choice, asked := tui.Refused(ctx, r, tui.Options{In: f.io.In, Out: f.io.Out, Color: f.io.Color, UTF8: o.utf8})
		switch {
		case errors.Is(asked, tui.ErrInterrupted):
			return errInterrupted
		case asked != nil:
			return errors.Join(err, asked)
		case choice.TakeOver:
			o.takeOver, o.join = true, false
		case choice.Join:
			o.takeOver, o.join = false, true
		case choice.Lane != "":
			o.lane, o.takeOver = string(choice.Lane), false
		default:
			return err
		}
	}
}

// refusal is what stands against a start, if it is somebody's claim.
func refusal(err error) (tui.Refusal, bool) {
	var held *consul.ClaimHeldError
	var busy *session.BusyError
	var far *session.RelayRefusedError
	switch {
	case errors.As(err, &held):
		h := held.Held
		why := consul.ClaimHeldError{Held: h}
		why.Held.Since = ""
		return tui.Refusal{Lane: h.Lane, Why: why.Error(), Since: h.Since, Active: h.Active, Claim: consul.ClaimKey(h.Lane, h.Service), Relay: h.Relay}, true
	case errors.As(err, &busy):
		return tui.Refusal{Lane: busy.Lane, Why: busy.Error(), Claim: consul.ClaimKey(busy.Lane, busy.Service), Here: true}, true
	case errors.As(err, &far) && far.Code == http.StatusConflict && far.Service != "":
		return tui.Refusal{Lane: far.Lane, Why: far.Text, Claim: consul.ClaimKey(far.Lane, far.Service),
			Code: strconv.Itoa(far.Code), Relay: cmp.Or(far.Name, far.URL), Request: far.Request, Final: far.TakeOver}, true
	}
	return tui.Refusal{}, false
}
