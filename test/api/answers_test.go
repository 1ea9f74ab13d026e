package api

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clienttest"
	"github.com/macfleet/macfleet/internal/host"
)

// writes are those whose answer is read into the Host. All are of its version.
var writes = map[string]func(context.Context, client.Client, *host.Host) error{
	"update": func(ctx context.Context, c client.Client, h *host.Host) error { return c.Update(ctx, h) },
	"patch": func(ctx context.Context, c client.Client, h *host.Host) error {
		return c.Patch(ctx, h, merge(h, `"spec":{"acceptSerial":"patched"}`))
	},
	"update of the status": func(ctx context.Context, c client.Client, h *host.Host) error { return c.Status().Update(ctx, h) },
	"patch of the status": func(ctx context.Context, c client.Client, h *host.Host) error {
		return c.Status().Patch(ctx, h, merge(h, `"status":{"phase":"Gone"}`))
	},
}

func merge(h *host.Host, change string) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},%s}`, h.ResourceVersion, change))
}

// servers are a real one, and what stands for it in the tests of controllers.
func servers() map[string]client.Client {
	stands := clienttest.NewBuilder(api.Scheme()).WithStatusSubresource(&host.Host{}).Build()
	return map[string]client.Client{"API server": api, "fake client": clienttest.AsServed(stands)}
}

// spoil gives a Host what none has at the server.
func spoil(h *host.Host) {
	h.Labels, h.Spec.AcceptSerial = map[string]string{"spoilt": "yes"}, "spoilt"
	h.Status.Phase, h.Status.Server.Name = infrav1.HostAvailable, "spoilt"
}

func differ(want, got *host.Host) string {
	return cmp.Diff(want, got, cmpopts.IgnoreTypes(metav1.TypeMeta{}))
}

// TestAnAnswerReplacesWhatItIsReadInto: what an answer leaves out is gone from the object. A
// Host may be read into again after a conflict, and a status' answer brings the spec of now.
func TestAnAnswerReplacesWhatItIsReadInto(t *testing.T) {
	for server, c := range servers() {
		stored := func(t *testing.T, h *host.Host) *host.Host {
			t.Helper()
			read := &host.Host{}
			must(t, c.Get(t.Context(), client.ObjectKeyFromObject(h), read))
			return read
		}
		t.Run(server+"/creation and read", func(t *testing.T) {
			h := newHost()
			spoil(h)
			must(t, c.Create(t.Context(), h))
			if d := differ(stored(t, h), h); d != "" {
				t.Errorf("the answer to the creation (-want +got):\n%s", d)
			}
			want := stored(t, h)
			spoil(h)
			must(t, c.Get(t.Context(), client.ObjectKeyFromObject(h), h))
			if d := differ(want, h); d != "" {
				t.Errorf("the answer to the read (-want +got):\n%s", d)
			}
		})
		for name, write := range writes {
			t.Run(server+"/"+name, func(t *testing.T) {
				h := newHost()
				must(t, c.Create(t.Context(), h))
				spoil(h)
				must(t, write(t.Context(), c, h))
				if d := differ(stored(t, h), h); d != "" {
					t.Errorf("the answer (-want +got):\n%s", d)
				}
			})
		}
	}
}

// TestARefusedWriteLeavesTheObject: it is as it was sent, of the version that was refused.
func TestARefusedWriteLeavesTheObject(t *testing.T) {
	for server, c := range servers() {
		for name, write := range writes {
			t.Run(server+"/"+name, func(t *testing.T) {
				h := newHost()
				must(t, c.Create(t.Context(), h))
				other := h.DeepCopy()
				other.Status.Phase = infrav1.HostGone
				must(t, c.Status().Update(t.Context(), other))
				spoil(h)
				sent := h.DeepCopy()
				if err := write(t.Context(), c, h); !apierrors.IsConflict(err) {
					t.Fatalf("err = %v, want a conflict", err)
				}
				if d := differ(sent, h); d != "" {
					t.Errorf("the object (-sent +now):\n%s", d)
				}
			})
		}
	}
}
