// Package tracingtest is a collector of spans, in the process of a test.
package tracingtest

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Collector keeps the spans that it is sent over OTLP.
type Collector struct {
	collectorv1.UnimplementedTraceServiceServer
	// URL is where it is.
	URL string

	mu    sync.Mutex
	spans []*tracev1.Span
}

// Start starts a collector, and stops it with the test.
func Start(t *testing.T) *Collector {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Collector{URL: "http://" + listener.Addr().String()}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(listener) }() // ends with Stop
	t.Cleanup(server.Stop)
	return c
}

// Export is what OTLP calls.
func (c *Collector) Export(_ context.Context, request *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, source := range request.GetResourceSpans() {
		for _, scope := range source.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// Span is one that was collected.
type Span struct {
	Name string
	// Parent is its parent's name; empty: it has none. "?" was not collected.
	Parent     string
	Attributes map[string]string
	// Failed is its status, where that is an error.
	Failed string
}

// Spans are those that were collected so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := map[string]string{"": ""}
	for _, s := range c.spans {
		names[string(s.GetSpanId())] = s.GetName()
	}
	var all []Span
	for _, s := range c.spans {
		parent, known := names[string(s.GetParentSpanId())]
		if !known {
			parent = "?"
		}
		span := Span{Name: s.GetName(), Parent: parent, Attributes: map[string]string{}}
		for _, a := range s.GetAttributes() {
			span.Attributes[a.GetKey()] = a.GetValue().GetStringValue()
		}
		if s.GetStatus().GetCode() == tracev1.Status_STATUS_CODE_ERROR {
			span.Failed = s.GetStatus().GetMessage()
		}
		all = append(all, span)
	}
	return all
}

// Tree is each kind of span with its parents, "parent > name", sorted and once each.
func (c *Collector) Tree() []string {
	var lines []string
	for _, s := range c.Spans() {
		lines = append(lines, strings.TrimPrefix(s.Parent+" > "+s.Name, " > "))
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// Holds says in which span a text stands that must not be told; empty: in none.
func (c *Collector) Holds(secret string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		// As it was sent: its attributes, status and events, and whatever else there is.
		if wire, err := proto.Marshal(s); err != nil || bytes.Contains(wire, []byte(secret)) {
			return s.GetName()
		}
	}
	return ""
}
