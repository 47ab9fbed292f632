package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	orcapb "github.com/cncf/xds/go/xds/data/orca/v3"
	orcasvc "github.com/cncf/xds/go/xds/service/orca/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/interop"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/orca"

	"lane/pkg/ca"
	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// grpc-go's interoperability client, case by case. It ends its process when a case
// fails, and reads HTTPS_PROXY once in a process: so it runs in children of the
// test, as a program that a developer starts through the proxy does.
var interopCases = []struct {
	name, do string // do is grpc-go's function
	run      func(context.Context, *grpc.ClientConn)
}{
	{"empty_unary", "DoEmptyUnaryCall", onService(interop.DoEmptyUnaryCall)},
	{"large_unary", "DoLargeUnaryCall", onService(interop.DoLargeUnaryCall)},
	{"client_streaming", "DoClientStreaming", onService(interop.DoClientStreaming)},
	{"server_streaming", "DoServerStreaming", onService(interop.DoServerStreaming)},
	{"ping_pong", "DoPingPong", onService(interop.DoPingPong)},
	{"empty_stream", "DoEmptyStream", onService(interop.DoEmptyStream)},
	{"timeout_on_sleeping_server", "DoTimeoutOnSleepingServer", onService(interop.DoTimeoutOnSleepingServer)},
	{"cancel_after_begin", "DoCancelAfterBegin", onService(interop.DoCancelAfterBegin)},
	{"cancel_after_first_response", "DoCancelAfterFirstResponse", onService(interop.DoCancelAfterFirstResponse)},
	{"custom_metadata", "DoCustomMetadata", onService(interop.DoCustomMetadata)},
	{"status_code_and_message", "DoStatusCodeAndMessage", onService(interop.DoStatusCodeAndMessage)},
	{"special_status_message", "DoSpecialStatusMessage", onService(interop.DoSpecialStatusMessage)},
	{"unimplemented_method", "DoUnimplementedMethod", interop.DoUnimplementedMethod},
	{"unimplemented_service", "DoUnimplementedService", func(ctx context.Context, cc *grpc.ClientConn) {
		interop.DoUnimplementedService(ctx, testpb.NewUnimplementedServiceClient(cc))
	}},
	{"pick_first_unary", "DoPickFirstUnary", func(ctx context.Context, cc *grpc.ClientConn) {
		interop.DoPickFirstUnary(ctx, testpb.NewTestServiceClient(cc))
	}},
	{"orca_per_rpc", "DoORCAPerRPCTest", func(ctx context.Context, cc *grpc.ClientConn) {
		interop.DoORCAPerRPCTest(ctx, testpb.NewTestServiceClient(cc))
	}},
	{"orca_oob", "DoORCAOOBTest", func(ctx context.Context, cc *grpc.ClientConn) {
		interop.DoORCAOOBTest(ctx, testpb.NewTestServiceClient(cc))
	}},
	{"rpc_soak", "DoSoakTest", func(ctx context.Context, cc *grpc.ClientConn) {
		soak(ctx, func() (*grpc.ClientConn, func()) { return cc, func() {} })
	}},
	{"channel_soak", "DoSoakTest", func(ctx context.Context, cc *grpc.ClientConn) {
		soak(ctx, func() (*grpc.ClientConn, func()) {
			own := interopConn(cc.Target())
			return own, func() { own.Close() }
		})
	}},
	// Of the cases that are about compression grpc-go has none, but it compresses.
	{"large_unary compressed", "DoLargeUnaryCall", onService(interop.DoLargeUnaryCall, grpc.UseCompressor(gzip.Name))},
	{"client_streaming compressed", "DoClientStreaming", onService(interop.DoClientStreaming, grpc.UseCompressor(gzip.Name))},
	{"server_streaming compressed", "DoServerStreaming", onService(interop.DoServerStreaming, grpc.UseCompressor(gzip.Name))},
	{"ping_pong compressed", "DoPingPong", onService(interop.DoPingPong, grpc.UseCompressor(gzip.Name))},
}

// What is left out: it wants credentials of a cloud.
var interopCloud = []string{"DoComputeEngineCreds", "DoServiceAccountCreds", "DoJWTTokenCreds", "DoOauth2TokenCreds",
	"DoPerRPCCreds", "DoGoogleDefaultCredentials", "DoComputeEngineChannelCredentials"}

func onService(do func(context.Context, testpb.TestServiceClient, ...grpc.CallOption), args ...grpc.CallOption) func(context.Context, *grpc.ClientConn) {
	return func(ctx context.Context, cc *grpc.ClientConn) { do(ctx, testpb.NewTestServiceClient(cc), args...) }
}

func soak(ctx context.Context, channel func() (*grpc.ClientConn, func())) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	interop.DoSoakTest(ctx, interop.SoakTestConfig{
		RequestSize: 271828, ResponseSize: 314159, Iterations: 10, NumWorkers: 2, ChannelForTest: channel,
		PerIterationMaxAcceptableLatency: time.Minute, OverallTimeout: time.Minute,
	})
}

const (
	interopTarget = "LANE_TEST_INTEROP"     // makes the process a client of this target
	interopTag    = "LANE_TEST_INTEROP_TAG" // which sends this tag
	interopCA     = "LANE_TEST_INTEROP_CA"  // and speaks TLS, trusting this file
)

// tagged sends a tag with every stream: grpc-go's own, too, which no interceptor
// sees.
type tagged string

func (t tagged) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"x-lane-tag": string(t)}, nil
}

func (tagged) RequireTransportSecurity() bool { return false }

func interopConn(target string) *grpc.ClientConn {
	creds := insecure.NewCredentials()
	if file := os.Getenv(interopCA); file != "" {
		var err error
		if creds, err = credentials.NewClientTLSFromFile(file, "interop"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}`),
	}
	if tag := os.Getenv(interopTag); tag != "" {
		opts = append(opts, grpc.WithPerRPCCredentials(tagged(tag)))
	}
	cc, err := grpc.NewClient(target, opts...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return cc
}

// interopChild is the client's process: it runs the cases that its arguments
// name, and prints the name of each that has passed.
func interopChild(target string, names []string) {
	cc := interopConn(target)
	defer cc.Close()
	for _, c := range interopCases {
		if slices.Contains(names, c.name) {
			c.run(context.Background(), cc)
			fmt.Println(c.name)
		}
	}
}

// startInterop runs cases in a child: which have passed, and what it said if not
// all of them.
func startInterop(t *testing.T, names []string, target string, env ...string) (passed []string, said string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, exe, names...)
	child.Env = append([]string{interopTarget + "=" + target, "PATH=" + os.Getenv("PATH")}, env...)
	var errs bytes.Buffer
	child.Stderr = &errs
	out, err := child.Output()
	for name := range strings.Lines(string(out)) {
		passed = append(passed, strings.TrimSuffix(name, "\n"))
	}
	if len(passed) > len(names) || !slices.Equal(passed, names[:len(passed)]) || (err == nil) != (len(passed) == len(names)) {
		t.Fatalf("the client ends with %v and says %q, %s", err, out, errs.String())
	}
	if err != nil {
		said = fmt.Sprintf("%v: %s", err, errs.String())
	}
	return passed, said
}

// runInterop runs every case; one that fails ends its child, and the next child
// goes on behind it.
func runInterop(t *testing.T, target string, env ...string) {
	t.Helper()
	var names []string
	for _, c := range interopCases {
		names = append(names, c.name)
	}
	for len(names) > 0 {
		passed, said := startInterop(t, names, target, env...)
		if names = names[len(passed):]; len(names) > 0 {
			t.Errorf("%s: %s", names[0], said)
			names = names[1:]
		}
	}
}

// oob is grpc-go's service of load reports, which has a fastest pace of 30 s that
// cannot be changed from outside: this one reports at once and often.
type oob struct {
	orcasvc.UnimplementedOpenRcaServiceServer
	from orca.ServerMetricsProvider
}

func (o oob) StreamCoreMetrics(_ *orcasvc.OrcaLoadReportRequest, st orcasvc.OpenRcaService_StreamCoreMetricsServer) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		m := o.from.ServerMetrics()
		err := st.Send(&orcapb.OrcaLoadReport{CpuUtilization: m.CPUUtilization, MemUtilization: m.MemUtilization, Utilization: m.Utilization})
		if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-st.Context().Done():
			return st.Context().Err()
		}
	}
}

// newInterop starts grpc-go's interoperability server.
func newInterop(t *testing.T, opts ...grpc.ServerOption) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	metrics := orca.NewServerMetricsRecorder()
	srv := grpc.NewServer(append(opts, orca.CallMetricsServerOption(nil),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			out, err := next(ctx, req)
			if r, ok := out.(*testpb.SimpleResponse); ok && req.(*testpb.SimpleRequest).FillServerId {
				r.ServerId = "one" // which grpc-go's own leaves empty
			}
			return out, err
		}))...)
	testpb.RegisterTestServiceServer(srv, interop.NewTestServer(interop.NewTestServerOptions{MetricsRecorder: metrics}))
	orcasvc.RegisterOpenRcaServiceServer(srv, oob{from: metrics.(orca.ServerMetricsProvider)})
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	t.Cleanup(func() { srv.Stop(); <-done })
	return ln.Addr().String()
}

func TestInterop(t *testing.T) {
	for _, way := range []struct {
		name   string
		fronts []traffic.Front
	}{
		{"direct", nil},
		{"CONNECT", []traffic.Front{traffic.FrontForward}},
		{"guard", []traffic.Front{traffic.FrontGuard}},
		{"CONNECT and guard", []traffic.Front{traffic.FrontForward, traffic.FrontGuard}},
		{"opened TLS", []traffic.Front{traffic.FrontForward}},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel() // a case of load reports only waits
			roots := x509.NewCertPool()
			issuer := authority(t, roots, 0)
			e := newEnv(t, func(c *Config) { c.Log, c.Roots = traffic.NewLog(10000), roots })
			local := newInterop(t)
			guard := e.guard(GuardConfig{Lane: "dev-alice", Service: "interop", InstanceID: "i-alice", Local: []string{local}})
			proxy, tag := "HTTPS_PROXY=http://"+e.addr, interopTag+"=dev-alice"
			switch way.name {
			case "direct":
				runInterop(t, local)
			case "guard":
				runInterop(t, guard, tag)
			case "CONNECT":
				e.reg.set(service("interop", instance("i-alice", local, "dev-alice")))
				runInterop(t, "interop:50051", proxy)
			case "opened TLS":
				cert, err := issuer.Certificate("interop")
				if err != nil {
					t.Fatal(err)
				}
				e.reg.set(service("interop", instance("i-alice", newInterop(t, grpc.Creds(credentials.NewServerTLSFromCert(cert))), "dev-alice")))
				addr, file := openingFront(t, e, "interop")
				runInterop(t, "interop:443", "HTTPS_PROXY=http://"+addr, interopCA+"="+file)
			default:
				e.reg.set(service("interop", instance("i-alice", guard, "dev-alice")))
				runInterop(t, "interop:50051", proxy)
			}
			// That it came this way: every case makes at least one call. A record is made
			// when its caller may have its answer already.
			want := uint64(len(way.fronts) * len(interopCases))
			eventually(t, "records", func() bool { return e.log.Last() >= want })
			seen := map[traffic.Front]int{}
			for seq := range e.log.Last() {
				ex := e.exchange(seq + 1)
				seen[ex.Front]++
				if ex.Kind != lane.KindLaneMatch || ex.Proto != "HTTP/2.0" {
					t.Errorf("%+v", ex)
				}
			}
			for _, f := range way.fronts {
				if seen[f] < len(interopCases) {
					t.Errorf("%d calls at %s", seen[f], f)
				}
			}
			if len(seen) != len(way.fronts) {
				t.Errorf("fronts %v, want %v", seen, way.fronts)
			}
		})
	}
}

// openingFront starts a forward front that opens TLS to a service, by a CA of its
// own: the file of its certificate is for the caller.
func openingFront(t *testing.T, e *env, service string) (addr, file string) {
	t.Helper()
	a, err := ca.Init(t.TempDir(), ca.Options{Owner: "test", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := ca.NewIssuer(a, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	f := NewForward(e.tr, ForwardConfig{Drain: 2 * time.Second, TLS: func(host, of string) *tls.Config {
		if of != service {
			return nil
		}
		return issuer.Config(host)
	}})
	return e.serve(f.Serve), a.Path
}

// What must not come through does not, and the client says so.
func TestInteropTurnedAway(t *testing.T) {
	local := newInterop(t)
	e := newEnv(t, nil)
	guard := e.guard(GuardConfig{Lane: "dev-alice", Service: "interop", InstanceID: "i-alice", Local: []string{local}})
	e.reg.set(service("interop", instance("i-alice", local, "dev-bob")))
	for _, c := range []struct{ target, env string }{
		{guard, interopTag + "=dev-bob"}, {"interop:50051", "HTTPS_PROXY=http://" + e.addr},
	} {
		passed, said := startInterop(t, []string{"empty_unary", "large_unary"}, c.target, c.env)
		if len(passed) != 0 || !strings.Contains(said, string(lane.CodeNoBaseline)) {
			t.Errorf("%s: %q passed; %s", c.target, passed, said)
		}
	}
}

// A case that grpc-go has, and the table lacks, is a gap.
func TestInteropIsComplete(t *testing.T) {
	have := slices.Clone(interopCloud)
	for _, c := range interopCases {
		have = append(have, c.do)
	}
	cases := sourceOf(t, "google.golang.org/grpc/interop", `(?m)^func (Do\w+)\(`)
	if len(cases) < 20 {
		t.Fatalf("only %v found", cases)
	}
	for _, name := range cases {
		if !slices.Contains(have, name) {
			t.Errorf("%s is not run", name)
		}
	}
	for _, name := range have {
		if !slices.Contains(cases, name) {
			t.Errorf("grpc-go has no %s", name)
		}
	}
}

// sourceOf finds what a package's own source says of itself.
func sourceOf(t testing.TB, pkg, pattern string) (found []string) {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", pkg).Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			found = append(found, m[1])
		}
	}
	return found
}
