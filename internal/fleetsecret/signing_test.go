package fleetsecret

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
)

func TestSigningKeys(t *testing.T) {
	secret, err := newSigningSecret(Fleet{Namespace: "fleet", Name: "builders", Cluster: "macs"})
	if err != nil {
		t.Fatal(err)
	}
	key, err := parseSigningKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	signer := key.Signer(document.Host{Name: "mac-1", ProviderID: "scw-applesilicon://fr-par-1/1", Epoch: 1}, time.Now)
	data, err := signer.Leave()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := document.DecodeSigned(bytes.NewReader(data)); err != nil || !got.SignedBy(key.Public()) {
		t.Errorf("the key does not verify what it signed: %v", err)
	}
	for _, shown := range []string{fmt.Sprintf("%v %+v %#v", key, key, key), fmt.Sprintf("%v %+v %#v", signer, signer, signer)} {
		if strings.Contains(shown, fmt.Sprint([]byte(key.private))) || strings.Contains(shown, fmt.Sprintf("%#v", []byte(key.private))) {
			t.Errorf("the key is shown: %s", shown)
		}
	}
	for name, data := range map[string]string{"nothing": "", "no key": "hello", "another's": "-----BEGIN PRIVATE KEY-----\naGVsbG8=\n-----END PRIVATE KEY-----\n"} {
		broken := secret.DeepCopy()
		broken.Data[keySigning] = []byte(data)
		if _, err := parseSigningKey(broken); err == nil || strings.Contains(err.Error(), "aGVsbG8") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
