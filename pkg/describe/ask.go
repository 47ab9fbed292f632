package describe

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"lane/pkg/traffic"
)

// The two versions of the reflection service say the same in the same bytes
// (grpc/reflection/v1/reflection.proto).
var versions = []string{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}

// Limits of what a server may answer with.
const (
	answerMost = 8 << 20 // bytes of one answer
	filesMost  = 2000
	roundsMost = 20 // a server may give one file at a time, and others that it needs when asked
)

// Fields of the reflection service's messages.
const (
	fieldFileByName      = 3 // in a request
	fieldFileOfSymbol    = 4
	fieldFileDescriptors = 4 // in a response
	fieldError           = 7
	fieldFile            = 1 // in its list of files
	fieldErrorText       = 2 // in its error
)

// codeUnimplemented is what a gRPC server says of a service that it has not.
const codeUnimplemented = 12

// errNotOffered is a server without reflection.
var errNotOffered = errors.New("its server offers no reflection")

// ask asks a server for the description of a service and of all that it needs.
func ask(ctx context.Context, to, service string, send Send) (*protoregistry.Files, error) {
	u, err := url.Parse(to)
	if err != nil {
		return nil, errNotOffered
	}
	for _, path := range versions {
		u.Path, u.RawPath, u.RawQuery, u.Fragment = path, "", "", ""
		files, err := gather(ctx, u.String(), service, send)
		if !errors.Is(err, errNotOffered) {
			return files, err
		}
	}
	return nil, errNotOffered
}

// gather asks by one version, as often as files are missing.
func gather(ctx context.Context, to, service string, send Send) (*protoregistry.Files, error) {
	all := map[string]*descriptorpb.FileDescriptorProto{}
	wanted := map[string]bool{} // files that were asked for
	questions := [][]byte{question(fieldFileOfSymbol, service)}
	for round := 0; len(questions) > 0 && round < roundsMost; round++ {
		raw, err := call(ctx, to, questions, send)
		if err != nil {
			return nil, err
		}
		frames, _ := traffic.Frames("", raw)
		for _, f := range frames {
			files, why := filesOf(f.Bytes)
			if why != "" && round == 0 {
				return nil, errors.New("its server's reflection says: " + clip(traffic.Printable(why)))
			}
			for _, one := range files {
				fd := &descriptorpb.FileDescriptorProto{}
				if err := proto.Unmarshal(one, fd); err != nil {
					return nil, errors.New("its server's reflection sends what is no description")
				}
				if all[fd.GetName()] = fd; len(all) > filesMost {
					return nil, fmt.Errorf("its server's reflection sends more than %d files", filesMost)
				}
			}
		}
		questions = nil
		for _, fd := range all {
			for _, need := range fd.GetDependency() {
				if all[need] == nil && !wanted[need] {
					wanted[need] = true
					questions = append(questions, question(fieldFileByName, need))
				}
			}
		}
	}
	files, err := link(all)
	if err != nil {
		return nil, errors.New("its server's reflection is in itself wrong: " + clip(traffic.Printable(err.Error())))
	}
	return files, nil
}

// question is a request of the reflection service.
func question(field protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, field, protowire.BytesType), value)
}

// filesOf are the files of a response, or why there are none.
func filesOf(b []byte) (files [][]byte, why string) {
	each(b, func(n protowire.Number, v []byte) {
		switch n {
		case fieldFileDescriptors:
			each(v, func(n protowire.Number, v []byte) {
				if n == fieldFile {
					files = append(files, v)
				}
			})
		case fieldError:
			why = "an error"
			each(v, func(n protowire.Number, v []byte) {
				if n == fieldErrorText {
					why = string(v)
				}
			})
		}
	})
	return files, why
}

// each goes through the fields of a message that are bytes.
func each(b []byte, visit func(protowire.Number, []byte)) {
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return
		}
		b = b[size:]
		if kind == protowire.BytesType {
			v, size := protowire.ConsumeBytes(b)
			if size < 0 {
				return
			}
			visit(n, v)
			b = b[size:]
			continue
		}
		if size = protowire.ConsumeFieldValue(n, kind, b); size < 0 {
			return
		}
		b = b[size:]
	}
}

// call is one call of the reflection service: all questions at once, and all answers.
func call(ctx context.Context, to string, questions [][]byte, send Send) ([]byte, error) {
	var body []byte
	for _, q := range questions {
		body = append(binary.BigEndian.AppendUint32(append(body, 0), uint32(len(q))), q...)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, errNotOffered
	}
	req.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
	res, err := send(req)
	if err != nil {
		return nil, errors.New("its server cannot be asked for its messages: " + clip(traffic.Printable(err.Error())))
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, answerMost+1))
	switch {
	case err != nil:
		return nil, errors.New("its server's reflection broke off: " + clip(traffic.Printable(err.Error())))
	case len(raw) > answerMost:
		return nil, fmt.Errorf("its server's reflection sends more than %d MiB", answerMost>>20)
	}
	return raw, refusal(res)
}

// refusal is why a response is no answer, nil for one that is.
func refusal(res *http.Response) error {
	code, text := res.Trailer.Get("Grpc-Status"), res.Trailer.Get("Grpc-Message")
	if code == "" { // with an error, all of it may stand in the head
		code, text = res.Header.Get("Grpc-Status"), res.Header.Get("Grpc-Message")
	}
	n, err := strconv.Atoi(code)
	switch {
	case err == nil && n == 0:
		return nil
	case err != nil || n == codeUnimplemented:
		return errNotOffered
	}
	if t, err := url.PathUnescape(text); err == nil {
		text = t
	}
	return errors.New("its server's reflection refuses: " + clip(traffic.Printable(text)) + " (gRPC code " + code + ")")
}

// clip keeps a note on one line.
func clip(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
