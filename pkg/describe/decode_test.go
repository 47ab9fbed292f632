package describe

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"lane/pkg/traffic"
)

// shop is the description of a service: its messages need another file.
func shop(t testing.TB) *descriptorpb.FileDescriptorProto {
	t.Helper()
	str, msg := descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	one, many := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL, descriptorpb.FieldDescriptorProto_LABEL_REPEATED
	field := func(name string, n int32, kind descriptorpb.FieldDescriptorProto_Type, label descriptorpb.FieldDescriptorProto_Label, of string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &n, Type: &kind, Label: &label}
		if of != "" {
			f.TypeName = &of
		}
		return f
	}
	return &descriptorpb.FileDescriptorProto{Name: proto.String("shop.proto"), Package: proto.String("shop"), Syntax: proto.String("proto3"),
		Dependency: []string{"google/protobuf/timestamp.proto", "google/protobuf/any.proto"},
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Order"), Field: []*descriptorpb.FieldDescriptorProto{
			field("id", 1, str, one, ""),
			field("api_key", 2, str, one, ""),
			field("parts", 3, msg, many, ".shop.Order"),
			field("at", 4, msg, one, ".google.protobuf.Timestamp"),
			field("extra", 5, msg, one, ".google.protobuf.Any"),
		}}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Orders"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: proto.String("Get"), InputType: proto.String(".shop.Order"), OutputType: proto.String(".shop.Order")}}}},
	}
}

// known are the files that the shop's needs.
func known() map[string]*descriptorpb.FileDescriptorProto {
	return map[string]*descriptorpb.FileDescriptorProto{
		"google/protobuf/timestamp.proto": protodesc.ToFileDescriptorProto(timestamppb.File_google_protobuf_timestamp_proto),
		"google/protobuf/any.proto":       protodesc.ToFileDescriptorProto(anypb.File_google_protobuf_any_proto),
	}
}

// response is a reflection service's answer with files.
func response(t testing.TB, all ...*descriptorpb.FileDescriptorProto) []byte {
	t.Helper()
	var list []byte
	for _, fd := range all {
		list = protowire.AppendBytes(protowire.AppendTag(list, fieldFile, protowire.BytesType), marshal(t, fd))
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, fieldFileDescriptors, protowire.BytesType), list)
}

// files is a reflection service that gives one file for each question, as some do.
// It has what the shop needs only if whole.
func files(t testing.TB, req *http.Request, whole bool) *http.Response {
	t.Helper()
	raw, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	questions, _ := traffic.Frames("", raw)
	for _, q := range questions {
		each(q.Bytes, func(n protowire.Number, v []byte) {
			switch fd := known()[string(v)]; {
			case n == fieldFileOfSymbol && string(v) == "shop.Orders":
				out = append(out, frame(response(t, shop(t)))...)
			case n == fieldFileByName && fd != nil && whole:
				out = append(out, frame(response(t, fd))...)
			default:
				why := protowire.AppendString(protowire.AppendTag(nil, fieldErrorText, protowire.BytesType), "not found")
				out = append(out, frame(protowire.AppendBytes(protowire.AppendTag(nil, fieldError, protowire.BytesType), why))...)
			}
		})
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Trailer: http.Header{"Grpc-Status": {"0"}}, Body: io.NopCloser(bytes.NewReader(out))}
}

func TestMessagesAsJSON(t *testing.T) {
	for _, whole := range []bool{true, false} {
		send := func(req *http.Request) (*http.Response, error) { return files(t, req, whole), nil }
		stamp := timestamppb.New(time.Unix(1, 0))
		id := func(n protowire.Number, v string) []byte {
			return protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), v)
		}
		sub := func(n protowire.Number, v []byte) []byte {
			return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), v)
		}
		known, err := anypb.New(stamp)
		if err != nil {
			t.Fatal(err)
		}
		foreign, err := anypb.New(wrapperspb.String("x"))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name, json, note string
			msg              []byte
			whole            bool // it needs the other files
		}{
			{name: "empty", json: `{}`},
			{name: "fields", msg: append(id(1, "a"), id(2, "hunter2")...), json: `{"id":"a","apiKey":"hunter2"}`},
			{name: "nested", msg: append(sub(3, id(1, "b")), sub(3, sub(3, id(1, "c")))...), json: `{"parts":[{"id":"b"},{"parts":[{"id":"c"}]}]}`},
			{name: "a well-known type", msg: sub(4, marshal(t, stamp)), json: `{"at":"1970-01-01T00:00:01Z"}`, whole: true},
			{name: "an Any", msg: sub(5, marshal(t, known)), json: `{"extra":{"@type":"type.googleapis.com/google.protobuf.Timestamp","value":"1970-01-01T00:00:01Z"}}`, whole: true},
			{name: "an Any of nobody's", msg: sub(5, marshal(t, foreign)), note: "google.protobuf.StringValue", whole: true},
			{name: "a newer field", msg: sub(3, id(9, "new")), json: `{"parts":[{}]}`, note: "its server's description lacks some fields of shop.Order"},
			{name: "no message", msg: []byte("\x0a\xff"), note: "not as its server describes shop.Order"},
			{name: "no UTF-8", msg: id(1, "\xff"), note: "not as its server describes shop.Order"},
		} {
			if c.whole && !whole {
				continue
			}
			e := exchange("/shop.Orders/Get", append(frame(c.msg), frame(c.msg)...), nil)
			got := NewReader(time.Now).Read(t.Context(), e, send)
			if len(got.Req) != 2 || got.Req[0] != c.json || got.Req[1] != c.json || len(got.Res) != 0 || (got.Note == "") != (c.note == "") || !strings.Contains(got.Note, c.note) {
				t.Errorf("%s, all files %v: %+v", c.name, whole, got)
			}
		}
	}
}

// A frame that is not whole, or compressed by what nobody knows, is not read; those
// beside it are.
func TestFramesThatCannotBeRead(t *testing.T) {
	send := func(req *http.Request) (*http.Response, error) { return files(t, req, true), nil }
	good := frame([]byte("\x0a\x01a"))
	packed := frame([]byte("xyz"))
	packed[0] = 1
	e := exchange("/shop.Orders/Get", append(append(bytes.Clone(good), packed...), good[:6]...), nil)
	e.ReqHeader = traffic.HeadText("Content-Type: application/grpc\r\ngrpc-encoding: zst\x1bd\r\n")
	got := NewReader(time.Now).Read(t.Context(), e, send)
	if len(got.Req) != 3 || got.Req[0] != `{"id":"a"}` || got.Req[1] != "" || got.Req[2] != "" || got.Note != `compressed by zst\x1bd, which lane does not know` {
		t.Errorf("%+v", got)
	}
}
