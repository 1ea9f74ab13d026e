package snapshot_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/cluster"
	"github.com/macfleet/macfleet/internal/cli/explain"
	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// managed is what the API server remembers of who wrote what: half of an object.
func managed() []metav1.ManagedFieldsEntry {
	fields := `{"f:status":{"f:conditions":{` + strings.Repeat(`"k:{\"type\":\"Available\"}":{".":{},"f:lastTransitionTime":{},"f:message":{},"f:reason":{},"f:status":{},"f:type":{}},`, 6) + `".":{}}}}`
	return []metav1.ManagedFieldsEntry{{Manager: "manager", Operation: "Update", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}}
}

// thousand serves 1000 hosts and 1000 Machines, written once.
func thousand(b *testing.B) *httptest.Server {
	b.Helper()
	s := clitest.Fleet()
	hosts, machines := s.Hosts, s.Machines
	for n := range 1000 {
		h, m := s.Hosts[n%8], s.Machines[n%6]
		h.Name, m.Name = fmt.Sprintf("%s-%d", h.Name, n), fmt.Sprintf("%s-%d", m.Name, n)
		h.ManagedFields, m.ManagedFields = managed(), managed()
		hosts, machines = append(hosts, h), append(machines, m)
	}
	bodies := map[string][]byte{}
	for kind, items := range map[string]any{"scalewayapplesiliconhosts": hosts, "scalewayapplesiliconmachines": machines} {
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{}, "items": items})
		if err != nil {
			b.Fatal(err)
		}
		bodies[kind] = body
		b.Logf("%d bytes of %s", len(body), kind)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, found := bodies[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]
		if !found {
			body = []byte(`{"metadata":{},"items":[]}`)
		}
		_, _ = w.Write(body)
	}))
	b.Cleanup(server.Close)
	return server
}

// BenchmarkLoad is what reading takes with 1000 hosts and 1000 Machines: status may take
// 300 ms, explain 500.
func BenchmarkLoad(b *testing.B) {
	server := thousand(b)
	for name, kinds := range map[string][]snapshot.Kind{"status": show.StatusKinds(), "explain-machine": explain.MachineKinds()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c, err := cluster.NewClient(&rest.Config{Host: server.URL, QPS: 100, Burst: 200})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := snapshot.Load(b.Context(), c, "", kinds...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
