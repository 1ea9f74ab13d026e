package main

import (
	"bytes"
	"encoding/json"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
)

// A collector that takes no spans is told of as all else is: one JSON object a line.
func TestSpansThatAreNotSentAreLogged(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer() // it serves nothing
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	var out bytes.Buffer
	setLogger(formatJSON, &out)
	s := settings{tracingEndpoint: "http://" + listener.Addr().String()}
	tracer, stop, err := s.tracer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, end := tracer.Start(t.Context(), "push")
	end(nil)
	stop()
	said := false
	for line := range strings.Lines(out.String()) {
		var entry struct{ Msg, Error string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("%q is no JSON object: %v", line, err)
		}
		said = said || entry.Msg == "Spans were not sent" && strings.Contains(entry.Error, "Unimplemented")
	}
	if !said {
		t.Errorf("logged: %q", out.String())
	}
}
