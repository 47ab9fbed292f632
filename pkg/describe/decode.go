package describe

import (
	"bytes"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"lane/pkg/traffic"
)

// decoder turns frames into JSON.
type decoder struct {
	types *dynamicpb.Types
	note  string // the first thing that went wrong
}

func newDecoder(files *protoregistry.Files) *decoder {
	return &decoder{types: dynamicpb.NewTypes(files)}
}

// body is each message of a body as JSON; "" for one that cannot be read.
func (d *decoder) body(as protoreflect.MessageDescriptor, b *traffic.Body, h traffic.Head) []string {
	if b == nil {
		return nil
	}
	frames, _ := traffic.Frames(h.Get("Grpc-Encoding"), b.Bytes)
	out := make([]string, len(frames))
	for i, f := range frames {
		switch {
		case !f.Whole: // it was cut: everybody sees that
		case !f.Clear:
			d.say("compressed by " + traffic.Printable(h.Get("Grpc-Encoding")) + ", which lane does not know")
		default:
			out[i] = d.message(as, f.Bytes)
		}
	}
	return out
}

func (d *decoder) message(as protoreflect.MessageDescriptor, b []byte) string {
	m := dynamicpb.NewMessage(as)
	if err := (proto.UnmarshalOptions{Resolver: d.types, AllowPartial: true}).Unmarshal(b, m); err != nil {
		d.say("not as its server describes " + string(as.FullName()))
		return ""
	}
	raw, err := protojson.MarshalOptions{Resolver: d.types, AllowPartial: true}.Marshal(m)
	if err != nil { // an Any of a type that the description does not need, most often
		d.say(clip(traffic.Printable(err.Error())))
		return ""
	}
	if unknown(m) {
		d.say("its server's description lacks some fields of " + string(as.FullName()))
	}
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil { // protojson puts blanks in at random
		return string(raw)
	}
	return out.String()
}

func (d *decoder) say(note string) {
	if d.note == "" {
		d.note = note
	}
}

// unknown says that a message, or one inside of it, has fields that its description
// lacks.
func unknown(m protoreflect.Message) bool {
	if len(m.GetUnknown()) > 0 {
		return true
	}
	found := false
	inner := func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Message() != nil {
			found = found || unknown(v.Message())
		}
		return !found
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { return inner(f.MapValue(), v) })
		case f.IsList():
			for i := range v.List().Len() {
				if !inner(f, v.List().Get(i)) {
					break
				}
			}
		default:
			inner(f, v)
		}
		return !found
	})
	return found
}
