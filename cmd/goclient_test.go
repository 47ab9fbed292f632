//go:build unix

package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// echoMethod takes and gives bytes, as the HTTP servers do.
const echoMethod = "/test.Echo/Echo"

// goClient is a program of its own in the stories: goclient http|grpc|grpcs
// TARGET [FILE] sends nothing or a file, and prints the answer.
func goClient() {
	if err := goCall(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func goCall(args []string, out io.Writer) error {
	if len(args) < 2 {
		return errors.New("usage: goclient http|grpc|grpcs TARGET [FILE]")
	}
	var body []byte
	if len(args) > 2 {
		var err error
		if body, err = os.ReadFile(args[2]); err != nil {
			return err
		}
	}
	ctx, cancel := storyContext()
	defer cancel()
	switch args[0] {
	case "grpc":
		return grpcCall(ctx, args[1], insecure.NewCredentials(), body, out)
	case "grpcs":
		return grpcCall(ctx, args[1], credentials.NewTLS(nil), body, out)
	}
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, args[1], strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	_, err = io.Copy(out, res.Body)
	return err
}

func grpcCall(ctx context.Context, target string, creds credentials.TransportCredentials, body []byte, out io.Writer) error {
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(creds))
	if err != nil {
		return err
	}
	defer conn.Close()
	answer := &wrapperspb.BytesValue{}
	if err := conn.Invoke(ctx, echoMethod, wrapperspb.Bytes(body), answer); err != nil {
		return err
	}
	_, err = out.Write(answer.Value)
	return err
}
