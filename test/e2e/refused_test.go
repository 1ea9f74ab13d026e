package e2e

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRefusedForGood(t *testing.T) {
	event := func(user, name string, code int) auditEvent {
		e := auditEvent{Verb: "list", RequestURI: name, ObjectRef: objectRef{Resource: "configmaps", Namespace: "ci", Name: name}}
		e.User.Username, e.ResponseStatus.Code = user, code
		return e
	}
	const node = nodeUsers + "mac-1"
	const no, yes = http.StatusForbidden, http.StatusOK
	for name, c := range map[string]struct {
		events []auditEvent
		want   []string
	}{
		"allowed":                         {[]auditEvent{event(node, "a", yes)}, nil},
		"a node, before it is allowed":    {[]auditEvent{event(node, "a", no), event(node, "a", no), event(node, "a", yes)}, nil},
		"a node, never allowed":           {[]auditEvent{event(node, "a", no), event(node, "b", yes)}, []string{"a"}},
		"a node, allowed only before":     {[]auditEvent{event(node, "a", yes), event(node, "a", no)}, []string{"a"}},
		"a node, another is allowed":      {[]auditEvent{event(node, "a", no), event(nodeUsers+"mac-2", "a", yes)}, []string{"a"}},
		"the manager, before its allowed": {[]auditEvent{event(managerUser, "a", no), event(managerUser, "a", yes)}, []string{"a"}},
		"not ours":                        {[]auditEvent{event("system:serviceaccount:kube-system:other", "a", no)}, nil},
	} {
		var got []string
		for _, refused := range refusedForGood(c.events) {
			got = append(got, refused.RequestURI)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: refused for good (-want +got):\n%s", name, diff)
		}
	}
}
