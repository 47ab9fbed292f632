package describe

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"lane/pkg/traffic"
)

const (
	// askLimit bounds all that a server is asked for one exchange.
	askLimit = 3 * time.Second
	// keepFor is how long an answer counts, one that there is none too: a developer
	// starts his process again with other messages.
	keepFor = time.Minute
	// knownMost bounds the answers that are kept.
	knownMost = 64
)

// Send sends a request to the server that answered an exchange.
type Send func(*http.Request) (*http.Response, error)

// Reader reads messages. It is safe for concurrent use.
type Reader struct {
	now func() time.Time

	mu    sync.Mutex
	known map[place]*answer
}

// NewReader makes a reader with a clock.
func NewReader(now func() time.Time) *Reader { return &Reader{now: now, known: map[place]*answer{}} }

// place is what an answer is of: two instances of a service may have two versions
// of its messages.
type place struct{ host, instance, service string }

// answer is what a server said of a service, once it has.
type answer struct {
	mu    sync.Mutex // held while it is asked
	until time.Time
	files *protoregistry.Files
	err   error
}

// Read reads the bodies of an exchange, as far as they are kept. Their server is
// asked by send for what it does not know yet.
func (r *Reader) Read(ctx context.Context, e *traffic.Exchange, send Send) traffic.Messages {
	at, method, err := methodOf(e)
	if err != nil {
		return traffic.Messages{Note: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	files, err := r.files(ctx, at, e.URL, send)
	if err != nil {
		return traffic.Messages{Note: err.Error()}
	}
	m := methodIn(files, at.service, method)
	if m == nil {
		return traffic.Messages{Note: "its server's reflection does not describe " + traffic.Printable(at.service+"/"+method)}
	}
	d := newDecoder(files)
	out := traffic.Messages{Req: d.body(m.Input(), e.ReqBody, e.ReqHeader), Res: d.body(m.Output(), e.ResBody, e.ResHeader)}
	out.Note = d.note
	return out
}

// methodOf is the place and the method that an exchange called: the path is
// /package.Service/Method.
func methodOf(e *traffic.Exchange) (at place, method string, err error) {
	u, err := url.Parse(e.URL)
	if err == nil {
		service, m, ok := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
		if name := protoreflect.FullName(service); ok && name.IsValid() && protoreflect.Name(m).IsValid() {
			return place{u.Host, e.Instance + " " + e.Addr, service}, m, nil
		}
	}
	return place{}, "", errors.New("the path is none of a gRPC method")
}

// files are the descriptions at a place, asked for if nobody knows them. Whoever
// asks meanwhile waits for the same answer.
func (r *Reader) files(ctx context.Context, at place, asked string, send Send) (*protoregistry.Files, error) {
	a := r.answer(at)
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.now().Before(a.until) {
		return a.files, a.err
	}
	files, err := ask(ctx, asked, at.service, send)
	if ctx.Err() != nil {
		return nil, errors.New("its server's reflection did not answer within " + askLimit.String() + "")
	}
	a.files, a.err, a.until = files, err, r.now().Add(keepFor)
	return files, err
}

func (r *Reader) answer(at place) *answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.known[at]
	if a == nil {
		for old := range r.known { // any one: it is asked for again when it is needed
			if len(r.known) < knownMost {
				break
			}
			delete(r.known, old)
		}
		a = &answer{}
		r.known[at] = a
	}
	return a
}

// methodIn is a method's description, nil if there is none.
func methodIn(files *protoregistry.Files, service, method string) protoreflect.MethodDescriptor {
	d, err := files.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return nil
	}
	s, ok := d.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil
	}
	return s.Methods().ByName(protoreflect.Name(method))
}

// link makes descriptions of files that refer to each other. What they lack is left
// open: a message without one of its fields can still be read.
func link(all map[string]*descriptorpb.FileDescriptorProto) (*protoregistry.Files, error) {
	set := &descriptorpb.FileDescriptorSet{}
	for _, f := range all {
		set.File = append(set.File, f)
	}
	return protodesc.FileOptions{AllowUnresolvable: true}.NewFiles(set)
}
