package nodecsr

import (
	"strings"
	"testing"
)

// A Machine's name is written by whoever may make one: no certificate makes it the API
// server, nor another Service.
func TestNoCertificateHasTheNameOfAService(t *testing.T) {
	const token = "abcdef"
	for name, refused := range map[string]bool{
		"mac-1": false, "mac.svcs": false, "kubernetes-1": false,
		"kubernetes": true, "kubernetes.default": true, "kubernetes.default.svc": true, "kubernetes.default.svc.cluster.local": true,
		"web.team.svc": true, "kubernetes.default.svc.example.com": true, "x.cluster.local": true, "localhost": true,
	} {
		h := claimed(mac1, name, token)
		why := namesRefusal(nodeRequest{Node: name, Names: []string{name}}, &h)
		if strings.Contains(why, "is a Service's") != refused || (why != "") != refused {
			t.Errorf("%s: %q", name, why)
		}
	}
}
