package tui

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"lane/pkg/control"
	"lane/pkg/doctor"
	"lane/pkg/lane"
	"lane/pkg/traffic"
	"lane/tui/internal/scene"
)

// fill puts s into every text of a value, however deep: a field that somebody adds
// later is in it too. Lists get two items, numbers are large ones.
func fill(v reflect.Value, s string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1 << 61)
	case reflect.Uint64:
		v.SetUint(1 << 61)
	case reflect.Float64:
		v.SetFloat(1e18)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), s)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(s))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), s)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, s)
		fill(value, s)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		switch p := v.Addr().Interface().(type) {
		case *time.Time:
			*p = scene.Now().Add(-time.Hour)
		case *traffic.Head:
			*p = traffic.HeadOf(http.Header{s: {s, s}, "X": {s}})
		default:
			for i := range v.NumField() {
				fill(v.Field(i), s) // one that is not exported panics: it needs a case above
			}
		}
	default:
		panic("a field of kind " + v.Kind().String() + " is not filled")
	}
}

// filled is a T with s in every text.
func filled[T any](s string) T {
	var v T
	fill(reflect.ValueOf(&v).Elem(), s)
	return v
}

// hostileRows are exchanges with s in every field: as they are, of each way that one
// can go, and where something else is shown because a field is empty.
func hostileRows(s string) []traffic.Exchange {
	all := filled[traffic.Exchange](s)
	all.Start, all.ReqBody, all.ResBody = scene.Now().Add(-time.Second), nil, nil // the bodies come by themselves
	all.URL = "http://" + s + "/" + s + "?token=" + s
	with := func(change func(*traffic.Exchange)) traffic.Exchange {
		e := all
		e.Guard, e.Code, e.Kind = "", "", lane.KindBaseline
		change(&e)
		return e
	}
	rows := []traffic.Exchange{
		all,
		with(func(e *traffic.Exchange) { e.URL = s }),
		with(func(e *traffic.Exchange) {
			e.Front, e.Method, e.Proto, e.URL = traffic.FrontForward, "CONNECT", "CONNECT", s+":443"
		}),
		with(func(e *traffic.Exchange) { e.Code, e.Reason, e.Status = lane.CodeUpstreamConnect, "", 0 }),
		with(func(e *traffic.Exchange) {
			e.Front, e.Service, e.Instance, e.Note, e.Err = traffic.FrontForward, "", "", "", ""
		}),
		with(func(e *traffic.Exchange) { e.Tag, e.Lane, e.TraceID = "", "", "" }),
	}
	for _, k := range []lane.Kind{lane.KindLaneMatch, lane.KindDegraded, lane.KindKillSwitch, lane.KindStatic, lane.KindExternal, lane.KindError} {
		rows = append(rows, with(func(e *traffic.Exchange) { e.Kind = k }))
	}
	for _, g := range []string{traffic.GuardPassed, traffic.GuardBounced, traffic.GuardRejected, traffic.GuardProbe} {
		rows = append(rows, with(func(e *traffic.Exchange) { e.Front, e.Guard = traffic.FrontGuard, g }))
	}
	// The last one is selected.
	rows = append(rows, with(func(e *traffic.Exchange) { e.Kind, e.Reason = lane.KindFallback, lane.ReasonLaneAbsent }))
	for i := range rows {
		rows[i].Seq = uint64(i) + 1
	}
	return rows
}

// hostileStatus is a session with s in every field, in all that can be wrong with one.
func hostileStatus(s string) control.Status {
	st := filled[control.Status](s)
	st.Registry.State, st.Registry.Removed = registryUnreachable, scene.Now().Add(time.Minute)
	st.Relay.State, st.Relay.Next = control.RelayLost, scene.Now().Add(time.Hour)
	st.Relay.Tries, st.Relay.Cut = 3, 3
	service := st.Services[0]
	for _, state := range []string{control.StateStarting, control.StateUp, control.StateLocalClosed, control.StateUnconfirmed, control.StateUnproved,
		control.StateDraining, control.StateEnded, control.StateClaimLost} {
		v := service
		v.State = state
		st.Services = append(st.Services, v)
	}
	for i, state := range []string{control.ClaimHeld, control.ClaimJoined, control.ClaimLost} {
		c := *service.Claim
		c.State = state
		st.Services[i+2].Claim = &c
	}
	st.Services[5].Claim = nil
	st.Steps = append(st.Steps, control.Step{Name: "relay", Began: scene.Now()})
	return st
}

// hostileStates are the session as it can be otherwise.
func hostileStates(s string) []control.Status {
	var out []control.Status
	with := func(change func(*control.Status)) {
		st := hostileStatus(s)
		change(&st)
		out = append(out, st)
	}
	for _, state := range []string{control.RelayConnecting, control.RelayOK, control.RelayReconnecting, s} {
		with(func(st *control.Status) { st.Relay.State = state })
	}
	for _, state := range []string{registryFresh, registryStale, s} {
		with(func(st *control.Status) { st.Registry.State, st.Relay = state, nil })
	}
	for _, state := range []string{control.SessionWaking, control.SessionDraining, control.SessionEnded} {
		with(func(st *control.Status) { st.State = state })
	}
	for _, by := range []string{control.KilledLane, control.KilledAll} {
		with(func(st *control.Status) { st.Killed = by })
	}
	with(func(st *control.Status) {
		st.Registry.State, st.Relay.State, st.Killed, st.Warnings, st.Owner, st.Services = registryFresh, control.RelayOK, "", nil, "", nil
		st.Relay.Since = scene.Now().Add(-1 << 62)
	})
	return out
}

// texts are the paths of all texts of a value of this kind, and whether s is in them.
func texts(v reflect.Value, path, s string, seen map[string]bool) {
	switch v.Kind() {
	case reflect.String:
		seen[path] = seen[path] || strings.Contains(v.String(), s)
	case reflect.Pointer:
		if v.IsNil() {
			v = reflect.New(v.Type().Elem())
		}
		texts(v.Elem(), path, s, seen)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			seen[path] = seen[path] || strings.Contains(string(v.Bytes()), s)
			return
		}
		texts(reflect.New(v.Type().Elem()).Elem(), path+"[]", s, seen)
		for i := range v.Len() {
			texts(v.Index(i), path+"[]", s, seen)
		}
	case reflect.Map:
		texts(reflect.New(v.Type().Key()).Elem(), path+" key", s, seen)
		for _, k := range v.MapKeys() {
			texts(k, path+" key", s, seen)
			texts(v.MapIndex(k), path+" value", s, seen)
		}
	case reflect.Struct:
		if h, ok := v.Interface().(traffic.Head); ok {
			seen[path] = seen[path] || strings.Contains(h.Masked(), s)
			return
		}
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			texts(v.Field(i), path+"."+v.Type().Field(i).Name, s, seen)
		}
	}
}

// TestEveryFieldIsHostile: no text that a screen may show is left out of what the fuzz
// test shows. The bodies come as another message.
func TestEveryFieldIsHostile(t *testing.T) {
	const s = "hostile"
	seen := map[string]bool{}
	for _, e := range hostileRows(s) {
		texts(reflect.ValueOf(e), "exchange", s, seen)
	}
	texts(reflect.ValueOf(hostileStatus(s)), "status", s, seen)
	for _, st := range hostileStates(s) {
		texts(reflect.ValueOf(st), "status", s, seen)
	}
	texts(reflect.ValueOf(filled[Answer](s)), "answer", s, seen)
	texts(reflect.ValueOf(filled[doctor.Finding](s)), "finding", s, seen)
	texts(reflect.ValueOf(filled[Refusal](s)), "refusal", s, seen)
	texts(reflect.ValueOf(filled[traffic.Messages](s)), "messages", s, seen)
	var without []string
	for path, has := range seen {
		if !has {
			without = append(without, path)
		}
	}
	slices.Sort(without)
	if want := []string{"exchange.ReqBody.Bytes", "exchange.ResBody.Bytes"}; !slices.Equal(without, want) {
		t.Errorf("nothing hostile in %q, want %q", without, want)
	}
	if len(seen) < 80 {
		t.Errorf("only %d texts were looked at", len(seen))
	}
}
