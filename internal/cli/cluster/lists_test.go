package cluster

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// served is what an API server answers, with what a decoder could take amiss: members nobody
// knows, one that is there twice, what is no UTF-8, times, numbers or text, and raw fields.
const served = `{"kind":"?List","apiVersion":"?","metadata":{"resourceVersion":"7","continue":"more"},"items":[{
 "kind":"?","apiVersion":"?","metadata":{"name":"a","namespace":"b","labels":{"x":"y"},"creationTimestamp":"2026-11-20T12:00:00Z","deletionTimestamp":null,
  "managedFields":[{"manager":"m","operation":"Update","time":"2026-11-20T12:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"k:{\"t\":\"a\"}":{},"k:{\"t\":\"a\"}":{}}}}]},
 "spec":{"serverID":"s","clusterName":"c","unknown":{"n":[1,2.5,1e3]},"Zone":"not this one","replicas":3,"claimRef":{"token":"t","name":"m"},
  "rollout":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%","maxUnavailable":1}}},
  "remediation":{"triggerIf":{"unhealthyLessThanOrEqualTo":"40%"}}},
 "status":{"phase":"Wiping","shownSince":"2026-11-20T12:00:00.123456Z","conditions":[{"type":"T","status":"True","reason":"R","message":"é \u00e9 BYTES","lastTransitionTime":"2026-11-20T12:00:00Z"}]}},{}]}`

// customLists are lists of all kinds that are read in one pass.
func customLists() []func() client.ObjectList {
	return []func() client.ObjectList{
		func() client.ObjectList { return &infrav1.ScalewayAppleSiliconHostList{} },
		func() client.ObjectList { return &infrav1.ScalewayAppleSiliconMachineList{} },
		func() client.ObjectList { return &infrav1.ScalewayAppleSiliconClusterList{} },
		func() client.ObjectList { return &infrav1.ScalewayAppleSiliconRemediationList{} },
		func() client.ObjectList { return &infrav1.MacNodeProfileList{} },
		func() client.ObjectList { return &controlplanev1.ExternalControlPlaneList{} },
		func() client.ObjectList { return &clusterv1.MachineList{} },
		func() client.ObjectList { return &clusterv1.MachineDeploymentList{} },
		func() client.ObjectList { return &clusterv1.MachineHealthCheckList{} },
		func() client.ObjectList { return &clusterv1.ClusterList{} },
	}
}

// A list is what the usual client reads, in all kinds that are read in one pass.
func TestListsAreWhatTheClientReads(t *testing.T) {
	bodies := map[string]string{}
	for _, kind := range customLists() {
		name := strings.TrimSuffix(reflect.TypeOf(kind()).Elem().Name(), "List")
		bodies[strings.ToLower(name)+"s"] = strings.NewReplacer("BYTES", "\xff", `"kind":"?`, `"kind":"`+name).Replace(served)
	}
	var agents sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agents.Store(r.UserAgent(), true)
		if refused := refusals()[strings.TrimPrefix(r.URL.Query().Get("labelSelector"), "refuse=")]; refused != nil {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(int(refused.Status().Code))
			status := refused.Status()
			status.APIVersion, status.Kind = "v1", "Status"
			_ = json.NewEncoder(w).Encode(status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		of := strings.Split(r.URL.Path, "/")
		body := bodies[of[len(of)-1]]
		_, _ = w.Write([]byte(strings.ReplaceAll(body, `"apiVersion":"?"`, `"apiVersion":"`+of[2]+"/"+of[3]+`"`)))
	}))
	defer server.Close()
	c, err := NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range customLists() {
		want, got := kind(), kind()
		if err := c.(listing).WithWatch.List(t.Context(), want, client.InNamespace("b")); err != nil {
			t.Fatalf("%T: %v", want, err)
		}
		for range 2 { // also into what holds something
			if err := c.List(t.Context(), got, client.InNamespace("b")); err != nil {
				t.Fatalf("%T: %v", want, err)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%T (-client +one pass):\n%s", want, d)
		}
		if n := len(items(t, got)); n != 2 {
			t.Errorf("%T: %d items", got, n)
		}
		for name := range refusals() {
			want := c.(listing).WithWatch.List(t.Context(), got, client.MatchingLabels{"refuse": name})
			err := c.List(t.Context(), got, client.MatchingLabels{"refuse": name})
			if err == nil || err.Error() != want.Error() || apierrors.ReasonForError(err) != apierrors.ReasonForError(want) || !strings.Contains(err.Error(), "because") {
				t.Errorf("%T: err %v, want %v", got, err, want)
			}
		}
	}
	agents.Range(func(name, _ any) bool {
		if !strings.Contains(name.(string), "kubernetes/") {
			t.Errorf("the API server is asked by %q, of whom its audit log says nothing", name)
		}
		return true
	})
}

// refusals are how an API server refuses a list.
func refusals() map[string]*apierrors.StatusError {
	of := infrav1.GroupVersion.WithResource("x").GroupResource()
	timeout := apierrors.NewServerTimeout(of, "list", 1)
	timeout.ErrStatus.Message = "because etcd is slow"
	return map[string]*apierrors.StatusError{
		"forbidden": apierrors.NewForbidden(of, "", errors.New("because of you")), "unauthorized": apierrors.NewUnauthorized("because it expired"),
		"broken": apierrors.NewInternalError(errors.New("because a webhook failed")), "late": timeout,
	}
}

func items(t *testing.T, of client.ObjectList) []any {
	t.Helper()
	text, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	list := unstructured.Unstructured{}
	if err := json.Unmarshal(text, &list.Object); err != nil {
		t.Fatal(err)
	}
	all, _, err := unstructured.NestedSlice(list.Object, "items")
	if err != nil {
		t.Fatal(err)
	}
	return all
}
