package world

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestTheManagersMountFollowsTheSecret: as in a Pod, so that a rotation can be tried.
func TestTheManagersMountFollowsTheSecret(t *testing.T) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: vendorSecret, Namespace: Namespace},
		Data:       map[string][]byte{"SCW_SECRET_KEY": []byte("first"), "SCW_ACCESS_KEY": []byte("a"), "SCW_API_URL": []byte("https://real.example")},
	}
	secrets := fake.NewClientset(secret).CoreV1().Secrets(Namespace)
	m := &mount{secrets: secrets, dir: filepath.Join(t.TempDir(), "mount"), always: map[string][]byte{"SCW_API_URL": []byte("http://here")}}
	holds := func(step string, replaced bool, key string) {
		t.Helper()
		did, err := m.sync(t.Context())
		if err != nil || did != replaced {
			t.Fatalf("%s: replaced %t, want %t, err %v", step, did, replaced, err)
		}
		for name, want := range map[string]string{"SCW_SECRET_KEY": key, "SCW_ACCESS_KEY": "a", "SCW_API_URL": "http://here"} {
			got, err := os.ReadFile(filepath.Join(m.dir, mountLink, name))
			if err != nil || string(got) != want {
				t.Errorf("%s: %s is %q, want %q, err %v", step, name, got, want, err)
			}
		}
		if left, err := os.ReadDir(m.dir); err != nil || len(left) != 2 { // the link, and what it leads to
			t.Errorf("%s: %v is left, err %v", step, left, err)
		}
	}
	holds("at first", true, "first")
	holds("unchanged", false, "first")
	secret.Data["SCW_SECRET_KEY"] = []byte("second")
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	holds("rotated", true, "second")
	if err := secrets.Delete(t.Context(), vendorSecret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	holds("deleted", false, "second")
}

func TestAMountWithoutASecretIsAnError(t *testing.T) {
	m := &mount{secrets: fake.NewClientset().CoreV1().Secrets(Namespace), dir: t.TempDir()}
	if _, err := m.sync(t.Context()); err == nil {
		t.Error("a manager would start without credentials")
	}
}
