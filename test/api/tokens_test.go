package api

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/workload"
)

// token is a bootstrap token as the manager makes them, with changes; "" removes.
func token(changes map[string]string) *corev1.Secret {
	id := strings.ReplaceAll(uuid.NewString(), "-", "")[:6]
	data := map[string]string{
		"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
		"auth-extra-groups": workload.JoinGroup, "expiration": inHours(1),
	}
	maps.Copy(data, changes)
	maps.DeleteFunc(data, func(_, value string) bool { return value == "" })
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id, Namespace: metav1.NamespaceSystem},
		Type:       "bootstrap.kubernetes.io/token", StringData: data,
	}
}

func inHours(hours float64) string {
	return time.Now().Add(time.Duration(hours * float64(time.Hour))).UTC().Format(time.RFC3339)
}

// TestTheManagersTokensAreShortAndSignNothing: whoever has the manager's credentials
// makes no token that lasts, or that does more than ask for a Mac's certificate.
func TestTheManagersTokensAreShortAndSignNothing(t *testing.T) {
	for name, c := range map[string]struct {
		secret *corev1.Secret
		says   string
	}{
		"as the manager makes them": {token(nil), ""},
		"nearly two hours":          {token(map[string]string{"expiration": inHours(1.9)}), ""},
		"for ever":                  {token(map[string]string{"expiration": ""}), "end within two hours"},
		"three hours":               {token(map[string]string{"expiration": inHours(3)}), "end within two hours"},
		"a year":                    {token(map[string]string{"expiration": inHours(8760)}), "end within two hours"},
		"of another zone of time":   {token(map[string]string{"expiration": "2026-03-01T13:00:00+02:00"}), "in the form 2026-03-01T13:00:00Z"},
		"no time":                   {token(map[string]string{"expiration": "tomorrow, or later:)"}), "end within two hours"},
		"no day":                    {token(map[string]string{"expiration": "2026-02-31T13:00:00Z"}), "expression"},
		"signs":                     {token(map[string]string{"usage-bootstrap-signing": "true"}), "sign nothing"},
		"would sign, one day":       {token(map[string]string{"usage-bootstrap-signing": "false"}), "sign nothing"},
		"logs nobody in":            {token(map[string]string{"usage-bootstrap-authentication": ""}), "log in"},
		"another group":             {token(map[string]string{"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token"}), "belong to the group"},
		"no group":                  {token(map[string]string{"auth-extra-groups": ""}), "belong to the group"},
		"a Secret":                  {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: metav1.NamespaceSystem}}, "may only create and delete bootstrap tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			err := clients[manager].Create(t.Context(), c.secret)
			if c.says == "" {
				must(t, err)
				must(t, clients[manager].Delete(t.Context(), c.secret))
				return
			}
			refused(t, err, c.says)
		})
	}
}

// TestTheManagersOwnTokenPasses: the policy reads what the code writes.
func TestTheManagersOwnTokenPasses(t *testing.T) {
	made, err := workload.NewToken(time.Now())
	must(t, err)
	must(t, workload.CreateToken(t.Context(), clients[manager], made, "a Mac"))
}

// TestWhatIsOfOthersInKubeSystemStays: neither deleted nor made over into a token,
// should the manager's role ever allow updates.
func TestWhatIsOfOthersInKubeSystemStays(t *testing.T) {
	theirs := token(map[string]string{"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token"})
	must(t, api.Create(t.Context(), theirs))
	refused(t, clients[manager].Delete(t.Context(), theirs), "belong to the group")
	mine := token(nil)
	must(t, api.Create(t.Context(), mine))
	mine.StringData = map[string]string{"expiration": inHours(100)}
	refused(t, clients[manager].Update(t.Context(), mine), "end within two hours")
	theirs.StringData = map[string]string{"auth-extra-groups": workload.JoinGroup}
	refused(t, clients[manager].Update(t.Context(), theirs), "belong to the group")
}
