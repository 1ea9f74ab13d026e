package owner

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/macfleet/macfleet/internal/clienttest"
)

func machine(change func(*metav1.OwnerReference)) metav1.OwnerReference {
	r := metav1.OwnerReference{APIVersion: "macs.example/v2", Kind: "Machine", Name: "mac-1", UID: "uid-1", Controller: ptr.To(true)}
	if change != nil {
		change(&r)
	}
	return r
}

func TestGiveBack(t *testing.T) {
	anothers := metav1.OwnerReference{APIVersion: "backups.example/v1", Kind: "Restore", Name: "mac-1", UID: "uid-9"}
	for name, c := range map[string]struct {
		has, want []metav1.OwnerReference
		written   bool
	}{
		"none":                        {nil, []metav1.OwnerReference{machine(nil)}, true},
		"its own":                     {[]metav1.OwnerReference{machine(nil)}, []metav1.OwnerReference{machine(nil)}, false},
		"a former one":                {[]metav1.OwnerReference{machine(func(r *metav1.OwnerReference) { r.UID = "uid-0" })}, []metav1.OwnerReference{machine(nil)}, true},
		"a former one before its own": {[]metav1.OwnerReference{machine(func(r *metav1.OwnerReference) { r.UID = "uid-0" }), machine(nil)}, []metav1.OwnerReference{machine(nil)}, true},
		"another version":             {[]metav1.OwnerReference{machine(func(r *metav1.OwnerReference) { r.APIVersion = "macs.example/v1" })}, []metav1.OwnerReference{machine(nil)}, true},
		"no controller":               {[]metav1.OwnerReference{machine(func(r *metav1.OwnerReference) { r.Controller = nil })}, []metav1.OwnerReference{machine(nil)}, true},
		"another's":                   {[]metav1.OwnerReference{anothers}, []metav1.OwnerReference{anothers, machine(nil)}, true},
		"both":                        {[]metav1.OwnerReference{anothers, machine(nil)}, []metav1.OwnerReference{anothers, machine(nil)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "mac-1-bootstrap", OwnerReferences: c.has}}
			api := clienttest.AsServed(fake.NewClientBuilder().WithObjects(secret).Build())
			key, before, after := client.ObjectKeyFromObject(secret), &corev1.Secret{}, &corev1.Secret{}
			if err := api.Get(t.Context(), key, before); err != nil {
				t.Fatal(err)
			}
			if err := GiveBack(t.Context(), api, before.DeepCopy(), machine(nil)); err != nil {
				t.Fatal(err)
			}
			if err := api.Get(t.Context(), key, after); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, after.OwnerReferences); d != "" {
				t.Errorf("owners (-want +got):\n%s", d)
			}
			if written := after.ResourceVersion != before.ResourceVersion; written != c.written {
				t.Errorf("written = %t, want %t", written, c.written)
			}
		})
	}
}
