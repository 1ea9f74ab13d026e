package bootstrapsecret

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// Fleet authors may write the Secret. What the API refuses in a Host's record would
// have each write of the claim fail, and the deletion of the Machine wait for ever.
func TestARestoredRecordIsOneThatTheAPITakes(t *testing.T) {
	long := strings.Repeat("x", 200)
	attempt := func(epoch, digest, at string) string {
		return `[{"epoch":` + epoch + `,"digest":"` + digest + `"` + at + `}]`
	}
	const at = `,"at":"2026-03-01T12:00:00.000000Z"`
	for name, c := range map[string]struct {
		secret Content
		want   infrav1.HostRecord
	}{
		"an epoch below zero":         {Content{Epoch: -1}, infrav1.HostRecord{}},
		"an epoch near the end":       {Content{Epoch: math.MaxInt64}, infrav1.HostRecord{}},
		"an endless algorithm":        {Content{Epoch: 2, mirror: mirror{hostKey: long + " SHA256:x"}}, infrav1.HostRecord{InstallEpoch: 2}},
		"an endless fingerprint":      {Content{Epoch: 2, mirror: mirror{hostKey: "ssh-ed25519 " + long}}, infrav1.HostRecord{InstallEpoch: 2}},
		"an endless serial":           {Content{mirror: mirror{hardware: long + " board"}}, infrav1.HostRecord{}},
		"an endless board":            {Content{mirror: mirror{hardware: "serial " + long}}, infrav1.HostRecord{}},
		"an attempt without a digest": {Content{mirror: mirror{attempts: attempt("1", "", at)}}, infrav1.HostRecord{}},
		"an attempt without a time":   {Content{mirror: mirror{attempts: attempt("1", "d", "")}}, infrav1.HostRecord{}},
		"an endless digest":           {Content{mirror: mirror{attempts: attempt("1", long, at)}}, infrav1.HostRecord{}},
		"an attempt before the first": {Content{mirror: mirror{attempts: attempt("-1", "d", at)}}, infrav1.HostRecord{}},
		"failures below zero":         {Content{mirror: mirror{failures: "-8"}}, infrav1.HostRecord{}},
		"what a manager wrote": {
			Content{Epoch: 2, mirror: mirror{hostKey: "ssh-ed25519 SHA256:x", hardware: "serial board", attempts: attempt("2", "d", at), failures: "3"}},
			infrav1.HostRecord{
				InstallEpoch: 2, HostKey: &infrav1.HostKey{Algorithm: "ssh-ed25519", SHA256: "SHA256:x", Epoch: 2},
				Hardware:         &infrav1.HostHardware{Serial: "serial", PlatformUUID: "board"},
				PasswordAttempts: []infrav1.PasswordAttempt{{Epoch: 2, Digest: "d", At: metav1.NewMicroTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}},
				Bootstrap:        infrav1.BootstrapRecord{Attempts: 3},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var record infrav1.HostRecord
			c.secret.ClaimToken = "t"
			c.secret.Restore(&record, "t")
			if diff := cmp.Diff(c.want, record, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
