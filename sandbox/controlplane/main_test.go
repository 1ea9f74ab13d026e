package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChoose(t *testing.T) {
	for _, tc := range []struct {
		name      string
		args      []string
		component string
		rest      []string
	}{
		{"by its name", []string{"/assets/etcd", "--version"}, "etcd", []string{"/assets/etcd", "--version"}},
		{"by the first argument", []string{"./controlplane", "kubectl", "get", "nodes"}, "kubectl", []string{"kubectl", "get", "nodes"}},
		{"the name wins", []string{"kubectl", "up"}, "kubectl", []string{"kubectl", "up"}},
		{"metrics-server", []string{"controlplane", "metrics-server", "--v=1"}, "metrics-server", []string{"metrics-server", "--v=1"}},
		{"up", []string{"controlplane", "up", "--dir=/x"}, "up", []string{"up", "--dir=/x"}},
		{"unknown component", []string{"controlplane", "kubelet"}, "", nil},
		{"nothing asked for", []string{"controlplane"}, "", nil},
		{"not even a name", nil, "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			component, rest, ok := choose(tc.args)
			if ok != (tc.component != "") || component != tc.component {
				t.Errorf("choose gave %q, %v; want %q", component, ok, tc.component)
			}
			if diff := cmp.Diff(tc.rest, rest); diff != "" {
				t.Error(diff)
			}
		})
	}
}
